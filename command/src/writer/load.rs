//! Loading what commands need to know, outside the turn: for many at once, and where that fails, for each by itself.
//!
//! An instance has one load at a time, and several loads run at once, so a slow one of one instance does not hold up
//! the others.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use base::{explain::explain, fair::Turns};
use domain::log_class::{LogClass, OfEach};
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::sleep,
};
use view::{
    database::{Database, DatabaseFailure},
    history::{Followed, Needs, Snapshot},
};

use super::submission::Submission;

/// How many loads may be under way.
const LOADS: usize = 8;
/// How many of them may be loads of a single command, after a load together with others failed.
const ALONE: usize = LOADS / 2;
/// About how many keys are requested in one load.
const MOST_KEYS: usize = 1024;
/// How long each statement of a load for several may take, much shorter than one for a single command.
const TOGETHER: Duration = Duration::from_secs(1);

/// How often it is checked whether somebody still waits for a load.
const GLANCE: Duration = Duration::from_millis(100);

/// A command that waits for history.
pub(super) struct Unread {
    pub(super) submission: Submission,
    /// What it needs to know.
    pub(super) needs: Needs,
}

/// The result of a load for some commands.
pub(super) struct Loaded {
    pub(super) snapshot: Result<Option<Snapshot>, DatabaseFailure>,
    pub(super) unread: Vec<Unread>,
    /// The stream sequence in each log that history was known to have when the load began. A snapshot of an earlier one
    /// comes from a Postgres that has lost commits.
    pub(super) since: OfEach<u64>,
}

/// The commands that wait for history, and the loads that are under way.
pub(super) struct Loads {
    database: Database,
    shard: u16,
    together: Turns<Arc<str>, Unread>,
    alone: Turns<Arc<str>, Unread>,
    running: JoinSet<Loaded>,
    flights: HashMap<Id, Flight>,
}

/// A load that is under way.
struct Flight {
    since: OfEach<u64>,
    instances: HashSet<Arc<str>>,
    is_alone: bool,
}

impl Loads {
    pub(super) fn new(database: Database, shard: u16) -> Self {
        let (together, alone) = (Turns::default(), Turns::default());
        Self { database, shard, together, alone, running: JoinSet::new(), flights: HashMap::new() }
    }

    /// Queues a command to be loaded together with others.
    pub(super) fn add(&mut self, unread: Unread) {
        self.together.push(unread.submission.origin.instance_id.clone(), unread);
    }

    /// Begins the loads that may begin; history is known to have processed this stream sequence in each log.
    pub(super) fn begin(&mut self, since: OfEach<u64>) {
        while self.running.len() < LOADS {
            let (is_alone, unread) = match self.next_alone() {
                Some(unread) => (true, vec![unread]),
                None => (false, self.next_together()),
            };
            if unread.is_empty() {
                return;
            }
            let instances = unread.iter().map(|unread| unread.submission.origin.instance_id.clone()).collect();
            let task = self.running.spawn(load(self.database.clone(), self.shard, unread, since));
            self.flights.insert(task.id(), Flight { since, instances, is_alone });
        }
    }

    /// Returns the next load that has ended; `None` if none is under way.
    pub(super) async fn next(&mut self) -> Option<Loaded> {
        loop {
            let ended = self.running.join_next_with_id().await?;
            if let Some(loaded) = self.end(ended) {
                return Some(loaded);
            }
        }
    }

    /// Returns a load that has ended already, if there is one.
    pub(super) fn ready(&mut self) -> Option<Loaded> {
        loop {
            let ended = self.running.try_join_next_with_id()?;
            if let Some(loaded) = self.end(ended) {
                return Some(loaded);
            }
        }
    }

    /// Queues commands whose load together failed to be loaded one by one: what one of them needs may be unreadable,
    /// which must not affect the others. Returns both arguments if that would not help.
    pub(super) fn again(
        &mut self,
        failure: DatabaseFailure,
        unread: Vec<Unread>,
    ) -> Option<(DatabaseFailure, Vec<Unread>)> {
        // A Postgres that is not available does not answer for one of them either.
        let may_help = matches!(failure, DatabaseFailure::Statement(_) | DatabaseFailure::Inconsistent { .. });
        if unread.len() == 1 || !may_help {
            return Some((failure, unread));
        }
        tracing::info!(
            error = explain(&failure),
            commands = unread.len(),
            "history is read for each command by itself"
        );
        for unread in unread {
            self.alone.push(unread.submission.origin.instance_id.clone(), unread);
        }
        None
    }

