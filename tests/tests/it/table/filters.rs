//! Every filter of every search: it matches an object by its value, and does not with another value.

use prost_reflect::Kind;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, created, done, put, send},
    tenant::{Tenant, new_host, new_name},
};

use super::described::{Search, with_field};

const ROOT: &str = "/resources/v3alpha";
const EVENT: &str = "EXECUTION_TYPE_EVENT";
const LONG_AGO: &str = "1970-01-01T00:00:00Z";

/// An object to search.
struct Object {
    id: String,
    name: String,
    /// The ids of other objects that it names.
    others: Vec<String>,
    /// The sequence of its last change.
    sequence: u64,
}

/// Returns the filters of a search, as its request names them.
fn filters(field: &Kind) -> Vec<String> {
    let Kind::Message(filter) = field else { panic!("a filter is a message: {field:?}") };
    filter.fields().map(|field| field.json_name().to_owned()).collect()
}

/// Returns a value of a filter that matches the object, and one that does not.
fn values(kind: &str, filter: &str, object: &Object) -> [Value; 2] {
    let Object { id, name, others, sequence } = object;
    let named = |name: &str| json!({ "name": name, "method": "TEXT_FILTER_METHOD_EQUALS" });
    let other = |at: usize| others.get(at).cloned().unwrap_or_default();
    let at = |method: &str| json!({ "creationDate": LONG_AGO, "method": format!("TIMESTAMP_Filter_METHOD_{method}") });
    match (kind, filter) {
        (_, "inIds") => [json!({ "ids": ["1", id] }), json!({ "ids": ["1"] })],
        (_, "name" | "username")
        | ("roles", "key" | "displayName" | "group")
        | ("users/metadata", "key")
        | ("users", "givenName" | "familyName" | "nickname") => [named(name), named(&name[1..])],
        ("users", "email") => [named(&format!("{name}@example.com")), named("@example.com")],
        ("users", "inOrgIds") => [json!({ "ids": [other(0)] }), json!({ "ids": ["1"] })],
        ("users", "andFilter" | "orFilter" | "notFilter") => combined(filter, name),
        ("users", "phone") => ["+441632960123", "+441632960124"].map(named),
        ("users", "type") => ["HUMAN", "SERVICE"].map(|of| json!({ "type": format!("USER_TYPE_{of}") })),
        ("web_keys", "algorithm") => [named("EdDSA"), named("ES512")],
        ("domains", "domain") => [named(&format!("{name}.example")), named(name)],
        (_, "state") => ["ACTIVE", "INACTIVE"].map(|state| json!({ "state": format!("EFFECTIVE_STATE_{state}") })),
        (_, "isVerified" | "isPrimary") => [json!(false), json!(true)],
        ("memberships", "role") => [json!("PROJECT_OWNER_VIEWER"), json!("PROJECT_OWNER")],
        (_, "roleKey") => [json!(name), json!(name[1..])],
        ("user_grants", "projectGrantId") => [json!(other(2)), json!("1")],
        ("user_grants", "userId") => [json!(other(3)), json!("1")],
        ("idps", "id") => [json!({ "id": id }), json!({ "id": "1" })],
        ("executions", "inConditions") => {
            ["target.added", "user.added"].map(|name| json!({ "conditions": [{ "event": { "event": name } }] }))
        }
        ("executions", "executionType") => [EVENT, "EXECUTION_TYPE_FUNCTION"].map(|of| json!({ "type": of })),
        ("executions", "target") => [json!({ "id": other(0) }), json!({ "id": "1" })],
        ("executions", "include") => [json!({ "include": other(1) }), json!({ "include": id })],
        ("events", "type") => [json!("target.added"), json!("user.added")],
        ("events", "aggregateType") => [json!("target"), json!("user")],
        ("events", "aggregateId") => [json!(id), json!("1")],
        ("events", "instanceId") | ("project_grants", "orgId") | ("memberships", "projectId") => {
            [json!(other(1)), json!("1")]
        }
        (_, "projectId") | ("memberships" | "sessions", "userId") | ("events", "actorId") => {
            [json!(other(0)), json!("1")]
        }
        ("events", "creationDate") => [at("GREATER"), at("LESS")],
        ("events", "afterSequence") => [json!((sequence - 1).to_string()), json!(sequence.to_string())],
        _ => panic!("the filter {filter} of {kind} is new: say here what it finds"),
    }
}

