//! Publishes an index: the new files as one pack, then a manifest that names them.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
    time::{Duration, Instant},
};

use base::{fault, metric::catalog::INDEX_PUBLISHED, secret::sha256};
use eventlog::record::Position;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::spawn_blocking,
};

use crate::{
    failure::IndexFailure,
    folder::Folder,
    manifest::{File, Manifest, Pack},
    moved::IndexProgress,
    remote::{Publication, Published, Remote, pack_id},
    search::Snapshot,
};

/// The largest pack that is read into memory, in bytes.
const SMALL: u64 = 8 * 1024 * 1024;
/// After how many records without new files the position is stored anyway: the most records that the next writer of the
/// index reads again.
const STORE_EVERY: u64 = 10_000;

/// The publisher of an index, until another process takes it over.
#[derive(Debug)]
pub struct Publisher {
    remote: Remote,
    name: String,
    folder: Folder,
    /// What is published, and its revision.
    manifest: Manifest,
    revision: u64,
    /// The progress of its files.
    moved: Option<IndexProgress>,
    /// The number of purges that are in what is published.
    purges: u64,
    /// Whether what comes next is an index that is built again.
    is_anew: bool,
    /// Packs that no manifest names and chunks that no pack has, and since when.
    unnamed: HashMap<String, Instant>,
    /// How long readers may still need them.
    grace: Duration,
}

impl Publisher {
    /// Takes over an index: the previous publisher cannot publish any more.
    ///
    /// # Errors
    /// [`IndexFailure::Unreadable`] if it was published by a version that this one does not know: it is left alone.
    pub async fn take_over(remote: Remote, name: &str, folder: Folder, grace: Duration) -> Result<Self, IndexFailure> {
        remote.ensure().await?;
        loop {
            let Published { manifest, revision } = remote.newest(name).await?;
            let mut manifest = match manifest {
                Publication::Manifest(manifest) => manifest,
                Publication::Nothing => Manifest::default(),
                Publication::Unreadable => return Err(IndexFailure::Unreadable),
            };
            manifest.epoch += 1;
            if let Some(revision) = remote.replace(name, &manifest, revision).await? {
                let name = name.to_owned();
                return Ok(Self {
                    remote,
                    name,
                    folder,
                    manifest,
                    revision,
                    moved: None,
                    purges: 0,
                    is_anew: false,
                    unnamed: HashMap::new(),
                    grace,
                });
            }
        }
    }

