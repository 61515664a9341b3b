//! Keeps the index up to date: it begins with the read models, or with the beginning of the log where they do not fit it,
//! and then follows the log.

use std::{
    collections::HashSet,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base::explain::explain;
use domain::{resource::target::Target, standard::Resource};
use eventlog::{
    log::{self, Follower, Log, LogFailure},
    record::{Position, Record, Recorded},
};
use view::{
    database::Database,
    failed_event::undone::{left_out, undone},
};

use super::{
    ExecutionIndex,
    definitions::{Definitions, view_of},
};

/// Brings the index as far as the log is now. The future that it returns keeps it there.
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
    definitions.targets().for_each(|called| index.put_target(called));
    let (instances, definitions) = (definitions.instances(), Arc::new(Mutex::new(definitions)));
    let updater = IndexUpdater { index: index.clone(), definitions, history: (database.clone(), shard) };
    updater.arrange(&updater.lock(), instances);
    updater.index.reached.advance(at.sequence);
    log::keep_updated(log, updater, at).await
}

/// Updates an index and the definitions that it is made of.
#[derive(Clone)]
struct IndexUpdater {
    index: ExecutionIndex,
    definitions: Arc<Mutex<Definitions>>,
    /// Where history is, of which shard.
    history: (Database, u16),
}

impl Follower for IndexUpdater {
    const WHAT: &'static str = "what executions call";

    fn apply(&mut self, record: &Record) {
        let mut changed = HashSet::new();
        let mut definitions = self.lock();
        for recorded in &record.events {
            if definitions.apply(recorded) {
                self.show(&definitions, recorded);
                changed.insert(recorded.event.instance_id.clone());
            }
            self.leave_out(recorded);
        }
        self.arrange(&definitions, changed);
        self.index.reached.advance(record.position().sequence);
    }
}

impl IndexUpdater {
    fn lock(&self) -> MutexGuard<'_, Definitions> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the target that an event is about as it is now.
    fn show(&self, definitions: &Definitions, recorded: &Recorded) {
        let (instance_id, id) = (&recorded.event.instance_id, &recorded.event.aggregate_id);
        match definitions.target(instance_id, id) {
            Some(called) => self.index.put_target(called),
            None if recorded.event.aggregate_type == Target::NAME => self.index.remove_target(instance_id, id),
            None => {}
        }
    }

    /// Goes back to what was before what operators had left out. History tells what that is, which may take a moment.
    fn leave_out(&self, recorded: &Recorded) {
        let Some((discarded, view)) = left_out(recorded, view_of) else { return };
        let (updater, decided) = (self.clone(), recorded.sequence);
        tokio::spawn(async move {
            let (database, shard) = &updater.history;
            let Some(undone) = undone(database, (view, *shard), (&discarded, decided)).await else { return };
            let mut definitions = updater.lock();
            definitions.undo(&undone);
            updater.show(&definitions, &undone.event);
            updater.arrange(&definitions, HashSet::from([undone.event.event.instance_id.clone()]));
        });
    }

    fn arrange(&self, definitions: &Definitions, instances: HashSet<String>) {
        for instance_id in instances {
            self.index.replace(&instance_id, definitions.matcher(&instance_id));
        }
    }
}
