//! `platform log tail`: prints events, one a line, for people or for programs.

use std::{
    io::{self, ErrorKind, Write as _},
    time::Duration,
};

use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, Recorded},
};
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Failure, cli, output};

/// How many of the last events are printed by default.
const LAST: u64 = 10;
/// How long to wait before connecting again to a NATS server that went away.
const PAUSE: Duration = Duration::from_secs(1);

/// The events of the log to print.
struct Window {
    /// The sequence of the next event to print.
    from: u64,
    /// How many more to print; `None` for any number.
    left: Option<u64>,
    json: bool,
    payload: bool,
}

/// Prints events until the end of the log, or with `--follow` until `shutdown`.
pub(crate) async fn run(options: cli::Tail, shutdown: CancellationToken) -> Result<(), Failure> {
    let log = super::open(&options.servers, options.log).await?;
    let printed = tokio::select! {
        printed = print(&log, &options) => printed,
        () = shutdown.cancelled() => Ok(()),
    };
    match printed {
        Err(error) if is_reader_gone(&*error) => Ok(()),
        Err(error) => match error.downcast::<LogFailure>() {
            Ok(broken) if matches!(*broken, LogFailure::Broken { .. }) => {
                Err(format!("{broken}; `platform log verify` shows details").into())
            }
            Ok(other) => Err(other),
            Err(other) => Err(other),
        },
        Ok(()) => Ok(()),
    }
}

async fn print(log: &Log, options: &cli::Tail) -> Result<(), Failure> {
    let end = log.end().await?;
    let mut window = Window { from: 1, left: options.limit, json: options.json, payload: options.payload };
    match options.from {
        Some(from) => window.from = from,
        None => {
            let last = log.last().await?.map_or(0, |record| record.position().sequence);
            window.from = (last + 1).saturating_sub(options.limit.unwrap_or(LAST)).max(1);
            window.left = None;
        }
    }
    let mut at = log.record_before(window.from).await?.map(|record| record.position()).unwrap_or_default();
    if !options.follow && at.stream_sequence == end && window.from > at.sequence + 1 {
        let (last, from) = (at.sequence, window.from);
        return Err(format!("the log ends with event {last}: use --follow to wait for event {from}").into());
    }
    loop {
        match window.print_after(log, &mut at, (!options.follow).then_some(end)).await {
            Err(error) if options.follow && is_passing(&*error) => {
                output::notice(format_args!("{error}; trying again"));
                sleep(PAUSE).await;
            }
            ended => return ended,
        }
    }
}

impl Window {
    /// Prints the events after a position, up to a stream sequence if one is given.
    async fn print_after(&mut self, log: &Log, at: &mut Position, end: Option<u64>) -> Result<(), Failure> {
        if end.is_some_and(|end| at.stream_sequence >= end) {
            return Ok(());
        }
        let mut records = log.follow(*at).await?;
        while let Some(record) = records.next().await {
            let record = record?;
            let text = self.lines(&record);
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
            *at = record.position();
            if self.left == Some(0) || end.is_some_and(|end| at.stream_sequence >= end) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn lines(&mut self, record: &Record) -> String {
        let mut text = String::new();
        for recorded in record.events.iter().filter(|recorded| recorded.sequence >= self.from) {
            match &mut self.left {
                Some(0) => break,
                Some(left) => *left -= 1,
                None => {}
            }
            text += &if self.json { self.object(record, recorded).to_string() } else { self.line(record, recorded) };
            text.push('\n');
        }
        self.from = self.from.max(record.position().sequence + 1);
        text
    }

    fn line(&self, record: &Record, recorded: &Recorded) -> String {
        let event = &recorded.event;
        let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { plain(text) };
        let mut line = format!(
            "{} {} epoch {} {} {}/{} v{} {} by {}",
            recorded.sequence,
            recorded.committed_at,
            record.commit.epoch,
            shown(&event.instance_id),
            shown(&event.aggregate_type),
            shown(&event.aggregate_id),
            event.version,
            shown(&event.r#type),
            shown(&event.actor),
        );
        if self.payload && !event.payload.is_empty() {
            line.push(' ');
            line += &plain(&String::from_utf8_lossy(&event.payload));
        }
        line
    }

    fn object(&self, record: &Record, recorded: &Recorded) -> Value {
        let event = &recorded.event;
        let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let created = Timestamp::from_microsecond(event.created_at).map(|at| at.to_string());
        let mut object = json!({
            "sequence": recorded.sequence,
            "streamSequence": record.stream_sequence,
            "committedAt": recorded.committed_at.to_string(),
            "epoch": record.commit.epoch,
            "id": event.id,
            "instanceId": optional(&event.instance_id),
            "ownerType": event.owner_type().as_str_name(),
            "ownerId": optional(&event.owner_id),
            "aggregateType": event.aggregate_type,
            "aggregateId": event.aggregate_id,
            "version": event.version,
            "type": event.r#type,
            "revision": event.revision,
            "actor": optional(&event.actor),
            "impersonator": optional(&event.impersonator),
            "causationId": optional(&event.causation_id),
            "traceContext": optional(&event.trace_context),
            "createdAt": created.ok(),
        });
        if self.payload {
            let payload = &event.payload;
            object["payload"] = serde_json::from_slice(payload)
                .unwrap_or_else(|_| optional(&String::from_utf8_lossy(payload)).map_or(Value::Null, Value::String));
        }
        object
    }
}

/// Replaces control characters, which a terminal would interpret.
fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char }).collect()
}

fn is_passing(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(LogFailure::Nats(_)))
}

/// Whether the reader of the output has gone, as with `| head`.
fn is_reader_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_terminal_is_told_nothing() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(plain("Zoë {\"a\": 1}"), "Zoë {\"a\": 1}");
    }
}
