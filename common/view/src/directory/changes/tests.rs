use domain::{
    resource::{membership::Membership, organization::Organization, target::Target, user::User},
    standard::Resource,
};
use eventlog::record::{CommitRecord, Event, Recorded};
use jiff::Timestamp;

use super::*;

/// Changes that are followed by hand, from the sequence 10 on, and of which it is known for so long that none is missing.
pub(in crate::directory) fn changes(tolerance: Duration) -> Changes {
    Changes::new(
        Position { sequence: 10, stream_sequence: 10, ..Position::default() },
        tolerance,
        Reached::new(u64::MAX),
    )
}

/// A record of one event, about an object of the instance `1`.
fn record(sequence: u64, kind: &str, id: &str) -> Record {
    let event =
        Event { instance_id: "1".into(), aggregate_type: kind.into(), aggregate_id: id.into(), ..Event::default() };
    let recorded = Arc::new(Recorded { sequence, committed_at: Timestamp::UNIX_EPOCH, event });
    let commit = CommitRecord { first_sequence: sequence, ..CommitRecord::default() };
    Record { stream_sequence: sequence, digest: [0; 32], commit, events: vec![recorded] }
}

/// Follows an event.
pub(in crate::directory) fn follow(changes: &Changes, sequence: u64, kind: &str, id: &str) {
    Following(Arc::downgrade(&changes.0)).apply(&record(sequence, kind, id));
}

#[test]
fn an_answer_changes_with_its_objects_and_with_every_object_of_its_other_kinds() {
    let changes = changes(TOLERANCE);
    let kinds = [User::NAME, Organization::NAME, Membership::NAME];
    let of_user = changes.dependencies(Some("1"), &kinds, &[(User::NAME, "3"), (Organization::NAME, "2")]);
    let elsewhere = changes.dependencies(Some("7"), &kinds, &[(User::NAME, "3")]);
    let of_all = changes.dependencies(None, &[User::NAME], &[]);
    let (mut sequence, mut expected) = (10, Change::None);
    for (kind, id, is_changed) in [
        (User::NAME, "4", false),
        (User::NAME, "3", true),
        (Organization::NAME, "4", false),
        (Organization::NAME, "2", true),
        (Membership::NAME, "5", true),
        (Target::NAME, "3", false),
    ] {
        sequence += 1;
        follow(&changes, sequence, kind, id);
        if is_changed {
            expected = Change::At(sequence);
            assert_eq!(changes.since(&of_user, sequence - 1), expected, "{kind} {id}");
        }
        assert_eq!(changes.since(&of_user, 10), expected, "{kind} {id}");
        assert_eq!(changes.since(&of_user, sequence), Change::None, "{kind} {id}");
        assert_eq!(changes.since(&elsewhere, 10), Change::None, "another instance");
        assert_eq!(changes.position(), sequence);
    }
    assert_eq!(changes.since(&of_all, 10), Change::At(12), "the last of any instance");
}

#[test]
fn what_is_forgotten_may_have_changed() {
    let changes = changes(TOLERANCE);
    let dependencies = changes.dependencies(Some("1"), &[User::NAME], &[(User::NAME, "0")]);
    assert_eq!([9, 10].map(|sequence| changes.since(&dependencies, sequence)), [Change::Unknown, Change::None]);
    follow(&changes, 11, User::NAME, "0");
    let most = u64::try_from(MOST).unwrap();
    let fill = |from: u64| (from..from + most).for_each(|at| follow(&changes, at, User::NAME, &at.to_string()));
    fill(12);
    assert_eq!(changes.since(&dependencies, 10), Change::At(11), "as many are remembered");
    fill(12 + most);
    assert_eq!(changes.since(&dependencies, 10), Change::Unknown);
    assert_eq!(changes.since(&dependencies, 11 + most), Change::None);
    let recent = changes.0.recent.read().unwrap();
    assert!(recent.newer.len() + recent.older.len() <= 2 * MOST);
}

#[test]
fn a_record_that_cannot_be_applied_may_have_changed_everything() {
    let changes = changes(TOLERANCE);
    let dependencies = changes.dependencies(Some("1"), &[Organization::NAME], &[]);
    Following(Arc::downgrade(&changes.0)).skip(&record(11, User::NAME, "3"));
    let seen = [10, 11].map(|sequence| changes.since(&dependencies, sequence));
    assert_eq!(seen, [Change::Unknown, Change::None]);
    assert_eq!(changes.position(), 11);
}

#[test]
fn the_last_change_of_an_object_is_known_to_those_who_have_not_seen_it() {
    let changes = changes(TOLERANCE);
    follow(&changes, 11, User::NAME, "3");
    follow(&changes, 12, User::NAME, "4");
    let of = |instance_id, id, sequence| changes.of_object(instance_id, User::NAME, id, sequence);
    assert_eq!([of("1", "3", 10), of("1", "3", 11), of("1", "5", 10), of("7", "3", 10)], [Some(11), None, None, None]);
    assert_eq!(of("1", "5", 9), Some(10), "it may have changed before");
}

#[test]
fn rows_are_amended_whenever_their_traces_are_others() {
    let changes = changes(TOLERANCE);
    let amendments = ["a", "a", "b", "b", "a"].map(|traces| {
        changes.amend(traces);
        changes.amendments()
    });
    assert_eq!(amendments, [1, 1, 2, 2, 3], "each time, even if they are as they once were");
}

#[test]
fn nothing_counts_as_seen_before_it_is_known_what_has_ended() {
    let ended = Reached::new(10);
    let changes = Changes::new(Position { sequence: 10, ..Position::default() }, TOLERANCE, ended.clone());
    follow(&changes, 11, User::NAME, "3");
    assert_eq!(changes.position(), 10);
    ended.advance(12);
    assert_eq!(changes.position(), 11);
}
