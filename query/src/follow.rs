//! The search indexes of a query node: written by a projector elsewhere, fetched as they are published.

use std::path::Path;

use domain::log_class::OfEach;
use eventlog::log::Log;
use index::{Follower, IndexFailure, Indexes, Remote, Storage, name};
use tokio::{sync::watch, task::JoinSet};
use view::projection::{Kind, PROJECTIONS};

/// Starts following every index, in folders of their own. The tasks end with the set.
///
/// # Errors
/// When a folder cannot be used.
pub fn follow(
    logs: &OfEach<Log>,
    remote: &Remote,
    folder: &Path,
    shard: u16,
) -> Result<(JoinSet<()>, Indexes), IndexFailure> {
    let (mut tasks, mut indexes) = (JoinSet::new(), Indexes::default());
    for projection in PROJECTIONS.iter() {
        let Kind::Index(table) = &projection.kind else { continue };
        let log = logs[projection.class].clone();
        let storage = Storage { remote: remote.clone(), folder };
        let follower = Follower::new(log, storage, table, name(projection, table, shard), shard)?;
        let (shown, newest) = watch::channel(None);
        tasks.spawn(async move { match follower.follow(&shown).await {} });
        indexes.add(projection, newest);
    }
    Ok((tasks, indexes))
}
