//! Older versions cost little and come back exactly.

use states::codec::{Encoding, Limits, Segment, align, delta, restore, unpack};
use testbed::states::{Options, RESOURCE_BYTES, generate};

use super::{limits, receive, restored, stored_bytes, tell};

struct Version {
    state: Vec<u8>,
    segments: Vec<Segment>,
    stored: Vec<Vec<u8>>,
    /// For each segment the one of the next newer version that it is a difference to.
    bases: Vec<Option<usize>>,
}

impl Version {
    fn new(state: Vec<u8>) -> Version {
        let received = receive(&state, Limits::default(), 1 << 16).expect("valid");
        let stored =
            (0..received.segments.len()).map(|index| received.stored(index).expect("readable").into()).collect();
        Version { state, bases: vec![None; received.segments.len()], segments: received.segments, stored }
    }

    /// What a store does with the version that was the newest until `newer` came.
    fn shrink(&mut self, newer: &Version) {
        let matches = align(&self.segments, &newer.segments);
        for (index, matching) in matches.into_iter().enumerate() {
            let base = matching.expect("the newer version has segments");
            let shaped = unpack(&self.segments[index], &self.stored[index], None).expect("whole");
            let base_shaped = unpack(&newer.segments[base], &newer.stored[base], None).expect("whole");
            let smaller = delta(&self.segments[index], &shaped, &newer.segments[base], &base_shaped);
            if let Some((segment, stored)) = smaller {
                assert_eq!(segment.encoding, Encoding::ZstdDelta(newer.segments[base].hash));
                self.bases[index] = Some(base);
                self.segments[index] = segment;
                self.stored[index] = stored;
            }
        }
    }
}

/// The shaped bytes of a segment, through its chain of newer ones.
fn shaped(versions: &[Version], version: usize, index: usize) -> Vec<u8> {
    let this = &versions[version];
    let base = this.bases[index].map(|base| shaped(versions, version + 1, base));
    unpack(&this.segments[index], &this.stored[index], base.as_deref()).expect("whole")
}

#[test]
fn a_hundred_versions_with_small_edits_take_at_most_twice_the_bytes_of_one() {
    let (count, megabytes) = testbed::scale().of((10, 3), (100, 10));
    let resources = megabytes * 1_000_000 / RESOURCE_BYTES;
    let mut random = fastrand::Rng::with_seed(testbed::seed("history"));
    let mut options = Options::default();
    let mut versions: Vec<Version> = Vec::new();
    for serial in 1..=count {
        options.serial = serial;
        for _ in 0..random.usize(1..4) {
            options.edits.insert(random.usize(..resources), serial);
        }
        // Now and then a resource comes, which moves everything behind it.
        let resources = resources + usize::try_from(serial).expect("small") / 4;
        let version = Version::new(generate(resources, 5, &options));
        if let Some(previous) = versions.last_mut() {
            previous.shrink(&version);
        }
        versions.push(version);
    }
    let one = stored_bytes(&versions.last().expect("some").segments);
    let all: u64 = versions.iter().map(|version| stored_bytes(&version.segments)).sum();
    tell(&format!("{count} versions of {megabytes} MB: {all} bytes, the newest alone {one}"));
    // Full scale is the promise; a few versions must not use more than their share of it.
    assert!(all - one <= one * count / 100, "{all} bytes for {count} versions, {one} for one");

    for (number, version) in versions.iter().enumerate() {
        let mut state = Vec::new();
        for (index, segment) in version.segments.iter().enumerate() {
            let base = version.bases[index].map(|base| shaped(&versions, number + 1, base));
            restore(segment, &version.stored[index], base.as_deref(), &mut state).expect("whole");
        }
        assert!(state == version.state, "version {number} came back changed");
    }
}

#[test]
fn an_edit_leaves_the_segments_far_from_it_as_they_were() {
    let resources = testbed::scale().of(10, 50) * 1_000_000 / RESOURCE_BYTES;
    let before = generate(resources, 9, &Options::default());
    let mut options = Options { serial: 1000, ..Options::default() };
    options.edits.insert(resources / 2, 123_456_789);
    let after = generate(resources, 9, &options);
    let [before, after] = [before, after].map(|state| receive(&state, Limits::default(), 1 << 16).expect("valid"));
    let matches = align(&before.segments, &after.segments);
    let equal = before
        .segments
        .iter()
        .zip(&matches)
        .filter(|(segment, index)| after.segments[index.expect("there are")].hash == segment.hash)
        .count();
    assert!(before.segments.len() >= 4, "{} segments", before.segments.len());
    // The first holds the serial, one or two the edited resource.
    assert!(equal + 3 >= before.segments.len(), "{equal} of {} segments are the same", before.segments.len());
}

#[test]
fn a_delta_is_refused_without_its_base_and_noticed_with_another() {
    let older = Version::new(generate(500, 3, &Options::default()));
    let newer = Version::new(generate(500, 3, &Options { serial: 2, ..Options::default() }));
    let [shaped, base] =
        [&older, &newer].map(|version| unpack(&version.segments[0], &version.stored[0], None).expect("whole"));
    let (segment, stored) = delta(&older.segments[0], &shaped, &newer.segments[0], &base).expect("smaller");
    assert!(segment.stored < older.segments[0].stored / 20, "{segment:?}");
    assert!(restore(&segment, &stored, None, &mut Vec::new()).is_err());
    let other = Version::new(generate(500, 4, &Options::default()));
    let base = unpack(&other.segments[0], &other.stored[0], None).expect("whole");
    assert!(restore(&segment, &stored, Some(&base), &mut Vec::new()).is_err());
    let (again, _) =
        delta(&segment, &shaped, &newer.segments[0], &shaped.clone()).expect("the same text is no difference at all");
    assert!(again.stored <= segment.stored, "{again:?} {segment:?}");
}

#[test]
fn segments_are_aligned_by_equal_bytes_and_then_by_place() {
    let segments = |text: &str| {
        let body = format!("{{\"a\":\"{text}\"}}");
        let mut received = receive(body.as_bytes(), limits(1..4), 100).expect("valid");
        assert_eq!(restored(&mut received), body.as_bytes());
        received.segments
    };
    let (one, other) = (segments("abcdefgh"), segments("abcXYZdefgh"));
    let equal = align(&one, &one);
    assert_eq!(equal, (0..one.len()).map(Some).collect::<Vec<_>>());
    assert!(align(&one, &other).iter().all(Option::is_some));
    assert_eq!(align(&one, &[]), vec![None; one.len()]);
    assert_eq!(align(&[], &one), Vec::<Option<usize>>::new());
}