    /// Whether a load is under way.
    pub(super) fn are_under_way(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns how far the history of a log was when the oldest load that is under way began.
    pub(super) fn oldest(&self, class: LogClass) -> Option<u64> {
        self.flights.values().map(|flight| flight.since[class]).min()
    }

    /// Removes and returns the commands that wait for a load.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Submission> {
        self.together.drain().chain(self.alone.drain()).map(|unread| unread.submission)
    }

    fn end(&mut self, ended: Result<(Id, Loaded), JoinError>) -> Option<Loaded> {
        match ended {
            Ok((id, loaded)) => {
                self.flights.remove(&id);
                Some(loaded)
            }
            Err(error) => {
                // Its commands were dropped with it, by which their callers know that.
                tracing::error!(%error, "a load of history ended unexpectedly");
                self.flights.remove(&error.id());
                None
            }
        }
    }

    fn next_alone(&mut self) -> Option<Unread> {
        if self.flights.values().filter(|flight| flight.is_alone).count() >= ALONE {
            return None;
        }
        let flights = &self.flights;
        next(&mut self.alone, |instance| is_free(flights, instance))
    }

    fn next_together(&mut self) -> Vec<Unread> {
        let (mut found, mut keys) = (vec![], 0);
        while keys < MOST_KEYS
            && let Some(unread) = next(&mut self.together, |instance| is_free(&self.flights, instance))
        {
            keys += unread.needs.len();
            found.push(unread);
        }
        found
    }
}

/// Whether an instance has no load under way.
fn is_free(flights: &HashMap<Id, Flight>, instance: &Arc<str>) -> bool {
    !flights.values().any(|flight| flight.instances.contains(instance))
}

/// Returns the next command that a caller still waits for.
fn next(unread: &mut Turns<Arc<str>, Unread>, may: impl Fn(&Arc<str>) -> bool) -> Option<Unread> {
    loop {
        let (_, unread) = unread.pop_of(&may)?;
        if !unread.submission.held.is_withdrawn() {
            return Some(unread);
        }
    }
}

/// Loads what these commands need, in one snapshot.
async fn load(database: Database, shard: u16, unread: Vec<Unread>, since: OfEach<u64>) -> Loaded {
    let limit = (unread.len() > 1).then_some(TOGETHER);
    let withdrawals: Vec<_> = unread.iter().map(|unread| unread.submission.held.withdrawal()).collect();
    let all_have_gone = async {
        while !withdrawals.iter().all(|is_withdrawn| is_withdrawn()) {
            sleep(GLANCE).await;
        }
    };
    let snapshot = tokio::select! {
        snapshot = database.within(merged(&unread).load(&database, shard, limit)) => snapshot,
        () = all_have_gone => Err(DatabaseFailure::Silent),
    };
    Loaded { snapshot, unread, since }
}

/// Returns what all of them need, each thing once.
fn merged(unread: &[Unread]) -> Needs {
    let needs = || unread.iter().map(|unread| &unread.needs);
    Needs {
        aggregates: once(needs().flat_map(|needs| &needs.aggregates)),
        claims: once(needs().flat_map(|needs| &needs.claims)),
        referrers: once(needs().flat_map(|needs| &needs.referrers)),
        counts: once(needs().flat_map(|needs| &needs.counts)),
        commands: once(needs().flat_map(|needs| &needs.commands)),
        followed: Followed {
            claims: once(needs().flat_map(|needs| &needs.followed.claims)),
            referrers: once(needs().flat_map(|needs| &needs.followed.referrers)),
        },
    }
}

fn once<'a, T: Clone + Eq + Hash + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    all.collect::<HashSet<_>>().into_iter().cloned().collect()
}
