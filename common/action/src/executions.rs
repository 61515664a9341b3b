//! The execution index: all executions and targets in memory, loaded from the read models once and then updated from
//! the log alone. So a match queries nothing, and still works when Postgres is away.

mod definitions;
mod follow;
mod matcher;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

pub use definitions::{Definitions, LoadFailure};
use domain::{
    resource::{
        execution::{Execution, Function},
        target::Target,
    },
    standard::Resource,
};
use eventlog::log::{Log, LogFailure, Reached};
pub use matcher::Matcher;
use tokio::sync::Semaphore;
use view::database::Database;

/// The most concurrent calls of one target on a node.
const SEATS: usize = 128;
/// The most calls for the targets of one instance that are in progress or waiting on a node, and the most of those that
/// deliver events.
const PLACES: usize = 1024;
const NOTIFICATIONS: usize = 512;
/// The most memory of an instance on a node for calls that nobody waits for, in KiB.
const DETACHED: usize = 16 * 1024;

/// A target, with the limits for calling it.
#[derive(Debug)]
pub struct CallableTarget {
    /// The instance.
    pub instance_id: String,
    /// The id.
    pub id: String,
    /// The target.
    pub target: Target,
    /// The seats for concurrent calls.
    pub seats: Arc<Semaphore>,
    /// The limits of its instance.
    pub share: Arc<Share>,
}

/// The share of a node's resources for the calls of one instance.
#[derive(Debug)]
pub struct Share {
    /// Calls that somebody waits for, in progress or waiting for a seat.
    pub(crate) places: Semaphore,
    /// Calls that deliver events. They do not take the places of calls for requests.
    pub(crate) notifications: Semaphore,
    /// The memory left for calls that nobody waits for, in KiB.
    pub(crate) detached: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let (places, notifications) = (Semaphore::new(PLACES), Semaphore::new(NOTIFICATIONS));
        Self { places, notifications, detached: Arc::new(Semaphore::new(DETACHED)) }
    }
}

/// The targets of an execution, in the order in which they are called. There is at least one.
pub type Chain = Arc<[Arc<CallableTarget>]>;

/// Targets by instance and id.
type Targets = HashMap<(String, String), Arc<CallableTarget>>;

/// The targets that a call of an operation triggers.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    /// Targets to call before the handler.
    pub request: Option<Chain>,
    /// Targets to call after it.
    pub response: Option<Chain>,
}

/// The executions of all instances, by trigger.
#[derive(Clone)]
pub struct ExecutionIndex {
    matchers: Arc<RwLock<HashMap<String, Arc<Matcher>>>>,
    /// The targets by instance and id.
    targets: Arc<RwLock<Targets>>,
    reached: Reached,
}

impl ExecutionIndex {
    /// Opens an index at the current end of the log, which follows it from there.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn open(log: Log, database: &Database, shard: u16) -> Result<Self, LogFailure> {
        let index = Self { matchers: Arc::default(), targets: Arc::default(), reached: Reached::new(0) };
        let following = follow::begin(log, database, shard, &index).await?;
        tokio::spawn(following);
        Ok(index)
    }

    /// Returns what a call of a method triggers. For an instance without executions this costs one lookup in a map.
    pub fn call(&self, instance_id: &str, service: &str, method: &str) -> Option<Matched> {
        let of_instance = self.matcher(instance_id)?;
        let matched = Matched {
            request: of_instance.request.best(method, std::iter::once(service)),
            response: of_instance.response.best(method, std::iter::once(service)),
        };
        (matched.request.is_some() || matched.response.is_some()).then_some(matched)
    }

    /// Returns what the use of a function triggers.
    pub fn function(&self, instance_id: &str, function: Function) -> Option<Chain> {
        self.matcher(instance_id)?.functions.get(function.name()).cloned()
    }

    /// Returns the target with this id, if it exists.
    pub fn target(&self, instance_id: &str, id: &str) -> Option<Arc<CallableTarget>> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.get(&(instance_id.to_owned(), id.to_owned())).cloned()
    }

    /// Whether the index is updated from events of aggregates of this type.
    pub fn follows(aggregate_type: &str) -> bool {
        [Target::NAME, Execution::NAME].contains(&aggregate_type)
    }

    /// Returns the position of the index.
    pub fn position(&self) -> &Reached {
        &self.reached
    }

    fn matcher(&self, instance_id: &str) -> Option<Arc<Matcher>> {
        self.matchers.read().unwrap_or_else(PoisonError::into_inner).get(instance_id).cloned()
    }

    fn put_target(&self, called: &Arc<CallableTarget>) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.insert((called.instance_id.clone(), called.id.clone()), called.clone());
    }

    fn remove_target(&self, instance_id: &str, id: &str) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.remove(&(instance_id.to_owned(), id.to_owned()));
    }

    fn replace(&self, instance_id: &str, matcher: Matcher) {
        let mut matchers = self.matchers.write().unwrap_or_else(PoisonError::into_inner);
        if matcher.is_empty() {
            matchers.remove(instance_id);
        } else {
            matchers.insert(instance_id.to_owned(), Arc::new(matcher));
        }
    }
}
