//! The background roles of a process: the writer and the projector.

use std::{path::PathBuf, time::Duration};

use command::writer::{self, Handle};
use index::Indexes;
use tokio::{
    task::{JoinError, JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{Failure, cli, node::Node};

/// How long the roles may take to end. Of the 15 s that a process may take, requests have 3, forwarded requests 2, the
/// servers 6, traces 2.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A writer and a projector at work.
pub(crate) struct Roles {
    pub(crate) writer: Handle,
    pub(crate) indexes: Indexes,
    writing: JoinHandle<Result<(), writer::WriterFailure>>,
    projecting: JoinHandle<Result<(), JoinError>>,
    reacting: [JoinHandle<()>; 7],
}

impl Roles {
    /// Starts both, with search indexes in a folder.
    pub(crate) fn start(
        node: &Node,
        read_models: &cli::ReadModels,
        folder: PathBuf,
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let units = node.adapters.projector(&node.keyring, read_models, folder)?;
        let (working, indexes) = units.start(shutdown)?;
        node.adapters.measure(Some(&units), indexes.clone());
        let (writer, writing) = node.start_writer(shutdown);
        let projecting = tokio::spawn(watch(working, shutdown.clone()));
        let reacting = node.start_reactions(&writer, shutdown);
        Ok(Self { writer, indexes, writing, projecting, reacting })
    }

    /// Waits until the roles have ended after `shutdown`, and returns why one has ended by itself.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        let ended = timeout(END_LIMIT, async {
            let written = self.writing.await;
            let projected = self.projecting.await;
            for reaction in self.reacting {
                let _ = reaction.await;
            }
            (written, projected)
        });
        match ended.await {
            Ok((written, projected)) => {
                written??;
                Ok(projected??)
            }
            Err(_) => Ok(()),
        }
    }
}

/// Cancels `shutdown` when a work unit ends by itself, which it does only by a panic: the process has to be restarted
/// as a whole.
async fn watch(mut units: JoinSet<()>, shutdown: CancellationToken) -> Result<(), JoinError> {
    let _last = shutdown.drop_guard();
    while let Some(ended) = units.join_next().await {
        ended?;
    }
    Ok(())
}
