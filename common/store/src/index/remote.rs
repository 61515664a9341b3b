//! Where the files of indexes lie for all nodes: immutable packs in an object store, one manifest each in KV.
//!
//! A pack is published before the manifest that names it, and the manifest is replaced by compare-and-set, so a reader
//! never sees half an index and a writer that was taken over publishes nothing.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    kv::{self, Operation, UpdateErrorKind},
    object_store::{self, GetErrorKind, Object, ObjectStore},
    stream::{self, DiscardPolicy, StorageType},
};
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::io::AsyncRead;

use super::{Failure, Manifest};

const MANIFESTS: &str = "INDEX_MANIFESTS";
const FILES: &str = "INDEX_FILES";
/// A pack may be asked for by a reader whose server has not heard of it yet.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

/// The published indexes of a system.
#[derive(Clone)]
pub struct Remote {
    manifests: kv::Store,
    objects: ObjectStore,
    stream: stream::Stream,
}

/// A manifest and the revision by which it is replaced.
#[derive(Debug, Clone)]
pub struct Told {
    /// The manifest; `None` where it cannot be read or is gone.
    pub manifest: Option<Manifest>,
    /// Its revision; 0 before the first.
    pub revision: u64,
}

/// A pack in the object store.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: String,
    nuid: String,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl Remote {
    /// Opens the store and creates what is missing of it.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, Failure> {
        let config = stream::Config {
            name: format!("KV_{MANIFESTS}"),
            subjects: vec![format!("$KV.{MANIFESTS}.>")],
            storage: StorageType::File,
            num_replicas: replicas,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            // A follower that lags must not tell who published last.
            allow_direct: false,
            ..stream::Config::default()
        };
        context.get_or_create_stream(config).await.map_err(nats)?;
        let manifests = context.get_key_value(MANIFESTS).await.map_err(nats)?;
        let objects = match context.get_object_store(FILES).await {
            Ok(objects) => objects,
            Err(_) => {
                let config =
                    object_store::Config { bucket: FILES.to_owned(), num_replicas: replicas, ..Default::default() };
                context.create_object_store(config).await.map_err(nats)?
            }
        };
        let stream = context.get_stream(format!("OBJ_{FILES}")).await.map_err(nats)?;
        Ok(Self { manifests, objects, stream })
    }

    /// The newest manifest of an index, from the leader.
    pub async fn newest(&self, name: &str) -> Result<Told, Failure> {
        let entry = self.manifests.entry(name).await.map_err(nats)?;
        Ok(entry.map_or(Told { manifest: None, revision: 0 }, |entry| Told::of(&entry)))
    }

    /// Every manifest of an index from the newest on, as they come.
    pub(super) async fn watch(
        &self,
        name: &str,
    ) -> Result<impl Stream<Item = Result<Told, Failure>> + Unpin + use<>, Failure> {
        let entries = self.manifests.watch_with_history(name).await.map_err(nats)?;
        Ok(entries.map(|entry| entry.map(|entry| Told::of(&entry)).map_err(nats)))
    }

    /// Replaces the manifest that has this revision, and gives the new revision; `None` when another one is there.
    pub(super) async fn replace(&self, name: &str, with: &Manifest, revision: u64) -> Result<Option<u64>, Failure> {
        let text = serde_json::to_vec(with).map_err(|_| Failure::Inconsistent)?;
        match self.manifests.update(name, text.into(), revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
            // Its answer may have been lost on the way.
            Err(error) => match self.newest(name).await? {
                told if told.manifest.as_ref() == Some(with) => Ok(Some(told.revision)),
                told if told.revision != revision => Ok(None),
                _ => Err(nats(error)),
            },
        }
    }

    /// Publishes a pack.
    pub(super) async fn put(&self, id: &str, contents: &mut (impl AsyncRead + Unpin)) -> Result<(), Failure> {
        self.objects.put(id, contents).await.map_err(nats)?;
        Ok(())
    }

    /// The contents of a pack.
    pub(super) async fn get(&self, id: &str) -> Result<Object, Failure> {
        for pause in PATIENCE {
            match self.objects.get(id).await {
                Ok(object) => return Ok(object),
                Err(error) if error.kind() == GetErrorKind::NotFound => tokio::time::sleep(pause).await,
                Err(error) => return Err(nats(error)),
            }
        }
        Err(Failure::Missing(id.to_owned()))
    }

    /// Every pack of an index.
    pub(super) async fn list(&self, name: &str) -> Result<Vec<Stored>, Failure> {
        let prefix = pack_id(name, "");
        let list = self.objects.list().await.map_err(nats)?;
        let packs = list.map_ok(|info| Stored { id: info.name, nuid: info.nuid });
        packs.try_filter(|pack| std::future::ready(pack.id.starts_with(&prefix))).try_collect().await.map_err(nats)
    }

    /// Removes a pack without a trace: the object store's own removal would leave a message for ever.
    pub(super) async fn remove(&self, pack: &Stored) -> Result<(), Failure> {
        use base64::{Engine, engine::general_purpose::URL_SAFE};
        let name = URL_SAFE.encode(&pack.id);
        for subject in [format!("$O.{FILES}.M.{name}"), format!("$O.{FILES}.C.{}", pack.nuid)] {
            self.stream.purge().filter(subject).await.map_err(nats)?;
        }
        Ok(())
    }
}

/// The name of a pack: that of its index and a digest of its files.
pub(super) fn pack_id(index: &str, digest: &str) -> String {
    format!("{index}/{digest}")
}

impl Told {
    fn of(entry: &kv::Entry) -> Self {
        let manifest = match entry.operation {
            Operation::Put => serde_json::from_slice(&entry.value).ok().filter(Manifest::is_sound),
            Operation::Delete | Operation::Purge => None,
        };
        Self { manifest, revision: entry.revision }
    }
}

fn nats(error: impl std::fmt::Display) -> Failure {
    Failure::Nats(error.to_string())
}
