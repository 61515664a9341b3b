//! A writer that rests has no threads, and goes on where it was.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use domain::{column::Value, context::Owner, resource::organization::Organization};
use eventlog::record::Position;
use index::{Bounds, Folder, Layout, Page, Search, Snapshot, SortKey, Writer};
use jiff::Timestamp;
use view::table::{Change, Row, standard};

fn organization(id: &str) -> Change {
    let row = Row {
        owner: Owner::instance("1"),
        sequence: 1,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
        state: r#"{"name":"Acme","is_active":true}"#.into(),
        values: vec![Value::Text("Acme".into()), Value::Bool(true)],
    };
    Change { instance_id: "1".into(), id: id.into(), row: Some(row) }
}

fn ids(snapshot: &Snapshot) -> Vec<String> {
    let page = Page { key: SortKey::Id, ascending: true, offset: 0, limit: 10 };
    let search = Search::<Organization> { instances: Some(vec!["1".into()]), filters: vec![], page };
    let hits = snapshot.search(&search, &Bounds::default()).expect("it is found");
    hits.page.into_iter().map(|found| found.id).collect()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux has it").count()
}

/// Waits until this process has as many threads. Some end a moment after nobody needs them any more.
fn has_threads(count: usize) -> bool {
    let begin = Instant::now();
    while threads() != count && begin.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(1));
    }
    threads() == count
}

#[test]
fn a_writer_has_threads_from_its_first_document_until_it_rests() {
    let place = tempfile::tempdir().unwrap();
    let mut writer =
        Writer::open(&Folder::open(place.path()).unwrap(), Layout::of(&standard::<Organization>())).unwrap();
    let others = threads();
    let written = |writer: &mut Writer, number: u64| {
        assert!(writer.is_resting() && has_threads(others));
        assert_eq!(writer.apply(&[organization(&number.to_string())]).unwrap(), []);
        assert!(!writer.is_resting() && has_threads(others + 3));
        let position = Position { sequence: number, ..Position::default() };
        let snapshot = writer.commit(position, Timestamp::UNIX_EPOCH).unwrap();
        writer.rest().unwrap();
        snapshot
    };
    for number in 1..=9_u64 {
        let snapshot = written(&mut writer, number);
        let expected: Vec<String> = (1..=number).map(|number| number.to_string()).collect();
        assert_eq!(ids(&snapshot), expected);
        assert_eq!(writer.snapshot().unwrap().position.sequence, number);
    }
    let segments = fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|it| it == "store"));
    assert!(segments.count() < 9, "what was to be merged is merged before it rests");
    let removed = Change { row: None, ..organization("1") };
    writer.apply(&[removed, organization("9")]).unwrap();
    let snapshot = writer.commit(Position { sequence: 10, ..Position::default() }, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(ids(&snapshot), ["2", "3", "4", "5", "6", "7", "8", "9"], "what was written before a rest is replaced");
    writer.rest().unwrap();
    assert!(writer.has_deleted().unwrap());
    assert_eq!(ids(&writer.purge().unwrap()), ids(&snapshot));
    assert!(!writer.has_deleted().unwrap(), "a writer that rested purges, too");
}
