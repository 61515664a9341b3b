//! References to removed objects: a few are changed in the same record, many are swept afterwards.

use futures::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, after, created, post, send},
    eventually,
    platform::Platform,
    tenant::Tenant,
};

const EVENTS: &str = "/resources/v3alpha/events/_search";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";

async fn user(admin: &Client, organization: &str, name: &str) -> String {
    let wanted = json!({ "username": name, "service": {} });
    created(admin, &format!("{USERS}?ctx.orgId={organization}"), wanted).await.id()
}

/// Returns how many events of a type the instance has.
async fn events(admin: &Client, kind: &str) -> usize {
    let found = post(admin, &format!("{EVENTS}?query.limit=1"), json!([{ "type": kind }])).await;
    let total = found.body["details"]["totalResult"].as_str().expect("it is counted");
    total.parse().expect("it is a number")
}

async fn memberships_of(admin: &Client, user: &str) -> Value {
    let filters = json!([{ "userId": user }]);
    post(admin, &format!("{MEMBERSHIPS}/_search"), filters).await.body["details"]["totalResult"].take()
}

#[tokio::test]
async fn what_an_organization_has_goes_with_it_and_frees_its_names() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let organization = created(&admin, ORGANIZATIONS, json!({ "name": "Going" })).await.id();
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Staying" })).await.id();
    let robot = user(&admin, &organization, "robot").await;
    let stays = user(&admin, &other, "stays").await;
    let held = json!({ "userId": robot, "roles": ["ORG_OWNER"] });
    let held = created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={other}"), held).await.id();
    let here = json!({ "userId": stays, "roles": ["ORG_OWNER"] });
    let here = created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={organization}"), here).await.id();

    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{organization}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let gone = [
        format!("{USERS}/{robot}"),
        format!("{MEMBERSHIPS}/{held}"),
        format!("{MEMBERSHIPS}/{here}"),
        format!("{ORGANIZATIONS}/{organization}"),
    ];
    // All in one record: whoever sees its last event sees them all.
    let last = removed.sequence() + 3;
    for path in gone {
        let read = after(&removed, admin.request(Method::GET, &path)).await;
        assert_eq!(read.status, 404, "{path}: {}", read.body);
    }
    eventually("all of it is in the audit log", async || {
        let found = post(&admin, &format!("{EVENTS}?query.limit=4"), json!([])).await;
        let newest = found.body["result"][0]["sequence"].as_str().and_then(|text| text.parse().ok())?;
        (last <= newest).then_some(())
    })
    .await;
    assert_eq!(events(&admin, "user.removed").await, 1);
    assert_eq!(events(&admin, "membership.removed").await, 2);
    user(&admin, &other, "robot").await;
    created(&admin, ORGANIZATIONS, json!({ "name": "Going" })).await;
}

#[tokio::test]
async fn an_organization_with_many_users_is_removed_at_once_and_swept_after_that() {
    const MANY: usize = 450;
    let tenant = Tenant::start().await;
    let admin = &tenant.client().await;
    let organization = &created(admin, ORGANIZATIONS, json!({ "name": "Crowd" })).await.id();
    let other = &created(admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id();
    let users =
        stream::iter(0..MANY).map(|number| async move { user(admin, organization, &format!("u{number}")).await });
    let users: Vec<String> = users.buffer_unordered(32).collect().await;
    let member = &users[MANY / 2];
    let held = json!({ "userId": member, "roles": ["ORG_OWNER"] });
    created(admin, &format!("{MEMBERSHIPS}?ctx.orgId={other}"), held).await;

    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{organization}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let read = after(&removed, admin.request(Method::GET, &format!("{USERS}/{member}"))).await;
    assert_eq!(read.status, 404, "it is gone at once: {}", read.body);
    eventually("all users are swept", async || (events(admin, "user.removed").await == MANY).then_some(())).await;
    eventually("its membership is swept, too", async || (memberships_of(admin, member).await == "0").then_some(()))
        .await;
    assert_eq!(events(admin, "organization.removed").await, 1);
    user(admin, other, "u0").await;
}

#[tokio::test]
async fn a_sweep_goes_on_where_a_killed_node_left_it() {
    const MANY: usize = 330;
    let mut platform = Platform::start().await;
    let admin = &platform.client().await;
    let organization = &created(admin, ORGANIZATIONS, json!({ "name": "Crowd" })).await.id();
    let users =
        stream::iter(0..MANY).map(|number| async move { user(admin, organization, &format!("u{number}")).await });
    assert_eq!(users.buffer_unordered(32).count().await, MANY);

    // The writer that removes has not seen them made. It dies in the third step.
    platform.stop().await;
    platform.restart(&[("PLATFORM_FAULT", "commit.answered:4:kill")]).await;
    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{organization}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    platform.process().ended().await;
    platform.restart(&[]).await;
    eventually("all users are swept", async || (events(admin, "user.removed").await == MANY).then_some(())).await;
}

#[tokio::test]
async fn an_instance_is_swept_with_its_own_keys_and_frees_its_host() {
    let tenant = Tenant::start().await;
    let operator = tenant.operator().await;
    let host = format!("swept-{}.example.com", tenant.bootstrap.instance_id);
    let wanted = json!({ "name": "Swept", "domain": host });
    let instance = created(&operator, "/resources/v3alpha/instances", wanted.clone()).await;
    let id = instance.id();
    let removed = send(operator.request(Method::DELETE, &format!("/resources/v3alpha/instances/{id}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    for kind in ["user.removed", "organization.removed", "domain.removed", "membership.removed"] {
        eventually(kind, async || {
            let filters = json!([{ "instanceId": id }, { "type": kind }]);
            let found = post(&operator, &format!("{EVENTS}?ctx.system=true"), filters).await;
            (found.body["details"]["totalResult"] == "1").then_some(())
        })
        .await;
    }
    created(&operator, "/resources/v3alpha/instances", wanted).await;
}
