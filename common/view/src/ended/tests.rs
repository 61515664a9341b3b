use domain::resource::{app::App, project::Project, project_role::ProjectRole, user::User, user_grant::UserGrant};
use eventlog::record::{AggregateKey, CommitRecord, Position};

use super::*;

fn ended(kind: &'static str, id: &str, is_removed: bool) -> Ended {
    let end = End { sequence: 10, at: Timestamp::UNIX_EPOCH, is_removed };
    let ends = HashMap::from([((kind, id.to_owned()), end)]);
    let revoked = Revoked::new(Position::default(), SILENCE);
    Ended::new(HashMap::from([("1".to_owned(), ends)]), Baseline::default(), SILENCE, revoked)
}

#[test]
fn users_are_forgotten_when_no_token_of_theirs_is_left() {
    let home = Owner::organization("2");
    for (kind, id, is_forgotten) in [("user", "3", true), ("organization", "2", false), ("instance", "1", false)] {
        let ended = ended(kind, id, true);
        ended.forget();
        assert_eq!(!ended.is_dead("1", &home, &[(User::NAME, "3")], 9), is_forgotten, "{kind}");
        assert_eq!((ended.knows_since(9), ended.knows_since(10)), (!is_forgotten, true), "{kind}");
    }
}

#[test]
fn of_a_grant_that_nobody_remembers_it_is_not_known_whether_it_counts_as_it_was_read_before() {
    let (ended, granter) = (ended("user_grant", "3", false), Owner::organization("2"));
    let withdrawn = |id, processed| ended.withdrawn("1", &granter, &[(UserGrant::NAME, id)], processed);
    assert_eq!([withdrawn("3", 9), withdrawn("3", 10), withdrawn("4", 9)], [Ok(Some(10)), Ok(None), Ok(None)]);
    ended.forget();
    assert_eq!([withdrawn("3", 9), withdrawn("3", 10), withdrawn("4", 9)], [Err(Forgotten), Ok(None), Err(Forgotten)]);
    assert!(ended.knows_since(0), "tokens do not stand on it");
    let ended = self::ended("project_role", "3", true);
    let withdrawn = |processed| ended.withdrawn("1", &granter, &[(ProjectRole::NAME, "3")], processed);
    assert_eq!([withdrawn(9), withdrawn(10)], [Ok(Some(10)), Ok(None)], "it is made again");
}

#[test]
fn a_token_is_dead_when_something_ended_after_its_issuer_had_looked() {
    let is_dead = |ended: &Ended, instance_id: &str, sequence| {
        let on = [(User::NAME, "3"), (App::NAME, "4"), (Project::NAME, "5")];
        ended.is_dead(instance_id, &Owner::organization("2"), &on, sequence)
    };
    for (kind, id) in [("instance", "1"), ("organization", "2"), ("user", "3"), ("app", "4"), ("project", "5")] {
        let ended = ended(kind, id, false);
        assert!(is_dead(&ended, "1", 9), "{kind}");
        assert!(!is_dead(&ended, "1", 10), "{kind}: it was switched on again");
    }
    assert!(is_dead(&ended("user", "3", true), "1", 11), "what is removed never comes back");
    assert!(!is_dead(&ended("user", "3", true), "7", 0), "another instance");
    assert!(!is_dead(&ended("user", "4", true), "1", 0), "another user");
    assert!(!is_dead(&ended("app", "3", true), "1", 0), "another kind");
}

#[test]
fn what_was_removed_stays_so_whatever_ends_besides_is_heard_of() {
    let [removed, later] =
        [(10, true), (20, false)].map(|(sequence, is_removed)| End { sequence, at: Timestamp::UNIX_EPOCH, is_removed });
    for order in [[removed, later], [later, removed]] {
        let mut ends = Ends::new();
        for end in order {
            note(&mut ends, "1".to_owned(), User::NAME, "3".to_owned(), end);
        }
        let End { sequence, is_removed, .. } = ends["1"][&(User::NAME, "3".to_owned())];
        assert_eq!((sequence, is_removed), (20, true));
    }
}

#[test]
fn who_has_not_read_the_log_as_far_takes_what_is_parked_for_ended() {
    let key = AggregateKey { instance_id: "1".into(), aggregate_type: User::NAME.into(), id: "3".into() };
    let lacking = || Loaded {
        ends: Ends::new(),
        baseline: Baseline { processed: 30, parked: [(key.clone(), 30)].into(), ..Baseline::default() },
        age: None,
    };
    let ended = ended("user", "4", false);
    let parked = ended.adapt(lacking());
    let End { sequence, is_removed, .. } = parked.ends["1"][&(User::NAME, "3".to_owned())];
    assert_eq!((sequence, is_removed), (30, false));
    ended.0.reached.advance(30);
    assert!(ended.adapt(lacking()).ends.is_empty(), "it has all of it from the log");
}

#[test]
fn what_cannot_be_read_has_ended_and_may_be_removed() {
    let record = |r#type: &str, id: &str| {
        let event = eventlog::record::Event {
            instance_id: "1".into(),
            aggregate_type: User::NAME.into(),
            aggregate_id: id.into(),
            r#type: r#type.into(),
            payload: b"{".as_slice().into(),
            ..Default::default()
        };
        Arc::new(Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event })
    };
    let mut ended = ended("user", "4", false);
    let events = vec![record("user.changed", "5"), record("user.removed", "6")];
    ended.skip(&Record { stream_sequence: 1, digest: [0; 32], commit: CommitRecord::default(), events });
    let is =
        |id| (ended.is_dead("1", &Owner::system(), &[(User::NAME, id)], 6), ended.was_removed("1", User::NAME, id));
    assert_eq!([is("5"), is("6"), is("7")], [(true, false), (true, true), (false, false)]);
}
