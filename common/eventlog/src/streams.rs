//! The streams beside the log: how they are created, and which rules make them unusable. A stream that somebody else
//! created is checked before it is used.

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

/// How long it is remembered that something happened that may happen once.
pub const FORGOTTEN_AFTER: Duration = Duration::from_hours(2);
/// How long tries are remembered.
pub const TRIES_FORGOTTEN_AFTER: Duration = Duration::from_hours(24);
/// The most bytes of a forgetful bucket, so that the disk is left to the log: enough for more than a million values.
/// NATS reserves them.
const MOST_BYTES: i64 = 256 << 20;
/// The most bytes of pictures and fonts: enough for 64 contexts that have as many as they may. NATS reserves them. An
/// operator may give the bucket more.
const MOST_OF_ASSETS: i64 = 512 << 20;
/// How long requests are remembered that wait for a person.
pub const REQUESTS_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// How long codes are remembered: longer than they are valid, so that a second use is detected.
pub const CODES_FORGOTTEN_AFTER: Duration = Duration::from_mins(5);
/// The most waiting requests of one origin; beyond that, the oldest is removed.
const MOST_OF_ORIGIN: i64 = 200;
/// The stream of requests.
const REQUESTS: &str = "AUTH_REQUESTS";
/// The most memory of NATS for requests and for codes, in bytes.
const MOST_IN_MEMORY: [i64; 2] = [128 << 20, 96 << 20];
/// How often, and with which pause, memory for a stream is waited for.
const MOST_LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(200);
/// The most replaced values per key of an erasable bucket: one, and those of processes that died meanwhile.
const MOST_REPLACED: i64 = 64;

/// A stream beside the log.
#[derive(Debug)]
pub struct SideStream {
    /// The stream.
    pub stream: &'static str,
    /// Its description.
    pub what: &'static str,
    /// What is lost if it is removed.
    pub loses: &'static str,
    fault: fn(&Config) -> Option<&'static str>,
}

/// All streams beside the log.
pub const BESIDE: [SideStream; 11] = [
    SideStream { stream: "KV_HOLDERS", what: "the bucket of leases", loses: NOTHING, fault: holders_fault },
    SideStream {
        stream: "KV_INDEX_MANIFESTS",
        what: "the bucket of index manifests",
        loses: NOTHING,
        fault: values_fault,
    },
    SideStream {
        stream: "OBJ_INDEX_FILES",
        what: "the object store of index files",
        loses: NOTHING,
        fault: kept_fault,
    },
    SideStream {
        stream: "ACTIONS_0",
        what: "the queue of deliveries",
        loses: "deliveries that wait or were given up are lost",
        fault: kept_fault,
    },
    SideStream {
        stream: "KV_REACTIONS",
        what: "the bucket of places in the log",
        loses: "events of which no delivery was made yet are not delivered",
        fault: values_fault,
    },
    SideStream {
        stream: "KV_ONCE",
        what: "the bucket of what may happen once",
        loses: "assertions that were used can be used again until they expire",
        fault: once_fault,
    },
    SideStream {
        stream: "KV_TRIES",
        what: "the bucket of tries that may fail",
        loses: "passwords that were tried wrongly can be tried as often again",
        fault: tries_fault,
    },
    SideStream {
        stream: REQUESTS,
        what: "the requests that wait for a person",
        loses: BEGIN_ANEW,
        fault: requests_fault,
    },
    SideStream { stream: "KV_CODES", what: "the bucket of authorization codes", loses: BEGIN_ANEW, fault: codes_fault },
    SideStream {
        stream: "KV_PERSONS",
        what: "the bucket of the keys of people",
        loses: "what is personal of all people is lost for ever",
        fault: erasable_fault,
    },
    SideStream {
        stream: "KV_ASSETS",
        what: "the bucket of pictures and fonts",
        loses: "pages lack the pictures and fonts that were uploaded until somebody uploads them again",
        fault: assets_fault,
    },
];

const NOTHING: &str = "nothing is lost";
const BEGIN_ANEW: &str = "users who are logging in have to start again";

/// The condition of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamState {
    /// It is as it must be.
    Right,
    /// It does not exist; the next node that starts creates it.
    Absent,
    /// It has a rule that makes it unusable.
    Wrong(&'static str),
}

