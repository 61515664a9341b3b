//! The log of a shard: one JetStream stream, appended to with an expected sequence, read without holes.

mod completeness;
mod feed;
mod follow;
mod follower;
mod inspect;
mod purge;
mod reached;
mod window;

use std::{error::Error, sync::Arc, time::Duration};

use async_nats::jetstream::{
    self, ErrorCode,
    context::{CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind, PublishErrorKind},
    message::PublishMessage,
    stream::{
        self, DiscardPolicy, PersistenceMode, RawMessageError, RawMessageErrorKind, RetentionPolicy, StorageType,
    },
};
use base::explain::explain;
use bytes::Bytes;
use domain::log_class::LogClass;
use tokio::time::timeout;

use self::feed::Feeds;
pub use self::{
    follower::{Follower, keep_updated},
    inspect::Lag,
    reached::Reached,
};
use crate::record::{Broken, Position, Record};

/// The most records in flight to a feed. A record has at most half a megabyte, a connection has few feeds, and NATS
/// closes a connection that lags by 64 MiB.
const MOST_IN_FLIGHT: i64 = 20;
/// How long a reader receives nothing before it checks whether it has missed something.
const IDLE: Duration = Duration::from_secs(5);
/// The timeout of requests to NATS.
const API_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of one publish before it is settled by reading, which is safe at any time. No record is written
/// meanwhile.
const ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// The sequence of a message that no stream will ever have.
const NEVER_LAST: u64 = i64::MAX as u64;

/// The error for a log that cannot be opened, read or trusted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogFailure {
    /// NATS did not answer, or answered with an error.
    #[error("NATS: {0}")]
    Nats(String),
    /// The content of a log is not valid.
    #[error("{stream}: {broken}")]
    Broken {
        /// The stream.
        stream: String,
        /// What is wrong with it.
        broken: Broken,
    },
    /// The stream is configured so that it could lose events.
    #[error("stream {stream} has {rule}; the log must never lose an event nor refuse one, so it is not used")]
    Rules {
        /// The stream.
        stream: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// A stream beside the log is configured so that it does not serve its purpose.
    #[error(
        "stream {stream} has {rule}: stop the nodes, remove the stream and start them again; they make it anew, and {loses}"
    )]
    Beside {
        /// The stream.
        stream: &'static str,
        /// The rule that makes it unusable.
        rule: &'static str,
        /// What is lost if it is removed.
        loses: &'static str,
    },
    /// There is no log, and this process must not create one.
    #[error(
        "there is no stream {stream} on this NATS server, or none that this user may see: no platform of this version was set \
         up there; check --nats-url, and the user or account"
    )]
    Absent {
        /// The stream.
        stream: String,
    },
    /// The server has no JetStream, so it cannot have a log.
    #[error("this NATS server runs without JetStream, so no log can be there: check --nats-url, or enable JetStream")]
    NoJetStream,
}

/// The error for a publish that was not answered with success. It may or may not be in the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsettled(String);

/// One of the logs of a shard.
#[derive(Debug, Clone)]
pub struct Log {
    class: LogClass,
    context: jetstream::Context,
    stream: stream::Stream,
    /// The stream on the connection of readers.
    reading: stream::Stream,
    subject: String,
    feeds: Arc<Feeds>,
}

impl Log {
    /// Opens a log of a shard, creating its stream if there is none.
    ///
    /// # Errors
    /// An existing stream whose rules differ from ours is refused: it could lose events. So is a stream that has lost
    /// some.
    pub async fn open(
        client: async_nats::Client,
        class: LogClass,
        shard: u16,
        replicas: usize,
    ) -> Result<Self, LogFailure> {
        let context = context(client);
        let name = name(class, shard);
        let wanted = rules(class, shard, replicas);
        let stream = match context.get_stream(&name).await {
            Ok(stream) => stream,
            Err(error) if is_absent(&error) => match context.create_stream(wanted.clone()).await {
                Ok(stream) => stream,
                // Another node, with other options, created it in the meantime.
                Err(error) if is_taken(&error) => context.get_stream(&name).await.map_err(nats)?,
                Err(error) => return Err(nats(error)),
            },
            Err(error) => return Err(nats(error)),
        };
        check_rules(&stream.cached_info().config, &wanted)?;
        let log = Self::of(context, stream, class, shard);
        log.check_complete().await?;
        Ok(log)
    }

