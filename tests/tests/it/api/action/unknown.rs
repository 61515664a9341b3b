//! Events of types that a build does not know: they are not delivered, are shown, and wait for a build that knows them.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::{Browser, link},
    client::{Client, TARGETS, post, send},
    endpoint::Reply,
    eventually,
    platform::Platform,
    process::run,
    servers::Servers,
};

use super::mending::{OF_SYSTEM, are_given_up, attempts, failing, given_up, id, patient, retry, sequence};
use crate::operate::pages::open;

/// Checks that the API, the tool and the page show it as an event of an unknown type.
async fn is_shown(platform: &Platform, operator: &Client, one: &Value) {
    let found = send(operator.request(Method::GET, &format!("{OF_SYSTEM}/{}", id(one)))).await;
    assert_eq!(
        (found.status, &found.body["event"]["type"]),
        (StatusCode::OK, &json!("target.added")),
        "{}",
        found.body
    );
    let data = platform.data().display().to_string();
    let (is_done, printed, said) = run(&["failed-events", "show", id(one), "--data-dir", &data]);
    assert!(is_done && printed.contains("does not know") && printed.contains("target.added by"), "{printed}{said}");
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    for path in ["/ui/operate/failed", &format!("/ui/operate/failed/{}", id(one))] {
        let shown = open(&mut browser, path).await;
        assert!(shown.text.contains("does not know") && shown.text.contains("target.added"), "{path}: {}", shown.text);
    }
}

#[tokio::test]
async fn what_the_build_does_not_know_is_given_up_until_one_delivers_it_that_does() {
    let servers = Servers::start().await;
    let unknown = [("PLATFORM_DOES_NOT_KNOW", "target.added")];
    let mut platform = Platform::start_with(&[servers.flags(), patient("3")].concat(), &unknown).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, hook) = failing(&client, json!({ "group": "target" })).await;
    endpoint.reply(Reply::status(204));
    for name in ["0", "1"] {
        client.create_target(name).await.expect("it is created");
    }
    let mut all = are_given_up(&operator, 2).await;
    all.sort_by_key(sequence);
    for one in &all {
        assert_eq!((&one["targetId"], &one["state"]), (&json!(hook), &json!("FAILED_EVENT_STATE_FAILED")), "{one}");
        let error = one["errorMessage"].as_str().unwrap_or_default();
        assert!(error.contains("does not know") && error.contains("target.added"), "{error}");
    }
    assert!(all.iter().any(|one| one["failureCount"] == "3"), "a newer build may come as long: {all:?}");
    is_shown(&platform, &operator, &all[0]).await;

    // The same build gives it up again, and what is known is delivered meanwhile.
    assert_eq!(retry(&operator, OF_SYSTEM, &all[0]).await.status, StatusCode::OK);
    let again = async || {
        let found = given_up(&operator, OF_SYSTEM, json!({ "id": id(&all[0]) })).await;
        let one = found.into_iter().next()?;
        (one["lastFailed"] != all[0]["lastFailed"]).then_some(one)
    };
    let again = eventually("it is given up again", again).await;
    assert_eq!(again["failureCount"], "1", "that one waited is known");
    let patch = client.request(Method::PATCH, &format!("{TARGETS}/{hook}")).json(&json!({ "name": "hook" }));
    assert_eq!(send(patch).await.status, StatusCode::OK);
    assert_eq!(endpoint.called(1).await[0].json()["event_type"], "target.changed");
    let attempts = attempts(&client, &hook, 1).await;
    assert_eq!(attempts[0]["eventType"], "target.changed", "nobody was called before: {attempts:?}");
    let reason = json!({ "reason": "nobody needs it" });
    let discarded = post(&operator, &format!("{OF_SYSTEM}/{}/_discard", id(&all[1])), reason).await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    are_given_up(&operator, 1).await;

    platform.stop().await;
    platform.restart(&[]).await;
    are_given_up(&operator, 1).await;
    endpoint.take();
    assert_eq!(retry(&operator, OF_SYSTEM, &all[0]).await.status, StatusCode::OK);
    let told = endpoint.called(1).await[0].json();
    assert_eq!((&told["event_type"], told["sequence"].as_u64()), (&json!("target.added"), Some(sequence(&all[0]))));
    assert_eq!((&told["aggregateID"], &told["event_payload"]["name"]), (&all[0]["aggregateId"], &json!("0")), "{told}");
    assert!(!told.to_string().contains("sealed"), "{told}");
    are_given_up(&operator, 0).await;
    assert_eq!(endpoint.calls().len(), 1, "what was left out is told to nobody");
}
