//! The definitions of targets and executions, folded from the log; the index is built from them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use base::explain::explain;
use domain::{
    aggregate::Aggregate,
    resource::{execution::Execution, target::Target},
    standard::{Resource, Standard},
    with_unknown::WithUnknown,
};
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Position, Recorded, decode},
};
use futures::StreamExt;
use tokio::sync::Semaphore;
use view::{
    database::{Database, DatabaseFailure, snapshot},
    failed_event::Baseline,
    history,
    projection::{EXECUTIONS, HISTORY, TARGETS},
    read_model::ReadModel,
    rows::Stored,
};

use super::{CallableTarget, Chain, ExecutionIndex, SEATS, Share, matcher::Matcher};

/// Why targets and executions cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadFailure {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The read models cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// The log has ended.
    #[error("the log ended")]
    LogEnded,
}

/// The targets and executions of all instances.
#[derive(Debug, Default)]
pub struct Definitions {
    targets: HashMap<String, HashMap<String, Arc<CallableTarget>>>,
    shares: HashMap<String, Arc<Share>>,
    executions: HashMap<String, HashMap<String, Execution>>,
    /// The position up to which each of them was loaded.
    loaded: [Baseline; 2],
}

impl Definitions {
    /// Loads the definitions from the read models, and returns the position from which to follow the log.
    pub async fn load(database: &Database, shard: u16) -> Result<(Self, Position), DatabaseFailure> {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let mut definitions = Self::default();
        let mut begin: Option<Position> = None;
        let loaded = [(*TARGETS, Target::NAME), (*EXECUTIONS, Execution::NAME)];
        for (index, (projection, kind)) in loaded.into_iter().enumerate() {
            let baseline = Baseline::of(&transaction, projection, shard, &[kind]).await?;
            let position = baseline.position;
            definitions.loaded[index] = baseline;
            let is_earlier = begin.is_none_or(|begin| position.stream_sequence < begin.stream_sequence);
            begin = if is_earlier { Some(position) } else { begin };
        }
        for Stored { instance_id, found } in ReadModel::new(&TARGETS, shard).all::<Target>(&transaction).await? {
            definitions.put_target(instance_id, found.id, found.state);
        }
        for Stored { instance_id, found } in ReadModel::new(&EXECUTIONS, shard).all::<Execution>(&transaction).await? {
            definitions.executions.entry(instance_id).or_default().insert(found.id, found.state);
        }
        transaction.commit().await?;
        Ok((definitions, begin.unwrap_or_default()))
    }

    /// Returns the definitions at a position of the log; `None` while history lags.
    pub async fn at(
        log: &Log,
        database: &Database,
        shard: u16,
        position: Position,
    ) -> Result<Option<Self>, LoadFailure> {
        let (mut definitions, begin) = Self::load(database, shard).await?;
        if !log.has(begin).await? {
            return Ok(None);
        }
        let last = definitions.loaded.iter().map(|baseline| baseline.processed).max().unwrap_or_default();
        // Forward to the position, and back where it is exceeded.
        let mut at = if begin.stream_sequence < position.stream_sequence { begin } else { position };
        let mut later = HashSet::new();
        let mut records = log.follow(at).await?;
        while at.stream_sequence < position.stream_sequence || at.sequence < last {
            let record = records.next().await.ok_or(LoadFailure::LogEnded)??;
            at = record.position();
            for recorded in &record.events {
                let kind = recorded.event.aggregate_type.as_str();
                if at.stream_sequence <= position.stream_sequence {
                    definitions.apply(recorded);
                } else if ExecutionIndex::follows(kind) {
                    later.insert(recorded.key());
                }
            }
        }
        if !definitions.rewind(database, shard, later, position).await? {
            return Ok(None);
        }
        definitions.loaded =
            [(); 2].map(|()| Baseline { position, processed: position.sequence, ..Baseline::default() });
        Ok(Some(definitions))
    }

