//! Every sorting column of every search, in both directions, checked by the results.

use prost_reflect::Kind;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, created, done, put, send},
    tenant::{Tenant, new_host, new_name},
};

use super::described::{Search, with_field};

const ROOT: &str = "/resources/v3alpha";

/// Returns the columns of a search, as its request names them.
fn columns(field: &Kind) -> Vec<String> {
    let Kind::Enum(names) = field else { panic!("columns are named: {field:?}") };
    names.values().filter(|value| value.number() != 0).map(|value| value.name().to_owned()).collect()
}

/// Returns the value of a column in a result, in a form that sorts as text.
fn value(column: &str, found: &Value) -> String {
    let (_, name) = column.split_once("_FIELD_NAME_").expect("columns are named alike");
    let id = || format!("{:0>20}", found["details"]["id"].as_str().expect("it has an id"));
    let text = |member: &str| member_of(found, member).unwrap_or_default();
    match name {
        // The ids of roles are hashes, and those of metadata its keys; nothing changes them here.
        "CREATION_DATE" if found.get("role").or(found.get("value")).is_some() => format!("{:0>20}", text("sequence")),
        // Ids are made in the order of time.
        "ID" | "CREATION_DATE" => id(),
        "CHANGE_DATE" => {
            let at: jiff::Timestamp = text("changeDate").parse().expect("it is a time");
            format!("{:0>30}", at.as_nanosecond())
        }
        "NAME" => text("name"),
        "ALGORITHM" => text("algorithm"),
        "USERNAME" => text("username"),
        "TYPE" => found["user"].get("service").is_some().to_string(),
        "GIVEN_NAME" => text("given_name"),
        "FAMILY_NAME" => text("family_name"),
        "NICKNAME" => text("nickname"),
        "EMAIL" => text("address"),
        "DOMAIN" => text("domain"),
        "URL" => text("url"),
        // Whether it is on: what is not comes first.
        "STATE" => (text("state") == "EFFECTIVE_STATE_ACTIVE").to_string(),
        "EXPIRATION_DATE" => text("expirationDate"),
        "USER_ID" if found.get("factors").is_some() => found["factors"]["user"]["id"].to_string(),
        "USER_ID" => format!("{:0>20}", text("userId")),
        "PROJECT_ID" => format!("{:0>20}", text("projectId")),
        "ORG_ID" => format!("{:0>20}", text("orgId")),
        "KEY" if found.get("value").is_some() => text("id"),
        "KEY" => text("key"),
        "DISPLAY_NAME" => text("displayName"),
        "GROUP" => text("group"),
        "TIMEOUT" => format!("{:0>20}", text("timeout")),
        "ASYNC" => text("isAsync"),
        "INTERRUPT_ON_ERROR" => text("interruptOnError"),
        "TARGET_TYPE" => found["target"].get("restWebhook").is_some().to_string(),
        _ => panic!("{column} is new: say here what it sorts by"),
    }
}

/// Returns a member that is a text or a flag, at any depth.
fn member_of(value: &Value, name: &str) -> Option<String> {
    let members = value.as_object()?;
    match members.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(flag)) => Some(flag.to_string()),
        _ => members.values().find_map(|inner| member_of(inner, name)),
    }
}

/// Creates the holder of objects of a kind, where their path names one.
async fn holder(kind: &str, owner: &Client) -> Option<String> {
    let at = |kind: &str| format!("{ROOT}/{kind}");
    match kind {
        "users/keys" | "users/tokens" | "users/metadata" => {
            let user = json!({ "username": new_name(), "service": {} });
            Some(created(owner, &at("users"), user).await.id())
        }
        "apps/keys" => {
            let project = created(owner, &at("projects"), json!({ "name": "keys" })).await.id();
            let app = json!({ "projectId": project, "name": "keys", "api": {} });
            Some(created(owner, &at("apps"), app).await.id())
        }
        _ => None,
    }
}

fn web_key(number: usize) -> Value {
    match number {
        0 => json!({ "ed25519": {} }),
        1 => json!({ "ecdsa": { "curve": "ECDSA_CURVE_P384" } }),
        _ => json!({ "rsa": { "hasher": "RSA_HASHER_SHA384" } }),
    }
}

/// Returns the bodies of two people and a service user.
fn user(number: usize, name: &str) -> Value {
    if number == 2 {
        return json!({ "username": name, "service": { "name": format!("7{name}") } });
    }
    let data = json!({
        "name": format!("{}{name}", 9 - number), "given_name": format!("{number}{name}"),
        "family_name": format!("{}{name}", 5 - number), "nickname": name,
    });
    json!({ "username": name, "human": { "data": data, "email": { "address": format!("{name}@example.com") } } })
}

/// Returns the path at which objects of a kind are created.
fn place(kind: &str, holder: Option<&String>) -> String {
    match holder {
        Some(holder) => kind.replace('/', &format!("/{holder}/")),
        None if kind == "idps" => "idps/codehost_b".to_owned(),
        None => kind.to_owned(),
    }
}

/// Creates an object, and returns its id. An object without an id of its own is put under a name.
async fn create(who: &Client, path: &str, (name, body): (&str, Value)) -> String {
    let is_put = path.ends_with("/metadata");
    if is_put { put(who, &format!("{path}/{name}"), body).await.id() } else { done(who, path, body).await.id() }
}

