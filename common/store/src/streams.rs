//! The streams beside the log, looked at from outside: whether they are as their owners ([`crate::lease`],
//! [`crate::index`]) make them. Nothing is created or changed here.

use async_nats::jetstream::{
    self, ErrorCode,
    context::GetStreamErrorKind,
    stream::{Config, StorageType},
};
use jiff::Timestamp;
use serde::Deserialize;

use crate::{explain::explain, lease::TTL, log::Failure};

/// A stream beside the log.
#[derive(Debug)]
pub struct Beside {
    /// The stream.
    pub stream: &'static str,
    /// What it is.
    pub what: &'static str,
    fault: fn(&Config) -> Option<&'static str>,
}

/// All of them.
pub const BESIDE: [Beside; 5] = [
    Beside { stream: "KV_LEASES", what: "the bucket of leases", fault: leases_fault },
    Beside { stream: "KV_INDEX_MANIFESTS", what: "the bucket of index manifests", fault: manifests_fault },
    Beside { stream: "OBJ_INDEX_FILES", what: "the object store of index files", fault: kept_fault },
    Beside { stream: "ACTIONS_0", what: "the queue of deliveries", fault: kept_fault },
    Beside { stream: "KV_REACTIONS", what: "the bucket of places in the log", fault: manifests_fault },
];

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
    pub async fn look(&self, context: &jetstream::Context, replicas: usize) -> Result<Found, Failure> {
        let stream = match context.get_stream(self.stream).await {
            Ok(stream) => stream,
            Err(error) => {
                let is_absent = matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND);
                return if is_absent { Ok(Found::Absent) } else { Err(Failure::Nats(explain(&error))) };
            }
        };
        let config = &stream.cached_info().config;
        let few = (config.num_replicas < replicas).then_some("fewer replicas than asked for");
        Ok((self.fault)(config).or(few).map_or(Found::Right, Found::Wrong))
    }
}

/// Refuses a stream that is not as its owner makes it.
pub(crate) fn check(found: &Config, fault: fn(&Config) -> Option<&'static str>) -> Result<(), Failure> {
    match fault(found) {
        Some(rule) => Err(Failure::Beside { stream: found.name.clone(), rule: rule.to_owned() }),
        None => Ok(()),
    }
}

pub(crate) fn leases_fault(config: &Config) -> Option<&'static str> {
    if config.max_age != TTL {
        return Some("another maximum age than a lease lasts");
    }
    one_value_fault(config)
}

pub(crate) fn manifests_fault(config: &Config) -> Option<&'static str> {
    one_value_fault(config).or_else(|| kept_fault(config))
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

pub(crate) fn kept_fault(config: &Config) -> Option<&'static str> {
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
