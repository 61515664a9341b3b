//! Certificates of this machine, which nobody has issued.

use std::{fs, fs::Permissions, os::unix::fs::PermissionsExt, path::Path};

/// Writes a new certificate for loopback to `cert.pem` in a folder, with its key in `key.pem`, and returns it as PEM.
pub fn certify(folder: &Path) -> String {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("it can be made");
    let (pem, key) = (pair.cert.pem(), folder.join("key.pem"));
    fs::write(folder.join("cert.pem"), &pem).expect("the folder can be written");
    fs::write(&key, pair.signing_key.serialize_pem()).expect("the folder can be written");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
    pem
}

/// Returns the flags of a platform that listens with the certificate in a folder.
pub fn flags(folder: &Path) -> [String; 4] {
    let path = |name: &str| folder.join(name).display().to_string();
    ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".to_owned(), path("key.pem")]
}