/// Creates objects of a kind that differ in all columns, and returns them with their holder, if any, and a client that
/// may search them.
async fn objects<'a>(kind: &str, owner: &'a Client, operator: &'a Client) -> (Vec<String>, Option<String>, &'a Client) {
    let at = |kind: &str| format!("{ROOT}/{kind}");
    let mut ids = vec![];
    let holder = holder(kind, owner).await;
    let who = if kind == "instances" { operator } else { owner };
    let names = [format!("b{}", new_name()), format!("a{}", new_name()), format!("C{}", new_name())];
    for (number, name) in names.iter().enumerate() {
        let url = json!({ "url": format!("https://{name}.example/") });
        let body = match kind {
            "targets" if number == 0 => json!({ "name": name, "restWebhook": url, "isAsync": true, "timeout": "20s" }),
            "targets" if number == 1 => json!({ "name": name, "restWebhook": url, "interruptOnError": true }),
            "targets" => json!({ "name": name, "restRequestResponse": url, "timeout": "30s" }),
            "users" => user(number, name),
            "organizations" | "projects" => json!({ "name": name }),
            "domains" => json!({ "domain": format!("{}.example", name.to_lowercase()) }),
            "instances" => json!({ "name": name, "domain": new_host() }),
            "idps" => json!({ "idp": { "name": name }, "config": { "clientId": "id" } }),
            "memberships" => {
                let user = created(owner, &at("users"), json!({ "username": name, "service": {} })).await.id();
                json!({ "userId": user, "roles": ["IAM_OWNER_VIEWER"] })
            }
            "apps" => {
                let project = created(owner, &at("projects"), json!({ "name": name })).await.id();
                json!({ "projectId": project, "name": name, "api": {} })
            }
            "roles" => {
                let project = created(owner, &at("projects"), json!({ "name": name })).await.id();
                let display_name = format!("{}{name}", 9 - number);
                json!({ "projectId": project, "key": name, "displayName": display_name, "group": number.to_string() })
            }
            "project_grants" => {
                let project = created(owner, &at("projects"), json!({ "name": name })).await.id();
                let grantee = created(owner, &at("organizations"), json!({ "name": name })).await.id();
                json!({ "projectId": project, "orgId": grantee })
            }
            "user_grants" => {
                let project = created(owner, &at("projects"), json!({ "name": name })).await.id();
                let user = created(owner, &at("users"), json!({ "username": name, "service": {} })).await.id();
                json!({ "projectId": project, "userId": user })
            }
            "sessions" => {
                let user = created(owner, &at("users"), user(0, name)).await.id();
                json!({ "checks": { "user": { "userId": user } }, "lifetime": format!("{}s", 9000 - number) })
            }
            "web_keys" => web_key(number),
            "users/tokens" => json!({ "expirationDate": format!("{}-01-01T00:00:00Z", 2097 - number) }),
            "users/metadata" => json!({ "value": name }),
            "users/keys" | "apps/keys" => {
                let year = 2097 - number;
                json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": format!("{year}-01-01T00:00:00Z") })
            }
            _ => panic!("{kind} are new: say here how they are made"),
        };
        ids.push(create(who, &at(&place(kind, holder.as_ref())), (name, body)).await);
    }
    if ["users", "organizations", "instances", "projects", "apps", "project_grants", "user_grants"].contains(&kind) {
        done(who, &format!("{}/{}/_deactivate", at(kind), ids[1]), json!({})).await;
    }
    (ids, holder, who)
}

#[tokio::test]
async fn every_column_sorts_in_both_directions() {
    let tenant = Tenant::start().await;
    let (owner, operator) = (tenant.client().await, tenant.operator().await);
    let mut cells = 0;
    for search in with_field("sorting_column") {
        let Search { kind, field, .. } = &search;
        let (ids, holder, who) = objects(kind, &owner, &operator).await;
        let path = search.path(holder.as_ref());
        for column in &columns(field) {
            for is_ascending in [true, false] {
                let path = format!("{path}?query.asc={is_ascending}&sortingColumn={column}");
                // Of an instance, or a user, that has no others.
                let has_no_others = ["idps", "users/metadata"].contains(&kind.as_str());
                let filters = if has_no_others { json!([]) } else { json!([{ "inIds": { "ids": ids } }]) };
                let found = send(who.request(Method::POST, &path).json(&filters)).await.body;
                let found = found["result"].as_array().unwrap_or_else(|| panic!("{path}: {found}")).clone();
                // The id breaks ties, ascending in either direction; as the column itself it follows the direction.
                let mut expected = found.clone();
                expected.sort_by_key(|found| value("_FIELD_NAME_ID", found));
                expected.sort_by_key(|found| value(column, found));
                if !is_ascending {
                    expected.sort_by_key(|found| std::cmp::Reverse(value(column, found)));
                }
                assert_eq!((found.len(), &found), (ids.len(), &expected), "{path}");
                assert_ne!(value(column, &found[0]), value(column, &found[2]), "{path}: the objects differ in it");
                cells += 1;
            }
        }
    }
    println!("{cells} columns and directions");
}