    /// Resets aggregates to their state at a position, according to history.
    async fn rewind(
        &mut self,
        database: &Database,
        shard: u16,
        keys: HashSet<AggregateKey>,
        position: Position,
    ) -> Result<bool, LoadFailure> {
        if keys.is_empty() {
            return Ok(true);
        }
        let connection = database.connection().await.map_err(LoadFailure::from)?;
        let checkpoint = ReadModel::new(&HISTORY, shard).checkpoint(&*connection).await?;
        if checkpoint.is_none_or(|checkpoint| checkpoint.position.sequence < position.sequence) {
            return Ok(false);
        }
        for key in keys {
            let last = history::last_event(&*connection, &key, position.sequence).await?;
            let AggregateKey { instance_id, aggregate_type, id } = key;
            match last {
                Some(recorded) => {
                    self.loaded = [Baseline::default(), Baseline::default()];
                    self.apply(&recorded);
                }
                None if aggregate_type == Target::NAME => {
                    self.targets.entry(instance_id).or_default().remove(&id);
                }
                None => drop(self.executions.entry(instance_id).or_default().remove(&id)),
            }
        }
        Ok(true)
    }

    /// Returns the instances that have executions.
    pub fn instances(&self) -> HashSet<String> {
        self.executions.keys().cloned().collect()
    }

    /// Applies an event, and returns whether it was one of a target or an execution.
    pub fn apply(&mut self, recorded: &Recorded) -> bool {
        let event = &recorded.event;
        let (instance_id, id) = (event.instance_id.clone(), event.aggregate_id.clone());
        if event.aggregate_type == Target::NAME && self.loaded[0].lacks(recorded) {
            match read::<Target>(recorded) {
                Some(Some(target)) => self.put_target(instance_id, id, target),
                Some(None) => drop(self.targets.entry(instance_id).or_default().remove(&id)),
                None => {}
            }
            return true;
        }
        if event.aggregate_type == Execution::NAME && self.loaded[1].lacks(recorded) {
            let executions = self.executions.entry(instance_id).or_default();
            match read::<Execution>(recorded) {
                Some(Some(execution)) => drop(executions.insert(id, execution)),
                Some(None) => drop(executions.remove(&id)),
                None => {}
            }
            return true;
        }
        false
    }

    /// A target retains its seats when it changes: calls in progress still count.
    fn put_target(&mut self, instance_id: String, id: String, target: Target) {
        let of_instance = self.targets.entry(instance_id.clone()).or_default();
        let seats = of_instance.get(&id).map_or_else(|| Arc::new(Semaphore::new(SEATS)), |known| known.seats.clone());
        let share = self.shares.entry(instance_id.clone()).or_default().clone();
        of_instance.insert(id.clone(), Arc::new(CallableTarget { instance_id, id, target, seats, share }));
    }

    /// Returns all targets.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<CallableTarget>> {
        self.targets.values().flat_map(HashMap::values)
    }

    /// Returns the target with this id, if it exists.
    pub fn target(&self, instance_id: &str, id: &str) -> Option<&Arc<CallableTarget>> {
        self.targets.get(instance_id)?.get(id)
    }

    /// Returns the executions of an instance, arranged for matching.
    pub fn matcher(&self, instance_id: &str) -> Matcher {
        let Some(executions) = self.executions.get(instance_id) else { return Matcher::default() };
        let chain =
            |ids: &[&str]| -> Chain { ids.iter().filter_map(|id| self.target(instance_id, id)).cloned().collect() };
        Matcher::of(executions, chain)
    }
}

/// Returns the state of a resource after an event: the resource, or none. An event of a newer version changes nothing
/// here.
fn read<R: Resource>(recorded: &Recorded) -> Option<Option<R>> {
    match decode::<Standard<R>>(recorded) {
        Ok(event) => Some(event.into_state().map(WithUnknown::into_known)),
        Err(error) => {
            let aggregate = <Standard<R> as Aggregate>::NAME;
            tracing::error!(
                error = explain(&error),
                aggregate,
                "an event cannot be read, and what is called stays as it was"
            );
            None
        }
    }
}
