//! The store of index files for all nodes: immutable packs in an object store, one manifest per index in KV.
//!
//! A pack is published before the manifest that names it, and the manifest is replaced by compare-and-set, so a reader
//! never sees half an index, and a writer that was replaced publishes nothing.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    kv::{self, Operation, UpdateErrorKind},
    object_store::{self, GetErrorKind, Object, ObjectInfo, ObjectMetadata, ObjectStore},
    stream::{self, LastRawMessageErrorKind},
};
use base64::{Engine, engine::general_purpose::URL_SAFE};
use eventlog::streams;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::io::AsyncRead;

use crate::{failure::IndexFailure, manifest::Manifest};

const MANIFESTS: &str = "INDEX_MANIFESTS";
const FILES: &str = "INDEX_FILES";
/// The largest message of a pack, in bytes.
const CHUNK: usize = 512 * 1024;
/// The pauses before a pack is requested again: the reader's server may not have received it yet.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

/// The published indexes of a system.
#[derive(Clone)]
pub struct Remote {
    context: jetstream::Context,
    replicas: usize,
    manifests: kv::Store,
    objects: ObjectStore,
    stream: stream::Stream,
}

/// What is published, and its revision.
#[derive(Debug, Clone)]
pub struct Published {
    /// The manifest.
    pub manifest: Publication,
    /// Its revision; 0 before the first.
    pub revision: u64,
}

/// What is published of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publication {
    /// Nothing.
    Nothing,
    /// A manifest.
    Manifest(Manifest),
    /// Something that only another version can read.
    Unreadable,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl Remote {
    /// Opens the store, creating what is missing.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, IndexFailure> {
        Ok(Self {
            context: context.clone(),
            replicas,
            manifests: create(context, replicas).await?,
            objects: context.get_object_store(FILES).await.map_err(nats)?,
            stream: context.get_stream(format!("OBJ_{FILES}")).await.map_err(nats)?,
        })
    }

    /// Creates what was removed meanwhile.
    pub(crate) async fn ensure(&self) -> Result<(), IndexFailure> {
        create(&self.context, self.replicas).await.map(drop)
    }

    /// Returns the newest manifest of an index, from the leader.
    pub async fn newest(&self, name: &str) -> Result<Published, IndexFailure> {
        let entry = self.manifests.entry(name).await.map_err(nats)?;
        Ok(entry.map_or(Published { manifest: Publication::Nothing, revision: 0 }, |entry| Published::of(&entry)))
    }

    /// Returns the manifests of an index from the newest on, as they are published.
    pub(crate) async fn watch(
        &self,
        name: &str,
    ) -> Result<impl Stream<Item = Result<Published, IndexFailure>> + Unpin + use<>, IndexFailure> {
        let entries = self.manifests.watch_with_history(name).await.map_err(nats)?;
        Ok(entries.map(|entry| entry.map(|entry| Published::of(&entry)).map_err(nats)))
    }

    /// Replaces the manifest at this revision, and returns the new revision; `None` if it was changed.
    pub(crate) async fn replace(
        &self,
        name: &str,
        with: &Manifest,
        revision: u64,
    ) -> Result<Option<u64>, IndexFailure> {
        let text = serde_json::to_vec(with).map_err(|_| IndexFailure::Inconsistent)?;
        match self.manifests.update(name, text.into(), revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
            // The answer may have been lost on the way.
            Err(error) => match self.newest(name).await? {
                told if told.manifest == Publication::Manifest(with.clone()) => Ok(Some(told.revision)),
                told if told.revision != revision => Ok(None),
                _ => Err(nats(error)),
            },
        }
    }

    /// Returns the names under which generations beside an index are published.
    pub(crate) async fn generations(&self, of: &str) -> Result<Vec<String>, IndexFailure> {
        let prefix = subject_of_manifest("");
        let names = subjects(&self.manifests.stream, &format!("{prefix}{of}.>")).await?;
        Ok(names.iter().filter_map(|subject| subject.strip_prefix(&prefix).map(str::to_owned)).collect())
    }

    /// Removes the manifest of a generation without a trace.
    pub(crate) async fn remove_manifest(&self, name: &str) -> Result<(), IndexFailure> {
        self.manifests.stream.purge().filter(subject_of_manifest(name)).await.map_err(nats)?;
        Ok(())
    }

    /// Returns the connection.
    pub(crate) fn client(&self) -> async_nats::Client {
        self.context.client()
    }

    /// Publishes a pack.
    pub(crate) async fn put(&self, id: &str, contents: &mut (impl AsyncRead + Unpin)) -> Result<(), IndexFailure> {
        // Each chunk waits for the disk of the broker.
        let most = self.context.client().server_info().max_payload / 2;
        let chunk_size = Some(most.clamp(1, CHUNK));
        let meta = ObjectMetadata { name: id.to_owned(), chunk_size, ..ObjectMetadata::default() };
        self.objects.put(meta, contents).await.map_err(nats)?;
        Ok(())
    }

    /// Returns the contents of a pack.
    ///
    /// # Errors
    /// [`IndexFailure::Missing`] only if the leader does not have it.
    pub(crate) async fn get(&self, id: &str) -> Result<Object, IndexFailure> {
        for pause in PATIENCE {
            match self.objects.get(id).await {
                Ok(object) => return Ok(object),
                Err(error) if error.kind() == GetErrorKind::NotFound => tokio::time::sleep(pause).await,
                Err(error) => return Err(nats(error)),
            }
        }
        match self.chunks_of_pack(id).await {
            Ok(None) => Err(IndexFailure::Missing(id.to_owned())),
            _ => Err(IndexFailure::Incomplete(id.to_owned())),
        }
    }

    /// Returns every stored pack. The object store's own list would leave a consumer for minutes each time.
    pub(crate) async fn list(&self) -> Result<Vec<String>, IndexFailure> {
        let names = self.subjects(&subject_of("")).await?;
        let decoded = names.into_iter().filter_map(|name| String::from_utf8(URL_SAFE.decode(name).ok()?).ok());
        Ok(decoded.collect())
    }

    /// Returns the names of the chunks of packs, whether the pack exists or not.
    pub(crate) async fn chunks(&self) -> Result<Vec<String>, IndexFailure> {
        self.subjects(&chunks_of("")).await
    }

    /// Returns the name of the chunks of a pack; `None` if there is no such pack.
    pub(crate) async fn chunks_of_pack(&self, id: &str) -> Result<Option<String>, IndexFailure> {
        match self.stream.get_last_raw_message_by_subject(&subject_of(id)).await {
            Ok(message) => {
                let info: ObjectInfo = serde_json::from_slice(&message.payload).map_err(nats)?;
                Ok(Some(info.nuid))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(nats(error)),
        }
    }

    /// Removes a pack without a trace: the object store's own removal would leave a message for ever.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), IndexFailure> {
        let chunks = self.chunks_of_pack(id).await?;
        self.purge(subject_of(id)).await?;
        match chunks {
            Some(chunks) => self.remove_chunks(&chunks).await,
            None => Ok(()),
        }
    }

    /// Removes chunks.
    pub(crate) async fn remove_chunks(&self, nuid: &str) -> Result<(), IndexFailure> {
        self.purge(chunks_of(nuid)).await
    }

    /// Returns the last parts of the subjects with this prefix.
    async fn subjects(&self, prefix: &str) -> Result<Vec<String>, IndexFailure> {
        let found = subjects(&self.stream, &format!("{prefix}>")).await?;
        Ok(found.iter().filter_map(|subject| subject.strip_prefix(prefix).map(str::to_owned)).collect())
    }

    async fn purge(&self, subject: String) -> Result<(), IndexFailure> {
        self.stream.purge().filter(subject).await.map_err(nats)?;
        Ok(())
    }
}

