//! What expired long ago leaves the index, by the times of the log.

use domain::{column::Value, context::Owner, resource::session::Session};
use eventlog::record::Position;
use index::{Bounds, Filter, Folder, Layout, Page, Search, SortKey, Writer};
use jiff::{SignedDuration, Timestamp};
use view::table::{Change, Row, aged::ENDED_KEPT, standard};

/// A session that expires at a time.
fn session(id: &str, ends_at: Timestamp) -> Change {
    let row = Row {
        owner: Owner::instance("1"),
        sequence: 1,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
        state: format!(r#"{{"digest":"","expires_at":{}}}"#, ends_at.as_millisecond()),
        values: vec![Value::Text("7".into()), Value::Text("8".into()), Value::Integer(ends_at.as_millisecond())],
    };
    Change { instance_id: "1".into(), id: id.into(), row: Some(row) }
}

#[test]
fn what_ended_longer_ago_than_is_kept_goes_when_an_hour_begins() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let mut writer = Writer::open(&folder, Layout::of(&standard::<Session>())).unwrap();
    let (begin, hour) = (Timestamp::from_second(1_000_000 * 3600).unwrap(), SignedDuration::from_hours(1));
    writer.apply(&[session("1", begin), session("2", begin + hour)]).unwrap();
    let found = |writer: &mut Writer, at: Timestamp| {
        let position = Position { sequence: 1, ..Position::default() };
        let page = Page { key: SortKey::Id, ascending: true, offset: 0, limit: 10 };
        let filters = vec![Filter::In(vec![Owner::instance("1")])];
        let search = Search::<Session> { instances: Some(vec!["1".into()]), filters, page };
        let hits = writer.commit(position, at).unwrap().search(&search, &Bounds::default()).unwrap();
        hits.page.into_iter().map(|found| found.id).collect::<Vec<_>>()
    };
    let kept = begin + ENDED_KEPT;
    assert_eq!(found(&mut writer, kept), ["1", "2"], "it is not longer ago");
    assert_eq!(found(&mut writer, kept + hour - SignedDuration::from_secs(1)), ["1", "2"], "no hour begins");
    assert_eq!(found(&mut writer, kept + hour), ["2"]);
    drop(writer);
    let mut writer = Writer::open(&folder, Layout::of(&standard::<Session>())).unwrap();
    assert_eq!(found(&mut writer, kept + hour * 3), Vec::<String>::new(), "also where another writer goes on");
}
