//! The folder of an index on this machine: a cache of what is published, and the working folder of a writer.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest::{Context, SHA256};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{directory::write_whole, failure::IndexFailure};

/// The file in which tantivy lists the segments of the last commit.
pub(crate) const META: &str = "meta.json";
/// The file in which tantivy lists the files that it may remove.
const MANAGED: &str = ".managed.json";
const LOCK: &str = ".folder.lock";
/// How many bytes of a file are hashed at a time.
const CHUNK: usize = 256 * 1024;

/// A folder that is locked against other processes.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    _lock: Arc<File>,
    /// Locked by the work in the folder, which goes on even if its caller is gone.
    busy: Arc<Mutex<()>>,
}

impl Folder {
    /// Opens a folder, creating it if there is none.
    ///
    /// # Errors
    /// If another process uses it.
    pub fn open(path: &Path) -> Result<Self, IndexFailure> {
        fs::create_dir_all(path)?;
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock().map_err(|_| IndexFailure::InUse(path.to_owned()))?;
        Ok(Self { path: path.to_owned(), _lock: Arc::new(lock), busy: Arc::default() })
    }

    /// Runs blocking work in the folder when no other work runs there. Its result is dropped before the next work
    /// begins.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, IndexFailure> + Send + 'static,
    ) -> Result<T, IndexFailure> {
        let busy = self.busy.clone().lock_owned().await;
        let (result, _busy) = spawn_blocking(move || (work(), busy)).await?;
        result
    }

    /// Removes the folder, once no work runs there.
    ///
    /// # Errors
    /// If the file system refuses.
    pub async fn remove(&self) -> Result<(), IndexFailure> {
        let path = self.path.clone();
        self.work(move || Ok(fs::remove_dir_all(path)?)).await
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes all files except for those to keep. Searchers go on with the files that they have opened.
    pub(crate) fn keep_only(&self, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // The locks and lists of tantivy may be in use.
            if !name.starts_with('.') && !is_kept(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Lets tantivy remove files that it did not write itself, once no segment needs them.
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<io::Result<_>>()?;
        let files: Vec<&String> = names.iter().filter(|name| !name.starts_with('.')).collect();
        write_whole(&self.file(MANAGED), &serde_json::to_vec(&files)?)
    }

    /// Returns the size and the digest of a file.
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
