//! The roles of one process that work in the background: the writer and the projector.

use std::{path::PathBuf, time::Duration};

use command::writer::{self, Handle};
use store::index::Indexes;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{Failure, cli, node::Node};

/// How long the roles may take to end; the servers need the rest of the promised 15 s.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A writer and a projector at work.
pub(crate) struct Roles {
    pub(crate) writer: Handle,
    pub(crate) indexes: Indexes,
    writing: JoinHandle<Result<(), writer::Failure>>,
    projector: JoinSet<()>,
    delivering: JoinHandle<()>,
}

impl Roles {
    /// Starts both, with search indexes in a folder.
    pub(crate) fn start(
        node: &Node,
        index: &cli::Index,
        folder: PathBuf,
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let units = node.adapters.projector(index, folder)?;
        let (projector, indexes) = units.start(shutdown)?;
        node.adapters.measure(Some(&units), indexes.clone());
        let (writer, writing) = node.start_writer(shutdown);
        let delivering = node.start_deliveries(&writer, shutdown);
        Ok(Self { writer, indexes, writing, projector, delivering })
    }

    /// Waits for the end of the roles, which have been told to end, and says why the writer did.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        let ended = timeout(END_LIMIT, async {
            let written = self.writing.await;
            while self.projector.join_next().await.is_some() {}
            let _ = self.delivering.await;
            written
        });
        match ended.await {
            Ok(written) => Ok(written??),
            Err(_) => Ok(()),
        }
    }
}
