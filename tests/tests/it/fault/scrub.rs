//! The read models are checked against the log while the platform works: what somebody changed in Postgres by hand is
//! found and repaired, and nothing else is touched.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    auditor::{Audit, connect, dump},
    client::{Client, TARGETS, created, post, send, target},
    eventually,
    platform::Platform,
    process::run,
    servers::Servers,
};
use tokio::time::sleep;

use super::{
    generations::{Clients, VIEWS},
    mending::{FAILED, Failing, id_in},
    parking::{failed, name, rename},
};

pub(super) const USERS: &str = "/resources/v3alpha/users";
const SESSIONS: &str = "/resources/v3alpha/sessions";

/// A check begins as soon as the last one is a second ago.
pub(super) fn flags(servers: &Servers) -> Vec<String> {
    [servers.flags(), ["--scrub-every", "1"].map(str::to_owned).to_vec()].concat()
}

/// Returns what the checks have found in each view.
pub(super) async fn checks(operator: &Client) -> BTreeMap<String, Value> {
    let views = post(operator, &format!("{VIEWS}/_search"), json!({})).await.body;
    let of = |view: &Value| Some((view["viewName"].as_str()?.to_owned(), view["check"].clone()));
    views["result"].as_array().into_iter().flatten().filter_map(of).collect()
}

pub(super) fn repaired(checks: &BTreeMap<String, Value>, view: &str) -> u64 {
    checks[view]["repairedRows"].as_str().map_or(0, |rows| rows.parse().expect("it is a number"))
}

/// Waits until a check that began after this was completed.
pub(super) async fn is_checked(operator: &Client) {
    for _ in 0..2 {
        let before = checks(operator).await["targets"]["checkedAt"].clone();
        let later = async || (checks(operator).await["targets"]["checkedAt"] != before).then_some(());
        eventually("the read models are checked", later).await;
    }
}

/// The ids of what was created.
pub(super) struct Filled {
    pub(super) targets: Vec<String>,
    pub(super) person: String,
    pub(super) session: String,
    /// A target that was removed.
    pub(super) gone: String,
}

/// Creates something of every kind of table: rows, people, settings, and what ages out.
pub(super) async fn fill(client: &Client) -> Filled {
    let mut targets = vec![];
    for number in 0..6 {
        targets.push(created(client, TARGETS, target(&format!("scrubbed {number}"))).await.id());
    }
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let person = json!({ "username": "ada", "human": { "data": data, "email": { "address": "ada@example.com" } } });
    let person = created(client, USERS, person).await.id();
    let note = client.request(Method::PUT, &format!("{USERS}/{person}/metadata/note"));
    assert_eq!(send(note.json(&json!({ "value": "first programmer" }))).await.status, StatusCode::CREATED);
    let session = post(client, SESSIONS, json!({ "checks": { "user": { "userId": person } } })).await;
    assert_eq!(session.status, StatusCode::CREATED, "{}", session.body);
    let session = session.id();
    let off = created(client, USERS, json!({ "username": "off", "service": {} })).await.id();
    assert_eq!(post(client, &format!("{USERS}/{off}/_deactivate"), json!({})).await.status, StatusCode::OK);
    let rules = client
        .request(Method::PATCH, "/settings/v3alpha/lockout")
        .json(&json!({ "maxPasswordAttempts": { "set": 7 } }));
    let set = send(rules).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.body);
    let gone = created(client, TARGETS, target("gone")).await.id();
    assert_eq!(send(client.request(Method::DELETE, &format!("{TARGETS}/{gone}"))).await.status, StatusCode::OK);
    Filled { targets, person, session, gone }
}

