//! Searching against a naive filter over the same targets: no difference, whatever the texts, methods and pages.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use base::fold::fold;
use domain::{
    context::Owner,
    resource::target::{Mode, Target, TargetKind, column},
};
use eventlog::record::Position;
use index::{Bounds, Filter, Folder, Layout, Method, Page, Search, Snapshot, SortKey, Writer};
use jiff::Timestamp;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use view::table::{Change, Row, standard};

const INSTANCE: &str = "1";
const QUERIES: u32 = 10_000;

/// Letters of two scripts in both cases, combining marks, foldings that are easy to get wrong, and the neighbours of
/// the sentinels.
const ALPHABET: &[char] = &[
    'a',
    'A',
    'b',
    'B',
    'ß',
    'ẞ',
    's',
    'ſ',
    'k',
    '\u{212A}',
    'Σ',
    'σ',
    'ς',
    'Ж',
    'ж',
    'İ',
    'i',
    'ı',
    '\u{301}',
    '\u{308}',
    ' ',
    '\u{7f}',
    '\u{10FFFF}',
    '\u{1F600}',
    '-',
    '/',
];

fn text(length: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(ALPHABET), length).prop_map(String::from_iter)
}

fn target() -> impl Strategy<Value = Target> {
    let mode = proptest::sample::select(vec![Mode::Continue, Mode::Async, Mode::InterruptOnError]);
    (text(1..=9), text(0..=3), 1..4_u64, mode).prop_map(|(name, url, timeout_ms, mode)| Target {
        name,
        kind: TargetKind::RestWebhook,
        url,
        timeout_ms,
        mode,
        signing_keys: vec![],
    })
}

/// Generates a needle that is usually part of one of the names.
fn needle(names: Vec<String>) -> impl Strategy<Value = String> {
    let cut = (proptest::sample::select(names), any::<(usize, usize)>()).prop_map(|(name, (from, length))| {
        let chars: Vec<char> = name.chars().collect();
        let from = from % (chars.len() + 1);
        chars[from..].iter().take(length % 4).collect()
    });
    prop_oneof![3 => cut, 1 => text(0..=3), 1 => Just("\u{2}".to_owned())]
}

type Rows = BTreeMap<u64, (Target, Row)>;

fn row(id: u64, sequence: u64, target: &Target) -> Row {
    let table = standard::<Target>();
    let at = |second: u64| Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
    let values = <Target as domain::standard::Resource>::COLUMNS.iter().map(|column| column.value(target)).collect();
    assert_eq!((table.columns)().len(), 6);
    Row {
        owner: Owner::instance(INSTANCE),
        sequence,
        // Many have the same time, so that there are ties to be broken.
        created_at: at(id % 7),
        changed_at: at(sequence % 5),
        state: serde_json::to_string(target).unwrap(),
        values,
    }
}

/// Builds an index of several segments with updates and deletes, and what it must contain.
fn build(folder: &Folder, runner: &mut TestRunner, changes_each: u64, ids: u64) -> (Snapshot, Rows) {
    let mut writer = Writer::open(folder, Layout::of(&standard::<Target>())).unwrap();
    let (mut rows, mut sequence) = (Rows::new(), 0);
    let mut snapshot = writer.snapshot().unwrap();
    for _ in 0..6 {
        let mut changes = vec![];
        for _ in 0..changes_each {
            sequence += 1;
            let id = 1000 + (any::<u64>().new_tree(runner).unwrap().current() % ids);
            let row = (id % 11 != 3 || !rows.contains_key(&id)).then(|| {
                let target = target().new_tree(runner).unwrap().current();
                let row = row(id, sequence, &target);
                (target, row)
            });
            changes.retain(|change: &Change| change.id != id.to_string());
            changes.push(Change {
                instance_id: INSTANCE.into(),
                id: id.to_string(),
                row: row.as_ref().map(|(_, row)| row.clone()),
            });
            match row {
                Some(row) => rows.insert(id, row),
                None => rows.remove(&id),
            };
        }
        // The same ids in another instance must never be found.
        let foreign =
            changes.iter().map(|change| Change { instance_id: "2".into(), ..change.clone() }).collect::<Vec<_>>();
        writer.apply(&changes).unwrap();
        writer.apply(&foreign).unwrap();
        let position = Position { sequence, ..Position::default() };
        snapshot = writer.commit(position, Timestamp::UNIX_EPOCH).unwrap();
    }
    assert_eq!(snapshot.position.sequence, sequence);
    (snapshot, rows)
}

