//! The check that a master key is the one that the log was set up with. It precedes everything that a node serves or
//! writes: a node with another key could read nothing, and would take requests and the writer's lease from nodes that
//! can.

use std::collections::BTreeMap;

use domain::{
    resource::data_key::DataKey,
    standard::{Event, Resource, Standard},
};
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, decode},
};
use futures::StreamExt;
use view::{
    database::Database,
    keyring::{Keyring, MasterKeys, Purpose, SYSTEM, opens},
};

use crate::{Failure, data_dir::MasterKeyFile};

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The key is the one of this log.
    Right,
    /// The key is another one.
    Wrong,
    /// The log was not set up yet, so any key may become its own.
    Unset,
}

/// Fails with a wrong key; returns whether the key is proved.
pub(crate) async fn prove(log: &Log, database: &Database, file: &MasterKeyFile) -> Result<bool, Failure> {
    match proof(log, Some(database), &file.keys).await? {
        Proof::Right => Ok(true),
        Proof::Unset => Ok(false),
        Proof::Wrong => Err(format!(
            "the master key is not the one that this log was set up with. It was read from {}; name the file with the right \
             one with --master-key-file, and check that --nats-url is the log that is meant",
            file.path.display()
        )
        .into()),
    }
}

/// Checks the key with the read models, and where they do not confirm it, because they are empty or lag, with the log.
pub(crate) async fn proof(log: &Log, database: Option<&Database>, keys: &MasterKeys) -> Result<Proof, LogFailure> {
    if let Some(database) = database
        && Keyring::new(keys.clone(), database.clone()).key(SYSTEM, Purpose::Consistency).await.is_ok()
    {
        return Ok(Proof::Right);
    }
    Ok(match newest(log).await? {
        None => Proof::Unset,
        Some(key) if opens(keys, SYSTEM, &key) => Proof::Right,
        Some(_) => Proof::Wrong,
    })
}

/// Returns the system's newest data key for consistency tokens, as it is wrapped at the end of the log. The complete
/// log is read for it: the record of the setup has the first wrapping, but the key may have been wrapped again since,
/// and somebody with only the former master key must not pass.
async fn newest(log: &Log) -> Result<Option<DataKey>, LogFailure> {
    let end = log.end().await?;
    let (mut known, mut at) = (BTreeMap::new(), 0);
    let mut records = log.follow(Position::default()).await?;
    while at < end
        && let Some(record) = records.next().await
    {
        // An unreadable record is reported by the nodes that need it.
        let Ok(record) = record else { break };
        at = record.stream_sequence;
        note(&record, &mut known);
    }
    Ok(known.pop_last().map(|(_, key)| key))
}

fn note(record: &Record, known: &mut BTreeMap<String, DataKey>) {
    let of_system = |kind: &str, instance_id: &str| kind == DataKey::NAME && instance_id == SYSTEM;
    for recorded in record.events.iter().filter(|it| of_system(&it.event.aggregate_type, &it.event.instance_id)) {
        let Ok(Event::Added(key) | Event::Changed { to: key, .. }) = decode::<Standard<DataKey>>(recorded) else {
            continue;
        };
        if key.purpose == Purpose::Consistency.name() {
            known.insert(recorded.event.aggregate_id.clone(), key.into_known());
        }
    }
}
