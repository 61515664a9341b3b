//! The streams beside the log: how they are made, and by which rules they do not work. One that somebody else made is
//! not used before it was looked at.

use std::time::Duration;

use async_nats::jetstream::{
    self, ErrorCode,
    context::{CreateStreamError, CreateStreamErrorKind},
    kv::Store,
    stream::{Config, DiscardPolicy, StorageType, Stream},
};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::sleep;

use crate::log::{LogFailure, is_absent, nats};

/// After what time it is forgotten that something happened that may happen once.
pub const FORGOTTEN_AFTER: Duration = Duration::from_hours(2);
/// After what time tries are forgotten.
pub const TRIES_FORGOTTEN_AFTER: Duration = Duration::from_hours(24);
/// How much a forgetful bucket holds before it takes no more, so that the disk is left to the log: more than a million values. NATS reserves it.
const MOST_BYTES: i64 = 256 << 20;
/// How much pictures and fonts take of the disk before no more are taken: those of 64 contexts that have as many as they may. NATS reserves
/// it. An operator may give the bucket more.
const MOST_OF_ASSETS: i64 = 512 << 20;
/// After what time requests are forgotten that wait for a person.
pub const REQUESTS_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// After what time codes are forgotten: longer than one is good, so that it is known when it is used again.
pub const CODES_FORGOTTEN_AFTER: Duration = Duration::from_mins(5);
/// How many requests of one origin wait: the oldest goes.
const MOST_OF_ORIGIN: i64 = 200;
/// The stream of requests.
const REQUESTS: &str = "AUTH_REQUESTS";
/// How much memory of NATS requests take, and codes.
const MOST_IN_MEMORY: [i64; 2] = [128 << 20, 96 << 20];
/// How often, and after what time each, it is looked again whether there is memory for a stream.
const MOST_LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(200);

/// How many replaced values an erasable bucket keeps of a key until they are overwritten: one, and those of processes that died
/// meanwhile.
const MOST_REPLACED: i64 = 64;

/// A stream beside the log.
#[derive(Debug)]
pub struct Beside {
    /// The stream.
    pub stream: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What is lost where it is removed.
    pub loses: &'static str,
    fault: fn(&Config) -> Option<&'static str>,
}

/// All of them.
pub const BESIDE: [Beside; 11] = [
    Beside { stream: "KV_HOLDERS", what: "the bucket of leases", loses: NOTHING, fault: holders_fault },
    Beside { stream: "KV_INDEX_MANIFESTS", what: "the bucket of index manifests", loses: NOTHING, fault: values_fault },
    Beside { stream: "OBJ_INDEX_FILES", what: "the object store of index files", loses: NOTHING, fault: kept_fault },
    Beside {
        stream: "ACTIONS_0",
        what: "the queue of deliveries",
        loses: "deliveries that wait or were given up are lost",
        fault: kept_fault,
    },
    Beside {
        stream: "KV_REACTIONS",
        what: "the bucket of places in the log",
        loses: "events of which no delivery was made yet are not delivered",
        fault: values_fault,
    },
    Beside {
        stream: "KV_ONCE",
        what: "the bucket of what may happen once",
        loses: "assertions that were used can be used again until they expire",
        fault: once_fault,
    },
    Beside {
        stream: "KV_TRIES",
        what: "the bucket of tries that may fail",
        loses: "passwords that were tried wrongly can be tried as often again",
        fault: tries_fault,
    },
    Beside { stream: REQUESTS, what: "the requests that wait for a person", loses: BEGIN_ANEW, fault: requests_fault },
    Beside { stream: "KV_CODES", what: "the bucket of authorization codes", loses: BEGIN_ANEW, fault: codes_fault },
    Beside {
        stream: "KV_PERSONS",
        what: "the bucket of the keys of people",
        loses: "what is personal of all people is lost for ever",
        fault: erasable_fault,
    },
    Beside {
        stream: "KV_ASSETS",
        what: "the bucket of pictures and fonts",
        loses: "pages lack the pictures and fonts that were uploaded until somebody uploads them again",
        fault: assets_fault,
    },
];

const NOTHING: &str = "nothing is lost";
const BEGIN_ANEW: &str = "who is logging in has to begin anew";

/// How a stream was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// As it must be.
    Right,
    /// It is not there; the next node that starts makes it.
    Absent,
    /// With a rule by which it does not work.
    Wrong(&'static str),
}

