//! Loads the index from the read models, or from the beginning of the log where they do not fit it, and applies events.

use std::sync::PoisonError;

use base::explain::explain;
use eventlog::{
    log::{Follower, Log, LogFailure},
    record::{Position, Record, Recorded},
};

use super::{
    Contexts, Entry, SettingsIndex,
    kind::{KINDS, Kind},
    policy,
};
use crate::{
    database::{Database, DatabaseFailure, snapshot},
    failed_event::Baseline,
    read_model::ReadModel,
    rows::Stored,
};

/// Loads what the read models have, and returns the position after which the log is followed.
pub(super) async fn begin(log: &Log, database: &Database, shard: u16) -> Result<(Contexts, Position), LogFailure> {
    let (mut contexts, baselines) = match database.within(load(database, shard)).await {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::warn!(error = explain(&error), "the read models cannot be read; settings are read from the log");
            return Ok(Default::default());
        }
    };
    for baseline in &baselines {
        if !log.has(baseline.position).await? {
            return Ok(Default::default());
        }
    }
    // Events that a further projection has already are applied again, and change nothing.
    let begin =
        baselines.iter().map(|baseline| baseline.position).min_by_key(|at| at.stream_sequence).unwrap_or_default();
    contexts.processed = begin.sequence;
    contexts.baseline = Baseline {
        position: begin,
        processed: baselines.iter().map(|baseline| baseline.processed).min().unwrap_or_default(),
        parked: baselines.into_iter().flat_map(|baseline| baseline.parked).collect(),
    };
    Ok((contexts, begin))
}

/// Loads what the read models have, and the baselines from which the log is followed.
async fn load(database: &Database, shard: u16) -> Result<(Contexts, Vec<Baseline>), DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let (mut contexts, mut baselines) = (Contexts::default(), vec![]);
    for kind in KINDS.iter() {
        let read_model = ReadModel::new((kind.projection)(), shard);
        baselines.push(Baseline::of(&transaction, (kind.projection)(), shard, &[kind.name]).await?);
        for Stored { instance_id, found } in read_model.every(&transaction, kind.name).await? {
            let Ok(set) = (kind.read)(found.state) else {
                return Err(DatabaseFailure::Inconsistent { table: kind.name, instance_id, id: found.id });
            };
            let entry = Entry { sequence: found.sequence, changed_at: found.changed_at, set };
            contexts.put(&instance_id, &found.id, kind, Some(entry));
        }
    }
    policy::load(&mut contexts.policies, &mut baselines, &transaction, shard).await?;
    transaction.commit().await?;
    Ok((contexts, baselines))
}

impl Contexts {
    fn put(&mut self, instance_id: &str, id: &str, kind: &Kind, entry: Option<Entry>) {
        let of_instance = self.by_instance.entry(instance_id.to_owned()).or_default();
        let of_context = of_instance.entry(id.to_owned()).or_default();
        match entry {
            Some(entry) => drop(of_context.insert(kind.name, entry)),
            None => drop(of_context.remove(kind.name)),
        }
        if of_context.is_empty() {
            of_instance.remove(id);
        }
        if of_instance.is_empty() {
            self.by_instance.remove(instance_id);
        }
    }

    fn sequence(&self, recorded: &Recorded, kind: &Kind) -> u64 {
        let of_instance = self.by_instance.get(&recorded.event.instance_id);
        let of_context = of_instance.and_then(|found| found.get(&recorded.event.aggregate_id));
        of_context.and_then(|found| found.get(kind.name)).map_or(0, |entry| entry.sequence)
    }

    fn apply(&mut self, recorded: &Recorded) {
        if !self.baseline.lacks(recorded) {
            return;
        }
        let Some(kind) = KINDS.iter().find(|kind| kind.name == recorded.event.aggregate_type) else {
            return policy::apply(&mut self.policies, recorded);
        };
        if self.sequence(recorded, kind) >= recorded.sequence {
            return;
        }
        let (sequence, changed_at) = (recorded.sequence, recorded.committed_at);
        match (kind.apply)(recorded) {
            Ok(set) => {
                let (instance_id, id) = (&recorded.event.instance_id, &recorded.event.aggregate_id);
                self.put(instance_id, id, kind, set.map(|set| Entry { sequence, changed_at, set }));
            }
            Err(error) => {
                let (error, settings) = (explain(&error), kind.name);
                tracing::error!(error, settings, "an event cannot be read, and the settings stay as they were");
            }
        }
    }
}

impl Follower for SettingsIndex {
    const WHAT: &'static str = "what is set in which context";

    fn apply(&mut self, record: &Record) {
        let mut contexts = self.contexts.write().unwrap_or_else(PoisonError::into_inner);
        record.events.iter().for_each(|recorded| contexts.apply(recorded));
        drop(contexts);
        self.skip(record);
    }

    /// Leaves the settings as they were.
    fn skip(&mut self, record: &Record) {
        let processed = record.position().sequence;
        self.contexts.write().unwrap_or_else(PoisonError::into_inner).processed = processed;
        self.reached.advance(processed);
    }
}
