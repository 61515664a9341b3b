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

impl Writer {
    /// Begins a phase and reports it to whoever waits for it, and to operators.
    pub(super) fn enter(&self, phase: &watch::Sender<Phase>, next: Phase) {
        WRITER_ACTIVE.one().set_bool(next == Phase::Active);
        TAIL_LIMIT.one().set_integer(self.tail_limit as u64);
        if next != Phase::Active {
            TAIL_BYTES.one().set_integer(0);
        }
        let state = match &next {
            Phase::Standby(_) => State::Standby,
            Phase::TakingOver => State::Degraded("it takes the log over".to_owned()),
            Phase::Active => State::Ok,
            Phase::Ended => State::Degraded("it has ended".to_owned()),
        };
        self.health.report(PART, state);
        phase.send_replace(next);
    }

    /// Reports that a node of a newer version has to write; it stays so until this node takes over again.
    pub(super) fn report_outdated(&self) {
        self.health.report(PART, State::Outdated("only a newer version can do what was asked of it".to_owned()));
    }

    /// Reports that this node leaves the writing to others, until its clock is right.
    pub(super) fn report_wrong_clock(&self, wrong: &WrongClock) {
        self.health.report(PART, State::Degraded(wrong.to_string()));
    }

    /// Reports the barriers: from now on the epoch is this writer's.
    pub(super) fn report_barriers(&self, barriers: &OfEach<Record>) {
        WRITER_EPOCH.one().set_integer(barriers.events.commit.epoch);
        self.report_end(&barriers.events);
    }

    /// Reports a record that was committed.
    pub(super) fn report_commit(&self, class: LogClass, record: &Record, took: Duration) {
        COMMIT_EVENTS.one().record_number(record.events.len());
        COMMIT_DURATION.one().record_time(took);
        if class == LogClass::Events {
            self.report_end(record);
        }
        let (sequence, events) = (record.position().sequence, record.events.len());
        let (log, duration_ms) = (class.name(), took.as_secs_f64() * 1e3);
        tracing::debug!(log, sequence, events, duration_ms, "a record was committed");
    }

    fn report_end(&self, record: &Record) {
        LOG_LAST_SEQUENCE.with(&[&self.shard.to_string()]).set_integer(record.position().sequence);
    }
}
