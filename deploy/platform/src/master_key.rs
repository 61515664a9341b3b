//! The file of the master key, which nodes read again when it changes, and which `platform master-key rotate` changes.

pub(crate) mod proof;

use std::{path::Path, time::Duration};

use base::{explain::explain, fault::shortened, secret::SymmetricKey};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;
use view::keyring::{self, Keyring, MasterKeys};

use crate::{
    Failure, cli,
    data_dir::{MasterKeyFile, read_master_keys, write_atomically},
    operator::Operator,
    output,
};

/// Returns how often a node looks at the file.
fn look_every() -> Duration {
    shortened(Duration::from_secs(2), Duration::from_millis(200))
}
/// How often a node is asked again that has not read the file yet, and the pause in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);
const REWRAP: &str = "/system/v1/data_keys/_rewrap";

/// Follows the file, and uses its keys when they change and open the data keys.
pub(crate) async fn keep_current(keyring: Keyring, MasterKeyFile { path: file, keys: used }: MasterKeyFile) {
    let mut last = Ok(used.to_text());
    loop {
        sleep(look_every()).await;
        let read = read_master_keys(&file).map_err(|error| explain(&error));
        let text = read.as_ref().map(MasterKeys::to_text).map_err(Clone::clone);
        if text == last {
            continue;
        }
        let keys = match read {
            Ok(keys) => keys,
            Err(error) => {
                tracing::warn!(error, "the master key cannot be read again, the previous one is used");
                last = text;
                continue;
            }
        };
        let (id, file) = (keys.id(), file.display());
        match keyring.change_master(keys).await {
            Ok(()) => {
                tracing::info!(%file, id, "the master key was read again");
                last = text;
            }
            Err(error) => {
                tracing::warn!(%file, id, error = explain(&error), "the changed master key is not used, the previous one is");
                // If the read models could not be read, the change is tried again.
                if matches!(error, keyring::KeyringFailure::WrongMasterKey) {
                    last = text;
                }
            }
        }
    }
}

/// Puts a new key before the old one, wraps all data keys again, and removes the old one. An interrupted rotation
/// continues where it was.
pub(crate) async fn rotate(options: cli::RotateMasterKey) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let own = options.at.of.data.data_dir.join("master.key");
    let file = options.master_key_file.unwrap_or(own);
    let keys = read_master_keys(&file)?;
    let keys = if keys.count() == 1 { keys.with_newer(SymmetricKey::random()) } else { keys };
    write(&file, &keys)?;
    if options.prepare {
        output::print(format!(
            "{} has a new key before the old one: give it to all nodes, then rotate",
            file.display()
        ));
        return Ok(());
    }
    let (mut count, mut idle) = (0, 0);
    loop {
        let answer = rewrap(&operator, &keys).await?;
        if answer["masterKeyId"] != json!(keys.id()) {
            return Err("the node answers for another master key".into());
        }
        // A member that is 0 is omitted from an answer.
        let number = |name: &str| answer[name].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let (rewrapped, remaining) = (number("rewrapped"), number("remaining"));
        if remaining == 0 {
            count += rewrapped;
            break;
        }
        idle = if rewrapped == 0 { idle + 1 } else { 0 };
        if idle > TRIES {
            return Err(format!("{remaining} data keys are not wrapped by the new key yet; rotate again").into());
        }
        count += rewrapped;
    }
    let mut old = file.clone().into_os_string();
    old.push(".old");
    write(Path::new(&old), &keys.older())?;
    write(&file, &keys.newest())?;
    output::print(format!(
        "{count} data keys are wrapped by the new master key, which is now the only one in {}",
        file.display()
    ));
    output::print(format!("the old one is in {}, for backups made before", Path::new(&old).display()));
    Ok(())
}

fn write(file: &Path, keys: &MasterKeys) -> Result<(), Failure> {
    Ok(write_atomically(file, keys.to_text().as_bytes())?)
}

/// Requests the rewrapping, and repeats it while the node has not read the file.
async fn rewrap(operator: &Operator, keys: &MasterKeys) -> Result<Value, Failure> {
    let mut tries = 1..TRIES;
    let path = format!("{REWRAP}?masterKeyId={}", keys.id());
    loop {
        match operator.send(Method::POST, &path, None).await {
            Err(error) if may_pass(&error.to_string()) && tries.next().is_some() => sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// Whether the error passes once the node has read the file, or its read model has caught up.
fn may_pass(error: &str) -> bool {
    ["PRECONDITION_FAILED", "READ_MODEL_UNAVAILABLE", "WRITER_UNAVAILABLE"].iter().any(|reason| error.contains(reason))
}
