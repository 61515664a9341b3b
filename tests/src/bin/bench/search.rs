//! The search index alone: the cost of a query in CPU time of its thread, the rate of building, and the time until a
//! new node has fetched the index.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{
    context::{Owner, Part},
    resource::{
        project_role::GrantedRole,
        target::{Mode, Target, TargetKind, column},
        user_grant::{self, UserGrant},
    },
    standard::Resource,
};
use eventlog::record::Position;
use index::{
    Bounds, Filter, Folder, Layout, Method, Page, Publisher, Remote, Replica, Search, Snapshot, SortKey, Writer,
};
use jiff::Timestamp;
use tempfile::TempDir;
use tests::servers::Servers;
use view::table::{Change, Row, standard};

use crate::cpu;

/// The heading of a table.
pub(crate) const HEAD: &str = "query, limit 100 unless said                   matches    ms p50    ms p99";
/// The number of user grants, and of their projects.
const GRANTS: usize = 100_000;
const PROJECTS: usize = 500;
const BATCH: usize = 1000;
/// How many organizations the documents belong to.
const OWNERS: usize = 1000;
/// How often each query is repeated; the median counts.
const TIMES: usize = 30;

/// Builds an index of a number of documents, and measures its queries.
pub(crate) async fn measure(documents: usize) {
    let (_folder, place, snapshot, rate) = built::<Target>(documents, change);
    println!("\nsearch: {documents} documents, built at {rate:.0} per CPU-second (to reach: 8000)");
    println!("{HEAD}");
    for (name, search) in queries(documents) {
        ask(&snapshot, name, &search);
    }
    ship(place, &snapshot, documents).await;
    let (_folder, _, snapshot, rate) = built::<UserGrant>(GRANTS, grant);
    println!("\nsearch: {GRANTS} user grants of {PROJECTS} projects, built at {rate:.0} per CPU-second");
    println!("{HEAD}");
    for (name, search) in of_grants() {
        ask(&snapshot, name, &search);
    }
}

/// Builds an index of a number of documents, and returns it with the documents per second of CPU time.
pub(crate) fn built<R: Resource>(
    documents: usize,
    change: fn(usize) -> Change,
) -> (TempDir, Folder, Arc<Snapshot>, f64) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = Folder::open(folder.path()).expect("nobody uses it");
    let mut writer = Writer::open(&place, Layout::of(&standard::<R>())).expect("an index can be made");
    let before = cpu::of_this_process();
    let mut snapshot = writer.snapshot().expect("it is there");
    for first in (0..documents).step_by(BATCH) {
        let changes: Vec<Change> = (first..documents.min(first + BATCH)).map(change).collect();
        writer.apply(&changes).expect("documents go in");
        if first % (50 * BATCH) == 0 || first + BATCH >= documents {
            let position = Position { sequence: first as u64, ..Position::default() };
            snapshot = writer.commit(position, Timestamp::UNIX_EPOCH).expect("it commits");
        }
    }
    let used = cpu::of_this_process().saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = documents as f64 / used.as_secs_f64();
    (folder, place, Arc::new(snapshot), rate)
}

/// Publishes the index, and lets a node without one fetch it.
async fn ship(folder: Folder, snapshot: &Snapshot, documents: usize) {
    let servers = Servers::start().await;
    let context = async_nats::jetstream::new(servers.nats().await);
    let remote = Remote::open(&context, 1).await.expect("NATS is there");
    let publisher = Publisher::take_over(remote.clone(), "bench", folder, Duration::from_mins(10)).await;
    let mut publisher = publisher.expect("nobody else publishes it");
    let (start, before) = (Instant::now(), cpu::of_this_process());
    publisher.publish(snapshot).await.expect("it is published");
    let bytes: u64 = publisher.manifest().files().map(|file| file.size).sum();
    println!(
        "published {} MB in {:.2?}, {:.2?} CPU of this process",
        bytes / 1_000_000,
        start.elapsed(),
        cpu::of_this_process().saturating_sub(before)
    );
    let empty = tempfile::tempdir().expect("a temporary folder can be made");
    let mut replica =
        Replica::new(Folder::open(empty.path()).expect("nobody uses it"), Layout::of(&standard::<Target>()));
    let (start, before) = (Instant::now(), cpu::of_this_process());
    let fetched = replica.install(publisher.manifest(), &remote).await.expect("it is fetched");
    let (_, all) = queries(documents).swap_remove(9);
    fetched.search(&all, &Bounds::default()).expect("it answers");
    println!(
        "cold start, to the first answer of a list: {:.2?}, {:.2?} CPU of this process",
        start.elapsed(),
        cpu::of_this_process().saturating_sub(before)
    );
    servers.stop().await;
}

/// Prints the cost of a query, and returns the median in milliseconds.
pub(crate) fn ask<R: Resource>(snapshot: &Snapshot, name: &str, search: &Search<R>) -> f64 {
    let mut times = vec![];
    let mut total = 0;
    for _ in 0..TIMES {
        let before = cpu::of_thread();
        total = snapshot.search(search, &Bounds::default()).expect("it answers").total;
        times.push(cpu::of_thread().saturating_sub(before));
    }
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1000.0;
    println!("{name:<44} {total:>9} {:>9.2} {:>9.2}", ms(TIMES / 2), ms(TIMES - 1));
    ms(TIMES / 2)
}

