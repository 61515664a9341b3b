//! `platform log verify`: reads the log from one end to the other and reports whether it is intact.

use std::time::Duration;

use base::clock::since_start;
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record},
};
use futures::StreamExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::chain::{Chain, Violation};
use crate::{Failure, cli, output};

/// How often the progress is printed.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// How long no message may arrive before the next one is looked up.
const IDLE: Duration = Duration::from_secs(5);

/// Checks the log up to its present end, and prints that it is intact, or fails with its first fault.
pub(crate) async fn run(options: cli::Verify, shutdown: CancellationToken) -> Result<(), Failure> {
    let log = super::open(&options.servers, options.log).await?;
    let end = log.end().await?;
    if end == 0 {
        output::print("the log is empty: no node has written to it yet");
        return Ok(());
    }
    let begin = since_start();
    let mut chain = match log.record_before(options.from).await.map_err(failure)? {
        Some(before) => Chain::after(before),
        None => Chain::at(log.resume(Position::default()).await.map_err(failure)?),
    };
    let first = chain.at.stream_sequence + 1;
    tokio::select! {
        checked = check(&log, &mut chain, end) => checked?,
        () = shutdown.cancelled() => {
            return Err(format!("interrupted; no fault up to message {}", chain.at.stream_sequence).into());
        }
    }
    if chain.records == 0 {
        let (sequence, from) = (chain.at.sequence, options.from);
        return Err(format!("the log ends with event {sequence}, so there is nothing to check from {from} on").into());
    }
    output::print(summary(&chain, first, since_start().saturating_sub(begin)));
    Ok(())
}

async fn check(log: &Log, chain: &mut Chain, end: u64) -> Result<(), Failure> {
    let mut messages = log.messages(chain.at.stream_sequence + 1).await?;
    let mut last_told = since_start();
    while chain.at.stream_sequence < end {
        let Ok(Some(message)) = timeout(IDLE, messages.next()).await else {
            // Messages that a server removes at the end of a stream are not followed by one that would show the hole.
            return Err(match log.read(chain.at.stream_sequence + 1).await {
                Ok(None) => chain.missing(end).into(),
                Ok(Some(_)) => "NATS stopped sending messages that it has: try again".into(),
                Err(error) => failure(error),
            });
        };
        let (place, payload) = message?;
        chain.check_place(place)?;
        chain.check(&Record::decode(place, &payload).map_err(Violation::from)?)?;
        if since_start().saturating_sub(last_told) > PROGRESS_EVERY {
            last_told = since_start();
            let percent = place * 100 / end;
            output::notice(format_args!(
                "message {place} of {end} ({percent} %), event {}: no fault",
                chain.at.sequence
            ));
        }
    }
    Ok(())
}

/// Converts an unreadable message to a fault of the log.
fn failure(error: LogFailure) -> Failure {
    match error {
        LogFailure::Broken { broken, .. } => Violation::from(broken).into(),
        other => other.into(),
    }
}

fn summary(chain: &Chain, first: u64, took: Duration) -> String {
    let header = chain.header.clone().unwrap_or_default();
    let time = jiff::Timestamp::from_microsecond(header.committed_at).map(|at| at.to_string()).unwrap_or_default();
    format!(
        "the log is intact from message {first} to {}: {} records, events up to {}, {} aggregates, epoch {} now, \
         {} begun here, log id {}, incarnation {}, last commit {time}; checked in {:.1} s",
        chain.at.stream_sequence,
        chain.records,
        chain.at.sequence,
        chain.aggregates(),
        header.epoch,
        chain.epochs,
        hex::encode(&header.log_id),
        header.incarnation,
        took.as_secs_f64(),
    )
}
