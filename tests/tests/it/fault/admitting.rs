//! Failed events in the projections that admit requests: parked objects count as ended, and all others work.

use std::fs;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempPath;
use tests::{
    auditor::{Audit, connect},
    client::{Answer, Client, after, created, done, post, send},
    eventually,
    platform::Platform,
    servers::Servers,
};
use view::projection::{ACCESS, SESSION_HISTORY};

use super::parking::failed;

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";
const SESSIONS: &str = "/resources/v3alpha/sessions";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const INSTANCES: &str = "/resources/v3alpha/instances";
const FAILED: &str = "/system/v1/failedevents";

/// A platform whose projections of tables fail at every event while a file exists.
struct Failing {
    platform: Platform,
    servers: Servers,
    switch: TempPath,
    admin: Client,
    operator: Client,
}

/// An organization, and a user who may read its users.
struct Member {
    organization: String,
    id: String,
    client: Client,
}

impl Failing {
    async fn start() -> Self {
        let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
        fs::remove_file(&switch).expect("it was just made");
        let servers = Servers::start().await;
        let platform = Platform::start_with(&servers.flags(), &[("PLATFORM_FAULT", &fault(&switch))]).await;
        platform.ready().await;
        let (admin, operator) = (platform.client().await, platform.operator().await);
        Self { platform, servers, switch, admin, operator }
    }

    fn fail(&self) {
        fs::write(&self.switch, "").expect("the folder can be written");
    }

    fn mend(&self) {
        fs::remove_file(&self.switch).expect("it is there");
    }

    async fn member(&self) -> Member {
        let organization = created(&self.admin, ORGANIZATIONS, json!({ "name": "Shop" })).await.id();
        let of_it = |path| format!("{path}?ctx.orgId={organization}");
        let user = json!({ "username": "clerk", "service": { "name": "Clerk" } });
        let id = created(&self.admin, &of_it(USERS), user).await.id();
        let membership = json!({ "userId": id, "roles": ["ORG_OWNER_VIEWER"] });
        created(&self.admin, &of_it(MEMBERSHIPS), membership).await;
        let client = self.platform.log_in(&self.admin, &id, "clerk").await;
        eventually("the role is known", async || (reads(&client).await == StatusCode::OK).then_some(())).await;
        Member { organization, id, client }
    }

    async fn rename(&self, organization: &str, name: &str) -> Answer {
        let patch = self.admin.request(Method::PATCH, &format!("{ORGANIZATIONS}/{organization}"));
        let renamed = send(patch.json(&json!({ "name": name }))).await;
        assert_eq!(renamed.status, StatusCode::OK, "{}", renamed.body);
        renamed
    }

    /// Discards the parked events of an aggregate in a view.
    async fn discard(&self, aggregate_id: &str, view: &str) {
        let path = format!("{FAILED}/{}/_discard", self.in_view(aggregate_id, view).await);
        let discarded = post(&self.operator, &path, json!({ "reason": "it is known" })).await;
        assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    }

    /// Waits until all views have all events, so that nothing fails later but what is meant to.
    async fn wait_until_views_are_current(&self) {
        let are_current = async || {
            let views = post(&self.operator, "/system/v1/views/_search", json!({})).await;
            let views = views.body["result"].as_array().cloned().unwrap_or_default();
            let is_current = |view: &Value| view["lag"].as_str().is_none_or(|lag| lag == "0");
            (!views.is_empty() && views.iter().all(is_current)).then_some(())
        };
        eventually("all views have all events", are_current).await;
    }

    /// Renames an organization, which fails, and waits until the views report that.
    async fn parked(&self, organization: &str) -> Answer {
        self.wait_until_views_are_current().await;
        self.fail();
        let renamed = self.rename(organization, "Renamed").await;
        let views =
            async || (self.views(organization).await == ["access", "ended", "organizations_index"]).then_some(());
        eventually("it is parked", views).await;
        self.mend();
        renamed
    }

    async fn failed(&self, aggregate_id: &str) -> Vec<Value> {
        failed(&self.operator, json!([{ "aggregateId": aggregate_id }])).await
    }