    fn of(context: jetstream::Context, stream: stream::Stream, class: LogClass, shard: u16) -> Self {
        let subject = subject(class, shard);
        Self { class, context, reading: stream.clone(), stream, subject, feeds: Arc::default() }
    }

    /// Returns the class of the log.
    pub const fn class(&self) -> LogClass {
        self.class
    }

    /// Lets readers that follow the log use another connection: publishes, leases and single reads do not wait for the
    /// megabytes that readers are sent.
    pub async fn read_through(self, client: async_nats::Client) -> Result<Self, LogFailure> {
        let reading = context(client).get_stream(&self.stream.cached_info().config.name).await.map_err(nats)?;
        Ok(Self { reading, feeds: Arc::default(), ..self })
    }

    /// Publishes a record after the message with this stream sequence. One at a time: pipelined publishes do not fence.
    ///
    /// # Errors
    /// Whatever the error, the record may be in the log or may still get there; [`Log::read`] of the next sequence
    /// finds out.
    pub async fn publish(&self, record: Bytes, after: u64) -> Result<u64, Unsettled> {
        let message = PublishMessage::build().payload(record).expected_last_sequence(after);
        let publish = async { self.context.send_publish(self.subject.clone(), message).await?.await };
        match timeout(ACK_TIMEOUT, publish).await {
            Ok(Ok(answer)) => Ok(answer.sequence),
            Ok(Err(error)) => Err(Unsettled(explain(&error))),
            Err(_) => Err(Unsettled("no answer".to_owned())),
        }
    }