impl Beside {
    /// Asks for the stream.
    pub async fn look(&self, context: &jetstream::Context, replicas: usize) -> Result<Found, LogFailure> {
        let stream = match context.get_stream(self.stream).await {
            Ok(stream) => stream,
            Err(error) if is_absent(&error) => return Ok(Found::Absent),
            Err(error) => return Err(nats(error)),
        };
        let config = &stream.cached_info().config;
        let few = (config.num_replicas < replicas).then_some("fewer replicas than asked for");
        Ok((self.fault)(config).or(few).map_or(Found::Right, Found::Wrong))
    }
}

/// Opens a stream beside the log, which is made where there is none.
///
/// # Errors
/// When NATS does not answer, and when there is one that does not work.
pub async fn open(context: &jetstream::Context, config: Config) -> Result<Stream, LogFailure> {
    let mut looks = 0;
    let stream = loop {
        match context.get_or_create_stream(config.clone()).await {
            Ok(stream) => break stream,
            Err(error) if !lacks_memory(&error) => return Err(nats(error)),
            Err(_) if looks == MOST_LOOKS => return Err(no_memory(&config)),
            // NATS counts a stream once for each node that is just making it.
            Err(_) => sleep(LOOK).await,
        }
        looks += 1;
    };
    check(&stream)?;
    Ok(stream)
}

fn lacks_memory(error: &CreateStreamError) -> bool {
    let is_it = |error: &jetstream::Error| error.error_code() == ErrorCode::MEMORY_RESOURCES_EXCEEDED;
    matches!(error.kind(), CreateStreamErrorKind::JetStream(error) if is_it(&error))
}

/// What an operator can do about it.
fn no_memory(Config { name, max_bytes, .. }: &Config) -> LogFailure {
    let [all, one] = [MOST_IN_MEMORY.iter().sum(), *max_bytes].map(|bytes| bytes >> 20);
    LogFailure::Nats(format!(
        "no memory is left for the stream {name}, which takes {one} MiB: set max_memory_store of JetStream to {all}MB at least"
    ))
}

/// Opens a bucket beside the log in the same way. It has one value of each key, replaced by compare-and-set.
///
/// # Errors
/// As [`open`].
pub async fn bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    open_bucket(context, name, values(name, replicas)).await
}

/// Opens a bucket in the same way in which a value may have an end of its own.
///
/// # Errors
/// As [`open`].
pub async fn ending_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    open_bucket(context, name, Config { allow_message_ttl: true, ..values(name, replicas) }).await
}

/// Opens a bucket in the same way in which each value is forgotten after so long or earlier.
///
/// # Errors
/// As [`open`].
pub async fn forgetful_bucket(
    context: &jetstream::Context,
    name: &str,
    (max_age, replicas): (Duration, usize),
) -> Result<Store, LogFailure> {
    let config = Config { max_age, max_bytes: MOST_BYTES, allow_message_ttl: true, ..values(name, replicas) };
    open_bucket(context, name, config).await
}

/// Opens a bucket in the same way that is in memory, and forgets each value soon.
///
/// # Errors
/// As [`open`].
pub async fn passing_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    let [_, max_bytes] = MOST_IN_MEMORY;
    let (max_age, storage) = (CODES_FORGOTTEN_AFTER, StorageType::Memory);
    open_bucket(context, name, Config { max_age, max_bytes, storage, ..values(name, replicas) }).await
}

/// Opens the stream of requests that wait for a person in the same way. It is in memory too.
///
/// # Errors
/// As [`open`].
pub async fn requests(context: &jetstream::Context, replicas: usize) -> Result<Stream, LogFailure> {
    let [max_bytes, _] = MOST_IN_MEMORY;
    let config = Config {
        name: REQUESTS.to_owned(),
        subjects: vec!["auth_requests.>".to_owned()],
        storage: StorageType::Memory,
        num_replicas: replicas,
        max_messages_per_subject: MOST_OF_ORIGIN,
        max_age: REQUESTS_FORGOTTEN_AFTER,
        max_bytes,
        discard: DiscardPolicy::New,
        allow_direct: false,
        ..Config::default()
    };
    open(context, config).await
}

/// The subject of requests of an instance and an origin; what those of an instance begin with, where the origin is empty.
pub(crate) fn request_subject(instance_id: &str, origin: &str) -> String {
    format!("auth_requests.{instance_id}.{origin}")
}

/// Opens a bucket in the same way whose values can be destroyed: what is replaced stays until it is overwritten.
///
/// # Errors
/// As [`open`].
pub async fn erasable_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Stream, LogFailure> {
    open(context, Config { max_messages_per_subject: MOST_REPLACED, ..values(name, replicas) }).await
}

/// Opens the bucket of pictures and fonts in the same way. It takes no more when it is full.
///
/// # Errors
/// As [`open`].
pub async fn assets_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Stream, LogFailure> {
    open(context, Config { max_bytes: MOST_OF_ASSETS, ..values(name, replicas) }).await
}

