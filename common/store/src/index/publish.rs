//! Publishing an index: the files that are new as one pack, then a manifest that names them.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::io::AsyncReadExt;

use super::{
    Failure, Manifest, Remote, Snapshot, blocking,
    folder::Folder,
    manifest::{File, Pack},
    remote::{Told, pack_id},
};
use crate::{fault, secret::sha256};

/// The one that publishes an index, until another takes it over.
#[derive(Debug)]
pub struct Publisher {
    remote: Remote,
    name: String,
    folder: Folder,
    /// What is published, and the revision that it has.
    manifest: Manifest,
    revision: u64,
    /// Packs that no manifest names, and since when.
    unnamed: HashMap<String, Instant>,
    /// How long readers may still want them.
    grace: Duration,
}

impl Publisher {
    /// Takes an index over: from now on whoever published it before publishes nothing.
    pub async fn take_over(remote: Remote, name: &str, folder: Folder, grace: Duration) -> Result<Self, Failure> {
        loop {
            let Told { manifest, revision } = remote.newest(name).await?;
            let mut manifest = manifest.unwrap_or_default();
            manifest.epoch += 1;
            if let Some(revision) = remote.replace(name, &manifest, revision).await? {
                let name = name.to_owned();
                return Ok(Self { remote, name, folder, manifest, revision, unnamed: HashMap::new(), grace });
            }
        }
    }

    /// What is published.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Publishes a snapshot of the index in this folder.
    ///
    /// # Errors
    /// [`Failure::Fenced`] when another one publishes the index now.
    pub async fn publish(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        let wanted = snapshot.files(&self.folder);
        let known: HashSet<&str> = self.manifest.files().map(|file| file.name.as_str()).collect();
        let new: Vec<String> = wanted.iter().filter(|name| !known.contains(name.as_str())).cloned().collect();
        let mut packs = self.manifest.packs.clone();
        for pack in &mut packs {
            pack.files.retain(|file| wanted.contains(&file.name));
        }
        if !new.is_empty() {
            packs.push(self.pack(new).await?);
        }
        fault::point("index.packed");
        packs.retain(|pack| !pack.files.is_empty());
        let manifest = Manifest { epoch: self.manifest.epoch, meta: snapshot.meta()?, packs };
        let replaced = self.remote.replace(&self.name, &manifest, self.revision).await?;
        self.revision = replaced.ok_or(Failure::Fenced)?;
        self.manifest = manifest;
        fault::point("index.published");
        Ok(())
    }

    /// Puts files into one pack and the pack into the store.
    async fn pack(&self, names: Vec<String>) -> Result<Pack, Failure> {
        let folder = self.folder.clone();
        let files = blocking(move || {
            let mut offset = 0;
            let measured = names.into_iter().map(|name| {
                let (size, digest) = folder.measure(&name)?;
                let file = File { name, offset, size, digest };
                offset += size;
                Ok(file)
            });
            measured.collect::<Result<Vec<_>, Failure>>()
        });
        let files = files.await?;
        let listed = serde_json::to_vec(&files).map_err(|_| Failure::Inconsistent)?;
        let id = pack_id(&self.name, &hex::encode(sha256(&listed)));
        let mut contents: Box<dyn tokio::io::AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
        for file in &files {
            contents = Box::new(contents.chain(tokio::fs::File::open(self.folder.file(&file.name)).await?));
        }
        self.remote.put(&id, &mut contents).await?;
        Ok(Pack { id, files })
    }

    /// Compares what is stored with what is named: removes what no manifest has named for the time of grace, and
    /// publishes again what is named and gone.
    pub async fn tidy(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        if self.remote.newest(&self.name).await?.revision != self.revision {
            return Err(Failure::Fenced);
        }
        let stored = self.remote.list(&self.name).await?;
        let named: HashSet<&String> = self.manifest.packs.iter().map(|pack| &pack.id).collect();
        let surplus = stored.iter().filter(|pack| !named.contains(&pack.id));
        let now = Instant::now();
        let since = |id: &String| self.unnamed.get(id).copied().unwrap_or(now);
        let unnamed: HashMap<String, Instant> = surplus.map(|pack| (pack.id.clone(), since(&pack.id))).collect();
        self.unnamed = unnamed;
        for pack in &stored {
            if self.unnamed.get(&pack.id).is_some_and(|since| now - *since >= self.grace) {
                self.remote.remove(pack).await?;
            }
        }
        let is_stored = |id: &String| stored.iter().any(|pack| pack.id == *id);
        if !self.manifest.packs.iter().all(|pack| is_stored(&pack.id)) {
            tracing::warn!(index = self.name, "files of the search index are gone and are published again");
            self.manifest.packs.retain(|pack| is_stored(&pack.id));
            self.publish(snapshot).await?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// The names of its files, which stay as long as the snapshot.
    fn files(&self, folder: &Folder) -> HashSet<String> {
        let all = self.metas.list_segment_files().into_iter();
        let there = all.filter(|path: &PathBuf| folder.path().join(path).exists());
        there.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// tantivy's list of its segments.
    fn meta(&self) -> Result<String, Failure> {
        serde_json::to_string(&*self.metas).map_err(|_| Failure::Inconsistent)
    }
}
