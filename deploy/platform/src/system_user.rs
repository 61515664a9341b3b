//! The system user of a data directory: its key, and the tokens that it signs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base::{clock, private_file, signing};
use domain::role::{IAM_OWNER, SYSTEM_OWNER};
use edge::caller::{LONGEST_SYSTEM_TOKEN, SystemToken, SystemUser};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};

use crate::{
    Failure, cli,
    data_dir::{io_error, write_atomically},
    output,
};

/// The name of the system user of a data directory.
const NAME: &str = "operator";

/// Returns the path of the file with the system users of a data directory.
pub(crate) fn public(folder: &Path) -> PathBuf {
    folder.join("system-users.json")
}

fn private(folder: &Path) -> PathBuf {
    folder.join("system-user.key")
}

/// Reads the system users of a data directory; on the first call one is created.
pub(crate) fn own(folder: &Path) -> Result<Vec<SystemUser>, Failure> {
    let path = public(folder);
    if path.exists() {
        return read(&path);
    }
    let key = signing::es256(NAME);
    let roles = [IAM_OWNER.name, SYSTEM_OWNER.name].map(str::to_owned).to_vec();
    let users = vec![SystemUser { name: NAME.to_owned(), public: key.public, roles }];
    // The public key is written last: with it the user is complete.
    write_atomically(&private(folder), hex::encode(&*key.private).as_bytes())?;
    write_atomically(&path, &serde_json::to_vec_pretty(&users)?)?;
    Ok(users)
}

/// Reads the system users in a file.
pub(crate) fn read(path: &Path) -> Result<Vec<SystemUser>, Failure> {
    let text = fs::read(path).map_err(io_error("read", path))?;
    let users = serde_json::from_slice(&text);
    Ok(users.map_err(|error| format!("{} holds no list of system users: {error}", path.display()))?)
}

/// Prints a token that is valid for an hour.
pub(crate) fn print_token(options: &cli::OfInstance) -> Result<(), Failure> {
    output::print(token(&options.data.data_dir, &options.issuer()?)?);
    Ok(())
}

/// Returns a token for an issuer.
pub(crate) fn token(folder: &Path, issuer: &str) -> Result<String, Failure> {
    let path = private(folder);
    let key = private_file::read(&path).map_err(io_error("read", &path))?;
    let key = hex::decode(key.trim_ascii()).map_err(|_| format!("{} holds no key", path.display()))?;
    let now = clock::now().as_second();
    let name = || NAME.to_owned();
    let claims =
        SystemToken { iss: name(), sub: name(), aud: issuer.to_owned(), iat: now, exp: now + LONGEST_SYSTEM_TOKEN };
    Ok(encode(&Header::new(Algorithm::ES256), &claims, &EncodingKey::from_ec_der(&key))?)
}
