//! What an index has, compared with what it should have.

use domain::{column::Value, context::Owner, resource::session::Session};
use eventlog::record::Position;
use index::{Folder, Layout, Snapshot, Writer};
use jiff::Timestamp;
use view::table::{Change, Row, standard};

/// A session of a user.
fn session(id: &str, user: &str) -> Change {
    let row = Row {
        owner: Owner::instance("1"),
        sequence: 1,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
        state: r#"{"digest":"","expires_at":0}"#.to_owned(),
        values: vec![Value::Text(user.into()), Value::Text("8".into()), Value::Integer(0)],
    };
    Change { instance_id: "1".into(), id: id.into(), row: Some(row) }
}

fn without(id: &str) -> Change {
    Change { row: None, ..session(id, "") }
}

fn commit(writer: &mut Writer, changes: &[Change]) -> Snapshot {
    writer.apply(changes).expect("documents can be written");
    let position = Position { sequence: 1, ..Position::default() };
    writer.commit(position, Timestamp::UNIX_EPOCH).expect("they can be committed")
}

#[test]
fn keys_are_listed_in_order_over_all_segments_without_what_was_deleted() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(&Folder::open(place.path()).unwrap(), Layout::of(&standard::<Session>())).unwrap();
    commit(&mut writer, &[session("5", "a"), session("1", "a"), session("4", "a")]);
    let snapshot = commit(&mut writer, &[session("2", "a"), session("3", "a"), session("1", "b"), without("4")]);
    let page = |last: &str| snapshot.keys_after(last, 2).unwrap().into_iter().map(|(_, id)| id).collect::<Vec<_>>();
    assert_eq!(page(""), ["1", "2"]);
    assert_eq!(page("1/2"), ["3", "5"]);
    assert_eq!(page("1/5"), Vec::<String>::new());
}

#[test]
fn what_differs_is_missing_or_should_not_be_there_deviates() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(&Folder::open(place.path()).unwrap(), Layout::of(&standard::<Session>())).unwrap();
    let all = ["1", "2", "3", "6"].map(|id| session(id, "a"));
    let contents = commit(&mut writer, &all).contents().unwrap();
    assert_eq!(contents.count(), 4);
    let right = [session("1", "a"), session("2", "a"), without("4")];
    let wrong = [session("3", "b"), without("6"), session("5", "a")];
    assert_eq!(contents.deviations(right.to_vec()).unwrap(), []);
    assert_eq!(contents.deviations([right, wrong.clone()].concat()).unwrap(), wrong);

    // An earlier build wrote its members in another order.
    let mut other = session("1", "a");
    other.row.as_mut().unwrap().state = r#"{"expires_at":0,"digest":""}"#.to_owned();
    assert_eq!(contents.deviations(vec![other]).unwrap(), []);
    let mut other = session("1", "a");
    other.row.as_mut().unwrap().state = r#"{"expires_at":1,"digest":""}"#.to_owned();
    assert_eq!(contents.deviations(vec![other.clone()]).unwrap(), [other]);
}