async fn open_bucket(context: &jetstream::Context, name: &str, config: Config) -> Result<Store, LogFailure> {
    open(context, config).await?;
    context.get_key_value(name).await.map_err(nats)
}

fn values(name: &str, replicas: usize) -> Config {
    Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        storage: StorageType::File,
        num_replicas: replicas,
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        // What a follower that lags tells is not the newest.
        allow_direct: false,
        ..Config::default()
    }
}

/// Refuses a stream by whose rules it does not work.
///
/// # Errors
/// When it is one.
pub fn check(stream: &Stream) -> Result<(), LogFailure> {
    let config = &stream.cached_info().config;
    let beside = BESIDE.iter().find(|beside| beside.stream == config.name);
    match beside.and_then(|beside| Some((beside, (beside.fault)(config)?))) {
        Some((beside, rule)) => Err(LogFailure::Beside { stream: beside.stream, rule, loses: beside.loses }),
        None => Ok(()),
    }
}

fn holders_fault(config: &Config) -> Option<&'static str> {
    if !config.allow_message_ttl {
        return Some("no end of single values, by which leases end");
    }
    values_fault(config)
}

fn values_fault(config: &Config) -> Option<&'static str> {
    one_value_fault(config).or_else(|| kept_fault(config))
}

fn assets_fault(config: &Config) -> Option<&'static str> {
    if config.deny_delete {
        return Some("no deletion of single messages, by which goes what nobody shows any more");
    }
    if config.discard != DiscardPolicy::New {
        return Some("old values that make room for new ones");
    }
    values_fault(config)
}

fn once_fault(config: &Config) -> Option<&'static str> {
    forgetful_fault(config, FORGOTTEN_AFTER)
}

fn tries_fault(config: &Config) -> Option<&'static str> {
    forgetful_fault(config, TRIES_FORGOTTEN_AFTER)
}

fn forgetful_fault(config: &Config, after: Duration) -> Option<&'static str> {
    if config.max_age < after {
        return Some("a maximum age by which it forgets too early, or never");
    }
    if config.discard != DiscardPolicy::New {
        return Some("old values that make room for new ones");
    }
    if !config.allow_message_ttl {
        return Some("no end of single values");
    }
    one_value_fault(config)
}

fn requests_fault(config: &Config) -> Option<&'static str> {
    if config.max_messages_per_subject != MOST_OF_ORIGIN {
        return Some("another number of requests of one origin than 200");
    }
    if config.deny_delete {
        return Some("no deletion of single messages, by which requests end");
    }
    passing_fault(config, REQUESTS_FORGOTTEN_AFTER)
}

fn codes_fault(config: &Config) -> Option<&'static str> {
    if config.max_messages_per_subject != 1 {
        return Some("more than one value of a key");
    }
    passing_fault(config, CODES_FORGOTTEN_AFTER)
}

fn passing_fault(config: &Config, after: Duration) -> Option<&'static str> {
    if config.max_age < after {
        return Some("a maximum age by which it forgets too early, or never");
    }
    if config.discard != DiscardPolicy::New {
        return Some("old values that make room for new ones");
    }
    config.allow_direct.then_some("direct reads, which may come from a server that lags")
}

fn erasable_fault(config: &Config) -> Option<&'static str> {
    if config.deny_delete {
        return Some("no deletion of single messages, by which keys are destroyed");
    }
    if config.max_messages_per_subject != MOST_REPLACED {
        return Some("another number of messages of a key, by which a replaced one goes before it is overwritten");
    }
    if config.allow_direct {
        return Some("direct reads, which may come from a server that lags");
    }
    kept_fault(config)
}

/// A value is replaced by compare-and-set, and read from the leader only.
fn one_value_fault(config: &Config) -> Option<&'static str> {
    if config.max_messages_per_subject != 1 {
        return Some("more than one value of a key");
    }
    if config.storage != StorageType::File {
        return Some("memory storage");
    }
    config.allow_direct.then_some("direct reads, which may come from a server that lags")
}

fn kept_fault(config: &Config) -> Option<&'static str> {
    if !config.max_age.is_zero() {
        return Some("a maximum age");
    }
    (config.storage != StorageType::File).then_some("memory storage")
}

/// The time by the clock of the server that leads a stream; `None` where the server does not tell.
pub async fn server_time(client: &async_nats::Client, stream: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Answer {
        ts: Timestamp,
    }
    let answer = client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.ok()?;
    serde_json::from_slice::<Answer>(&answer.payload).ok().map(|answer| answer.ts)
}
