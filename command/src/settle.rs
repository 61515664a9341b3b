//! Committing one record: publish, and when no answer comes, find out by reading.

use std::time::Duration;

use base::{explain::explain, fault, metric::catalog::SETTLES, secret};
use bytes::Bytes;
use domain::log_class::LogClass;
use eventlog::{
    log::{Log, LogFailure},
    record::{Broken, CommitRecord, Position, Record},
};
use prost::Message;

/// How long a refused or lost publish waits before it is sent or looked for again: longer each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What became of a record.
#[derive(Debug)]
pub enum Settled {
    /// The record is in the log, after the position that it was written for.
    Committed(Record),
    /// Another record took its place. The record is not in the log and never will be.
    Overtaken(Record),
    /// Something that is no commit record took its place.
    Foreign(Broken),
}

/// Commits a record after a position, and returns only when its fate is certain.
///
/// The same bytes are sent again and again while nothing is in the log after the position; whatever is there decides.
/// An answer of the broker other than success decides nothing.
pub async fn commit(log: &Log, after: Position, commit: CommitRecord) -> Settled {
    let bytes = Bytes::from(commit.encode_to_vec());
    let (place, subject) = (after.stream_sequence + 1, subject(log));
    let mut pause = PAUSES.0;
    loop {
        fault::point_of("commit.publishing", subject);
        match log.publish(bytes.clone(), after.stream_sequence).await {
            Ok(stream_sequence) if stream_sequence == place => {
                fault::point_of("commit.published", subject);
                return Settled::Committed(Record::new(stream_sequence, secret::sha256(&bytes), commit));
            }
            Ok(other) => tracing::error!(
                expected = place,
                other,
                "the log stored a record at another position than it was written for"
            ),
            Err(error) => {
                tracing::warn!(
                    error = explain(&error),
                    "a publish was not confirmed; reading its outcome from the log"
                );
            }
        }
        let found = occupant(log, place).await;
        SETTLES.with(&[outcome_label(&found, &commit)]).count();
        match found {
            Ok(Some(record)) if record.commit.record_id == commit.record_id => return Settled::Committed(record),
            Ok(Some(record)) => return Settled::Overtaken(record),
            Ok(None) => sleep_longer(&mut pause).await,
            Err(broken) => return Settled::Foreign(broken),
        }
    }
}

/// Returns the subject of fail points: the name of the log that ages out, empty for the other.
const fn subject(log: &Log) -> &'static str {
    match log.class() {
        LogClass::Events => "",
        LogClass::Sessions => LogClass::Sessions.name(),
    }
}

/// Returns what was found, as metrics name it.
fn outcome_label(found: &Result<Option<Record>, Broken>, own: &CommitRecord) -> &'static str {
    match found {
        Ok(Some(record)) if record.commit.record_id == own.record_id => "committed",
        Ok(Some(_)) => "overtaken",
        Ok(None) => "absent",
        Err(_) => "foreign",
    }
}

/// Returns the record at this place, as the stream's leader has it. Reads until there is an answer.
async fn occupant(log: &Log, place: u64) -> Result<Option<Record>, Broken> {
    let mut pause = PAUSES.0;
    loop {
        match log.read(place).await {
            Ok(record) => return Ok(record),
            Err(LogFailure::Broken { broken, .. }) => return Err(broken),
            Err(error) => {
                tracing::warn!(error = explain(&error), "cannot read the outcome of a publish; trying again");
                sleep_longer(&mut pause).await;
            }
        }
    }
}

async fn sleep_longer(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(PAUSES.1);
}