/// Starts clients that create, rename and delete targets.
fn writers(client: &Client) -> Clients {
    Clients::start(2, |number, is_over| {
        let client = client.reconnected();
        async move {
            let mut written = 0;
            while !is_over.load(Ordering::SeqCst) {
                let id = created(&client, TARGETS, target(&format!("written {number} {written}"))).await.id();
                rename(&client, &id, &format!("renamed {number} {written}")).await;
                if written % 2 == 0 {
                    let delete = client.request(Method::DELETE, &format!("{TARGETS}/{id}"));
                    assert_eq!(send(delete).await.status, StatusCode::OK);
                }
                written += 1;
                sleep(Duration::from_millis(50)).await;
            }
            (written, Duration::ZERO)
        }
    })
}

#[tokio::test]
async fn what_was_changed_by_hand_is_repaired_and_nothing_else() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&flags(&servers), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let filled = fill(&client).await;

    // What changes all the time is never taken for wrong.
    let writers = writers(&client);
    is_checked(&operator).await;
    let (written, _) = writers.end().await;
    println!("{written} changes while the read models were checked");
    assert!(written > 0);
    let found = checks(&operator).await;
    for (view, check) in &found {
        assert_eq!(check["repairedAt"], Value::Null, "{view}: {check}");
        assert!(check["checkedAt"].is_string(), "{view}: {check}");
    }
    let audit = Audit::of(servers.nats().await).await;
    audit.wait_projected(&servers.places.postgres_url).await;
    let before = dump(&servers.places.postgres_url).await;

    let by_hand = by_hand(&audit, &filled);
    connect(&servers.places.postgres_url).await.batch_execute(&by_hand).await.expect("rows are changed");
    assert_ne!(dump(&servers.places.postgres_url).await, before);
    let is_repaired = async || (dump(&servers.places.postgres_url).await == before).then_some(());
    eventually("what was changed by hand is repaired", is_repaired).await;

    let found = checks(&operator).await;
    let of = |view: &str| repaired(&found, view);
    assert_eq!((of("targets"), of("history"), of("access")), (4, 5, 3), "{found:?}");
    assert_eq!((of("sessions"), of("ended"), of("settings"), of("executions")), (1, 1, 1, 0), "{found:?}");
    let rows = platform.management().metrics().await;
    assert!(rows.contains("platform_projection_repaired_rows_total{projection=\"targets\"} 4"), "{rows}");
    let examples = found["targets"]["repairedExamples"].to_string();
    assert!(examples.contains(" of instance "), "{examples}");
    let (_, list, _) = run(&["projections", "list", "--data-dir", &platform.data().display().to_string()]);
    assert!(list.contains("; 4 rows repaired, the last ") && list.contains("; 5 events repaired, the last "), "{list}");
}

/// What somebody changes: rows of every kind, and events.
fn by_hand(audit: &Audit, filled: &Filled) -> String {
    let Filled { targets, person, gone, .. } = filled;
    let [changed, lost, moved, ..] = &targets[..] else { panic!("there are six") };
    let of_changed = audit.events_of(changed)[0].sequence;
    let of_person = audit.events_of(person)[0].sequence;
    format!(
        "update targets_1.targets set state = '{{\"name\": \"by hand\"}}' where id = '{changed}';
         delete from targets_1.targets where id = '{lost}';
         update targets_1.targets set owner_id = '1' where id = '{moved}';
         insert into targets_1.targets select 'nobody', 'forged', owner_type, owner_id, 1, created_at, changed_at, state, \
           {values} from targets_1.targets where id = '{moved}';
         insert into access_10.memberships select instance_id, 'forged', owner_type, owner_id, 9000000000, created_at, \
           changed_at, state{of_membership} from access_10.memberships limit 1;
         update access_10.users set sequence = sequence + 1 where id = '{person}';
         delete from ended_7.ended_users;
         update settings_1.lockout_settings set state = '{{}}', created_at = 'infinity';
         delete from sessions_3.sessions;
         update history_2.events set payload = '{{}}' where sequence = {of_changed};
         delete from history_2.events where sequence = {of_person};
         insert into history_2.events select instance_id, aggregate_type, 'forged', version, sequence, event_id, type, \
           revision, restores, owner_type, owner_id, actor, committed_at, created_at, payload from history_2.events \
           where aggregate_id = '{moved}';
         insert into history_2.events select instance_id, aggregate_type, 'from nowhere', version, 9000000000, event_id, type, \
           revision, restores, owner_type, owner_id, actor, committed_at, created_at, payload from history_2.events \
           where aggregate_id = '{moved}';
         insert into access_10.memberships select instance_id, 'from nowhere', owner_type, owner_id, 9000000000, created_at, \
           changed_at, state{of_membership} from access_10.memberships limit 1;
         delete from history_2.events where aggregate_id = '{gone}' and type = 'target.removed';",
        values = own_columns("targets", "target"),
        of_membership = with_comma(own_columns("access", "membership")),
    )
}

