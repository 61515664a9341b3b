//! Combined filters of users.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, created, done, send},
    tenant::Tenant,
};

const USERS: &str = "/resources/v3alpha/users";

async fn search(who: &Client, query: &str, filters: &Value) -> Answer {
    let path = format!("{USERS}/_search?query.asc=true&{query}");
    send(who.request(Method::POST, &path).json(filters)).await
}

async fn usernames(who: &Client, query: &str, filters: &Value) -> Vec<String> {
    let answer = search(who, query, filters).await;
    let result = answer.body["result"].as_array().unwrap_or_else(|| panic!("{filters}: {}", answer.body));
    result.iter().filter_map(|found| Some(found["user"]["username"].as_str()?.to_owned())).collect()
}

fn has(field: &str, part: &str) -> Value {
    json!({ field: { "name": part, "method": "TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE" } })
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(has("username", "zz"), |inner, _| json!({ "notFilter": { "filter": inner } }))
}

/// Creates people of two organizations and a service user. Returns the id of the second organization.
async fn people(admin: &Client) -> String {
    let other = created(admin, "/resources/v3alpha/organizations", json!({ "name": "Analysts" })).await.id();
    for (username, given, family, at) in
        [("ada", "Ada", "Lovelace", ""), ("grace", "Grace", "Hopper", ""), ("alan", "Alan", "Turing", other.as_str())]
    {
        let data = json!({ "given_name": given, "family_name": family });
        let email = json!({ "address": format!("{family}@example.com") });
        let path = if at.is_empty() { USERS.to_owned() } else { format!("{USERS}?ctx.orgId={at}") };
        done(admin, &path, json!({ "username": username, "human": { "data": data, "email": email } })).await;
    }
    created(admin, USERS, json!({ "username": "turbine", "service": {} })).await;
    other
}

#[tokio::test]
async fn users_are_found_by_filters_that_are_combined() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let other = people(&admin).await;
    let or = |filters: &[Value]| json!({ "orFilter": { "filters": filters } });
    let and = |filters: &[Value]| json!({ "andFilter": { "filters": filters } });
    let not = |filter: &Value| json!({ "notFilter": { "filter": filter } });
    let human = json!({ "type": { "type": "USER_TYPE_HUMAN" } });
    let of = |id: &str| json!({ "inOrgIds": { "ids": [id] } });

    // What a field to type into asks for, from the first letter on.
    let typed = |part| or(&["username", "email", "familyName"].map(|field| has(field, part)));
    for (part, expected) in [
        ("tur", vec!["alan", "turbine"]),
        ("TU", vec!["alan", "turbine"]),
        ("lo", vec!["ada"]),
        ("hopper@", vec!["grace"]),
        ("q", vec![]),
    ] {
        assert_eq!(usernames(&admin, "", &json!([typed(part)])).await, expected, "{part}");
    }
    for (what, filter, expected) in [
        ("both", and(&[typed("tu"), human.clone()]), vec!["alan"]),
        ("but one", and(&[human.clone(), not(&typed("tu"))]), vec!["ada", "grace"]),
        ("not not", and(&[human.clone(), not(&not(&has("username", "a")))]), vec!["ada", "grace", "alan"]),
        ("a short and a long one", or(&[has("username", "bin"), has("familyName", "ho")]), vec!["grace", "turbine"]),
        ("of one organization", of(&other), vec!["alan"]),
        ("of the others", and(&[human.clone(), not(&of(&other))]), vec!["ada", "grace"]),
        ("one of none", or(&[]), vec![]),
        ("all of none", and(&[and(&[]), has("username", "grace")]), vec!["grace"]),
    ] {
        assert_eq!(usernames(&admin, "", &json!([filter])).await, expected, "{what}");
    }
    // What is seen is decided first: no filter widens it.
    let within = format!("ctx.orgId={other}");
    assert_eq!(usernames(&admin, &within, &json!([or(&[human.clone(), not(&human)])])).await, ["alan"]);
}

#[tokio::test]
async fn filters_that_are_too_many_or_too_deep_are_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let many = |count: usize| json!([{ "orFilter": { "filters": vec![has("username", "zz"); count] } }]);
    for filters in [json!([nested(5)]), many(99)] {
        assert_eq!(search(&admin, "", &filters).await.status, StatusCode::OK, "{filters}");
    }
    let both = json!([many(60)[0], many(60)[0]]);
    for (why, filters, asked) in [
        ("nested", json!([nested(6)]), "must be nested at most 5 deep"),
        ("many within one", many(100), "must have at most 100 items, nested ones included"),
        ("many within two", both, "must have at most 100 items, nested ones included"),
        ("none in a not", json!([{ "notFilter": {} }]), "is required"),
        ("an empty one within another", json!([{ "orFilter": { "filters": [{}] } }]), "is required"),
        ("a text that is too long", json!([{ "notFilter": { "filter": has("username", &"a".repeat(201)) } }]), "200"),
        ("two at once", json!([{ "orFilter": { "filters": [] }, "andFilter": { "filters": [] } }]), ""),
    ] {
        let answer = search(&admin, "", &filters).await;
        answer.assert_refused(why, 400, "INVALID_REQUEST");
        assert!(answer.body.to_string().contains(asked), "{why}: {}", answer.body);
    }
    let deep = search(&admin, "", &json!([nested(60)])).await;
    assert_eq!(deep.status, StatusCode::BAD_REQUEST, "{}", deep.body);
}
