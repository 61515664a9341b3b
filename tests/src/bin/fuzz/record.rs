//! Commit records and the events in them.

use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    client_secret::ClientSecrets,
    resource::{
        data_key::DataKey,
        domain::Domain,
        instance::Instance,
        membership::Membership,
        organization::Organization,
        project::Project,
        signing_key::SigningKey,
        system::System,
        target::{Mode, SignatureKey, Target, TargetKind},
        user::User,
    },
    secret::{Hashed, Sealed},
    setting::features::Features,
    settings::Settings,
    standard::{self, Standard},
};
use eventlog::record::{Answer, CommitRecord, Event, Position, Record, Recorded, decode, encode};
use prost::Message;
use serde_json::Value;

use crate::{json, mutate::mutate, random::Random, run, shape};

/// A target for a message of the log.
pub(crate) struct Records;

/// Numbers at limits.
const EDGES: [u64; 6] = [0, 1, 2, i64::MAX as u64, u64::MAX - 1, u64::MAX];

impl run::Target for Records {
    fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
        let events = events();
        let first = CommitRecord {
            log_id: vec![1; 16].into(),
            incarnation: 1,
            epoch: 1,
            record_id: vec![2; 16].into(),
            first_sequence: 1,
            committed_at: 1_700_000_000_000_000,
            ..CommitRecord::default()
        };
        let answer = Answer { command_id: vec![6; 32].into(), sequence: 3, ..Answer::default() };
        let full = CommitRecord {
            previous_digest: vec![3; 32].into(),
            answers: vec![answer],
            events: events.clone(),
            ..first.clone()
        };
        let single = events.into_iter().map(|event| CommitRecord { events: vec![event], ..first.clone() });
        single.chain([first.clone(), full]).map(|record| record.encode_to_vec()).collect()
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        match (CommitRecord::decode(&**input), CommitRecord::decode(other)) {
            (Ok(mut record), Ok(other)) if !random.once_in(3) => {
                change(&mut record, &other, random);
                *input = record.encode_to_vec();
            }
            _ => mutate(input, other, &shape::WORDS, random),
        }
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Ok(record) = Record::decode(1, &Bytes::copy_from_slice(input)) else { return "no record".to_owned() };
        let position = record.position();
        assert_eq!(position.sequence + 1, record.commit.first_sequence + record.events.len() as u64);
        let _ = (record.committed_at(), Position::default().advance(&record));
        let sequences = record.events.iter().map(|event| event.sequence);
        assert!(sequences.eq(record.commit.first_sequence..=position.sequence), "events are numbered without holes");
        let whole = CommitRecord {
            events: record.events.iter().map(|recorded| recorded.event.clone()).collect(),
            ..record.commit.clone()
        };
        let again = Record::decode(1, &whole.encode_to_vec().into()).expect("what was encoded can be decoded");
        assert_eq!(again.commit, record.commit);
        assert!(
            again.events.iter().map(|it| &it.event).eq(record.events.iter().map(|it| &it.event)),
            "the same events"
        );
        let kinds: Vec<_> = record.events.iter().take(4).map(|event| read(event)).collect();
        format!("{} answers, {kinds:?}", record.commit.answers.len())
    }
}

/// Decodes an event by its type, and checks that it survives being encoded again.
fn read(recorded: &Recorded) -> String {
    let _ = (recorded.key(), recorded.created_at(), recorded.owner());
    let readers: [fn(&Recorded) -> Option<String>; 11] = [
        again::<Standard<Target>>,
        again::<Standard<User>>,
        again::<Standard<Membership>>,
        again::<Standard<DataKey>>,
        again::<Standard<SigningKey>>,
        again::<Standard<Domain>>,
        again::<Standard<Instance>>,
        again::<Standard<Organization>>,
        again::<Standard<Project>>,
        again::<Standard<System>>,
        again::<Settings<Features>>,
    ];
    let read: Vec<String> = readers.iter().filter_map(|read| read(recorded)).collect();
    assert!(read.len() <= 1, "an event is of one type: {read:?}");
    read.first().cloned().unwrap_or_else(|| "unreadable".to_owned())
}

