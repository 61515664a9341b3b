use domain::{
    column::Column,
    resource::{project::Project, system::System},
    standard::{Event as Change, Standard},
};

use super::*;

fn record(stream_sequence: u64, first_sequence: u64, events: usize, previous: &[u8]) -> Record {
    let commit = CommitRecord {
        log_id: vec![1; 16].into(),
        record_id: vec![2; 16].into(),
        epoch: 1,
        first_sequence,
        previous_digest: previous.to_vec().into(),
        events: vec![Event::default(); events],
        ..CommitRecord::default()
    };
    Record::decode(stream_sequence, &commit.encode_to_vec().into()).unwrap()
}

#[test]
fn a_reader_follows_only_an_unbroken_chain() {
    let barrier = record(1, 1, 0, &[]);
    let at_barrier = Position::default().advance(&barrier).unwrap();
    assert_eq!((at_barrier.sequence, at_barrier.stream_sequence), (0, 1));
    let next = record(2, 1, 3, &barrier.digest);
    assert_eq!(at_barrier.advance(&next).unwrap().sequence, 3);
    let skipped = at_barrier.advance(&record(3, 1, 1, &barrier.digest));
    assert!(matches!(skipped, Err(Broken::MessageHole { last: 1, found: 3 })));
    let hole = at_barrier.advance(&record(2, 2, 1, &barrier.digest));
    assert!(matches!(hole, Err(Broken::EventHole { last: 0, found: 2, .. })));
    let other = at_barrier.advance(&record(2, 1, 1, &[7; 32]));
    assert!(matches!(other, Err(Broken::OtherHistory { .. })));
}

#[test]
fn a_foreign_message_is_no_record() {
    assert!(Record::decode(1, &Bytes::from_static(b"hello")).is_err());
    assert!(Record::decode(1, &Bytes::new()).is_err());
    let unnumbered = CommitRecord { first_sequence: u64::MAX, ..record(1, 1, 1, &[]).commit };
    let unnumbered = CommitRecord { events: vec![Event::default()], ..unnumbered };
    assert!(Record::decode(1, &unnumbered.encode_to_vec().into()).is_err(), "there is no event of that number");
}

#[test]
fn a_record_names_its_log_itself_its_epoch_and_its_first_event() {
    let whole = record(1, 1, 1, &[]).commit;
    let is_record = |commit: &CommitRecord| Record::decode(1, &commit.encode_to_vec().into()).is_ok();
    assert!(is_record(&whole));
    let short = Bytes::from_static(&[1; 15]);
    for broken in [
        CommitRecord { log_id: short.clone(), ..whole.clone() },
        CommitRecord { record_id: short, ..whole.clone() },
        CommitRecord { epoch: 0, ..whole.clone() },
        CommitRecord { first_sequence: 0, ..whole.clone() },
    ] {
        assert!(!is_record(&broken), "{broken:?}");
    }
}

#[test]
fn events_have_their_numbers_and_the_time_of_their_record() {
    let mut commit = record(1, 1, 0, &[]).commit;
    (commit.first_sequence, commit.committed_at) = (5, 1_000_000);
    commit.events = vec![Event { created_at: 2_000_000, ..Event::default() }; 3];
    let record = Record::new(4, [9; 32], commit);
    let second = Timestamp::from_second(1).unwrap();
    assert_eq!(record.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!((record.committed_at(), record.events[2].committed_at), (second, second));
    assert_eq!(record.events[0].created_at(), Timestamp::from_second(2).unwrap());
    assert_eq!(record.position(), Position { sequence: 7, stream_sequence: 4, digest: [9; 32] });
}

#[test]
fn a_record_is_between_the_positions_before_and_after_it() {
    let record = record(5, 9, 2, &[3; 32]);
    let before = Position { sequence: 8, stream_sequence: 4, digest: [3; 32] };
    assert_eq!((record.before(), before.advance(&record).unwrap()), (before, record.position()));
    assert_eq!(Reached::from(before), Reached { sequence: 8, stream_sequence: 4 });
}

#[test]
fn the_first_record_continues_nothing() {
    let first = Position::default().advance(&record(1, 1, 1, &[7; 32]));
    assert!(matches!(first, Err(Broken::OtherHistory { stream_sequence: 1 })));
}

#[test]
fn a_record_is_of_the_same_log_and_of_no_earlier_writer() {
    let of = |log: u8, incarnation: u32, epoch: u64| {
        let mut record = record(3, 1, 1, &[]);
        let commit = CommitRecord { log_id: vec![log; 16].into(), incarnation, epoch, ..record.commit.clone() };
        record.commit = commit;
        record
    };
    let before = Lineage::of(&of(1, 2, 5));
    for next in [of(1, 2, 5), of(1, 2, 6), of(1, 3, 5)] {
        assert_eq!(before.advance(&next).unwrap(), Lineage::of(&next));
    }
    for other in [of(2, 2, 5), of(1, 1, 5), of(2, 3, 5)] {
        assert!(matches!(before.advance(&other), Err(Broken::OtherLog { stream_sequence: 3 })));
    }
    let old = before.advance(&of(1, 3, 4));
    assert!(matches!(old, Err(Broken::OldEpoch { last: 5, found: 4, stream_sequence: 3 })));
}

fn recorded(event: Event) -> Recorded {
    Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event }
}

