//! The system user of a data directory: its key, the tokens that it signs, and what is done with them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use domain::permission::{IAM_OWNER, SYSTEM_OWNER};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::header::HOST;
use store::{clock, explain::explain, signing};
use transport::caller::{LONGEST_SYSTEM_TOKEN, SystemToken, SystemUser};

use crate::{
    Failure,
    bootstrap::Bootstrap,
    cli,
    data_dir::{io_error, write_atomically},
    say,
};

/// What the system user of a data directory is called.
const NAME: &str = "operator";

fn public(folder: &Path) -> PathBuf {
    folder.join("system-users.json")
}

fn private(folder: &Path) -> PathBuf {
    folder.join("system-user.key")
}

/// The system users of a data directory; on the first call one is made.
pub(crate) fn own(folder: &Path) -> Result<Vec<SystemUser>, Failure> {
    let path = public(folder);
    if path.exists() {
        return read(&path);
    }
    let key = signing::es256(NAME);
    let roles = [IAM_OWNER.name, SYSTEM_OWNER.name].map(str::to_owned).to_vec();
    let users = vec![SystemUser { name: NAME.to_owned(), public: key.public, roles }];
    // The public key is written last: with it the user is a whole one.
    write_atomically(&private(folder), hex::encode(&*key.private).as_bytes())?;
    write_atomically(&path, &serde_json::to_vec_pretty(&users)?)?;
    Ok(users)
}

/// The system users in a file.
pub(crate) fn read(path: &Path) -> Result<Vec<SystemUser>, Failure> {
    let text = fs::read(path).map_err(io_error("read", path))?;
    let users = serde_json::from_slice(&text);
    Ok(users.map_err(|error| format!("{} holds no list of system users: {error}", path.display()))?)
}

/// Prints a token that is valid for an hour.
pub(crate) fn print_token(options: &cli::DataDirectory) -> Result<(), Failure> {
    say::out(token(&options.data_dir)?.1);
    Ok(())
}

/// Removes an execution, whatever executions there are: none runs on the calls of a system user.
pub(crate) async fn delete_execution(options: cli::DeleteExecution) -> Result<(), Failure> {
    let (issuer, token) = token(&options.data.data_dir)?;
    let base = options.url.map_or_else(|| issuer.clone(), |url| url.origin().ascii_serialization());
    // Whichever node is asked, the instance is known by its host.
    let host = issuer.split_once("://").map_or(issuer.as_str(), |(_, host)| host);
    let id: String = url::form_urlencoded::byte_serialize(options.id.as_bytes()).collect();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request =
        client.delete(format!("{base}/resources/v3alpha/executions/{id}")).header(HOST, host).bearer_auth(token);
    let answer = request.send().await.map_err(|error| format!("{base} does not answer: {}", explain(&error)))?;
    let (is_done, body) = (answer.status().is_success(), answer.text().await?);
    if !is_done {
        return Err(format!("it was not removed: {body}").into());
    }
    say::out("removed");
    Ok(())
}

/// The issuer of a data directory's instance, and a token for it.
fn token(folder: &Path) -> Result<(String, String), Failure> {
    let issuer = Bootstrap::issuer_of(folder)?;
    let path = private(folder);
    let key = fs::read(&path).map_err(io_error("read", &path))?;
    let key = hex::decode(key.trim_ascii()).map_err(|_| format!("{} holds no key", path.display()))?;
    let now = clock::now().as_second();
    let name = || NAME.to_owned();
    let claims =
        SystemToken { iss: name(), sub: name(), aud: issuer.clone(), iat: now, exp: now + LONGEST_SYSTEM_TOKEN };
    let token = encode(&Header::new(Algorithm::ES256), &claims, &EncodingKey::from_ec_der(&key))?;
    Ok((issuer, token))
}
