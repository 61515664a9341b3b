//! A small model of the rules of the writer, checked in every order of events: no server runs here.
//!
//! The steps of the model, and the code that they represent:
//!
//! | step of the model | code |
//! |---|---|
//! | `Arrive` | the broker's check of `Nats-Expected-Last-Sequence`, which `Log::publish` sends |
//! | `Acquire`, `Renew`, `ClockOut`, `Expire` | `eventlog::lease`: `try_acquire`; `Renewal::renew`; `valid_until` by the own clock; the end of the process's entry, by itself or by who waits. Who holds the lease is who the unit's entry names, as long as its process has an entry |
//! | `Silence` | `Process::take_released`: the unit is lost to its holder, then its entry says that nobody holds it |
//! | `Raise` | `raise_barriers` in `command/src/writer/activate.rs`: read the last records, publish a barrier after each |
//! | `Activate` | the end of `activate`: the tail is filled up to the barrier |
//! | `Turn` | `take_all_turns` and `Active::commit` in `command/src/writer/serve.rs` |
//! | `Replay`, and the property of who may answer | the branch of `take_turn` without a draft: `Lease::confirm` |
//! | `Settle`, `Resend` | `settle::commit`: the occupant of the place decides; nothing there, the same bytes again |
//! | `Die` | a killed process, and one that gave its callers up; what it had sent may still arrive |
//!
//! A publish is lost by never arriving, its answer by the writer reading before it heard, and a writer pauses by others
//! going on. A client that heard nothing sends its command again, to any writer, under the same idempotency key: commands
//! that are not acknowledged may be in any turn. A writer never reads a stream anywhere but at its leader, so reads of the
//! log and of KV are of their newest state. Clocks run equally fast.
//!
//! Of answers that add no event the model has only when they may leave: then the writer must know every event of the log,
//! and the answer was true at that moment, between question and answer.
//!
//! Each rule is also left out, and then a property must fail: so the model can see what the rule is for.

mod rules;
mod world;

use rules::{Rule, Rules};
use stateright::{Checker, HasDiscoveries, Model, Property};
use world::{World, count};

const ACKNOWLEDGED: &str = "an acknowledged write is in the log";
const ONCE: &str = "no write is in the log twice";
const DENIED: &str = "what was denied is not in the log";
const EPOCHS: &str = "epochs never interleave";
const DENSE: &str = "sequences are dense";
const NEWEST: &str = "who may answer without a record knows all events";

/// All rules, as they are built.
const BUILT: Rules = Rules { writers: 2, commands: 2, records: 6, deaths: 1, without: None };

fn properties() -> Vec<Property<Rules>> {
    vec![
        Property::always(ACKNOWLEDGED, |_, world: &World| world.acknowledged & !world.done(world.end()) == 0),
        Property::always(ONCE, |_, world: &World| world.events(world.end()) == count(world.done(world.end()))),
        Property::always(DENIED, |_, world: &World| world.done(world.end()) & world.denied == 0),
        Property::always(EPOCHS, |_, world: &World| world.log.is_sorted_by_key(|record| record.epoch)),
        Property::always(DENSE, |_, world: &World| {
            (0..world.end()).all(|at| world.log[usize::from(at)].first_sequence == world.events(at) + 1)
        }),
        Property::always(NEWEST, |rules: &Rules, world: &World| {
            let knows_all = |index: usize| world.events(world.writers[index].known) == world.events(world.end());
            (0..rules.writers).all(|index| !rules.may_answer(world, index) || knows_all(index))
        }),
        Property::sometimes("all commands are acknowledged", |rules: &Rules, world: &World| {
            count(world.acknowledged) == rules.commands
        }),
        Property::sometimes("who took over answers what was written before", |rules: &Rules, world: &World| {
            let written = world.log.iter().filter(|record| record.commands != 0).map(|record| record.epoch);
            let is_later = |index: usize| Some(world.writers[index].epoch) > written.clone().max();
            (0..rules.writers).any(|index| rules.may_answer(world, index) && world.end() > 2 && is_later(index))
        }),
    ]
}

/// Explores all states, and expects no fault.
fn assert_safe(rules: Rules) {
    let checker = rules.checker().threads(1).spawn_bfs().join();
    println!("{} states, {} steps deep", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Leaves out a rule, and expects a run in which this property fails.
fn assert_unsafe(without: Rule, property: &'static str) {
    let rules = Rules { without: Some(without), ..BUILT };
    let finish = HasDiscoveries::AnyOf([property].into());
    let checker = rules.checker().threads(1).finish_when(finish).spawn_bfs().join();
    let run = checker.discovery(property).expect("the model sees what the rule is for");
    println!("{property}: {:?}", run.into_actions());
}

#[test]
fn two_writers_keep_every_promise() {
    assert_safe(BUILT);
}

#[test]
fn three_writers_keep_every_promise() {
    assert_safe(Rules { writers: 3, commands: 1, records: 4, deaths: 0, ..BUILT });
}

#[test]
fn pipelined_records_are_not_fenced() {
    assert_unsafe(Rule::OneInFlight, EPOCHS);
    assert_unsafe(Rule::OneInFlight, DENSE);
}

#[test]
fn an_answer_without_a_certain_lease_may_be_old() {
    assert_unsafe(Rule::Confirm, NEWEST);
}

#[test]
fn who_decides_before_the_barrier_does_not_know_the_end() {
    assert_unsafe(Rule::BarrierFirst, NEWEST);
}

#[test]
fn silence_is_no_refusal() {
    assert_unsafe(Rule::SettleByReading, DENIED);
}

#[test]
fn a_lapsed_lease_that_is_taken_back_hides_what_others_wrote() {
    assert_unsafe(Rule::LapsedIsLost, NEWEST);
}

#[test]
fn a_late_barrier_of_who_lost_the_lease_must_not_make_it_a_writer() {
    assert_unsafe(Rule::ConfirmAfterBarrier, NEWEST);
}
