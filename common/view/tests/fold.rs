//! Folding: however the log is cut into batches, the rows are the same, and they are what the aggregates became.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeMap, sync::Arc};

use domain::{
    aggregate::{Aggregate, replay},
    context::Owner,
    resource::target::{Mode, SignatureKey, Target, TargetKind, TargetPatch},
    secret::Sealed,
    standard::{Command, Standard},
};
use eventlog::record::{AggregateKey, Event, Recorded, encode, owner_type};
use jiff::Timestamp;
use proptest::prelude::*;
use view::{
    history::fold_claims,
    table::{Row, standard},
};

type Targets = Standard<Target>;

fn target(name: &str) -> Target {
    Target {
        name: name.to_owned(),
        kind: TargetKind::RestWebhook,
        url: format!("https://{name}.example"),
        timeout_ms: 10_000,
        mode: Mode::Continue,
        signing_keys: vec![SignatureKey { sealed: Sealed::new("s"), valid_until: None }],
    }
}

fn command() -> impl Strategy<Value = Command<Target>> {
    let name = proptest::sample::select(vec!["a", "b", "ü", "\u{1F600}"]);
    let mode = proptest::sample::select(vec![Mode::Continue, Mode::Async, Mode::InterruptOnError]);
    prop_oneof![
        name.clone().prop_map(|name| Command::Create(target(name))),
        (proptest::option::of(name), proptest::option::of(mode), proptest::option::of(1..300_000_u64)).prop_map(
            |(name, mode, timeout_ms)| {
                Command::Patch(TargetPatch {
                    name: name.map(str::to_owned),
                    mode,
                    timeout_ms,
                    ..TargetPatch::default()
                })
            }
        ),
        Just(Command::Delete),
    ]
}

/// A log of the events of commands to a few targets; refused commands leave no trace.
fn log() -> impl Strategy<Value = Vec<Arc<Recorded>>> {
    proptest::collection::vec((0..4_u8, command()), 0..60).prop_map(|commands| {
        let mut states: BTreeMap<u8, <Targets as Aggregate>::State> = BTreeMap::new();
        let mut versions: BTreeMap<u8, u64> = BTreeMap::new();
        let mut log = vec![];
        for (id, command) in commands {
            let state = states.entry(id).or_default();
            for event in Targets::decide(state, command).unwrap_or_default() {
                *state = Targets::evolve(state.take(), &event);
                let version = versions.entry(id).or_default();
                *version += 1;
                log.push(Arc::new(recorded(id, *version, log.len() as u64 + 1, &event)));
            }
        }
        log
    })
}

fn recorded(id: u8, version: u64, sequence: u64, event: &<Targets as Aggregate>::Event) -> Recorded {
    let (r#type, payload) = encode::<Targets>(event);
    let owner = Owner::instance("1");
    let claim = vec![id; 32].into();
    let is_removed = r#type == "target.removed";
    let event = Event {
        instance_id: "1".into(),
        aggregate_type: Targets::NAME.into(),
        aggregate_id: id.to_string(),
        owner_type: owner_type(owner.kind),
        owner_id: owner.id,
        version,
        r#type,
        revision: Targets::REVISION,
        payload,
        restores: true,
        claims_taken: if is_removed { vec![] } else { vec![Clone::clone(&claim)] },
        claims_released: if is_removed { vec![claim] } else { vec![] },
        ..Event::default()
    };
    let committed_at = Timestamp::from_second(i64::try_from(sequence).unwrap()).unwrap();
    Recorded { sequence, committed_at, event }
}

/// What Postgres makes of the changes of a batch.
fn apply(rows: &mut BTreeMap<String, Row>, batch: &[Arc<Recorded>]) {
    for change in standard::<Target>().fold(batch).unwrap() {
        match change.row {
            Some(row) => rows.insert(change.id, row),
            None => rows.remove(&change.id),
        };
    }
}

proptest! {
    #[test]
    fn batches_of_any_size_give_the_rows_of_single_events(log in log(), cuts in proptest::collection::vec(1..20_usize, 1..40)) {
        let mut single = BTreeMap::new();
        for recorded in &log {
            apply(&mut single, std::slice::from_ref(recorded));
        }
        let (mut batched, mut rest, mut cuts) = (BTreeMap::new(), log.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            apply(&mut batched, batch);
            rest = behind;
        }
        prop_assert_eq!(&single, &batched);
        let mut rebuilt = BTreeMap::new();
        apply(&mut rebuilt, &log);
        prop_assert_eq!(&single, &rebuilt);
    }

    #[test]
    fn a_row_is_what_its_aggregate_became(log in log()) {
        let mut rows = BTreeMap::new();
        apply(&mut rows, &log);
        for id in 0..4_u8 {
            let of_id = log.iter().filter(|recorded| recorded.event.aggregate_id == id.to_string());
            let events: Vec<_> = of_id.map(|recorded| eventlog::record::decode::<Targets>(recorded).unwrap()).collect();
            let state = replay::<Targets>(&events);
            let row = rows.get(&id.to_string()).map(|row| serde_json::from_str(&row.state).unwrap());
            prop_assert_eq!(row, state);
        }
    }

    #[test]
    fn the_last_word_on_a_claim_counts(log in log()) {
        let mut single: BTreeMap<_, Option<AggregateKey>> = BTreeMap::new();
        for recorded in &log {
            single.extend(fold_claims(std::slice::from_ref(recorded)));
        }
        prop_assert_eq!(single, fold_claims(&log).into_iter().collect::<BTreeMap<_, _>>());
    }

    #[test]
    fn deciding_and_evolving_never_panic(commands in proptest::collection::vec(command(), 0..40)) {
        let mut state = None;
        for command in commands {
            let events = Targets::decide(&state, command).unwrap_or_default();
            state = events.iter().fold(state, Targets::evolve);
        }
    }
}
