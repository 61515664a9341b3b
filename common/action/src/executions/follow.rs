//! Keeps the index up to date: it starts from the read models, or from the beginning of the log if they do not fit it,
//! and then follows the log.

use std::{collections::HashSet, future::Future};

use base::explain::explain;
use domain::{resource::target::Target, standard::Resource};
use eventlog::{
    log::{self, Follower, Log, LogFailure},
    record::{Position, Record},
};
use view::database::Database;

use super::{ExecutionIndex, definitions::Definitions};

/// Brings the index to the current end of the log. The future that it returns keeps it up to date.
pub(super) async fn begin(
    log: Log,
    database: &Database,
    shard: u16,
    index: &ExecutionIndex,
) -> Result<impl Future<Output = ()> + use<>, LogFailure> {
    let (definitions, at) = match Definitions::load(database, shard).await {
        Ok((definitions, at)) if log.has(at).await? => (definitions, at),
        Ok(_) => (Definitions::default(), Position::default()),
        Err(error) => {
            tracing::warn!(error = explain(&error), "the read models cannot be read; executions are read from the log");
            (Definitions::default(), Position::default())
        }
    };
    let updater = IndexUpdater { index: index.clone(), definitions };
    updater.definitions.targets().for_each(|called| updater.index.put_target(called));
    updater.arrange(updater.definitions.instances(), at.sequence);
    log::keep_updated(log, updater, at).await
}

/// Updates an index and the definitions that it is built from.
struct IndexUpdater {
    index: ExecutionIndex,
    definitions: Definitions,
}

impl Follower for IndexUpdater {
    const WHAT: &'static str = "what executions call";

    fn apply(&mut self, record: &Record) {
        let mut changed = HashSet::new();
        for recorded in &record.events {
            if self.definitions.apply(recorded) {
                let (instance_id, id) = (&recorded.event.instance_id, &recorded.event.aggregate_id);
                match self.definitions.target(instance_id, id) {
                    Some(called) => self.index.put_target(called),
                    None if recorded.event.aggregate_type == Target::NAME => self.index.remove_target(instance_id, id),
                    None => {}
                }
                changed.insert(instance_id.clone());
            }
        }
        self.arrange(changed, record.position().sequence);
    }

    /// Leaves the definitions as they are, and arranges them again.
    fn skip(&mut self, record: &Record) {
        self.arrange(self.definitions.instances(), record.position().sequence);
    }
}

impl IndexUpdater {
    fn arrange(&self, instances: HashSet<String>, reached: u64) {
        for instance_id in instances {
            self.index.replace(&instance_id, self.definitions.matcher(&instance_id));
        }
        self.index.reached.advance(reached);
    }
}
