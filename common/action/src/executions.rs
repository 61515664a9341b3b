//! The execution index: all executions and targets in memory, loaded from the read models once and then updated from the
//! log alone. So a match asks nobody, and still works when Postgres is away.

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

/// How many calls of one target may be under way on a node.
const SEATS: usize = 128;
/// How many calls of the targets of one instance may be under way or waiting on a node, and how many that deliver events.
const PLACES: usize = 1024;
const NOTIFICATIONS: usize = 512;
/// How much of calls that nobody waits for an instance may have on a node, in KiB.
const DETACHED: usize = 16 * 1024;

/// A target as it is called.
#[derive(Debug)]
pub struct Called {
    /// The instance.
    pub instance_id: String,
    /// The id.
    pub id: String,
    /// The target.
    pub target: Target,
    /// Seats of calls that are under way.
    pub seats: Arc<Semaphore>,
    /// What its instance may have.
    pub share: Arc<Share>,
}

/// What the calls of one instance may take of a node.
#[derive(Debug)]
pub struct Share {
    /// Calls that somebody waits for, under way or waiting for a seat.
    pub(crate) places: Semaphore,
    /// Calls that deliver events. Those of requests have their places whatever the events of their instance take.
    pub(crate) notifications: Semaphore,
    /// KiB of calls that nobody waits for.
    pub(crate) detached: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let (places, notifications) = (Semaphore::new(PLACES), Semaphore::new(NOTIFICATIONS));
        Self { places, notifications, detached: Arc::new(Semaphore::new(DETACHED)) }
    }
}

/// The targets of an execution, in the order in which they are called. There is at least one.
pub type Chain = Arc<[Arc<Called>]>;

/// Targets by instance and id.
type Targets = HashMap<(String, String), Arc<Called>>;

/// What a call to an operation triggers.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    /// Before the handler.
    pub request: Option<Chain>,
    /// After it.
    pub response: Option<Chain>,
}

/// The executions of all instances, by what triggers them.
#[derive(Clone)]
pub struct ExecutionIndex {
    matchers: Arc<RwLock<HashMap<String, Arc<Matcher>>>>,
    /// By instance and id.
    targets: Arc<RwLock<Targets>>,
    reached: Reached,
}

impl ExecutionIndex {
    /// An index that is as far as the log now, and follows it from here.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn open(log: Log, database: &Database, shard: u16) -> Result<Self, LogFailure> {
        let index = Self { matchers: Arc::default(), targets: Arc::default(), reached: Reached::new(0) };
        let following = follow::begin(log, database, shard, &index).await?;
        tokio::spawn(following);
        Ok(index)
    }

    /// What a call to a method triggers. An instance without executions costs one look into a map.
    pub fn call(&self, instance_id: &str, (service, method): (&str, &str)) -> Option<Matched> {
        let of_instance = self.matcher(instance_id)?;
        let matched = Matched {
            request: of_instance.request.best(method, std::iter::once(service)),
            response: of_instance.response.best(method, std::iter::once(service)),
        };
        (matched.request.is_some() || matched.response.is_some()).then_some(matched)
    }

    /// What the use of a function triggers.
    pub fn function(&self, instance_id: &str, function: Function) -> Option<Chain> {
        self.matcher(instance_id)?.functions.get(function.name()).cloned()
    }

    /// The target with this id, if it exists.
    pub fn target(&self, instance_id: &str, id: &str) -> Option<Arc<Called>> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.get(&(instance_id.to_owned(), id.to_owned())).cloned()
    }

    /// Whether it is updated from what happens to aggregates of this type.
    pub fn follows(aggregate_type: &str) -> bool {
        [Target::NAME, Execution::NAME].contains(&aggregate_type)
    }

    /// How far it is.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    fn matcher(&self, instance_id: &str) -> Option<Arc<Matcher>> {
        self.matchers.read().unwrap_or_else(PoisonError::into_inner).get(instance_id).cloned()
    }

    fn put_target(&self, called: &Arc<Called>) {
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
