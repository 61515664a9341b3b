//! The data folder of a standalone platform: its lock, its format version, its secrets, and the paths in it.
//!
//! The format version is written last on a first start, so a folder with a version is complete. It has a master key
//! since the first start of a node; servers alone need none.

mod master_key_file;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use view::keyring::Malformed;

pub(crate) use self::master_key_file::{MasterKeyFile, read_master_keys};

/// The files that a start creates in a new folder before the platform runs.
const MADE: [&str; 7] =
    ["bootstrap.plan.json", "system-users.json", "system-user.key", "master.key", "node-id", "version", "lock"];
/// The file with the address at which the platform serves.
const ADDRESS: &str = "serving.address";

/// The format of the folder that this platform reads and writes.
const VERSION: &str = "1";

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    /// Another platform works on it.
    #[error(
        "the platform with process id {pid} is using {}: stop it with `make down`, or choose another folder with --data-dir",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process id in the lock file, where there is one.
        pid: String,
    },
    /// Another format of the folder.
    #[error(
        "{} has data format {found}, this platform reads format {VERSION}: use the platform that wrote it, \
         or choose another folder with --data-dir",
        path.display()
    )]
    Version {
        /// The folder.
        path: PathBuf,
        /// The format it has.
        found: String,
    },
    /// The folder belongs to something else.
    #[error("{} is not empty and holds no platform data: choose an empty folder with --data-dir", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// The path names something that is not a folder.
    #[error("{} is not a folder: choose another one with --data-dir", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The master key that the data was written with is missing.
    #[error(
        "{} is missing, and without it the data cannot be read: put it back, or name the key with --master-key-file",
        path.display()
    )]
    KeyMissing {
        /// Where the key should be.
        path: PathBuf,
    },
    /// A key file with other contents than a master key.
    #[error("{} is not a master key file: {source}; name the right one with --master-key-file", path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Malformed,
    },
    /// A key file that cannot be read.
    #[error("cannot read the master key in {}: {source}; name its file with --master-key-file", path.display())]
    UnreadKey {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file operation has failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// An open data folder, which is locked against other platforms until this value is dropped. It has no
/// `Debug`: it holds the master key.
pub(crate) struct DataDir {
    path: PathBuf,
    node_id: String,
    /// The master keys; none where the folder was opened for servers only.
    keys: Option<MasterKeyFile>,
    /// Whether this process has created the folder.
    is_new: bool,
    random: fn() -> [u8; 32],
    _lock: File,
}

impl DataDir {
    /// Opens the folder and creates what is missing: the folder itself, its node id and, when no `master_key_file` is
    /// given, its master key.
    pub(crate) fn open(
        path: &Path,
        master_key_file: Option<&Path>,
        random: fn() -> [u8; 32],
    ) -> Result<Self, DataDirError> {
        let mut opened = Self::for_servers(path, random)?;
        let own = opened.path.join("master.key");
        let file = match master_key_file {
            Some(file) => file.to_owned(),
            None if own.exists() => own,
            None if opened.was_used() => return Err(DataDirError::KeyMissing { path: own }),
            None => {
                write_atomically(&own, format!("{}\n", hex::encode(random())).as_bytes())?;
                own
            }
        };
        opened.keys = Some(MasterKeyFile::read(file)?);
        Ok(opened)
    }

    /// Opens the folder without a key: its servers need none, and a key that they created would belong to nothing.
    pub(crate) fn for_servers(path: &Path, random: fn() -> [u8; 32]) -> Result<Self, DataDirError> {
        create_private(path)?;
        let path = path.canonicalize().map_err(io_error("find", path))?;
        let version = read_text(&path.join("version"))?;
        if version.is_none() && is_foreign(&path)? {
            return Err(DataDirError::Foreign { path });
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(io_error("protect", &path))?;
        let lock = lock(&path)?;
        if let Some(found) = version.as_ref().filter(|found| *found != VERSION) {
            return Err(DataDirError::Version { found: found.chars().take(40).collect(), path });
        }

        let node_id = read_or_write(&path.join("node-id"), || hex::encode(&random()[..8]))?;
        create_private(&path.join("logs"))?;
        if version.is_none() {
            write_atomically(&path.join("version"), format!("{VERSION}\n").as_bytes())?;
        }
        Ok(Self { path, node_id, keys: None, is_new: version.is_none(), random, _lock: lock })
    }

    /// Whether a log was set up with a key of this folder, as the files of a first start show.
    fn was_used(&self) -> bool {
        ["system-users.json", "bootstrap.json", "bootstrap.plan.json"].iter().any(|name| self.path.join(name).exists())
    }

    /// Removes what this process has created in a new folder: keys and users that belong to nothing.
    pub(crate) fn discard(self) {
        if !self.is_new {
            return;
        }
        for name in MADE {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(self.path.join("logs"));
        let _ = fs::remove_dir(&self.path);
    }

    /// Fails where a folder is not the data directory of a platform.
    pub(crate) fn require(path: &Path) -> Result<(), String> {
        let refusal = || format!("{} is not the data directory of a platform: check --data-dir", path.display());
        path.join("version").exists().then_some(()).ok_or_else(refusal)
    }

    /// Returns the process id of the platform that uses the folder, if there is one.
    pub(crate) fn running(path: &Path) -> Result<Option<u32>, DataDirError> {
        let path = path.join("lock");
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(None),
                Err(TryLockError::WouldBlock) => Ok(read_text(&path)?.and_then(|pid| pid.parse().ok())),
                Err(TryLockError::Error(source)) => Err(io_error("lock", &path)(source)),
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(io_error("open", &path)(error)),
        }
    }

    /// The folder, as an absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the id of this node, which stays the same over restarts.
    pub(crate) fn node_id(&self) -> &str {
        &self.node_id
    }

    /// Returns the master keys, and the file that has them.
    pub(crate) fn master_keys(&self) -> &MasterKeyFile {
        self.keys.as_ref().expect("only servers open it without keys")
    }

    /// The folder of the NATS server.
    pub(crate) fn nats(&self) -> PathBuf {
        self.path.join("nats")
    }

    /// The folder of the Postgres server, which may be deleted while the platform is stopped.
    pub(crate) fn postgres(&self) -> PathBuf {
        self.path.join("postgres")
    }

    /// The password file of the Postgres server. It is not in the server's folder, which may belong to another user.
    pub(crate) fn postgres_password(&self) -> PathBuf {
        self.path.join("postgres.password")
    }

    /// The file with the port of the Postgres server.
    pub(crate) fn postgres_port(&self) -> PathBuf {
        self.path.join("postgres.port")
    }

    /// The file that the first start leaves for its user.
    pub(crate) fn bootstrap(&self) -> PathBuf {
        self.path.join("bootstrap.json")
    }

    /// Writes the address of the management port to where the tools of this machine find it.
    pub(crate) fn write_management_address(&self, address: SocketAddr) -> Result<(), DataDirError> {
        write_atomically(&self.management(), format!("{address}\n").as_bytes())
    }

    /// Writes the address at which the platform serves, for the operators' tools.
    pub(crate) fn write_address(&self, base: &str) -> Result<(), DataDirError> {
        write_atomically(&self.path.join(ADDRESS), format!("{base}\n").as_bytes())
    }

    /// Returns the address at which the platform of a folder serves, where one runs there.
    pub(crate) fn address(path: &Path) -> Option<String> {
        Self::running(path).ok().flatten()?;
        read_text(&path.join(ADDRESS)).ok().flatten()
    }

    /// Removes the addresses, at which nobody listens any more.
    pub(crate) fn forget_addresses(&self) {
        // Files that cannot be removed are overwritten by the next start.
        let _ = fs::remove_file(self.management());
        let _ = fs::remove_file(self.path.join(ADDRESS));
    }

    fn management(&self) -> PathBuf {
        self.path.join("management.address")
    }

    /// The log file of a server.
    pub(crate) fn log(&self, server: &str) -> PathBuf {
        self.path.join("logs").join(format!("{server}.log"))
    }

    /// The file with the identity of a server's process.
    pub(crate) fn pid_file(&self, server: &str) -> PathBuf {
        self.path.join(format!("{server}.pid"))
    }

    /// Reads the secret in `file`, and creates one on the first call.
    pub(crate) fn secret(&self, file: &Path) -> Result<String, DataDirError> {
        read_or_write(file, || hex::encode((self.random)()))
    }
}

/// Chooses free loopback ports: those in `file` while they still are, else others, which are written to it.
pub(crate) fn free_ports<const COUNT: usize>(file: &Path) -> Result<[u16; COUNT], DataDirError> {
    let kept: Vec<u16> =
        read_text(file)?.unwrap_or_default().split_whitespace().filter_map(|port| port.parse().ok()).collect();
    // All listeners are held until the last one is open, else one port could be given out twice.
    let listen = |ports: [u16; COUNT]| -> io::Result<Vec<TcpListener>> {
        ports.into_iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))).collect()
    };
    if let Ok(ports) = <[u16; COUNT]>::try_from(kept)
        && listen(ports).is_ok()
    {
        return Ok(ports);
    }
    let listeners = listen([0; COUNT]).map_err(io_error("find free ports for", file))?;
    let mut ports = [0; COUNT];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().map_err(io_error("find free ports for", file))?.port();
    }
    write_atomically(file, format!("{}\n", ports.map(|port| port.to_string()).join(" ")).as_bytes())?;
    Ok(ports)
}