/// Opens the bucket of manifests, creating what is missing.
async fn create(context: &jetstream::Context, replicas: usize) -> Result<kv::Store, IndexFailure> {
    let manifests = streams::bucket(context, MANIFESTS, replicas).await.map_err(nats)?;
    if context.get_object_store(FILES).await.is_err() {
        let config = object_store::Config { bucket: FILES.to_owned(), num_replicas: replicas, ..Default::default() };
        context.create_object_store(config).await.map_err(nats)?;
    }
    streams::check(&context.get_stream(format!("OBJ_{FILES}")).await.map_err(nats)?).map_err(nats)?;
    Ok(manifests)
}

/// Returns the subjects of a stream that match a pattern.
async fn subjects(stream: &stream::Stream, pattern: &str) -> Result<Vec<String>, IndexFailure> {
    let info = stream.info_with_subjects(pattern).await.map_err(nats)?;
    info.map_ok(|(subject, _)| subject).try_collect().await.map_err(nats)
}

/// Returns the subject of a manifest in the bucket.
fn subject_of_manifest(name: &str) -> String {
    format!("$KV.{MANIFESTS}.{name}")
}

/// Returns the subject of the metadata of a pack in the object store.
fn subject_of(pack: &str) -> String {
    format!("$O.{FILES}.M.{}", URL_SAFE.encode(pack))
}

/// Returns the subject of chunks in the object store.
fn chunks_of(nuid: &str) -> String {
    format!("$O.{FILES}.C.{nuid}")
}

/// Returns the name of a pack: its index and a digest of its files.
pub(crate) fn pack_id(index: &str, digest: &str) -> String {
    format!("{index}/{digest}")
}

impl Published {
    fn of(entry: &kv::Entry) -> Self {
        let manifest = match entry.operation {
            Operation::Put => Manifest::read(&entry.value).map_or(Publication::Unreadable, Publication::Manifest),
            Operation::Delete | Operation::Purge => Publication::Nothing,
        };
        Self { manifest, revision: entry.revision }
    }
}

fn nats(error: impl std::fmt::Display) -> IndexFailure {
    IndexFailure::Nats(error.to_string())
}
