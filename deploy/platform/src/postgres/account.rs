//! The user that Postgres runs as: the user of this process, or an unprivileged one where that is root, which Postgres
//! refuses.
//!
//! The data folder, and often the cache folder with the programs, may not be entered by that user. So Postgres gets one
//! capability that lets it through, and no other. Only the database files are its own: what this process reads and
//! writes by name lies in folders of this process, where that user cannot plant links.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use tokio::process::Command;

use crate::binaries::Binaries;
use crate::data_dir::{DataDirError, io_error};

/// The user and group id of `nobody` where `/etc/passwd` has no other ones.
const NOBODY: (u32, u32) = (65534, 65534);
/// Capabilities with their bits that let a process enter folders without permission, the lesser one first.
const ENTER: [(&str, u32); 2] = [("dac_read_search", 2), ("dac_override", 1)];

/// Why there is no user to run Postgres as.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountError {
    /// The program that changes the user is missing.
    #[error("postgres does not run as root, and setpriv is missing: install util-linux, or run as an ordinary user")]
    NoSetpriv,
}

/// A user to run Postgres as.
#[derive(Debug)]
pub(crate) struct Account {
    /// The other user; none where this process's own user is used.
    other: Option<Other>,
}

#[derive(Debug)]
struct Other {
    uid: u32,
    gid: u32,
    setpriv: PathBuf,
    capability: Option<&'static str>,
}

impl Account {
    /// Chooses the user: the one that the database files belong to, where there are any.
    pub(crate) fn for_files(files: &Path, binaries: &Binaries) -> Result<Self, AccountError> {
        if !getuid().is_root() {
            return Ok(Self { other: None });
        }
        let (uid, gid) = match files.symlink_metadata() {
            Ok(metadata) if metadata.uid() != 0 => (metadata.uid(), metadata.gid()),
            _ => nobody(),
        };
        let setpriv = binaries.on_path("setpriv").ok_or(AccountError::NoSetpriv)?;
        Ok(Self { other: Some(Other { uid, gid, setpriv, capability: enter_capability() }) })
    }

    /// Gives a folder to the user.
    pub(crate) fn own(&self, folder: &Path) -> Result<(), DataDirError> {
        let Some(other) = &self.other else { return Ok(()) };
        lchown(folder, Some(other.uid), Some(other.gid)).map_err(io_error("give away", folder))
    }

    /// Begins a command that runs as the user, without this process's environment, which may hold keys.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = match &self.other {
            None => Command::new(program),
            Some(other) => other.command(program),
        };
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }
}

impl Other {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.setpriv);
        command.args([format!("--reuid={}", self.uid), format!("--regid={}", self.gid)]);
        command.args(["--clear-groups", "--no-new-privs"]);
        if let Some(capability) = self.capability {
            for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
                command.arg(format!("{set}=-all,+{capability}"));
            }
            // initdb and postgres check their files with access(2), for which the kernel ignores the capabilities of
            // all users but root, unless this bit is set.
            command.arg("--securebits=+no_setuid_fixup");
        }
        command.arg("--").arg(program);
        command
    }
}

fn nobody() -> (u32, u32) {
    let numbers = |line: &str| {
        let mut fields = line.strip_prefix("nobody:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    fs::read_to_string("/etc/passwd").ok().and_then(|passwd| passwd.lines().find_map(numbers)).unwrap_or(NOBODY)
}

/// Returns the least capability for entering folders that this process has: root in a container may lack some.
fn enter_capability() -> Option<&'static str> {
    let status: io::Result<String> = fs::read_to_string("/proc/self/status");
    let status = status.ok()?;
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(bits.trim(), 16).ok()?;
    ENTER.into_iter().find(|(_, bit)| bits & (1 << bit) != 0).map(|(name, _)| name)
}
