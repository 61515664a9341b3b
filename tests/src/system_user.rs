//! System users of nodes that have no data folder of their own.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use base::signing;
use serde_json::{Value, json};

use crate::{hex, process::run};

/// Creates a folder of a system user, for `--data-dir`, and returns the system users for a node.
///
/// # Panics
/// Where the folder cannot be written.
pub fn system_user(folder: &Path, role: &str) -> Value {
    let key = signing::es256("operator");
    fs::create_dir_all(folder).expect("the folder can be written");
    let private = folder.join("system-user.key");
    fs::write(&private, hex(&key.private)).expect("the folder can be written");
    fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).expect("it is ours");
    json!([{ "name": "operator", "public": key.public, "roles": [role] }])
}

/// Creates a folder of a system user with all rights, and returns the file for `--system-users` in it.
///
/// # Panics
/// Where the folder cannot be written.
pub fn system_owner(folder: &Path) -> PathBuf {
    let (users, file) = (system_user(folder, "SYSTEM_OWNER"), folder.join("system-users.json"));
    fs::write(&file, users.to_string()).expect("the folder can be written");
    file
}

/// Returns a token of the system user of a folder, for the instance of an issuer.
///
/// # Panics
/// Where the command fails.
pub fn system_token(folder: &Path, issuer: &str) -> String {
    let folder = folder.display().to_string();
    let (is_made, token, said) = run(&["system-token", "--issuer", issuer, "--data-dir", &folder]);
    assert!(is_made, "{said}");
    token.trim().to_owned()
}