    /// Returns the views that have parked an aggregate.
    async fn views(&self, aggregate_id: &str) -> Vec<String> {
        let found = self.failed(aggregate_id).await;
        let mut views: Vec<_> = found.iter().filter_map(|event| Some(event["viewName"].as_str()?.to_owned())).collect();
        views.sort();
        views
    }

    /// Returns the id of the failed event of an aggregate in a view.
    async fn in_view(&self, aggregate_id: &str, view: &str) -> String {
        let found = self.failed(aggregate_id).await;
        let event = found.iter().find(|event| event["viewName"] == view).expect("the view has parked it");
        event["id"].as_str().expect("it has an id").to_owned()
    }

    async fn get(&self, organization: &str) -> Answer {
        send(self.admin.request(Method::GET, &format!("{ORGANIZATIONS}/{organization}"))).await
    }

    async fn name(&self, organization: &str) -> Value {
        self.get(organization).await.body["organization"]["organization"]["name"].clone()
    }

    /// Changes a table that requests are admitted by.
    async fn alter(&self, table: &str, change: &str) {
        let postgres = connect(&self.servers.places.postgres_url).await;
        let alter = ACCESS.sql(&format!("alter table {{{table}}} {change}"));
        postgres.batch_execute(&alter).await.expect("the table is there");
    }
}

fn fault(switch: &TempPath) -> String {
    format!("table.folding/*:1:panic-while={}", switch.display())
}

async fn reads(client: &Client) -> StatusCode {
    post(client, &format!("{USERS}/_search"), json!([])).await.status
}

#[tokio::test]
async fn what_is_parked_counts_as_ended_and_comes_back_as_it_is_now() {
    let failing = Failing::start().await;
    let Member { organization, client, .. } = failing.member().await;
    let renamed = failing.parked(&organization).await;

    eventually("its users are let in no more", async || (reads(&client).await == 401).then_some(())).await;
    failing.get(&organization).await.assert_refused("as if it was gone", 404, "RESOURCE_NOT_FOUND");
    let get = failing.admin.request(Method::GET, &format!("{ORGANIZATIONS}/{organization}"));
    after(&renamed, get).await.assert_refused("as of what is parked", 503, "AGGREGATE_PARKED");
    let other = created(&failing.admin, ORGANIZATIONS, json!({ "name": "Other" })).await;
    let read = failing.admin.request(Method::GET, &format!("{ORGANIZATIONS}/{}", other.id()));
    assert_eq!(after(&other, read).await.status, StatusCode::OK, "all others go on");

    let retried = post(&failing.operator, &format!("{FAILED}/_retry"), json!({ "filters": [] })).await;
    assert_eq!(retried.body["count"], "3", "{}", retried.body);
    eventually("it goes on", async || failing.failed(&organization).await.is_empty().then_some(())).await;
    assert_eq!(failing.name(&organization).await, "Renamed");
    eventually("it had not ended", async || (reads(&client).await == StatusCode::OK).then_some(())).await;
}

