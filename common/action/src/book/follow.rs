//! Keeps a book: from the read models, or from the beginning of the log where they do not fit it, and then with the log.

use std::{collections::HashSet, future::Future};

use base::explain::explain;
use domain::{resource::target::Target, standard::Resource};
use eventlog::{
    log::{self, Kept, Log},
    record::{Position, Record},
};
use view::database::Database;

use super::{Book, shelf::Shelf};

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
    let shelved = Shelved { book: book.clone(), shelf };
    shelved.shelf.targets().for_each(|called| shelved.book.put_target(called));
    shelved.arrange(shelved.shelf.instances(), at.sequence);
    log::keep(log, shelved, at).await
}

/// A book with the shelf that it is made of.
struct Shelved {
    book: Book,
    shelf: Shelf,
}

impl Kept for Shelved {
    const WHAT: &'static str = "what executions call";

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
        self.arrange(changed, record.position().sequence);
    }
}

impl Shelved {
    fn arrange(&self, instances: HashSet<String>, reached: u64) {
        for instance_id in instances {
            self.book.replace(&instance_id, self.shelf.matcher(&instance_id));
        }
        self.book.reached.send_replace(reached);
    }
}
