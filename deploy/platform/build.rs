//! Passes to the program what it was built with: the compiler, and for a release the commit.
//!
//! The commit is `PLATFORM_COMMIT`, or read from the files of git where there are any; git itself is not needed. Other
//! builds do not name it: they would be rebuilt after every commit.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=PLATFORM_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var("RUSTC").ok().and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo:rustc-env=PLATFORM_RUST={}", version.unwrap_or_default());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = env::var("PLATFORM_COMMIT").ok().or_else(|| is_release.then(commit).flatten());
    println!("cargo:rustc-env=PLATFORM_COMMIT={}", commit.unwrap_or_default());
}

/// Returns the commit that is checked out, as read from the files of git.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let git = root.join(".git");
    // In a separate work tree, `.git` is a file that names the folder.
    let folder = match fs::read_to_string(&git) {
        Ok(text) => Path::new(text.trim().strip_prefix("gitdir: ")?).to_owned(),
        Err(_) => git,
    };
    println!("cargo:rerun-if-changed={}", folder.join("HEAD").display());
    let head = fs::read_to_string(folder.join("HEAD")).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_owned()) };
    let common = fs::read_to_string(folder.join("commondir")).map(|text| folder.join(text.trim()));
    let file = common.unwrap_or(folder).join(reference);
    println!("cargo:rerun-if-changed={}", file.display());
    // Packed references are not searched.
    fs::read_to_string(file).ok().map(|commit| commit.trim().to_owned())
}