    /// Returns the message with this stream sequence from the stream's leader.
    pub async fn read(&self, stream_sequence: u64) -> Result<Option<Record>, LogFailure> {
        match self.stream.get_raw_message(stream_sequence).await {
            Ok(message) => {
                let record = Record::decode(stream_sequence, &message.payload);
                Ok(Some(record.map_err(|broken| self.broken(broken))?))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(nats(error)),
        }
    }

    /// Checks whether this user may publish to the log, with a message that no log accepts.
    ///
    /// # Errors
    /// If it may not, or NATS does not answer.
    pub async fn check_publish(&self) -> Result<(), LogFailure> {
        let message = PublishMessage::build().expected_last_sequence(NEVER_LAST);
        let publish = async { self.context.send_publish(self.subject.clone(), message).await?.await };
        let untaken = match timeout(ACK_TIMEOUT, publish).await {
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => return Ok(()),
            Ok(Err(error)) => nats(error),
            Ok(Ok(_)) => LogFailure::Nats("it took a message that was written for no place in it".to_owned()),
            Err(_) => nats(Unsettled("no answer".to_owned())),
        };
        Err(match untaken {
            LogFailure::Nats(why) => LogFailure::Nats(format!("nothing can be written to {}: {why}", self.stream())),
            other => other,
        })
    }

    /// Whether the stream has a message.
    async fn has_message(&self, stream_sequence: u64) -> Result<bool, LogFailure> {
        match self.stream.get_raw_message(stream_sequence).await {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(nats(error)),
        }
    }

    /// Returns the last record, from the stream's leader.
    pub async fn last(&self) -> Result<Option<Record>, LogFailure> {
        match self.stream.get_info().await.map_err(nats)?.state.last_sequence {
            0 => Ok(None),
            last => self.read(last).await,
        }
    }

    /// Returns the stream sequence of the last message; 0 in an empty log.
    pub async fn end(&self) -> Result<u64, LogFailure> {
        Ok(self.stream.get_info().await.map_err(nats)?.state.last_sequence)
    }

    /// Whether the log has the record at a reader's position, or had it before it was purged up to there. A reader at
    /// any other position follows another log.
    pub async fn has(&self, position: Position) -> Result<bool, LogFailure> {
        if position.stream_sequence == 0 {
            return Ok(true);
        }
        match self.read(position.stream_sequence).await? {
            Some(record) => Ok(record.digest == position.digest),
            None => Ok(position.stream_sequence <= self.purged().await?),
        }
    }

    /// Returns the underlying NATS client.
    pub fn client(&self) -> async_nats::Client {
        self.context.client()
    }

    /// Returns the failure for invalid content of this log.
    pub fn broken(&self, broken: Broken) -> LogFailure {
        self::broken(&self.stream, broken)
    }

    /// Returns the name of its stream.
    pub fn stream(&self) -> &str {
        &self.stream.cached_info().config.name
    }

    /// Returns the underlying JetStream context.
    pub fn context(&self) -> &jetstream::Context {
        &self.context
    }
}

fn broken(stream: &stream::Stream, broken: Broken) -> LogFailure {
    LogFailure::Broken { stream: stream.cached_info().config.name.clone(), broken }
}

/// Returns the name of a log's stream.
fn name(class: LogClass, shard: u16) -> String {
    format!("{}_{shard}", class.name())
}

/// Returns the subject that its records are published to.
fn subject(class: LogClass, shard: u16) -> String {
    format!("{}.{shard}", class.name().to_lowercase())
}

fn rules(class: LogClass, shard: u16, replicas: usize) -> stream::Config {
    stream::Config {
        name: name(class, shard),
        subjects: vec![subject(class, shard)],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: replicas,
        deny_delete: true,
        // A log that ages out is purged, and a stream that once denied purges denies them for ever.
        deny_purge: class == LogClass::Events,
        allow_direct: false,
        duplicate_window: Duration::from_mins(2),
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        ..stream::Config::default()
    }
}

fn check_rules(found: &stream::Config, wanted: &stream::Config) -> Result<(), LogFailure> {
    let broken = [
        (!found.deny_delete, "deletes allowed"),
        (wanted.deny_purge && !found.deny_purge, "purges allowed"),
        (found.deny_purge && !wanted.deny_purge, "purges denied"),
        (found.discard != DiscardPolicy::New, "discard policy old"),
        (found.storage != StorageType::File, "memory storage"),
        (!found.max_age.is_zero(), "a maximum age"),
        (found.max_messages > 0, "a maximum of messages"),
        (found.max_bytes > 0, "a maximum of bytes"),
        (found.max_message_size > 0, "a maximum message size"),
        // Unlike the other maxima this one makes room by removing old messages, whatever the discard policy.
        (found.max_messages_per_subject > 0, "a maximum of messages per subject"),
        (found.retention != RetentionPolicy::Limits, "a retention policy that removes what was read"),
        (found.allow_message_ttl, "messages with a time to live"),
        (found.no_ack, "no acknowledgements"),
        (found.persist_mode == Some(PersistenceMode::Async), "acknowledgements before it keeps a message"),
        (
            found.mirror.is_some() || found.sources.as_ref().is_some_and(|them| !them.is_empty()),
            "messages of other streams",
        ),
        (found.subject_transform.is_some(), "changed subjects"),
        (found.sealed, "a seal"),
        (found.subjects != wanted.subjects, "other subjects"),
        (found.num_replicas < wanted.num_replicas, "fewer replicas than asked for"),
    ];
    match broken.iter().find(|(is_broken, _)| *is_broken) {
        Some((_, rule)) => Err(LogFailure::Rules { stream: found.name.clone(), rule: (*rule).to_owned() }),
        None => Ok(()),
    }
}

/// Whether the stream has no message with this sequence.
fn is_missing(error: &RawMessageError) -> bool {
    matches!(error.kind(), RawMessageErrorKind::NoMessageFound)
}

fn is_taken(error: &CreateStreamError) -> bool {
    let code = |error: &jetstream::Error| error.error_code() == ErrorCode::STREAM_NAME_EXIST;
    matches!(error.kind(), CreateStreamErrorKind::JetStream(error) if code(&error))
}

/// Whether there is no such stream.
pub(crate) fn is_absent(error: &async_nats::error::Error<GetStreamErrorKind>) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND)
}

pub(crate) fn context(client: async_nats::Client) -> jetstream::Context {
    jetstream::context::ContextBuilder::new().timeout(API_TIMEOUT).ack_timeout(API_TIMEOUT).build(client)
}

/// Wraps an error of NATS.
pub(crate) fn nats(error: impl Error + 'static) -> LogFailure {
    let told = explain(&error);
    LogFailure::Nats(match crate::nats::refused() {
        // A refused request gets no answer.
        Some(refused) if told.contains("timed out") || told.contains("no answer") => format!("{told}. {refused}"),
        _ => told,
    })
}