#[tokio::test]
async fn what_is_removed_while_it_is_parked_is_gone_as_in_a_clean_rebuild() {
    let failing = Failing::start().await;
    let Member { organization, client, .. } = failing.member().await;
    failing.parked(&organization).await;
    let gone = send(failing.admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{organization}"))).await;
    assert_eq!(gone.status, StatusCode::OK, "{}", gone.body);
    let retried = post(&failing.operator, &format!("{FAILED}/_retry"), json!({ "filters": [] })).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    eventually("it goes on", async || failing.failed(&organization).await.is_empty().then_some(())).await;
    assert_eq!(reads(&client).await, StatusCode::UNAUTHORIZED);
    let audit = Audit::of(failing.servers.nats().await).await;
    audit.assert_projected(&failing.servers.places.postgres_url).await;
}

#[tokio::test]
async fn a_row_that_postgres_refuses_is_taken_away_too() {
    let failing = Failing::start().await;
    let Member { organization, client, .. } = failing.member().await;
    failing.alter("organization", "add constraint refused check (state::text not like '%Refused%')").await;
    let rename = async |name: &str| failing.rename(&organization, name).await;
    rename("Refused").await;
    let parked = async || (failing.views(&organization).await == ["access"]).then_some(());
    eventually("it is parked", parked).await;
    eventually("its users are let in no more", async || (reads(&client).await == 401).then_some(())).await;
    rename("Shop again").await;
    let retried = post(&failing.operator, &format!("{FAILED}/_retry"), json!({ "filters": [] })).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    let is_back = async || (failing.name(&organization).await == "Shop again").then_some(());
    eventually("the row that it has by now is not refused", is_back).await;
    eventually("its users are let in", async || (reads(&client).await == StatusCode::OK).then_some(())).await;
}

#[tokio::test]
async fn each_event_that_is_left_out_makes_room_for_what_waits_behind_it() {
    let failing = Failing::start().await;
    let Member { organization, client, .. } = failing.member().await;
    failing.alter("organization", "add constraint refused check (state::text not like '%Refused%')").await;
    failing.rename(&organization, "Refused first").await;
    let parked = async || (failing.views(&organization).await == ["access"]).then_some(());
    eventually("it is parked", parked).await;
    let first = failing.in_view(&organization, "access").await;
    failing.rename(&organization, "Refused second").await;

    failing.discard(&organization, "access").await;
    let is_next = async || {
        let next = failing.failed(&organization).await.first()?["id"].as_str()?.to_owned();
        (next != first).then_some(())
    };
    eventually("the second is parked in its place", is_next).await;
    failing.get(&organization).await.assert_refused("as if it was gone", 404, "RESOURCE_NOT_FOUND");
    failing.discard(&organization, "access").await;
    let is_back = async || (failing.name(&organization).await == "Shop").then_some(());
    eventually("it is what it was before both", is_back).await;
    eventually("its users are let in", async || (reads(&client).await == StatusCode::OK).then_some(())).await;
    failing.rename(&organization, "Shop again").await;
    let is_new = async || (failing.name(&organization).await == "Shop again").then_some(());
    eventually("it goes on", is_new).await;
}

#[tokio::test]
async fn only_operators_of_the_system_have_it_left_out() {
    let mut failing = Failing::start().await;
    let Member { organization, id, client } = failing.member().await;
    failing.parked(&organization).await;
    for view in ["access", "ended"] {
        let path = format!("/resources/v3alpha/failed_events/{}/_discard", failing.in_view(&organization, view).await);
        let refused = post(&failing.admin, &path, json!({ "reason": "it is known" })).await;
        refused.assert_refused(view, 403, "PERMISSION_DENIED");
    }
    failing.discard(&organization, "access").await;
    let is_back = async || (failing.name(&organization).await == "Shop").then_some(());
    eventually("it is what it was before", is_back).await;
    eventually("its users are let in", async || (reads(&client).await == StatusCode::OK).then_some(())).await;

    // That it ends waits in `ended`, and a node that begins has it from the log.
    for verb in ["_deactivate", "_reactivate"] {
        done(&failing.admin, &format!("{ORGANIZATIONS}/{organization}/{verb}"), json!({})).await;
    }
    failing.fail();
    failing.platform.stop().await;
    failing.platform.restart(&[("PLATFORM_FAULT", &fault(&failing.switch))]).await;
    assert_eq!(failing.views(&organization).await, ["ended", "organizations_index"]);
    assert_eq!(reads(&client).await, StatusCode::UNAUTHORIZED);
    failing.mend();
    let again = failing.platform.log_in(&failing.admin, &id, "clerk").await;
    assert_eq!(reads(&again).await, StatusCode::OK, "it can be logged in to");
}

#[tokio::test]
async fn without_what_everybody_needs_it_stands_still() {
    let failing = Failing::start().await;
    failing.fail();
    let founded = json!({ "name": "Tenant", "domain": "beside.localhost", "organizationName": "Default" });
    let made = created(&failing.operator, INSTANCES, founded).await;
    let stalled = async || {
        let check = failing.platform.management().check("projection.access").await?;
        (check["state"] == "stalled" && check.to_string().contains("data_key.added")).then_some(())
    };
    eventually("it stands still at a data key", stalled).await;
    let views = failing.views(&made.id()).await;
    assert!(!views.contains(&"access".to_owned()), "{views:?}");
    failing.mend();
    let read = failing.operator.request(Method::GET, &format!("{INSTANCES}/{}", made.id()));
    assert_eq!(after(&made, read).await.status, StatusCode::OK, "it goes on by itself");
}

#[tokio::test]
async fn where_postgres_refuses_what_everybody_needs_it_stands_still_and_names_it() {
    let failing = Failing::start().await;
    failing.alter("data_key", "add constraint refused check (false) not valid").await;
    let founded = json!({ "name": "Tenant", "domain": "beside.localhost", "organizationName": "Default" });
    let made = created(&failing.operator, INSTANCES, founded).await;
    let stalled = async || {
        let check = failing.platform.management().check("projection.access").await?;
        let said = check.to_string();
        (check["state"] == "stalled" && said.contains("data_key") && said.contains("without which")).then_some(())
    };
    eventually("it stands still and names the row", stalled).await;
    assert!(failed(&failing.operator, json!([{ "viewName": "access" }])).await.is_empty(), "nothing is parked");
    failing.alter("data_key", "drop constraint refused").await;
    let read = failing.operator.request(Method::GET, &format!("{INSTANCES}/{}", made.id()));
    assert_eq!(after(&made, read).await.status, StatusCode::OK, "it goes on by itself");
}

/// Logs in a person by the API, whose session fails from the first event on.
async fn logged_in(failing: &Failing, username: &str) -> (String, String) {
    logged_in_of(failing, "", username).await
}

/// Logs in a person in a context, whose session fails from the first event on.
async fn logged_in_of(failing: &Failing, context: &str, username: &str) -> (String, String) {
    let data = json!({ "given_name": "Ada", "family_name": username });
    let person = json!({ "username": username, "human": { "data": data } });
    let id = done(&failing.admin, &format!("{USERS}{context}"), person).await.id();
    failing.fail();
    let session = created(&failing.admin, SESSIONS, json!({ "checks": { "user": { "userId": id } } })).await.id();
    let views = async || (failing.views(&session).await == ["sessions", "sessions_index"]).then_some(());
    eventually("it is parked", views).await;
    failing.mend();
    (id, session)
}

/// Parks a session of a user whose organization is deactivated then.
async fn ends_with_its_organization(failing: &Failing) -> String {
    let organization = created(&failing.admin, ORGANIZATIONS, json!({ "name": "Carols" })).await.id();
    let (_, session) = logged_in_of(failing, &format!("?ctx.orgId={organization}"), "carol").await;
    let off = post(&failing.admin, &format!("{ORGANIZATIONS}/{organization}/_deactivate"), json!({})).await;
    assert_eq!(off.status, StatusCode::OK, "{}", off.body);
    session
}

#[tokio::test]
async fn a_session_that_is_parked_ends_with_its_user_and_with_nobody_else() {
    let failing = Failing::start().await;
    let ((ada, of_ada), (_, of_bob)) = (logged_in(&failing, "ada").await, logged_in(&failing, "bob").await);
    let read = |id: &str| send(failing.admin.request(Method::GET, &format!("{SESSIONS}/{id}")));
    read(&of_ada).await.assert_refused("while it is parked", 404, "RESOURCE_NOT_FOUND");
    let off = post(&failing.admin, &format!("{USERS}/{ada}/_deactivate"), json!({})).await;
    assert_eq!(off.status, StatusCode::OK, "{}", off.body);

    let postgres = connect(&failing.servers.places.postgres_url).await;
    let select = SESSION_HISTORY.sql("select type from {schema}.events where aggregate_id = $1 order by version");
    let events = async |id: &str| {
        let rows = postgres.query(&select, &[&id]).await.expect("the table is there");
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let has_ended = async || (events(&of_ada).await == ["session.added", "session.removed"]).then_some(());
    eventually("it ends with its user", has_ended).await;
    let of_carol = ends_with_its_organization(&failing).await;
    let has_ended = async || (events(&of_carol).await == ["session.added", "session.removed"]).then_some(());
    eventually("it ends with the organization of its user", has_ended).await;
    let retried = post(&failing.operator, &format!("{FAILED}/_retry"), json!({ "filters": [] })).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    let healed = async || failed(&failing.operator, json!([])).await.is_empty().then_some(());
    eventually("both go on", healed).await;
    read(&of_ada).await.assert_refused("it has ended", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(read(&of_bob).await.status, StatusCode::OK);
    assert_eq!(events(&of_bob).await, ["session.added"]);
}