fn again<A: Aggregate>(recorded: &Recorded) -> Option<String> {
    let event = decode::<A>(recorded).ok()?;
    let (r#type, payload) = encode::<A>(&event);
    assert_eq!(r#type, recorded.event.r#type, "the payload does not decide what an event is");
    let mut written = recorded.clone();
    written.event.payload = payload.clone();
    let event = decode::<A>(&written).expect("what was written can be read");
    assert_eq!(encode::<A>(&event).1, payload, "written and read again");
    Some(r#type)
}

/// Changes a record in one place.
fn change(record: &mut CommitRecord, other: &CommitRecord, random: &mut Random) {
    let number = EDGES[random.below(EDGES.len())];
    match random.below(9) {
        0 => record.first_sequence = number,
        1 => record.epoch = number,
        2 => record.committed_at = i64::from_be_bytes(number.to_be_bytes()),
        3 => record.log_id.truncate(random.below(17)),
        4 => record.events.extend_from_slice(&other.events[random.part(other.events.len(), 3)]),
        5 => record.answers.extend_from_slice(&other.answers),
        6 => {
            let places = random.below(record.events.len() + 1);
            record.events.rotate_left(places);
        }
        _ => {
            let at = random.below(record.events.len());
            if let Some(event) = record.events.get_mut(at) {
                change_event(event, random);
            }
        }
    }
}

fn change_event(event: &mut Event, random: &mut Random) {
    match random.below(6) {
        0 => event.revision = u32::try_from(random.below(3)).unwrap_or_default(),
        1 => event.owner_type = i32::try_from(random.below(6)).unwrap_or_default() - 1,
        2 => event.created_at = i64::from_be_bytes(EDGES[random.below(EDGES.len())].to_be_bytes()),
        3 => {
            let words = ["added", "changed", "removed", "Added", "\"", "", "added\",\"data\":{"];
            let aggregate = event.r#type.split('.').next().unwrap_or_default();
            event.r#type = format!("{aggregate}.{}", random.pick(&words));
        }
        4 => {
            let mut payload = event.payload.to_vec();
            mutate(&mut payload, b"},\"type\":\"removed\"", &shape::WORDS, random);
            event.payload = payload.into();
        }
        _ => {
            let mut tree: Value = serde_json::from_slice(&event.payload).unwrap_or_default();
            let other = tree.clone();
            json::mutate(&mut tree, &other, &shape::WORDS, random);
            let mut payload = vec![];
            json::print(&tree, random, &mut payload);
            event.payload = payload.into();
        }
    }
}

/// Returns events of several types.
fn events() -> Vec<Event> {
    let key = SignatureKey { sealed: Sealed::new("c2VhbGVk"), valid_until: Some(1_700_000_000_000) };
    let target = Target {
        name: "a \"hook\" \u{1f980}".into(),
        kind: TargetKind::RestRequestResponse,
        url: "https://example.com/hook".into(),
        timeout_ms: 10_000,
        mode: Mode::InterruptOnError,
        signing_keys: vec![key],
    };
    let user =
        User { username: "program".into(), secrets: ClientSecrets::one(Hashed::new("aGFzaA")), ..User::default() };
    let features = Features { multitenancy_settings: Some(true), ..Features::default() };
    let changed = standard::Event::Changed { to: target.clone().into(), fields: vec!["name".into()] };
    let flags = domain::settings::Event::Changed { to: features.into(), fields: vec!["multitenancy_settings".into()] };
    vec![
        event::<Standard<Target>>(&standard::Event::Added(target.into())),
        event::<Standard<Target>>(&changed),
        event::<Standard<Target>>(&standard::Event::Removed),
        event::<Standard<User>>(&standard::Event::Added(user.into())),
        event::<Settings<Features>>(&flags),
        event::<Settings<Features>>(&domain::settings::Event::Removed),
    ]
}

fn event<A: Aggregate>(event: &A::Event) -> Event {
    let (r#type, payload) = encode::<A>(event);
    Event {
        id: "e".into(),
        instance_id: "1".into(),
        owner_type: 2,
        owner_id: "1".into(),
        aggregate_type: A::NAME.into(),
        aggregate_id: "7".into(),
        version: 1,
        r#type,
        revision: A::REVISION,
        payload,
        restores: true,
        actor: "8".into(),
        claims_taken: vec![vec![5; 32].into()],
        command_id: vec![6; 32].into(),
        trace_context: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        created_at: 1_700_000_000_000_000,
        ..Event::default()
    }
}
