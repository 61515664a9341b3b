//! Searching targets over HTTP.

use proto::{action::SearchTargetsRequest, operation::SEARCH_TARGETS};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    grpc::Grpc,
    platform::Platform,
    secrets::Secrets,
    tenant::Tenant,
};
use tokio::time::{Duration, Instant};

async fn search(client: &Client, query: &str, filters: &Value) -> Answer {
    send(client.request(Method::POST, &format!("{TARGETS}/_search?{query}")).json(filters)).await
}

fn names(answer: &Answer) -> Vec<&str> {
    let result = answer.body["result"].as_array().unwrap_or_else(|| panic!("no result: {answer:?}"));
    result.iter().map(|found| found["target"]["name"].as_str().unwrap_or_default()).collect()
}

fn by_name(name: &str, method: &str) -> Value {
    json!([{ "name": { "name": name, "method": format!("TEXT_FILTER_METHOD_{method}") } }])
}

#[tokio::test]
async fn targets_are_found_sorted_and_counted() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let mut last = String::new();
    for name in ["beta", "Alpha", "alphabet", "Straße", "ΟΔΟΣ"] {
        let created = send(client.request(Method::POST, TARGETS).json(&target(name))).await;
        last = created.consistency();
    }
    let empty = json!([]);
    let all = send(
        client
            .request(Method::POST, &format!("{TARGETS}/_search?query.asc=true&sortingColumn=TARGET_FIELD_NAME_NAME"))
            .header("consistency-token", &last),
    )
    .await;
    assert_eq!(all.status, StatusCode::OK);
    assert_eq!(names(&all), ["Alpha", "Straße", "alphabet", "beta", "ΟΔΟΣ"], "sorted by code point");
    assert_eq!(all.body["details"]["totalResult"], json!("5"));
    assert_eq!(all.body["details"]["endOfList"], json!(true));
    assert_eq!(all.body["details"]["appliedLimit"], json!(100));

    let newest = search(&client, "query.limit=2", &empty).await;
    assert_eq!(names(&newest), ["ΟΔΟΣ", "Straße"], "by creation, the newest first");
    assert_eq!(newest.body["details"]["endOfList"], json!(false));
    let next = search(&client, "query.limit=2&query.offset=4", &empty).await;
    assert_eq!(names(&next), ["beta"]);

    for (text, method, found) in [
        ("alpha", "EQUALS", vec![]),
        ("alpha", "EQUALS_IGNORE_CASE", vec!["Alpha"]),
        ("alpha", "STARTS_WITH", vec!["alphabet"]),
        ("ALPHA", "STARTS_WITH_IGNORE_CASE", vec!["alphabet", "Alpha"]),
        ("ss", "CONTAINS_IGNORE_CASE", vec![]),
        ("aß", "CONTAINS", vec!["Straße"]),
        ("οσ", "ENDS_WITH_IGNORE_CASE", vec!["ΟΔΟΣ"]),
        ("a", "ENDS_WITH", vec!["Alpha", "beta"]),
        ("\u{1}", "CONTAINS", vec![]),
    ] {
        assert_eq!(names(&search(&client, "", &by_name(text, method)).await), found, "{method} {text}");
    }

    let id = all.body["result"][0]["details"]["id"].clone();
    let by_id = search(&client, "", &json!([{ "inIds": { "ids": [id, "x", "1"] } }])).await;
    assert_eq!(names(&by_id), ["Alpha"]);
    let both = json!([by_name("a", "CONTAINS")[0], { "inIds": { "ids": [id] } }]);
    assert_eq!(names(&search(&client, "", &both).await), ["Alpha"], "all filters hold");
}

#[tokio::test]
async fn a_wrong_search_is_told_what_is_wrong() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let too_many = search(&client, "query.limit=1001", &json!([])).await;
    assert_eq!((too_many.status, too_many.reason()), (StatusCode::BAD_REQUEST, "INVALID_REQUEST"));
    assert_eq!(too_many.body["details"][0]["metadata"], json!({ "given": "1001", "allowed": "1000" }));
    for filters in [json!([{}]), json!([{ "name": { "name": "a", "method": "TEXT_FILTER_METHOD_LIKE" } }])] {
        assert_eq!(search(&client, "", &filters).await.status, StatusCode::BAD_REQUEST, "{filters}");
    }
    let viewer = tenant.client_named("viewer").await;
    assert_eq!(search(&viewer, "", &json!([])).await.status, StatusCode::OK);
    let nobody = tenant.client_named("nobody").await;
    assert_eq!(search(&nobody, "", &json!([])).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_index_that_is_deleted_comes_back_with_the_same_answers() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    for name in ["a", "b", "c"] {
        client.create_target(name).await.expect("it is created");
    }
    let before = search(&client, "", &json!([])).await;
    platform.stop().await;
    std::fs::remove_dir_all(platform.data().join("index")).unwrap();
    platform.restart(&[]).await;
    let after = tests::eventually("the same answers", || async {
        let answer = search(&client, "", &json!([])).await;
        (answer.body["result"] == before.body["result"]).then_some(answer)
    });
    assert_eq!(names(&after.await), ["c", "b", "a"]);
}

#[tokio::test]
async fn a_search_is_as_fresh_as_its_token_says_or_says_how_far_it_came() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("new"))).await;
    let token = created.consistency();
    let end = platform.log_end().await.0;
    let beyond = Secrets::of(&platform).await.consistency(&token, end + 1).await;
    let search = |token: &str, wait: &str| {
        let request = client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
        send(request.header("consistency-token", token).header("consistency-wait", wait))
    };
    search("abc", "1s").await.assert_refused("a forged token", 400, "CONSISTENCY_TOKEN_INVALID");
    search(&token, "11s").await.assert_refused("too long a wait", 400, "INVALID_REQUEST");
    let begin = Instant::now();
    let refused = search(&beyond, "300ms").await;
    refused.assert_refused("a token beyond the end", 503, "CONSISTENCY_NOT_REACHED");
    assert!(begin.elapsed() >= Duration::from_millis(300), "it waits first");
    let metadata = json!({ "required": (end + 1).to_string(), "processed": end.to_string() });
    assert_eq!(refused.body["details"][0]["metadata"], metadata);

    let grpc = Grpc::connect(&platform.bootstrap.issuer, Some(&client.token)).await;
    let metadata = [("consistency-token", beyond.as_str()), ("consistency-wait", "0s")];
    let refused = grpc.call_with(&SEARCH_TARGETS, SearchTargetsRequest::default(), &metadata).await;
    assert_eq!(tests::grpc::reason(&refused.expect_err("it is not reached")), "CONSISTENCY_NOT_REACHED");

    let waiting = tokio::spawn(search(&beyond, "10s"));
    client.create_target("awaited").await.expect("it is created");
    let found = waiting.await.expect("the search ends");
    assert_eq!(names(&found), ["awaited", "new"]);
    assert_eq!(found.body["details"]["processedSequence"], json!((end + 1).to_string()));
}
