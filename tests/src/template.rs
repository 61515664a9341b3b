//! Folders that tests copy, so that not every test has to create database files or set up a log. The first test that
//! needs one creates it beside the platform's binary, and again when the binary has changed.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use crate::process::binary;

/// How long a template is used: the tokens in it last twelve hours.
const AGE: Duration = Duration::from_hours(6);

/// A template, locked against creation and copying by others.
pub(crate) struct Template {
    /// The folder of the template.
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Template {
    /// Finds a template, or creates it.
    pub(crate) async fn find(name: &str, make: impl AsyncFnOnce(&Path)) -> Self {
        let binary = binary();
        let metadata = fs::metadata(&binary).expect("the binary is there");
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let all = binary.with_file_name("tests-templates");
        fs::create_dir_all(&all).expect("what is beside the binary can be written");
        let lock = File::create(all.join(format!("{name}.lock"))).expect("the folder can be written");
        lock.lock().expect("files can be locked");

        let folder = all.join(format!("{name}-{:x}-{:x}", modified.as_nanos(), metadata.len()));
        let since = folder.metadata().and_then(|metadata| metadata.modified());
        if !since.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < AGE)) {
            for old in fs::read_dir(&all).expect("the folder can be read").flatten() {
                if old.path().is_dir() && old.file_name().to_string_lossy().starts_with(name) {
                    fs::remove_dir_all(old.path()).expect("what is old can be removed");
                }
            }
            let unfinished = all.join(format!("{name}.unfinished"));
            fs::create_dir(&unfinished).expect("the folder can be written");
            make(&unfinished).await;
            fs::rename(&unfinished, &folder).expect("the folder can be written");
        }
        Self { folder, _lock: lock }
    }
}

/// Copies a file or a folder with owners and modes: database files belong to a user of their own.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-aT").arg(from).arg(to).status().expect("there is cp");
    assert!(status.success(), "{} can be copied", from.display());
}
