//! Who may do what: a user with all rights, one that may read, one that may nothing.

use reqwest::Method;
use serde_json::json;
use tests::{
    client::{TARGETS, send, target},
    platform::Platform,
};

#[tokio::test]
async fn roles_give_what_they_say_and_nothing_else() {
    let platform = Platform::start().await;
    let owner = platform.client().await;
    let id = owner.create_target("first").await.expect("the owner may");
    let path = format!("{TARGETS}/{id}");
    let search = format!("{TARGETS}/_search");
    for (name, may_read) in [("viewer", true), ("nobody", false)] {
        let client = platform.client_named(name).await;
        for (method, path, permission) in [
            (Method::GET, &path, "action.target.read"),
            (Method::POST, &search, "action.target.read"),
            (Method::POST, &TARGETS.to_owned(), "action.target.write"),
            (Method::PATCH, &path, "action.target.write"),
            (Method::DELETE, &path, "action.target.delete"),
        ] {
            let case = format!("{name} {method} {path}");
            let request = client.request(method.clone(), path);
            let request = match method {
                Method::POST if path == TARGETS => request.json(&target("mine")),
                Method::PATCH => request.json(&json!({ "name": "mine" })),
                _ => request,
            };
            let answer = send(request).await;
            if may_read && permission == "action.target.read" {
                assert_eq!(answer.status, 200, "{case}: {}", answer.body);
            } else {
                answer.assert_refused(&case, 403, "PERMISSION_DENIED");
                assert_eq!(answer.body["details"][0]["metadata"]["permission"], permission, "{case}");
            }
        }
    }
    assert_eq!(owner.get_target(&id, None).await.body["target"]["target"]["name"], "first", "nothing was changed");
}
