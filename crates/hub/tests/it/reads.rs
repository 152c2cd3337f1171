//! Values that are asked for several times at once.

use std::time::Duration;

use hub::{Settings, Times, VersionId};
use tokio::sync::watch;

use crate::outside::moody::Mood;
use crate::outside::{World, kept_in, patient};
use crate::place::{Place, create, on_both};

on_both!(a_value_that_is_being_read_for_somebody_is_not_asked_for_again);

async fn a_value_that_is_being_read_for_somebody_is_not_asked_for_again(place: Place) {
    let times = Times { read: Duration::from_mins(2), ..patient().times };
    let world = World::new(place, Settings { times, ..patient() }).await;
    let outside = world.register("shelf").await;
    let id = create(&world.hub, kept_in("shelf", "1")).await;
    let (open, gate) = watch::channel(false);
    outside.moody.set("GetValue", Mood::Wait(gate));
    let asked = ["a", "a", "b", "a"].map(|reader| {
        let (hub, wanted) = (world.hub.clone(), VersionId { record: id.clone(), number: 1 });
        tokio::spawn(async move {
            let mut values = hub.values_for(reader, std::slice::from_ref(&wanted)).await.unwrap();
            values.remove(&wanted).unwrap().unwrap()
        })
    });
    testbed::eventually(Duration::from_mins(1), || {
        let all = world.hub.joined_reads() == 2 && outside.moody.count("GetValue") == 2;
        async move { all }
    })
    .await;
    open.send_replace(true);
    for asked in asked {
        assert_eq!(asked.await.unwrap().text(), "1");
    }
    assert_eq!(outside.moody.count("GetValue"), 2, "once for each of them");
    let wanted = VersionId { record: id, number: 1 };
    world.hub.values_for("a", std::slice::from_ref(&wanted)).await.unwrap();
    assert_eq!(outside.moody.count("GetValue"), 3, "what came before is not remembered");
}
