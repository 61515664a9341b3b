//! Checks of this machine: the build, the limit of open files, free space, and the file of the master key.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::process::{Resource, getrlimit};

use super::{readable_size, report::Report};
use crate::{
    cli,
    data_dir::{DataDir, read_master_keys},
};

/// How many files a node may need to have open, mostly connections.
const FILES: u64 = 8192;
/// The free space, in bytes, below which a folder is nearly full.
const LITTLE: u64 = 2 << 30;
/// The free space, in bytes, below which a folder counts as full.
const NOTHING: u64 = 256 << 20;

pub(super) fn check(options: &cli::Doctor, report: &mut Report) {
    report.ok("platform", format!("this is platform {}", env!("CARGO_PKG_VERSION")));
    let data_dir = options.servers.data_dir.as_deref();
    check_files(data_dir, report);
    for (check, folder) in [("data folder", data_dir), ("index folder", options.index_dir.as_deref())] {
        if let Some(folder) = folder {
            check_space(check, folder, report);
        }
    }
    if let Some(file) = key_file(options) {
        check_key(&file, report);
    }
}

/// Returns the file of the master key: the given one, else the default of the data directory.
pub(super) fn key_file(options: &cli::Doctor) -> Option<PathBuf> {
    let usual = options.servers.data_dir.as_ref().map(|folder| folder.join("master.key"));
    options.master_key_file.clone().or(usual.filter(|file| file.exists()))
}

/// Checks the limit of open files: that of the platform that runs on the folder, else that of this process, which it
/// has from its shell.
fn check_files(data_dir: Option<&Path>, report: &mut Report) {
    let pid = data_dir.and_then(|folder| DataDir::running(folder).ok().flatten());
    let (whose, limit) =
        match pid.and_then(|pid| Some((pid, limit_of(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)?))) {
            Some((pid, limit)) => (format!("process {pid}"), limit),
            None => ("a process started from here".to_owned(), getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)),
        };
    let found = format!("{whose} may open {limit} files");
    if limit >= FILES {
        return report.ok("open files", found);
    }
    let remedy =
        format!("allow {FILES} or more where nodes are started (`ulimit -n {FILES}`, LimitNOFILE= of systemd)");
    report.warn("open files", found, &remedy);
}

/// Returns the soft limit in the kernel's table of a process.
fn limit_of(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn check_space(check: &'static str, folder: &Path, report: &mut Report) {
    let name = folder.display();
    match rustix::fs::statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let found = format!("{name} has {} free", readable_size(free));
            let remedy = "make room on its disk, or move the folder to a larger one";
            match free {
                LITTLE.. => report.ok(check, found),
                NOTHING.. => report.warn(check, found, remedy),
                _ => report.fail(check, found, remedy),
            }
        }
        Err(error) => {
            report.fail(check, format!("{name} cannot be looked at: {error}"), "name an existing folder");
        }
    }
}

fn check_key(file: &Path, report: &mut Report) {
    const CHECK: &str = "master key";
    let name = file.display();
    if let Err(error) = read_master_keys(file) {
        return report.fail(CHECK, error.to_string(), "");
    }
    let mode = fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if matches!(mode, 0o400 | 0o600) {
        return report.ok(CHECK, format!("{name} is a key that only its owner may read"));
    }
    let remedy = format!("`chmod 600 {name}`, as the user that runs the nodes");
    report.warn(CHECK, format!("{name} has mode {mode:o}, so others than its owner may use it"), &remedy);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_table_of_limits_is_read() {
        let own = fs::read_to_string("/proc/self/limits").unwrap();
        assert_eq!(limit_of(&own), Some(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)));
        assert_eq!(
            limit_of("Max open files            unlimited            unlimited            files"),
            Some(u64::MAX)
        );
        assert_eq!(limit_of("Max processes 1 2 processes"), None);
    }

    #[test]
    fn a_small_disk_is_told() {
        let mut report = Report::new(true);
        check_space("data folder", Path::new("/proc"), &mut report);
        check_space("data folder", Path::new("/no/such/folder"), &mut report);
        assert_eq!(report.failed(), 2, "{}", report.json());
    }
}
