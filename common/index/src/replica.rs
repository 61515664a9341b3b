//! A folder with the files of a manifest: only new and damaged files are fetched.

use std::{collections::HashMap, sync::Arc, time::Duration};

use aws_lc_rs::digest::{Context, SHA256};
use base::metric::catalog::INDEX_FETCHED;
use tantivy::{Index, IndexReader, ReloadPolicy};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    directory::{Unsynced, write_whole},
    failure::IndexFailure,
    folder::{Folder, META},
    layout::Layout,
    manifest::{File, Manifest, Pack},
    remote::Remote,
    search::{self, Snapshot, tokenizers},
};

/// The timeout for a part of a pack.
const PART_LIMIT: Duration = Duration::from_secs(5);
const CHUNK: usize = 128 * 1024;

/// The copy of a published index on this machine.
pub struct Replica {
    folder: Folder,
    layout: Layout,
    /// The digests of the files that are here and were checked by this process.
    here: HashMap<String, String>,
    opened: Option<Opened>,
}

#[derive(Clone)]
struct Opened {
    index: Index,
    reader: IndexReader,
}

impl Replica {
    /// Creates a replica in a folder, which may contain an older one.
    pub fn new(folder: Folder, layout: Layout) -> Self {
        Self { folder, layout, here: HashMap::new(), opened: None }
    }

    /// Brings the folder to the state of the manifest and opens it.
    ///
    /// # Errors
    /// [`IndexFailure::Missing`] if a pack is gone or was changed: there is a newer manifest, or will be.
    pub async fn install(&mut self, manifest: &Manifest, remote: &Remote) -> Result<Arc<Snapshot>, IndexFailure> {
        self.verify_files(manifest).await?;
        for pack in &manifest.packs {
            if pack.files.iter().any(|file| !self.has(file)) {
                self.fetch(pack, remote).await?;
            }
        }
        self.here.retain(|name, _| manifest.files().any(|file| file.name == *name));
        let (folder, layout, opened, manifest) =
            (self.folder.clone(), self.layout.clone(), self.opened.take(), manifest.clone());
        let work = {
            let folder = folder.clone();
            move || open(&folder, layout, opened, &manifest)
        };
        let (opened, snapshot) = folder.work(work).await?;
        self.opened = Some(opened);
        Ok(Arc::new(snapshot))
    }

    fn has(&self, file: &File) -> bool {
        self.here.get(&file.name).is_some_and(|digest| *digest == file.digest)
    }

    /// Checks the files that an earlier process left.
    async fn verify_files(&mut self, manifest: &Manifest) -> Result<(), IndexFailure> {
        let unknown: Vec<File> = manifest.files().filter(|file| !self.has(file)).cloned().collect();
        let folder = self.folder.clone();
        let found = self.folder.work(move || {
            let is_whole = |file: &File| {
                folder.measure(&file.name).is_ok_and(|(size, digest)| size == file.size && digest == file.digest)
            };
            Ok(unknown.into_iter().filter(is_whole).collect::<Vec<_>>())
        });
        self.here.extend(found.await?.into_iter().map(|file| (file.name, file.digest)));
        Ok(())
    }

    async fn fetch(&mut self, pack: &Pack, remote: &Remote) -> Result<(), IndexFailure> {
        let mut contents = remote.get(&pack.id).await?;
        let mut at = 0;
        for file in &pack.files {
            let gap = file.offset.checked_sub(at).ok_or(IndexFailure::Inconsistent)?;
            copy(&mut contents, &mut tokio::io::sink(), gap, &pack.id).await?;
            at = file.offset + file.size;
            INDEX_FETCHED.one().add(gap + file.size);
            let temporary = self.folder.file(&format!("{}.new", file.name));
            let mut written = tokio::fs::File::create(&temporary).await?;
            let digest = copy(&mut contents, &mut written, file.size, &pack.id).await?;
            written.flush().await?;
            if digest != file.digest {
                return Err(IndexFailure::Missing(pack.id.clone()));
            }
            tokio::fs::rename(&temporary, self.folder.file(&file.name)).await?;
            self.here.insert(file.name.clone(), digest);
        }
        Ok(())
    }
}

/// Copies this many bytes and returns their digest.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut size: u64,
    pack: &str,
) -> Result<String, IndexFailure> {
    let (mut hash, mut chunk) = (Context::new(&SHA256), vec![0; CHUNK]);
    while size > 0 {
        let most = usize::try_from(size).unwrap_or(CHUNK).min(CHUNK);
        let read = timeout(PART_LIMIT, from.read(&mut chunk[..most])).await;
        let read = match read {
            Ok(Ok(read)) if read > 0 => read,
            _ => return Err(IndexFailure::Incomplete(pack.to_owned())),
        };
        hash.update(&chunk[..read]);
        to.write_all(&chunk[..read]).await?;
        size -= read as u64;
    }
    Ok(hex::encode(hash.finish()))
}

fn open(
    folder: &Folder,
    layout: Layout,
    opened: Option<Opened>,
    manifest: &Manifest,
) -> Result<(Opened, Snapshot), IndexFailure> {
    write_whole(&folder.file(META), manifest.meta.as_bytes())?;
    let opened = match opened {
        Some(opened) => opened,
        None => {
            let index = Index::open(Unsynced::open(folder.path())?)?;
            if index.schema() != layout.schema {
                return Err(IndexFailure::OtherLayout);
            }
            tokenizers(&index);
            let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
            Opened { index, reader }
        }
    };
    let snapshot = search::snapshot(&opened.index, &opened.reader, layout)?;
    folder.keep_only(|name| name == META || manifest.files().any(|file| file.name == name))?;
    Ok((opened, snapshot))
}
