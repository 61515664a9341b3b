//! Whether a master key is the one that the log was set up with. It is asked before a node serves or writes anything: one
//! with another key could read nothing, and would take requests and the writer's lease from those that can.

use std::{collections::BTreeMap, path::Path};

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

use crate::Failure;

/// What a master key was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The one of this log.
    Right,
    /// Another one.
    Wrong,
    /// The log was not set up yet, so that any key may become its own.
    Unset,
}

/// Ends a start with a wrong key; tells whether the key is proved.
pub(crate) async fn prove(log: &Log, database: &Database, (keys, file): (&MasterKeys, &Path)) -> Result<bool, Failure> {
    match proof(log, Some(database), keys).await? {
        Proof::Right => Ok(true),
        Proof::Unset => Ok(false),
        Proof::Wrong => Err(format!(
            "the master key is not the one that this log was set up with. It was read from {}; name the file with the right \
             one with --master-key-file, and check that --nats-url is the log that is meant",
            file.display()
        )
        .into()),
    }
}

/// Looks into the read models, and where they do not confirm the key, because they are empty or lag, into the log.
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

/// The newest data key of the system's for consistency tokens, as it is wrapped at the end of the log. All of the log is
/// read for it: the record of the setup has the first, but it may have been wrapped again since, and who only has the
/// master key from before must not pass.
async fn newest(log: &Log) -> Result<Option<DataKey>, LogFailure> {
    let end = log.end().await?;
    let (mut known, mut at) = (BTreeMap::new(), 0);
    let mut records = log.follow(Position::default()).await?;
    while at < end
        && let Some(record) = records.next().await
    {
        // What cannot be read is told by whoever needs it.
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
            known.insert(recorded.event.aggregate_id.clone(), key.known);
        }
    }
}
