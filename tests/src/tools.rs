//! Programs that some tests need and that are not part of the platform. `deploy/setup` installs them.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Returns the folder that `deploy/setup` has installed a set of tools in, if the set is complete.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    let folder = cache?.join("identity-platform").join(name);
    folder.join(".list").exists().then_some(folder)
}

/// Finds a program of the system: on the PATH, or where Debian installs those of servers.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(program)).find(|program| program.is_file())
}

/// Returns the PATH with a folder in front.
#[must_use]
pub fn path_with(folder: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).expect("no folder of the PATH has a colon")
}

/// Prints that a test is skipped because something is not installed. Continuous integration requires it.
///
/// # Panics
/// With `CI=true`.
pub fn skip(missing: &str) {
    let is_ci = env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "{missing} is not installed, and continuous integration does not do without it");
    println!("SKIPPED: {missing} is not installed; PLATFORM_SETUP_TOOLS=1 deploy/setup installs it");
}

/// Prints that a test is skipped because something is not installed that only root can install. Continuous integration
/// requires it only where it runs as root.
///
/// # Panics
/// With `CI=true`, as root.
pub fn skip_unless_root(missing: &str) {
    if rustix::process::geteuid().is_root() {
        skip(missing);
    } else {
        println!("SKIPPED: {missing} is not installed; PLATFORM_SETUP_TOOLS=1 deploy/setup installs it as root");
    }
}