fn is_match(target: &Target, filter: &Filter<Target>, id: u64) -> bool {
    match filter {
        Filter::Ids(ids) => ids.contains(&id.to_string()),
        // Targets have no boolean column to filter by; tests/tests/it/api/tenancy.rs filters organizations.
        Filter::Is { .. } | Filter::IsUnless { .. } => unreachable!("it is not generated"),
        Filter::NoneOf { texts, .. } => !texts.contains(&target.name),
        Filter::Above { value, .. } => i64::try_from(target.timeout_ms).unwrap() > *value,
        // Targets are in no part of their context.
        Filter::In(owners) | Filter::Within { contexts: owners, .. } => owners.contains(&Owner::instance(INSTANCE)),
        Filter::NotIn(owners) => !owners.contains(&Owner::instance(INSTANCE)),
        Filter::Text { text, .. } if text.chars().any(|char| char <= '\u{1f}') => false,
        Filter::Text { method, ignores_case: true, text, .. } => method.compare(&fold(&target.name), &fold(text)),
        Filter::Text { method, text, .. } => method.compare(&target.name, text),
        Filter::All(filters) => filters.iter().all(|filter| is_match(target, filter, id)),
        Filter::Any(filters) => filters.iter().any(|filter| is_match(target, filter, id)),
        Filter::Not(filter) => !is_match(target, filter, id),
    }
}

fn naive(rows: &Rows, search: &Search<Target>) -> (usize, Vec<u64>) {
    let page = search.page;
    let is_found =
        |(id, (target, _)): &(&u64, &(Target, Row))| search.filters.iter().all(|filter| is_match(target, filter, **id));
    let mut found: Vec<_> = rows.iter().filter(is_found).collect();
    found.sort_by(|(a_id, (a, a_row)), (b_id, (b, b_row))| {
        let by_key = match page.key {
            SortKey::Created => a_row.created_at.cmp(&b_row.created_at),
            SortKey::Changed => a_row.changed_at.cmp(&b_row.changed_at),
            SortKey::Id => a_id.cmp(b_id),
            SortKey::Column(column) => match column.definition.name {
                "name" => a.name.cmp(&b.name),
                "url" => a.url.cmp(&b.url),
                "timeout_ms" => a.timeout_ms.cmp(&b.timeout_ms),
                _ => (a.mode == Mode::Async).cmp(&(b.mode == Mode::Async)),
            },
        };
        let by_key = if page.ascending { by_key } else { by_key.reverse() };
        by_key.then(a_id.cmp(b_id))
    });
    let ids = found.iter().map(|(id, _)| **id).skip(page.offset).take(page.limit).collect();
    (found.len(), ids)
}

