//! A tantivy directory that does not wait for the disk.
//!
//! Files that are lost in a power failure are fetched again: the log and the published files are the durable copies. So
//! every commit saves about ten waits for the disk.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tantivy::{
    Directory,
    directory::{
        AntiCallToken, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback, WatchHandle,
        WritePtr,
        error::{DeleteError, LockError, OpenReadError, OpenWriteError},
    },
};

use crate::failure::IndexFailure;

/// A memory-mapped folder whose writes are left to the operating system.
#[derive(Debug, Clone)]
pub(crate) struct Unsynced {
    folder: PathBuf,
    mapped: MmapDirectory,
}

impl Unsynced {
    /// Opens the directory of a folder that exists.
    pub(crate) fn open(folder: &Path) -> Result<Self, IndexFailure> {
        let mapped = MmapDirectory::open(folder).map_err(tantivy::TantivyError::from)?;
        Ok(Self { folder: folder.to_owned(), mapped })
    }
}

/// Writes a file so that it exists completely or not at all, except in a power failure.
///
/// Files are written one after another: a merge of a writer that was dropped may still be at work when the next writer
/// of the folder lists its files, and both would use one temporary file.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs::write(&temporary, contents)?;
    fs::rename(&temporary, path)
}

struct Unflushed(File);

impl Write for Unflushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for Unflushed {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        Ok(())
    }
}

impl Directory for Unsynced {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.mapped.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.mapped.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.mapped.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(self.folder.join(path));
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(Unflushed(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.mapped.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        write_whole(&self.folder.join(path), contents)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.mapped.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.mapped.watch(callback)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn many_may_write_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".managed.json");
        let write = &|text: &str| (0..500).for_each(|_| write_whole(&path, text.as_bytes()).unwrap());
        thread::scope(|scope| {
            for text in ["one", "other", "last"] {
                scope.spawn(move || write(text));
            }
        });
        let written = fs::read_to_string(&path).unwrap();
        assert!(["one", "other", "last"].contains(&written.as_str()), "{written}");
    }
}