/// The columns of a table beyond those that all have.
fn own_columns(view: &str, aggregate: &str) -> String {
    let projection = view::projection::PROJECTIONS.iter().find(|known| known.name == view).expect("it is kept");
    let table = projection.table(aggregate).expect("it has a table");
    let names: Vec<&str> = (table.columns)().iter().map(|column| column.name).collect();
    names.join(", ")
}

fn with_comma(columns: String) -> String {
    if columns.is_empty() { columns } else { format!(", {columns}") }
}

#[tokio::test]
async fn rows_that_lack_an_event_that_failed_or_was_discarded_are_left_alone() {
    let failing = Failing::start_with(&[("PLATFORM_SCRUB_EVERY", "1")]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    let [id] = failing.targets(["first"]).await;
    failing.fails(true);
    rename(&client, &id, "second").await;
    let failed_id = id_in(&operator, "targets", &id).await;
    failing.fails(false);
    is_checked(&operator).await;
    untouched(&client, &operator, &id).await;

    let discard = format!("{FAILED}/{failed_id}/_discard");
    let discarded = post(&operator, &discard, json!({ "reason": "nobody needs it" })).await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    let of_rows = json!([{ "id": failed_id }]);
    eventually("it is left out", async || failed(&operator, of_rows.clone()).await.is_empty().then_some(())).await;
    is_checked(&operator).await;
    untouched(&client, &operator, &id).await;

    // It still notices if somebody writes the discarded name into the row.
    let by_hand = format!(
        "update targets_1.targets set state = replace(state::text, '\"first\"', '\"second\"')::json where id = '{id}'"
    );
    connect(&failing.postgres_url()).await.batch_execute(&by_hand).await.expect("a row is changed");
    eventually("it is repaired", async || (name(&client, &id).await == "first").then_some(())).await;
    let count = async || (repaired(&checks(&operator).await, "targets") == 1).then_some(());
    eventually("it is counted", count).await;
}

/// Checks that a target has its first name, and that nothing was repaired.
async fn untouched(client: &Client, operator: &Client, id: &str) {
    let found = checks(operator).await;
    assert_eq!((repaired(&found, "targets"), repaired(&found, "targets_index")), (0, 0), "{found:?}");
    assert_eq!(name(client, id).await, "first");
}

#[tokio::test]
async fn what_was_removed_stays_removed_if_history_loses_that_in_the_middle_of_a_check() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&flags(&servers), &[]).await;
    platform.ready().await;
    let Filled { gone, .. } = fill(&platform.client().await).await;
    is_checked(&platform.operator().await).await;
    platform.stop().await;

    platform.respawn(&[("PLATFORM_FAULT", "scrub.events-checked:1:stop")]);
    let process = &*platform.process();
    eventually("it stands still", || async move { process.is_stopped().then_some(()) }).await;
    let deletion = format!("delete from history_2.events where aggregate_id = '{gone}' and type = 'target.removed'");
    let count = connect(&servers.places.postgres_url).await.execute(&deletion, &[]).await.expect("an event is deleted");
    assert_eq!(count, 1);
    platform.process().signal(Signal::CONT);
    platform.ready().await;
    let operator = platform.operator().await;
    is_checked(&operator).await;
    let found = checks(&operator).await;
    assert_eq!((repaired(&found, "history"), repaired(&found, "targets")), (1, 0), "{found:?}");
}