/// Returns the queries, with the time to reach for a million documents in their names.
fn queries(documents: usize) -> Vec<(&'static str, Search<Target>)> {
    // The goal is defined for an offset of 100,000 in a million.
    let (deep, deepest) = (100_000.min(documents / 2), documents / 10 * 9);
    let by_name = SortKey::Column(&column::NAME);
    let page = |key, ascending, offset| Page { key, ascending, offset, limit: 100 };
    let search = |filters, page| Search { instances: Some(vec!["1".into()]), filters, page };
    let text = |method, ignores_case, text: &str| {
        let filter = Filter::Text { column: &column::NAME, method, ignores_case, text: text.into() };
        search(vec![filter], page(by_name, true, 0))
    };
    let owners = |count: usize| {
        let owners = (0..count).map(|number| Owner::organization(number.to_string())).collect();
        search(vec![Filter::In(owners)], page(by_name, true, 0))
    };
    vec![
        ("name equals", text(Method::Equals, false, &name(4242))),
        ("name equals, ignoring case", text(Method::Equals, true, &name(4242).to_uppercase())),
        ("name starts with 3", text(Method::StartsWith, true, "web")),
        ("name contains 4, ignoring case", text(Method::Contains, true, "-EU-")),
        ("name contains 3, ignoring case (4)", text(Method::Contains, true, "424")),
        ("name contains 3, case-sensitive (6)", text(Method::Contains, false, "424")),
        ("name contains 2, ignoring case", text(Method::Contains, true, "42")),
        ("name ends with 3, ignoring case", text(Method::EndsWith, true, "424")),
        ("name contains, no match", text(Method::Contains, true, "zqzq")),
        ("list by name (to reach: 20)", search(vec![], page(by_name, true, 0))),
        ("list by name, deep (1.5 times)", search(vec![], page(by_name, true, deep))),
        ("list by name, nine tenths deep", search(vec![], page(by_name, true, deepest))),
        ("list by date (to reach: 20)", search(vec![], page(SortKey::Created, false, 0))),
        ("list by date, deep (1.5 times)", search(vec![], page(SortKey::Created, false, deep))),
        ("list by date, nine tenths deep", search(vec![], page(SortKey::Created, false, deepest))),
        ("1 organization", owners(1)),
        ("50 organizations", owners(50)),
        ("500 organizations", owners(500)),
    ]
}

/// Returns the queries for user grants: ten for each user, two hundred in each project, all of one organization.
fn of_grants() -> Vec<(&'static str, Search<UserGrant>)> {
    let page = |offset| Page { key: SortKey::Created, ascending: false, offset, limit: 100 };
    let search = |filters, page| Search { instances: Some(vec!["1".into()]), filters, page };
    let is = |column, text: &str| search(vec![Filter::text(column, Method::Equals, text.to_owned())], page(0));
    let parts = |count: usize| {
        let part = |number: usize| (Owner::organization("1"), Part::project(number.to_string()));
        search(vec![Filter::Within { contexts: vec![], parts: (0..count).map(part).collect() }], page(0))
    };
    vec![
        ("of a user", is(&user_grant::column::USER_ID, "42")),
        ("of a project", is(&user_grant::column::PROJECT_ID, "42")),
        (
            "of a role",
            search(
                vec![Filter::text(&user_grant::column::ROLE_KEYS, Method::Contains, " role-3 ".to_owned())],
                page(0),
            ),
        ),
        ("all", search(vec![], page(0))),
        ("all, nine tenths deep", search(vec![], page(GRANTS / 10 * 9))),
        ("for who has a role on 1 project", parts(1)),
        ("for who has roles on 100 projects", parts(100)),
    ]
}

fn grant(number: usize) -> Change {
    let key = format!("role-{}", number % 7);
    let grant = UserGrant {
        user_id: (number / 10).to_string(),
        project_id: (number % PROJECTS).to_string(),
        project_grant_id: None,
        roles: vec![GrantedRole { id: number.to_string(), key }],
        is_active: true,
    };
    document(number, Owner::organization("1"), &grant)
}

fn name(number: usize) -> String {
    const KINDS: [&str; 7] = ["Web", "Mobile", "Batch", "Gateway", "Ledger", "Search", "Mail"];
    const PLACES: [&str; 5] = ["eu", "us", "ap", "sa", "af"];
    let mixed = number.wrapping_mul(2_654_435_761) % 1_000_003;
    format!("{}-{}-{mixed:06}", KINDS[mixed % 7], PLACES[mixed % 5])
}

fn change(number: usize) -> Change {
    target(number, Owner::organization((number % OWNERS).to_string()))
}

/// Returns the document of a target of this owner.
pub(crate) fn target(number: usize, owner: Owner) -> Change {
    let target = Target {
        name: name(number),
        kind: TargetKind::RestWebhook,
        url: format!("https://{number}.example.com/hook"),
        timeout_ms: 10_000,
        mode: Mode::Continue,
        signing_keys: vec![],
    };
    document(number, owner, &target)
}

pub(crate) fn document<R: Resource>(number: usize, owner: Owner, resource: &R) -> Change {
    let at = Timestamp::from_second(i64::try_from(number).unwrap_or_default()).unwrap_or_default();
    let row = Row {
        owner,
        sequence: number as u64,
        created_at: at,
        changed_at: at,
        state: serde_json::to_string(resource).expect("it is plain data"),
        values: R::COLUMNS.iter().map(|column| column.value(resource)).collect(),
    };
    Change { instance_id: "1".into(), id: (1_000_000 + number).to_string(), row: Some(row) }
}
