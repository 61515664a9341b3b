//! The states of users.

use reqwest::Method;
use serde_json::json;
use tests::{
    client::{created, post, send},
    eventually,
    tenant::Tenant,
};

const USERS: &str = "/resources/v3alpha/users";

#[tokio::test]
async fn a_user_goes_from_state_to_state_and_each_step_has_an_event_of_its_own() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = created(&admin, USERS, json!({ "username": "robot", "service": {} })).await.id();
    let robot = tenant.log_in(&admin, &user, "robot").await;
    let own = format!("{USERS}/{user}");

    for (step, status, state) in [
        ("_unlock", 400, "ACTIVE"),
        ("_lock", 200, "LOCKED"),
        ("_lock", 400, "LOCKED"),
        ("_reactivate", 400, "LOCKED"),
        ("_unlock", 200, "ACTIVE"),
        ("_lock", 200, "LOCKED"),
        ("_deactivate", 200, "INACTIVE"),
        ("_lock", 400, "INACTIVE"),
        ("_unlock", 400, "INACTIVE"),
        ("_reactivate", 200, "ACTIVE"),
    ] {
        let answer = post(&admin, &format!("{own}/{step}"), json!({})).await;
        assert_eq!(answer.status, status, "{step}: {}", answer.body);
        let read = send(admin.request(Method::GET, &own)).await.body["user"].take();
        let effective = if state == "ACTIVE" { "ACTIVE" } else { "INACTIVE" };
        assert_eq!(read["userState"], format!("USER_STATE_{state}"), "{step}");
        assert_eq!(read["state"], format!("EFFECTIVE_STATE_{effective}"), "{step}");
    }

    // A token from before the lock stays dead.
    eventually("the node hears of the lock", async || {
        (send(robot.request(Method::GET, &own)).await.status == 401).then_some(())
    })
    .await;
    let events = send(
        admin
            .request(Method::POST, "/resources/v3alpha/events/_search?query.asc=true")
            .json(&json!([{ "aggregateId": user }])),
    )
    .await;
    let types: Vec<&str> = events.body["result"]
        .as_array()
        .expect("they are listed")
        .iter()
        .filter_map(|event| event["type"].as_str()?.strip_prefix("user."))
        .filter(|name| *name != "changed")
        .collect();
    assert_eq!(types, ["added", "locked", "unlocked", "locked", "deactivated", "reactivated"]);
    let condition = |name: &str| json!({ "condition": { "event": { "event": name } }, "targets": [] });
    for (name, status) in [("user.locked", 201), ("organization.deactivated", 201), ("organization.locked", 404)] {
        let put = send(admin.request(Method::POST, "/resources/v3alpha/executions").json(&condition(name))).await;
        assert_eq!(put.status, status, "{name}: {}", put.body);
    }
}
