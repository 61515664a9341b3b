//! The folder of an index on this machine: a cache of what is published, and the place where a writer works.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest::{Context, SHA256};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{directory::write_whole, failure::IndexFailure};

/// Where tantivy lists the segments of the last commit.
pub(crate) const META: &str = "meta.json";
/// Where tantivy lists the files that it may remove.
const MANAGED: &str = ".managed.json";
const LOCK: &str = ".folder.lock";
/// How much of a file is hashed at a time, in bytes.
const CHUNK: usize = 256 * 1024;

/// A folder that no other process uses meanwhile.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    _lock: Arc<File>,
    /// Held by what works in the folder at the moment, which goes on when whoever asked for it is gone.
    busy: Arc<Mutex<()>>,
}

impl Folder {
    /// Opens a folder, and makes it where there is none.
    ///
    /// # Errors
    /// When another process uses it.
    pub fn open(path: &Path) -> Result<Self, IndexFailure> {
        fs::create_dir_all(path)?;
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock().map_err(|_| IndexFailure::InUse(path.to_owned()))?;
        Ok(Self { path: path.to_owned(), _lock: Arc::new(lock), busy: Arc::default() })
    }

    /// Lets something work in the folder that waits for the disk or the processor, when nothing else does. Its result is
    /// dropped before the next one begins.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, IndexFailure> + Send + 'static,
    ) -> Result<T, IndexFailure> {
        let busy = self.busy.clone().lock_owned().await;
        let (result, _busy) = spawn_blocking(move || (work(), busy)).await?;
        result
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes every file but those of these names. Searchers go on with what they have opened.
    pub(crate) fn keep_only(&self, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Locks and lists of tantivy may be in use.
            if !name.starts_with('.') && !is_kept(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Lets tantivy remove what it did not write itself, once no segment needs it.
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<io::Result<_>>()?;
        let files: Vec<&String> = names.iter().filter(|name| !name.starts_with('.')).collect();
        write_whole(&self.file(MANAGED), &serde_json::to_vec(&files)?)
    }

    /// The size and the digest of a file.
    pub(crate) fn measure(&self, name: &str) -> io::Result<(u64, String)> {
        let mut file = File::open(self.file(name))?;
        let (mut hash, mut chunk, mut size) = (Context::new(&SHA256), vec![0; CHUNK], 0);
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok((size, hex::encode(hash.finish()))),
                read => {
                    hash.update(&chunk[..read]);
                    size += read as u64;
                }
            }
        }
    }
}
