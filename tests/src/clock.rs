//! A clock that a test puts ahead, for what ends after hours.

use std::{fs, path::PathBuf, time::Duration};

use tempfile::TempDir;

/// The clock of the processes that have [`Clock::environment`] in their environment.
#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
    file: String,
}

impl Clock {
    /// One that goes as the clock of the system.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("ahead").display().to_string();
        Self { folder, file }
    }

    /// The environment variable that names the clock.
    pub fn environment(&self) -> (&str, &str) {
        ("PLATFORM_CLOCK", &self.file)
    }

    /// Puts the clock ahead of that of the system. It must not go back.
    pub fn set_ahead(&self, by: Duration) {
        // Whoever reads it meanwhile finds one or the other.
        let next: PathBuf = self.folder.path().join("next");
        fs::write(&next, by.as_secs().to_string()).expect("the folder can be written");
        fs::rename(&next, &self.file).expect("the folder can be written");
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
