//! Loading what commands need to know, outside the turn: for many at once, and where that fails, for fewer.

use std::{collections::HashSet, hash::Hash};

use tokio::sync::mpsc;
use view::{
    database::{Database, DatabaseFailure},
    history::{Needs, Snapshot},
};

use super::queue::Submission;

/// How often one load is split at most: enough to find a few guilty commands among all that may wait.
const MOST_SPLITS: usize = 64;

/// A command that waits for history.
pub(super) struct Unread {
    pub(super) submission: Submission,
    /// What it needs to know.
    pub(super) needs: Needs,
}

/// What was missing for some commands.
pub(super) struct Loaded {
    pub(super) snapshot: Result<Option<Snapshot>, DatabaseFailure>,
    pub(super) submissions: Vec<Submission>,
}

/// Loads what these commands need, in one snapshot where that works.
///
/// Where it does not, each half is loaded by itself, and so on: what one command asks for may be what cannot be read,
/// and the others are none the worse for it.
pub(super) async fn load(database: Database, shard: u16, unread: Vec<Unread>, loaded: mpsc::Sender<Loaded>) {
    let (mut parts, mut splits) = (vec![unread], 0);
    while let Some(mut part) = parts.pop() {
        let snapshot = database.within(merged(&part).load(&database, shard)).await;
        // A Postgres that is away does not answer half of it either.
        if let Err(DatabaseFailure::Statement(_) | DatabaseFailure::Inconsistent { .. }) = snapshot
            && part.len() > 1
            && splits < MOST_SPLITS
        {
            splits += 1;
            parts.push(part.split_off(part.len() / 2));
            parts.push(part);
            continue;
        }
        let submissions = part.into_iter().map(|unread| unread.submission).collect();
        // Nobody listens any more when the writer stepped down; the callers notice by themselves.
        let _ = loaded.send(Loaded { snapshot, submissions }).await;
    }
}

/// What all of them need, each thing once.
fn merged(unread: &[Unread]) -> Needs {
    let needs = || unread.iter().map(|unread| &unread.needs);
    Needs {
        aggregates: once(needs().flat_map(|needs| &needs.aggregates)),
        claims: once(needs().flat_map(|needs| &needs.claims)),
        referrers: once(needs().flat_map(|needs| &needs.referrers)),
        commands: once(needs().flat_map(|needs| &needs.commands)),
    }
}

fn once<'a, T: Clone + Eq + Hash + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    all.collect::<HashSet<_>>().into_iter().cloned().collect()
}
