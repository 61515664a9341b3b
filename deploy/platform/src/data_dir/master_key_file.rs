//! The file of the master keys.

use std::path::{Path, PathBuf};

use base::private_file;
use view::keyring::MasterKeys;

use super::DataDirError;

/// The master keys, and the file that they were read from. It has no `Debug`: it holds keys.
#[derive(Clone)]
pub(crate) struct MasterKeyFile {
    pub(crate) path: PathBuf,
    pub(crate) keys: MasterKeys,
}

impl MasterKeyFile {
    /// Reads the master keys in a file.
    pub(crate) fn read(path: PathBuf) -> Result<Self, DataDirError> {
        let keys = read_master_keys(&path)?;
        Ok(Self { path, keys })
    }
}

/// Reads the master keys in a file.
pub(crate) fn read_master_keys(path: &Path) -> Result<MasterKeys, DataDirError> {
    let text = private_file::read(path).map_err(|source| DataDirError::UnreadKey { path: path.to_owned(), source })?;
    let keys = String::from_utf8_lossy(&text).parse();
    keys.map_err(|source| DataDirError::BadKey { path: path.to_owned(), source })
}
