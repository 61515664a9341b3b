//! A clock that a test sets ahead: for all processes, to let time pass, or for one node, to make it wrong.

use std::{fs, path::PathBuf, time::Duration};

use tempfile::TempDir;

/// The clock of the processes that have [`Clock::environment`] in their environment.
#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
    file: String,
    variable: &'static str,
}

impl Clock {
    /// Returns a clock that follows that of the system. When it is set ahead, servers are assumed to be ahead, too.
    pub fn new() -> Self {
        Self::named("PLATFORM_CLOCK")
    }

    /// Returns the clock of one node, which may be wrong.
    pub fn of_one_node() -> Self {
        Self::named("PLATFORM_WRONG_CLOCK")
    }

    fn named(variable: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("ahead").display().to_string();
        Self { folder, file, variable }
    }

    /// The environment variable that names the clock.
    pub fn environment(&self) -> (&str, &str) {
        (self.variable, &self.file)
    }

    /// Sets the clock ahead of that of the system. The clock of all processes must not go back.
    pub fn set_ahead(&self, by: Duration) {
        // A concurrent reader finds the former or the new value.
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