/// Returns combinations of a filter that matches the user with one that does not: one that matches, and one that does
/// not.
fn combined(filter: &str, name: &str) -> [Value; 2] {
    let [hit, miss] = [name, &name[1..]].map(|name| json!({ "username": { "name": name } }));
    match filter {
        "andFilter" => [[&hit, &hit], [&hit, &miss]].map(|both| json!({ "filters": both })),
        "orFilter" => [[&miss, &hit], [&miss, &miss]].map(|both| json!({ "filters": both })),
        _ => [miss, hit].map(|one| json!({ "filter": one })),
    }
}

/// A filter for another kind of objects than is created here.
const OTHER_KIND: (&str, &str) = ("memberships", "projectGrantId");

/// Returns the body that creates a role or a grant; the others are project, organization, project grant and user.
async fn granted(kind: &str, who: &Client, name: &str, others: &mut Vec<String>) -> Value {
    let at = |kind: &str| format!("{ROOT}/{kind}");
    let project = created(who, &at("projects"), json!({ "name": name })).await.id();
    let role = json!({ "projectId": project, "key": name, "displayName": name, "group": name });
    let organization = created(who, &at("organizations"), json!({ "name": name })).await.id();
    others.extend([project.clone(), organization.clone()]);
    if kind == "roles" {
        return role;
    }
    created(who, &at("roles"), role).await;
    let grant = json!({ "projectId": project, "orgId": organization, "roleKeys": [name] });
    if kind == "project_grants" {
        return grant;
    }
    others.push(created(who, &at("project_grants"), grant).await.id());
    others.push(created(who, &at("users"), json!({ "username": name, "service": {} })).await.id());
    json!({ "projectId": project, "userId": others[3], "projectGrantId": others[2], "roleKeys": [name] })
}

/// Returns a person with the same name everywhere.
fn person(name: &str) -> Value {
    let data = json!({ "name": name, "given_name": name, "family_name": name, "nickname": name });
    let email = json!({ "address": format!("{name}@example.com") });
    json!({ "username": name, "human": { "data": data, "email": email, "phone": { "number": "+441632960123" } } })
}

/// Creates an entry of the metadata of a user.
async fn entry(who: &Client) -> Object {
    let name = new_name();
    let user = created(who, &format!("{ROOT}/users"), json!({ "username": name, "service": {} })).await.id();
    let made = put(who, &format!("{ROOT}/users/{user}/metadata/{name}"), json!({ "value": "gold" })).await;
    Object { id: made.id(), name, others: vec![user], sequence: made.sequence() }
}

/// Creates a session of a person.
async fn session(who: &Client) -> Object {
    let name = new_name();
    let user = created(who, &format!("{ROOT}/users"), person(&name)).await.id();
    let made = done(who, &format!("{ROOT}/sessions"), json!({ "checks": { "user": { "userId": user } } })).await;
    Object { id: made.id(), name, others: vec![user], sequence: made.sequence() }
}

/// Creates an object to search.
async fn object(kind: &str, tenant: &Tenant, who: &Client) -> Object {
    match kind {
        "users/metadata" => entry(who).await,
        "sessions" => session(who).await,
        _ => create(kind, tenant, who).await,
    }
}

