//! Files that hold a key.

use std::{fs::File, io, io::Read, os::unix::fs::PermissionsExt, path::Path};

/// The permissions of everybody other than the owner and the group of a file.
const OTHERS: u32 = 0o007;

/// Reads a file that holds a key, unless others may access it: then it is not secret.
///
/// # Errors
/// If it cannot be read, or others may access it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let remedy = format!("`chmod 600 {}`, and replace the key if somebody may have read it", path.display());
        let message = format!("it has mode {mode:o}, so everybody on this machine may use the key: {remedy}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut contents = vec![];
    file.read_to_end(&mut contents)?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("platform-key-{}", std::process::id()));
        fs::write(&path, "key").unwrap();
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o440, true), (0o644, false), (0o604, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read(&path);
            assert_eq!(read.is_ok(), is_read, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