    /// Makes this the publisher of an index that is built again, maybe from another log: even if it has files in common
    /// with what is published, it is not the same.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { is_anew: true, ..self }
    }

    /// Withdraws what is published: whoever writes the index next begins it anew, and nodes go on with what they have until
    /// then.
    ///
    /// # Errors
    /// [`IndexFailure::Fenced`] if another process publishes the index.
    pub async fn withdraw(mut self) -> Result<(), IndexFailure> {
        (self.manifest.meta, self.manifest.packs) = (String::new(), vec![]);
        let replaced = self.remote.replace(&self.name, &self.manifest, self.revision).await?;
        replaced.map(|_| ()).ok_or(IndexFailure::Fenced)
    }

    /// Returns the published manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the progress of the published files; `None` while it is that of the manifest.
    pub fn moved(&self) -> Option<&IndexProgress> {
        self.moved.as_ref()
    }

    /// Returns the revision of what is published.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the position of what is published.
    pub fn position(&self) -> Position {
        self.moved.as_ref().map_or_else(|| self.manifest.position(), IndexProgress::position)
    }

    /// Whether what is published omits the same as a snapshot.
    pub fn lacks_the_same(&self, snapshot: &Snapshot) -> bool {
        self.manifest.omitted() == *snapshot.omitted
    }

    /// Publishes a snapshot of the index in this folder. If its files are already published, only its position is
    /// noted. After a purge, packs with removed files are not retained.
    ///
    /// # Errors
    /// [`IndexFailure::Fenced`] if another process publishes the index.
    pub async fn publish(&mut self, snapshot: &Snapshot) -> Result<(), IndexFailure> {
        let wanted = snapshot.files(&self.folder)?;
        let known: HashSet<&str> = self.manifest.files().map(|file| file.name.as_str()).collect();
        let has_the_same = known.len() == wanted.len() && wanted.iter().all(|name| known.contains(name.as_str()));
        let is_purged = snapshot.purges != self.purges;
        let is_the_same = has_the_same && self.lacks_the_same(snapshot) && !is_purged && !self.is_anew;
        let (at, stored) = (snapshot.position.stream_sequence, self.manifest.position().stream_sequence);
        if is_the_same && !self.manifest.meta.is_empty() && at < stored + STORE_EVERY {
            self.moved = Some(IndexProgress::new(self.revision, snapshot));
            return Ok(());
        }
        let mut packs = self.manifest.packs.clone();
        for pack in &mut packs {
            pack.files.retain(|file| wanted.contains(&file.name));
        }
        if is_purged {
            packs.retain(|pack| self.id(&pack.files).is_ok_and(|id| id == pack.id));
        }
        let packed: HashSet<&str> = packs.iter().flat_map(|pack| &pack.files).map(|file| file.name.as_str()).collect();
        let new: Vec<String> = wanted.iter().filter(|name| !packed.contains(name.as_str())).cloned().collect();
        if !new.is_empty() {
            packs.push(self.pack(new).await?);
        }
        fault::point("index.packed");
        packs.retain(|pack| !pack.files.is_empty());
        let format = Manifest::format(&snapshot.omitted);
        let manifest = Manifest { format, meta: snapshot.meta()?, packs, ..self.manifest.clone() };
        let replaced = self.remote.replace(&self.name, &manifest, self.revision).await?;
        self.revision = replaced.ok_or(IndexFailure::Fenced)?;
        (self.manifest, self.moved, self.purges) = (manifest, None, snapshot.purges);
        self.is_anew = false;
        fault::point("index.published");
        Ok(())
    }

    /// Returns the name of the pack that has these files and no others.
    fn id(&self, files: &[File]) -> Result<String, IndexFailure> {
        let listed = serde_json::to_vec(files).map_err(|_| IndexFailure::Inconsistent)?;
        Ok(pack_id(&self.name, &hex::encode(sha256(&listed))))
    }

    /// Joins files to one pack and puts it into the store.
    async fn pack(&self, names: Vec<String>) -> Result<Pack, IndexFailure> {
        let folder = self.folder.clone();
        let files = spawn_blocking(move || {
            let mut offset = 0;
            let measured = names.into_iter().map(|name| {
                let (size, digest) = folder.measure(&name)?;
                let file = File { name, offset, size, digest };
                offset += size;
                Ok(file)
            });
            measured.collect::<Result<Vec<_>, IndexFailure>>()
        });
        let files = files.await??;
        let id = self.id(&files)?;
        let size: u64 = files.iter().map(|file| file.size).sum();
        let mut contents: Box<dyn AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
        for file in &files {
            contents = Box::new(contents.chain(tokio::fs::File::open(self.folder.file(&file.name)).await?));
        }
        if size <= SMALL {
            // As one message: read file by file, it would be several.
            let mut whole = vec![];
            contents.read_to_end(&mut whole).await?;
            contents = Box::new(std::io::Cursor::new(whole));
        }
        self.remote.put(&id, &mut contents).await?;
        INDEX_PUBLISHED.one().add(size);
        Ok(Pack { id, files })
    }

    /// Compares what is stored with what is named: removes what no generation of the index has named for the grace
    /// period, neither this one, which answers, nor those beside it, and publishes again what is named and gone.
    pub async fn tidy(&mut self, snapshot: &Snapshot, generations: &[String]) -> Result<(), IndexFailure> {
        self.confirm().await?;
        // In this order: chunks are stored before the pack that has them.
        let chunks = self.remote.chunks().await?;
        let stored = self.stored().await?;
        self.remove_unnamed(generations, chunks, &stored).await?;
        self.publish_missing(snapshot, &stored).await
    }

    /// Publishes again what is named and gone. What a generation beside the one that answers has published is removed by
    /// the writer of that one.
    pub async fn repair(&mut self, snapshot: &Snapshot) -> Result<(), IndexFailure> {
        self.confirm().await?;
        let stored = self.stored().await?;
        self.publish_missing(snapshot, &stored).await
    }

    async fn stored(&self) -> Result<HashSet<String>, IndexFailure> {
        Ok(self.remote.list().await?.into_iter().collect())
    }

    async fn remove_unnamed(
        &mut self,
        generations: &[String],
        chunks: Vec<String>,
        stored: &HashSet<String>,
    ) -> Result<(), IndexFailure> {
        let beside = self.remote.generations(&self.name).await?;
        let orphans = self.orphans(chunks, stored).await?;
        let mut named: HashSet<String> = self.packs().cloned().collect();
        for name in &beside {
            match self.remote.newest(name).await?.manifest {
                Publication::Manifest(manifest) => named.extend(manifest.packs.into_iter().map(|pack| pack.id)),
                Publication::Nothing => {}
                Publication::Unreadable => {
                    tracing::warn!(
                        index = name,
                        "it is unknown what another version has published: nothing is removed"
                    );
                    return Ok(());
                }
            }
        }
        let is_of_it = |id: &&String| id.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with(['/', '.']));
        let surplus: Vec<&String> = stored.iter().filter(is_of_it).filter(|id| !named.contains(*id)).collect();
        let dropped: Vec<&String> = beside.iter().filter(|name| !generations.contains(name)).collect();

        let now = Instant::now();
        let unnamed = surplus.iter().chain(&dropped).copied().chain(&orphans);
        let unnamed = unnamed.map(|id| (id.clone(), self.unnamed.get(id).copied().unwrap_or(now)));
        self.unnamed = unnamed.collect();
        let is_over = |id: &String| self.unnamed.get(id).is_some_and(|since| now - *since >= self.grace);
        for id in surplus.into_iter().filter(|id| is_over(id)) {
            self.remote.remove(id).await?;
        }
        for nuid in orphans.iter().filter(|nuid| is_over(nuid)) {
            self.remote.remove_chunks(nuid).await?;
        }
        for name in dropped.into_iter().filter(|name| is_over(name)) {
            self.remote.remove_manifest(name).await?;
        }
        Ok(())
    }

    /// Returns why nothing can be published any more: if what is published has no file in common with what this has
    /// published, it is of another generation.
    pub async fn why_fenced(&self) -> IndexFailure {
        match self.remote.newest(&self.name).await {
            Ok(Published { manifest: Publication::Manifest(newest), .. })
                if !newest.packs.iter().any(|pack| self.packs().any(|id| *id == pack.id)) =>
            {
                IndexFailure::Exchanged
            }
            Ok(_) => IndexFailure::Fenced,
            Err(failure) => failure,
        }
    }

    async fn publish_missing(&mut self, snapshot: &Snapshot, stored: &HashSet<String>) -> Result<(), IndexFailure> {
        if !self.packs().all(|id| stored.contains(id)) {
            tracing::warn!(index = self.name, "files of the search index are gone and are published again");
            self.manifest.packs.retain(|pack| stored.contains(&pack.id));
            // The manifest still names what is missing: no position may be announced for it.
            self.manifest.meta.clear();
            self.publish(snapshot).await?;
        }
        Ok(())
    }

    /// The packs that are named.
    fn packs(&self) -> impl Iterator<Item = &String> {
        self.manifest.packs.iter().map(|pack| &pack.id)
    }

    /// Checks that nobody else has published the index.
    async fn confirm(&self) -> Result<(), IndexFailure> {
        let newest = self.remote.newest(&self.name).await?.revision;
        if newest == self.revision { Ok(()) } else { Err(IndexFailure::Fenced) }
    }

    /// Whether somebody has announced files that were published in place of these.
    pub fn is_replaced(&self, announced: &IndexProgress) -> bool {
        announced.revision > self.revision
    }

    /// Returns those of the chunks that no pack has.
    async fn orphans(&self, chunks: Vec<String>, stored: &HashSet<String>) -> Result<Vec<String>, IndexFailure> {
        // The chunks of a pack share a name, so packs are only read if there are more of these names than packs.
        if chunks.len() <= stored.len() {
            return Ok(vec![]);
        }
        let mut owned = HashSet::new();
        for id in stored {
            owned.extend(self.remote.chunks_of_pack(id).await?);
        }
        Ok(chunks.into_iter().filter(|nuid| !owned.contains(nuid)).collect())
    }
}

impl Snapshot {
    /// Returns the names of its files, which exist as long as the snapshot.
    fn files(&self, folder: &Folder) -> Result<HashSet<String>, IndexFailure> {
        let mut files = HashSet::new();
        for path in self.metas.list_segment_files() {
            let name = path.to_string_lossy().into_owned();
            // A segment without deletes has no list of them, and the temporary store only exists while it is written.
            let may_be_absent = path.extension().is_some_and(|kind| kind == "del" || kind == "temp");
            match folder.file(&name).exists() {
                true => files.insert(name),
                false if may_be_absent => false,
                false => return Err(std::io::Error::new(ErrorKind::NotFound, name).into()),
            };
        }
        Ok(files)
    }

    /// Returns tantivy's list of its segments.
    fn meta(&self) -> Result<String, IndexFailure> {
        serde_json::to_string(&*self.metas).map_err(|_| IndexFailure::Inconsistent)
    }
}