/// Writes a file that only its owner may read, completely or not at all.
pub(crate) fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), DataDirError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let write = || {
        // An existing one is left over from an interrupted write, or a planted link, whose target must not be written.
        fs::remove_file(&temporary).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder(path)
    };
    write().map_err(io_error("write", path))
}

/// Makes a renamed or new entry of a folder survive a power loss.
pub(crate) fn sync_folder(entry: &Path) -> io::Result<()> {
    entry.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Creates a folder that only its owner may enter, unless it is there.
pub(crate) fn create_private(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            DataDirError::NotAFolder { path: path.to_owned() }
        }
        _ => io_error("create", path)(error),
    })
}

/// Returns the error of a file operation.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    move |source| DataDirError::Io { action, path: path.to_owned(), source }
}

/// Whether a folder without a version holds anything else than what an interrupted first start leaves.
fn is_foreign(path: &Path) -> Result<bool, DataDirError> {
    const FIRST: [&str; 5] = ["lock", "master.key", "node-id", "logs", "version"];
    for entry in fs::read_dir(path).map_err(io_error("read", path))? {
        let name = entry.map_err(io_error("read", path))?.file_name();
        let name = name.to_string_lossy();
        if !FIRST.contains(&name.trim_end_matches(".new")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lock(folder: &Path) -> Result<File, DataDirError> {
    let path = folder.join("lock");
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
    let mut file = options.open(&path).map_err(io_error("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(io_error("read", &path))?;
            let pid = if pid.is_empty() { "unknown" } else { pid.trim() }.to_owned();
            return Err(DataDirError::InUse { path: folder.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(io_error("lock", &path)(source)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(io_error("write", &path))?;
    Ok(file)
}

fn read_or_write(path: &Path, make: impl FnOnce() -> String) -> Result<String, DataDirError> {
    if let Some(text) = read_text(path)?.filter(|text| !text.is_empty()) {
        return Ok(text);
    }
    let text = make();
    write_atomically(path, format!("{text}\n").as_bytes())?;
    Ok(text)
}

fn read_text(path: &Path) -> Result<Option<String>, DataDirError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

#[cfg(test)]
mod tests;