impl SideStream {
    /// Checks the stream.
    pub async fn check(&self, context: &jetstream::Context, replicas: usize) -> Result<StreamState, LogFailure> {
        let stream = match context.get_stream(self.stream).await {
            Ok(stream) => stream,
            Err(error) if is_absent(&error) => return Ok(StreamState::Absent),
            Err(error) => return Err(nats(error)),
        };
        let config = &stream.cached_info().config;
        let few = (config.num_replicas < replicas).then_some("fewer replicas than asked for");
        Ok((self.fault)(config).or(few).map_or(StreamState::Right, StreamState::Wrong))
    }
}

/// Opens a stream beside the log, creating it if there is none.
///
/// # Errors
/// If NATS does not answer, or if the existing stream has unusable rules.
pub async fn open(context: &jetstream::Context, config: Config) -> Result<Stream, LogFailure> {
    let mut looks = 0;
    let stream = loop {
        match context.get_or_create_stream(config.clone()).await {
            Ok(stream) => break stream,
            Err(error) if !lacks_memory(&error) => return Err(nats(error)),
            Err(_) if looks == MOST_LOOKS => return Err(no_memory(&config)),
            // NATS counts a stream once for each node that is creating it at the moment.
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

/// Returns the failure, with what an operator can do about it.
fn no_memory(Config { name, max_bytes, .. }: &Config) -> LogFailure {
    let [all, one] = [MOST_IN_MEMORY.iter().sum(), *max_bytes].map(|bytes| bytes >> 20);
    LogFailure::Nats(format!(
        "no memory is left for the stream {name}, which takes {one} MiB: set max_memory_store of JetStream to {all}MB at least"
    ))
}

/// Opens a bucket beside the log like [`open`]. It has one value per key, replaced by compare-and-set.
///
/// # Errors
/// As [`open`].
pub async fn bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    open_bucket(context, name, values(name, replicas)).await
}

/// Opens a bucket like [`bucket`], in which a value may have an expiry of its own.
///
/// # Errors
/// As [`open`].
pub async fn ending_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    open_bucket(context, name, Config { allow_message_ttl: true, ..values(name, replicas) }).await
}

/// Opens a bucket like [`bucket`], in which each value expires after this time or earlier.
///
/// # Errors
/// As [`open`].
pub async fn forgetful_bucket(
    context: &jetstream::Context,
    name: &str,
    max_age: Duration,
    replicas: usize,
) -> Result<Store, LogFailure> {
    let config = Config { max_age, max_bytes: MOST_BYTES, allow_message_ttl: true, ..values(name, replicas) };
    open_bucket(context, name, config).await
}

/// Opens a bucket like [`bucket`] that is in memory, and in which each value expires soon.
///
/// # Errors
/// As [`open`].
pub async fn passing_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Store, LogFailure> {
    let [_, max_bytes] = MOST_IN_MEMORY;
    let (max_age, storage) = (CODES_FORGOTTEN_AFTER, StorageType::Memory);
    open_bucket(context, name, Config { max_age, max_bytes, storage, ..values(name, replicas) }).await
}

/// Opens the stream of requests that wait for a person, like [`open`]. It is in memory, too.
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

/// Returns the subject of requests of an instance and an origin, or with an empty origin the prefix for the instance.
pub(crate) fn request_subject(instance_id: &str, origin: &str) -> String {
    format!("auth_requests.{instance_id}.{origin}")
}

/// Opens a bucket like [`bucket`] whose values can be destroyed: a replaced value stays until it is overwritten.
///
/// # Errors
/// As [`open`].
pub async fn erasable_bucket(context: &jetstream::Context, name: &str, replicas: usize) -> Result<Stream, LogFailure> {
    open(context, Config { max_messages_per_subject: MOST_REPLACED, ..values(name, replicas) }).await
}

/// Opens the bucket of pictures and fonts, like [`bucket`]. It accepts no more when it is full.
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
        // A follower that lags may return a value that is not the newest.
        allow_direct: false,
        ..Config::default()
    }
}

/// Refuses a stream that has unusable rules.
///
/// # Errors
/// If it has one.
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

/// Refuses rules with which values are not replaced by compare-and-set, and read from the leader only.
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

/// Returns the time by the clock of the server that leads a stream; `None` if the server does not report it.
pub async fn server_time(client: &async_nats::Client, stream: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Answer {
        ts: Timestamp,
    }
    let answer = client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.ok()?;
    serde_json::from_slice::<Answer>(&answer.payload).ok().map(|answer| answer.ts)
}
