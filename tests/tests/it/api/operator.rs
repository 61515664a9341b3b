//! Operators who are users of an instance: what they do with rights above it is not visible there, and they cannot lock
//! themselves out.

use reqwest::Method;
use serde_json::json;
use tests::{
    auditor::connect,
    client::{Client, created, post, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    tenant::Tenant,
};
use view::projection::ACCESS;

const USERS: &str = "/resources/v3alpha/users";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const INSTANCES: &str = "/resources/v3alpha/instances";

async fn user(client: &Client, username: &str) -> String {
    created(client, USERS, json!({ "username": username, "service": { "name": username } })).await.id()
}

#[tokio::test]
async fn targets_of_an_instance_neither_hear_nor_say_what_its_operators_do() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let (asked, told) = (Endpoint::start().await, Endpoint::start().await);
    let (answering, _) = asked.target(&admin, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    let (hearing, _) = told.target(&admin, "restWebhook", &json!({})).await;
    let (operating, spared, meant) =
        (user(&admin, "operating").await, user(&admin, "spared").await, user(&admin, "meant").await);
    execute(&admin, json!({ "event": { "group": "membership" } }), &[&hearing]).await;
    let body = json!({ "userId": operating, "roles": ["SYSTEM_OWNER"] });
    created(&operator, &format!("{MEMBERSHIPS}?ctx.system=true"), body).await;
    let given = post(&admin, MEMBERSHIPS, json!({ "userId": spared, "roles": ["IAM_OWNER_VIEWER"] })).await;
    assert_eq!(told.called(1).await[0].json()["aggregateID"], given.id(), "what is held in the system is not told");

    let operating = tenant.log_in(&operator, &operating, "operating").await;
    asked.reply(Reply::json(&json!({ "id": spared })));
    let condition = json!({ "request": { "method": "/platform.resources.user.v3alpha.PlatformUsers/DeleteUser" } });
    execute(&admin, condition, &[&answering]).await;
    let deleted = send(operating.request(Method::DELETE, &format!("{USERS}/{meant}"))).await;
    assert_eq!((deleted.status.as_u16(), deleted.id()), (200, meant), "{}", deleted.body);
    assert!(asked.calls().is_empty(), "no target has a say");
    assert_eq!(send(admin.request(Method::DELETE, &format!("{USERS}/{spared}"))).await.id(), spared);
    assert_eq!(asked.calls().len(), 1, "with rights of the instance it has");

    let own = format!("{INSTANCES}/{}", tenant.bootstrap.instance_id);
    let block = json!({ "limits": [{ "id": tenant.bootstrap.instance_id, "limits": { "block": true } }] });
    for (case, path, body) in [
        ("switching off", format!("{own}/_deactivate"), json!({})),
        ("blocking", format!("{own}/_limit"), json!({ "block": true })),
        ("blocking several", format!("{INSTANCES}/_bulk_limit"), block),
    ] {
        post(&operating, &path, body).await.assert_refused(case, 400, "PRECONDITION_FAILED");
    }
    let limited = post(&operating, &format!("{own}/_limit"), json!({ "auditLogRetention": "3600s" })).await;
    assert_eq!(limited.status, 200, "other limits it may set: {}", limited.body);
}

#[tokio::test]
async fn what_a_target_has_said_is_done_with_rights_of_its_instance_only() {
    let platform = Platform::start().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let endpoint = Endpoint::start().await;
    let (target, _) = endpoint.target(&admin, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    let both = user(&admin, "both").await;
    created(&admin, MEMBERSHIPS, json!({ "userId": both, "roles": ["IAM_OWNER"] })).await;
    let client = platform.log_in(&admin, &both, "both").await;
    endpoint.reply(Reply::json(&json!({ "domain": { "domain": "bank.example", "isVerified": true } })));
    let condition =
        json!({ "request": { "method": "/platform.resources.domain.v3alpha.PlatformDomains/CreateDomain" } });
    execute(&admin, condition, &[&target]).await;

    // It is not known yet that an operator asks, so the target is called.
    let mut postgres = connect(&platform.postgres_url()).await;
    let still = postgres.transaction().await.expect("Postgres is there");
    let lock = ACCESS.sql("lock table {schema}.memberships in share mode");
    still.batch_execute(&lock).await.expect("nobody else has it");
    let given = json!({ "userId": both, "roles": ["SYSTEM_OWNER"] });
    let given = created(&operator, &format!("{MEMBERSHIPS}?ctx.system=true"), given).await;
    let domain =
        || client.request(Method::POST, "/resources/v3alpha/domains").json(&json!({ "domain": "own.example" }));
    send(domain()).await.assert_refused("a domain without a challenge", 403, "PERMISSION_DENIED");
    assert_eq!(endpoint.take().len(), 1);
    still.rollback().await.expect("Postgres is there");
    let known =
        async || (send(domain().header("consistency-token", given.consistency())).await.status == 201).then_some(());
    eventually("an operator is asked by no target", known).await;
}