#[test]
fn an_event_names_its_aggregate_and_its_owner() {
    let event = Event {
        instance_id: "1".to_owned(),
        aggregate_type: "project".to_owned(),
        aggregate_id: "2".to_owned(),
        owner_id: "3".to_owned(),
        ..Event::default()
    };
    assert_eq!(recorded(event.clone()).key(), AggregateKey::of::<Standard<Project>>("1", "2"));
    for kind in [OwnerType::System, OwnerType::Instance, OwnerType::Organization] {
        let of = |aggregate_type: &str| {
            let aggregate_type = aggregate_type.to_owned();
            recorded(Event { owner_type: owner_type(kind), aggregate_type, ..event.clone() })
        };
        assert_eq!(of("project").owner(), Owner { kind, id: "3".to_owned() });
        assert_eq!(of("project").is_for_instance(), kind != OwnerType::System);
        assert!(of("instance").is_for_instance());
    }
    assert_eq!(owner_of(-1, String::new()), Owner::system());
}

#[test]
fn what_was_written_is_read_and_what_a_newer_build_wrote_is_known_as_such() {
    type Systems = Standard<System>;
    let system = System { first_instance_id: "a".to_owned(), has_references: true, has_contacts: false };
    let (added, text) =
        (Change::Added(system.into()), r#"{"first_instance_id":"a","has_references":true,"has_contacts":false}"#);
    for (event, name, text) in [(added, "system.added", text), (Change::Removed, "system.removed", "")] {
        let (r#type, payload) = encode::<Systems>(&event);
        assert_eq!((r#type.as_str(), &payload[..]), (name, text.as_bytes()));
        let event_of = recorded(Event { r#type, payload, revision: Systems::REVISION, ..Event::default() });
        assert_eq!(decode::<Systems>(&event_of).unwrap(), event);
    }
    let read = |name: &str, revision: u32, payload: &'static str| {
        let payload = Bytes::from_static(payload.as_bytes());
        decode::<Systems>(&recorded(Event { r#type: name.to_owned(), payload, revision, ..Event::default() }))
    };
    for (name, revision, payload, is_newer) in [
        ("system.added", Systems::REVISION + 1, r#"{"first_instance_id":"a"}"#, true),
        ("system.renamed", Systems::REVISION, r#"{"first_instance_id":"a"}"#, true),
        ("target.added", Systems::REVISION, r#"{"first_instance_id":"a"}"#, true),
        ("system.added", Systems::REVISION, r#"{"first_instance_id":5}"#, false),
        ("system.added", Systems::REVISION, "{", false),
    ] {
        let undecodable = read(name, revision, payload).unwrap_err();
        assert_eq!((undecodable.sequence, undecodable.is_newer()), (7, is_newer), "{name} {revision} {payload}");
    }
}

/// A resource whose shape was changed twice: its brightness was a text, and then had another name. One of its members has
/// the name that the state has in a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Lamp {
    lumens: u32,
    to: String,
}

impl Resource for Lamp {
    const NAME: &'static str = "lamp";
    const REVISION: u32 = 3;
    const COLUMNS: &'static [Column<Self>] = &[];
    type Patch = ();

    fn upcast(revision: u32, state: Value) -> Value {
        match revision {
            1 => {
                let light: Option<u32> = state["brightness"].as_str().and_then(|text| text.parse().ok());
                json!({ "to": state["to"], "light": light })
            }
            _ => json!({ "to": state["to"], "lumens": state["light"] }),
        }
    }

    fn patched(self, (): ()) -> Self {
        self
    }
}

#[test]
fn events_of_earlier_revisions_are_brought_to_the_current_one() {
    let read = |name: &str, revision: u32, payload: &str| {
        let (r#type, payload) = (format!("lamp.{name}"), payload.to_owned().into());
        decode::<Standard<Lamp>>(&recorded(Event { r#type, payload, revision, ..Event::default() }))
    };
    let states = [r#"{"to":"a","brightness":"40"}"#, r#"{"to":"a","light":40}"#, r#"{"to":"a","lumens":40}"#];
    let to = || Lamp { lumens: 40, to: "a".to_owned() }.into();
    for (revision, state) in (1..).zip(states) {
        assert_eq!(read("added", revision, state).unwrap(), Change::Added(to()), "{revision}");
        let changed = Change::Changed { to: to(), fields: vec!["brightness".to_owned()] };
        let payload = format!(r#"{{"to":{state},"fields":["brightness"]}}"#);
        assert_eq!(read("changed", revision, &payload).unwrap(), changed, "{revision}");
        assert_eq!(read("removed", revision, "").unwrap(), Change::Removed, "{revision}");
    }
    assert_eq!(read("added", 0, states[0]).unwrap(), Change::Added(to()), "without a revision it is of the first");
    for (revision, payload, is_newer) in [(1, "{", false), (1, states[1], false), (4, states[2], true)] {
        assert_eq!(read("added", revision, payload).unwrap_err().is_newer(), is_newer, "{revision} {payload}");
    }
}
