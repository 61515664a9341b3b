//! Filling the tail: what history does not have yet is read from the log.

use std::time::Duration;

use base::explain::explain;
use domain::log_class::{LogClass, OfEach};
use eventlog::{lease::Lease, log::Log, record::Position};
use futures::StreamExt;
use tokio::time::{sleep, timeout};
use view::{projection::history_of, read_model::ReadModel};

use super::{PAUSE, Writer, WriterFailure};
use crate::tail::Tail;

/// How long an active writer may be kept from its turns by reading the log again.
const REFILL_TIME: Duration = Duration::from_secs(10);

/// After how many pauses a warning reports that there is no history yet.
const UNUSUAL: u32 = 10;

/// Reads the records of both logs that history does not have, and waits while these are more than the tail may
/// have. `None` if the lease went to another node meanwhile.
pub(super) async fn fill(
    writer: &Writer,
    ends: OfEach<Position>,
    lease: &Lease,
) -> Result<Option<OfEach<Tail>>, WriterFailure> {
    let filled = async {
        let of_each = |class: LogClass| fill_all(writer, class, ends[class]);
        let (events, sessions) = tokio::try_join!(of_each(LogClass::Events), of_each(LogClass::Sessions))?;
        Ok(OfEach { events, sessions }.both())
    };
    tokio::select! {
        filled = filled => filled,
        () = lease.lost() => Ok(None),
    }
}

async fn fill_all(writer: &Writer, class: LogClass, end: Position) -> Result<Option<Tail>, WriterFailure> {
    let Some(history) = history_position(writer, class, end).await? else { return Ok(None) };
    let mut tail = Tail::at(history);
    loop {
        extend(&mut tail, &writer.logs[class], end, writer.tail_limit).await?;
        if tail.end() == end {
            return Ok(Some(tail));
        }
        let (log, read) = (class.name(), tail.end().sequence);
        tracing::info!(log, read, end = end.sequence, "waiting for history to catch up");
        // Half of it is freed at once, so that the log is not read again for every record.
        while tail.bytes() > writer.tail_limit / 2 {
            sleep(PAUSE).await;
            let Some(history) = history_position(writer, class, end).await? else { return Ok(None) };
            if tail.continues(history) && history.stream_sequence <= tail.end().stream_sequence {
                tail.trim(history.stream_sequence);
            } else {
                tail = Tail::at(history);
            }
        }
    }
}

/// Reads again what history, at this position, has lost. `None` if that is more than the tail may have, or takes
/// too long: an active writer has callers that wait.
pub(super) async fn refill(
    writer: &Writer,
    class: LogClass,
    history: Position,
    end: Position,
    lease: &Lease,
) -> Result<Option<Tail>, WriterFailure> {
    let read = async {
        if !lags(writer, class, history, end).await? {
            return Ok(None);
        }
        let mut tail = Tail::at(history);
        extend(&mut tail, &writer.logs[class], end, writer.tail_limit).await?;
        Ok((tail.end() == end).then_some(tail))
    };
    tokio::select! {
        read = timeout(REFILL_TIME, read) => read.unwrap_or(Ok(None)),
        () = lease.lost() => Ok(None),
    }
}

/// Returns how far history is in this log. Waits for a history that is not there yet or cannot be read. `None` if
/// another writer has written after `end`.
async fn history_position(writer: &Writer, class: LogClass, end: Position) -> Result<Option<Position>, WriterFailure> {
    let projection = history_of(class);
    for round in 1_u32.. {
        let read = async {
            let connection = writer.database.connection().await?;
            ReadModel::new(projection, writer.shard).checkpoint(&*connection).await
        };
        match writer.database.within(read).await {
            Ok(Some(checkpoint)) => {
                let history = checkpoint.position;
                return Ok(lags(writer, class, history, end).await?.then_some(history));
            }
            // A projector that starts at the same time needs a moment.
            Ok(None) if round == UNUSUAL => {
                let name = projection.name;
                tracing::warn!(projection = name, "waiting for a projector to begin this projection");
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(error = explain(&error), "cannot read the progress of history"),
        }
        sleep(PAUSE).await;
    }
    Ok(None)
}

/// Whether history is not after `end`, the last record that this writer knows; fails if history is at a record that
/// this log does not have. What history has after `end` is another writer's.
async fn lags(writer: &Writer, class: LogClass, history: Position, end: Position) -> Result<bool, WriterFailure> {
    let log = &writer.logs[class];
    if log.has(history).await? {
        return Ok(history.stream_sequence <= end.stream_sequence);
    }
    let (checkpoint, end) = (history.stream_sequence, log.end().await?);
    let (history, stream) = (history_of(class).name, log.stream().to_owned());
    Err(if checkpoint > end {
        WriterFailure::Ahead { history, stream, checkpoint, end }
    } else {
        WriterFailure::OtherLog { history, stream, checkpoint }
    })
}

/// Reads on from where the tail ends, until it has the record at `end` or more bytes than `limit`.
async fn extend(tail: &mut Tail, log: &Log, end: Position, limit: usize) -> Result<(), WriterFailure> {
    if tail.end().stream_sequence >= end.stream_sequence {
        return Ok(());
    }
    let mut records = log.follow(tail.end()).await?;
    while tail.end().stream_sequence < end.stream_sequence && tail.bytes() <= limit {
        match records.next().await {
            Some(record) => tail.push(&*record?),
            None => break,
        }
    }
    Ok(())
}