fn search(names: Vec<String>) -> impl Strategy<Value = Search<Target>> {
    let method = proptest::sample::select(vec![Method::Equals, Method::StartsWith, Method::Contains, Method::EndsWith]);
    let none_of = proptest::collection::vec(proptest::sample::select(names.clone()), 0..4)
        .prop_map(|texts| Filter::NoneOf { column: &column::NAME, texts });
    let text = (method, any::<bool>(), needle(names)).prop_map(|(method, ignores_case, text)| Filter::Text {
        column: &column::NAME,
        method,
        ignores_case,
        text,
    });
    let ids = proptest::collection::vec(1000..1300_u64, 0..40)
        .prop_map(|ids| Filter::Ids(ids.iter().map(u64::to_string).chain(["x".into(), "01001".into()]).collect()));
    let owners = any::<(bool, bool)>().prop_map(|(own, within)| {
        let owners = vec![Owner::instance(if own { INSTANCE } else { "2" })];
        if within { Filter::In(owners) } else { Filter::NotIn(owners) }
    });
    let above = (-1..5_i64).prop_map(|value| Filter::Above { column: &column::TIMEOUT_MS, value });
    let filter = prop_oneof![8 => text, 1 => ids, 1 => owners, 1 => above, 1 => none_of];
    let filter = filter.prop_recursive(3, 12, 3, |inner| {
        let few = || proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            few().prop_map(Filter::All),
            few().prop_map(Filter::Any),
            inner.clone().prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    });
    (proptest::collection::vec(filter, 0..3), page(60, 40)).prop_map(|(filters, page)| Search {
        instances: Some(vec![INSTANCE.into()]),
        filters,
        page,
    })
}

fn page(offsets: usize, limits: usize) -> impl Strategy<Value = Page<Target>> {
    let key = proptest::sample::select(vec![
        SortKey::Created,
        SortKey::Changed,
        SortKey::Id,
        SortKey::Column(&column::NAME),
        SortKey::Column(&column::URL),
        SortKey::Column(&column::TIMEOUT_MS),
        SortKey::Column(&column::IS_ASYNC),
    ]);
    let page = (key, any::<bool>(), 0..offsets, 0..limits);
    page.prop_map(|(key, ascending, offset, limit)| Page { key, ascending, offset, limit })
}

#[test]
fn a_search_finds_what_a_naive_filter_finds_in_the_same_order() {
    let mut runner = TestRunner::new(Config { cases: QUERIES, ..Config::default() });
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, rows) = build(&Folder::open(folder.path()).unwrap(), &mut runner, 60, 300);
    let names: Vec<String> = rows.values().map(|(target, _)| target.name.clone()).collect();
    runner
        .run(&search(names), |search| {
            let hits = snapshot.search(&search, &Bounds::default()).unwrap();
            let found: Vec<u64> = hits.page.iter().map(|found| found.id.parse().unwrap()).collect();
            prop_assert_eq!((hits.total, found), naive(&rows, &search));
            for found in &hits.page {
                prop_assert_eq!(&found.state, &rows[&found.id.parse().unwrap()].0);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_page_of_a_long_list_is_that_part_of_the_whole_list_sorted() {
    let mut runner = TestRunner::new(Config { cases: 1000, ..Config::default() });
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, rows) = build(&Folder::open(folder.path()).unwrap(), &mut runner, 1500, 4000);
    runner
        .run(&page(rows.len() + 10, 1000), |page| {
            let search = Search { instances: Some(vec![INSTANCE.into()]), filters: vec![], page };
            let hits = snapshot.search(&search, &Bounds::default()).unwrap();
            let found: Vec<u64> = hits.page.iter().map(|found| found.id.parse().unwrap()).collect();
            prop_assert_eq!((hits.total, found), naive(&rows, &search));
            Ok(())
        })
        .unwrap();
}

#[test]
fn an_index_goes_on_where_it_was_committed_and_begins_anew_when_it_is_broken() {
    let mut runner = TestRunner::deterministic();
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let (snapshot, _) = build(&folder, &mut runner, 60, 300);
    let position = snapshot.position;
    drop(snapshot);
    let layout = Layout::of(&standard::<Target>());
    let opened = Writer::open(&folder, layout.clone()).unwrap().snapshot().unwrap();
    assert_eq!(opened.position, position);
    drop(opened);
    std::fs::write(place.path().join("meta.json"), "{").unwrap();
    let anew = Writer::open(&folder, layout).unwrap().snapshot().unwrap();
    assert_eq!(anew.position, Position::default());
    assert!(Folder::open(place.path()).is_err(), "two processes may not use one folder");
}