/// Creates an object that belongs to no user.
async fn create(kind: &str, tenant: &Tenant, who: &Client) -> Object {
    let at = |kind: &str| format!("{ROOT}/{kind}");
    let (name, url) = (new_name(), json!({ "url": "https://example.com/" }));
    let target = json!({ "name": name, "restWebhook": url });
    let mut others = vec![];
    let held;
    let (kind, body) = match kind {
        "targets" => (kind, target),
        "web_keys" => (kind, json!({ "ed25519": {} })),
        "users" => (kind, person(&name)),
        "organizations" | "projects" => (kind, json!({ "name": name })),
        "idps" => ("idps/codehost_b", json!({ "idp": { "name": name }, "config": { "clientId": "id" } })),
        "domains" => (kind, json!({ "domain": format!("{name}.example") })),
        "instances" => (kind, json!({ "name": name, "domain": new_host() })),
        "memberships" => {
            others.push(created(who, &at("users"), json!({ "username": name, "service": {} })).await.id());
            others.push(created(who, &at("projects"), json!({ "name": name })).await.id());
            (kind, json!({ "userId": others[0], "roles": ["PROJECT_OWNER_VIEWER"], "projectId": others[1] }))
        }
        "users/keys" | "users/tokens" | "apps/keys" => {
            let holder = match kind {
                "users/keys" | "users/tokens" => {
                    created(who, &at("users"), json!({ "username": name, "service": {} })).await
                }
                _ => {
                    let project = created(who, &at("projects"), json!({ "name": name })).await.id();
                    created(who, &at("apps"), json!({ "projectId": project, "name": name, "api": {} })).await
                }
            };
            others.push(holder.id());
            held = kind.replace('/', &format!("/{}/", others[0]));
            let mut body = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
            if kind != "users/tokens" {
                body["keyType"] = "KEY_TYPE_ED25519".into();
            }
            (held.as_str(), body)
        }
        "apps" => {
            others.push(created(who, &at("projects"), json!({ "name": name })).await.id());
            (kind, json!({ "projectId": others[0], "name": name, "api": {} }))
        }
        "roles" | "project_grants" | "user_grants" => (kind, granted(kind, who, &name, &mut others).await),
        "executions" => {
            others.push(created(who, &at("targets"), target).await.id());
            let included = json!({ "condition": { "event": { "all": true } }, "targets": [others[0]] });
            others.push(created(who, &at("executions"), included).await.id());
            let condition = json!({ "event": { "event": "target.added" } });
            (kind, json!({ "condition": condition, "targets": [others[0]], "includes": [others[1]] }))
        }
        "events" => {
            others.extend([tenant.bootstrap.service_user.user_id.clone(), tenant.bootstrap.instance_id.clone()]);
            ("targets", target)
        }
        _ => panic!("{kind} are new: say here how they are made"),
    };
    let made = done(who, &at(kind), body).await;
    others.extend(made.body["details"]["resourceOwner"]["id"].as_str().map(str::to_owned));
    Object { id: made.id(), name, others, sequence: made.sequence() }
}

#[tokio::test]
async fn every_filter_finds_what_it_shall_and_nothing_else() {
    let tenant = Tenant::start().await;
    let (owner, operator) = (tenant.client().await, tenant.operator().await);
    let mut cells = 0;
    // Events fail in fault::parking, which has their filters.
    for search in with_field("filters")
        .into_iter()
        .filter(|search| !["failedevents", "failed_events"].contains(&search.kind.as_str()))
    {
        let Search { facts, kind, field } = &search;
        let is_of_system = facts.permission.is_some_and(|permission| permission.starts_with("system."));
        let who = if is_of_system { &operator } else { &owner };
        let object = object(kind, &tenant, if kind == "events" { &owner } else { who }).await;
        let path = search.path(object.others.first());
        // A membership is of a project or of a project grant: api::project_member asks for those of the other kind.
        for filter in filters(field).into_iter().filter(|filter| (kind.as_str(), filter.as_str()) != OTHER_KIND) {
            for (value, is_hit) in values(kind, &filter, &object).into_iter().zip([true, false]) {
                let one = json!([{ filter.as_str(): value }]);
                // Those of the system are a member of the body, beside how much is asked for.
                let body = if facts.path.starts_with(ROOT) { one } else { json!({ "filters": one }) };
                let answer = send(who.request(Method::POST, &path).json(&body)).await.body;
                let result = answer["result"].as_array().unwrap_or_else(|| panic!("{path}, {body}: {answer}"));
                let is_it = |found: &&Value| found["details"]["id"] == object.id || found["aggregateId"] == object.id;
                assert_eq!(result.iter().any(|found| is_it(&found)), is_hit, "{path}, {body}: {answer}");
                cells += 1;
            }
        }
    }
    println!("{cells} values of filters");
}
