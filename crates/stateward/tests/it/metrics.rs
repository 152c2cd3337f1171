//! What Prometheus reads about states, and what it must never read.

use crate::server::{Server, Start};
use crate::states::{a_state, info, user};

const PATH: &str = "/state/canary-namespace/canary-name";

async fn read(server: &Server) -> String {
    let response = server.client().get(server.metrics_url()).send().await.expect("an answer");
    response.text().await.expect("a text")
}

#[tokio::test]
async fn states_are_counted_by_what_happened_and_never_by_whose_they_are() {
    let server = Start::new().flag("--metrics-listen", "127.0.0.1:0").flag("--states-sweep-every", "100ms").serve();
    let ann = user(&server, "canary-user", &["editor@*"]).await;
    let session = [
        ("LOCK", PATH.to_owned(), info("a"), 200),
        ("LOCK", PATH.to_owned(), info("b"), 423),
        ("POST", format!("{PATH}?ID=a"), a_state(1), 200),
        ("POST", format!("{PATH}?ID=b"), a_state(2), 423),
        ("GET", PATH.to_owned(), String::new(), 200),
        ("UNLOCK", PATH.to_owned(), info("a"), 200),
        ("UNLOCK", PATH.to_owned(), info("a"), 200),
        ("PATCH", PATH.to_owned(), String::new(), 405),
    ];
    for (method, path, body, expected) in session {
        assert_eq!(ann.does(method, &path, body).await, expected, "{method} {path}");
    }
    let swept = || async { !read(&server).await.contains("stateward_states_sweeps_total 0\n") };
    testbed::eventually(crate::server::PATIENCE, swept).await;
    let text = read(&server).await;
    let size = a_state(1).len();
    let expected = [
        r#"stateward_states_requests_total{method="LOCK",class="2xx"} 1"#,
        r#"stateward_states_requests_total{method="LOCK",class="4xx"} 1"#,
        r#"stateward_states_requests_total{method="POST",class="2xx"} 1"#,
        r#"stateward_states_requests_total{method="POST",class="4xx"} 1"#,
        r#"stateward_states_requests_total{method="GET",class="2xx"} 1"#,
        r#"stateward_states_requests_total{method="UNLOCK",class="2xx"} 2"#,
        r#"stateward_states_requests_total{method="other",class="4xx"} 1"#,
        &format!(r#"stateward_states_size_bytes_sum{{direction="read"}} {size}.0"#),
        // The second was received, and then refused.
        &format!(r#"stateward_states_size_bytes_sum{{direction="written"}} {}.0"#, 2 * size),
        "stateward_states_lock_conflicts_total 1",
        "stateward_states_lock_held_seconds_count 1",
        r#"stateward_states_store_seconds_count{store="sqlite",operation="write_head"} 3"#,
        "stateward_states_uploads 0",
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("canary"), "{text}");
}
