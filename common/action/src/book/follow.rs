//! Keeps a book: from the read models, or from the beginning of the log where they do not fit it, and then with the log.

use std::{collections::HashSet, future::Future, time::Duration};

use domain::{resource::target::Target, standard::Resource};
use futures::StreamExt;
use store::{
    database::Database,
    explain::explain,
    log::{self, Log},
    record::{Position, Record},
};
use tokio::time::sleep;

use super::{Book, shelf::Shelf};

/// How long it waits before it asks a log again that did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// A log that cannot be read.
pub type Failure = log::Failure;

/// Brings a book as far as the log is now. What it gives keeps it there.
pub(super) async fn begin(
    log: Log,
    database: &Database,
    shard: u16,
    book: &Book,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let (shelf, at) = match Shelf::load(database, shard).await {
        Ok((shelf, at)) if log.has(at).await? => (shelf, at),
        Ok(_) => (Shelf::default(), Position::default()),
        Err(error) => {
            tracing::warn!(error = explain(&error), "the read models cannot be read; executions are read from the log");
            (Shelf::default(), Position::default())
        }
    };
    let mut keeping = Keeping { log, book: book.clone(), shelf, at };
    keeping.shelf.targets().for_each(|called| keeping.book.put_target(called));
    keeping.arrange(keeping.shelf.instances());
    let end = keeping.log.end().await?;
    if keeping.at.stream_sequence < end {
        keeping.follow(Some(end)).await?;
    }
    Ok(keeping.keep())
}

struct Keeping {
    log: Log,
    book: Book,
    shelf: Shelf,
    at: Position,
}

impl Keeping {
    /// Follows the log for as long as the process lives.
    async fn keep(mut self) {
        loop {
            if let Err(failure) = self.follow(None).await {
                tracing::warn!(
                    error = explain(&failure),
                    "what executions call may be out of date; the log is asked again"
                );
            }
            sleep(PAUSE).await;
        }
    }

    /// Follows the log, up to a record if one is given.
    async fn follow(&mut self, end: Option<u64>) -> Result<(), Failure> {
        let mut records = self.log.follow(self.at).await?;
        while let Some(record) = records.next().await {
            self.apply(&*record?);
            if end.is_some_and(|end| self.at.stream_sequence >= end) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record) {
        let mut changed = HashSet::new();
        for recorded in &record.events {
            if self.shelf.apply(recorded) {
                let (instance_id, id) = (&recorded.event.instance_id, &recorded.event.aggregate_id);
                match self.shelf.target(instance_id, id) {
                    Some(called) => self.book.put_target(called),
                    None if recorded.event.aggregate_type == Target::NAME => self.book.remove_target(instance_id, id),
                    None => {}
                }
                changed.insert(instance_id.clone());
            }
        }
        self.at = record.position();
        self.arrange(changed);
    }

    fn arrange(&self, instances: HashSet<String>) {
        for instance_id in instances {
            self.book.replace(&instance_id, self.shelf.matcher(&instance_id));
        }
        self.book.reached.send_replace(self.at.sequence);
    }
}
