//! Reports the state of the writer: its phases, and figures of what it commits.

use std::time::Duration;

use base::{
    health::State,
    metric::catalog::{
        COMMIT_DURATION, COMMIT_EVENTS, LOG_LAST_SEQUENCE, STEP_DOWNS, TAIL_BYTES, TAIL_LIMIT, WRITER_ACTIVE,
        WRITER_EPOCH,
    },
};
use domain::log_class::{LogClass, OfEach};
use eventlog::record::Record;
use tokio::sync::watch;

use super::{Phase, Writer, WrongClock};

/// The name of the writer among the parts of its node.
const PART: &str = "writer";

/// Reports that another node may write now.
pub(super) fn stepped_down() {
    STEP_DOWNS.one().count();
    tracing::warn!("this node no longer writes");
}

/// Begins a phase and reports it to whoever waits for it, and to operators.
pub(super) fn enter(writer: &Writer, phase: &watch::Sender<Phase>, next: Phase) {
    WRITER_ACTIVE.one().set_bool(next == Phase::Active);
    TAIL_LIMIT.one().set_integer(writer.tail_limit as u64);
    if next != Phase::Active {
        TAIL_BYTES.one().set_integer(0);
    }
    let state = match &next {
        Phase::Standby(_) => State::Standby,
        Phase::TakingOver => State::Degraded("it is taking over the log".to_owned()),
        Phase::Active => State::Ok,
        Phase::Ended => State::Degraded("it has ended".to_owned()),
    };
    writer.health.report(PART, state);
    phase.send_replace(next);
}

/// Reports that a node of a newer version has to write; it stays so until this node takes over again.
pub(super) fn outdated(writer: &Writer) {
    writer.health.report(PART, State::Outdated("a newer version is required to execute a command".to_owned()));
}

/// Reports that this node leaves the writing to others, until its clock is right.
pub(super) fn wrong_clock(writer: &Writer, wrong: &WrongClock) {
    writer.health.report(PART, State::Degraded(wrong.to_string()));
}

/// Reports the barriers: from now on the epoch is this writer's.
pub(super) fn barriers(writer: &Writer, barriers: &OfEach<Record>) {
    WRITER_EPOCH.one().set_integer(barriers.events.commit.epoch);
    end(writer, &barriers.events);
}

/// Reports a record that was committed.
pub(super) fn commit(writer: &Writer, class: LogClass, record: &Record, took: Duration) {
    COMMIT_EVENTS.one().record_number(record.events.len());
    COMMIT_DURATION.one().record_time(took);
    if class == LogClass::Events {
        end(writer, record);
    }
    let (sequence, events) = (record.position().sequence, record.events.len());
    let (log, duration_ms) = (class.name(), took.as_secs_f64() * 1e3);
    tracing::debug!(log, sequence, events, duration_ms, "a record was committed");
}

fn end(writer: &Writer, record: &Record) {
    LOG_LAST_SEQUENCE.with(&[&writer.shard.to_string()]).set_integer(record.position().sequence);
}
