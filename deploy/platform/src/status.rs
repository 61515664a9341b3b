//! `platform status`: prints the nodes of a platform, the writer, the holders of leases, and the progress of read
//! models. It changes nothing.

use std::{collections::BTreeMap, time::Duration};

use base::explain::explain;
use domain::log_class::{LogClass, OfEach};
use eventlog::{
    lease,
    log::{Lag, Log, LogFailure},
    record::Record,
};
use futures::StreamExt;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use view::{
    checkpoint::checkpoints,
    database::Database,
    failed_event::search::{Waits, waits},
    reaction::{self, Reaction},
};

use crate::{
    Failure, cli,
    node::SHARD,
    output,
    presence::{Presence, gather},
    running_servers,
};

/// How long messages of nodes are collected, which they send once a second.
const LISTENING: Duration = Duration::from_millis(2200);

/// The progress of a read model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    projection: String,
    sequence: u64,
    lag_events: u64,
    lag_seconds: f64,
}

/// The state of a platform.
struct StatusReport {
    last: Option<Record>,
    /// The last record of the log `SESSIONS`.
    last_of_sessions: Option<Record>,
    nodes: Vec<Presence>,
    leases: Vec<(String, String)>,
    /// The reactions that have reported their progress in that time.
    reactions: Vec<Reaction>,
    /// The read models, or why their state is unknown.
    read_models: Result<ReadModels, String>,
}

/// The state of the read models.
struct ReadModels {
    progress: Vec<Progress>,
    /// The failed events and deliveries that wait for an operator.
    failed: Vec<Waits>,
}

/// Prints the state of a platform.
pub(crate) async fn run(options: cli::Status) -> Result<(), Failure> {
    let nats = running_servers::nats(&options.servers)?;
    let client = running_servers::connect(&nats, "platform status").await?;
    let log = Log::find(client.clone(), LogClass::Events, SHARD).await?;
    let sessions = match Log::find(client.clone(), LogClass::Sessions, SHARD).await {
        Err(LogFailure::Absent { .. }) => None,
        found => Some(found?),
    };
    let (nodes, leases, reactions) =
        tokio::join!(gather(&client, SHARD, LISTENING), lease::holders(log.context()), reactions(&client));
    let last = log.last().await?;
    let last_of_sessions = match &sessions {
        Some(sessions) => sessions.last().await?,
        None => None,
    };
    let logs = OfEach { events: (Some(&log), last.as_ref()), sessions: (sessions.as_ref(), last_of_sessions.as_ref()) };
    let read_models = match running_servers::postgres(&options.servers, options.postgres.postgres_url.as_ref()) {
        Ok(url) => read_models(&url, logs).await,
        Err(error) => Err(error.to_string()),
    };
    let found =
        StatusReport { last, last_of_sessions, nodes: nodes?, leases: leases?, reactions: reactions?, read_models };
    if options.json {
        output::print(found.json());
    } else {
        found.lines().iter().for_each(output::print);
    }
    Ok(())
}

/// Collects the progress that reactions report while presence messages are collected.
async fn reactions(client: &async_nats::Client) -> Result<Vec<Reaction>, Failure> {
    let (mut messages, until) = (client.subscribe(reaction::subject(SHARD)).await?, Instant::now() + LISTENING);
    let mut found: BTreeMap<String, Reaction> = BTreeMap::new();
    while let Ok(Some(message)) = timeout_at(until, messages.next()).await {
        let told = serde_json::from_slice::<Reaction>(&message.payload).ok();
        found.extend(told.map(|reaction| (reaction.name.clone(), reaction)));
    }
    Ok(found.into_values().collect())
}

async fn read_models(url: &str, logs: OfEach<(Option<&Log>, Option<&Record>)>) -> Result<ReadModels, String> {
    let database = Database::new(url, 1).map_err(|error| explain(&error))?;
    let failed = waits(&database).await.map_err(|error| explain(&error))?;
    let mut progress = vec![];
    let read = async { checkpoints(&*database.connection().await?, SHARD).await };
    for (projection, checkpoint) in database.within(read).await.map_err(|error| explain(&error))? {
        let at = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
        let (log, last) = logs[projection.class];
        let end = last.map(Record::position).unwrap_or_default();
        let Lag { events, seconds } = match log {
            Some(log) => log.lag(at.into(), end.into()).await.map_err(|error| explain(&error))?,
            None => Lag::default(),
        };
        let (projection, sequence) = (projection.name.to_owned(), at.sequence);
        progress.push(Progress { projection, sequence, lag_events: events, lag_seconds: seconds });
    }
    Ok(ReadModels { progress, failed })
}

impl StatusReport {
    fn writer(&self) -> Option<&str> {
        let lease = format!("writer.{SHARD}");
        self.leases.iter().find(|(name, _)| *name == lease).map(|(_, holder)| holder.as_str())
    }

    fn json(&self) -> serde_json::Value {
        let [log, sessions] = [&self.last, &self.last_of_sessions].map(|last| {
            last.as_ref().map(|record| {
                let (at, commit) = (record.position(), &record.commit);
                json!({
                    "sequence": at.sequence, "message": at.stream_sequence, "epoch": commit.epoch,
                    "committedAt": record.committed_at().to_string(),
                })
            })
        });
        let leases: Vec<_> =
            self.leases.iter().map(|(name, holder)| json!({ "name": name, "holder": holder })).collect();
        let read_models = self.read_models.as_ref().ok();
        let progress = read_models.map(|found| &found.progress);
        let failed = read_models.map(|found| {
            let waits = |Waits { view, count, oldest }: &Waits| json!({ "view": view, "count": count, "oldest": oldest.to_string() });
            found.failed.iter().map(waits).collect::<Vec<_>>()
        });
        json!({
            "log": log, "sessionsLog": sessions, "writer": self.writer(), "nodes": self.nodes, "leases": leases, "readModels": progress, "reactions": self.reactions,
            "failedEvents": failed,
        })
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![];
        let told = |record: &Record| {
            let (at, epoch) = (record.position(), record.commit.epoch);
            let (event, message, time) = (at.sequence, at.stream_sequence, record.committed_at());
            format!("event {event}, message {message}, epoch {epoch}, last commit {time}")
        };
        lines.push(match &self.last {
            Some(record) => format!("log: {}", told(record)),
            None => "log: empty, no platform was set up in it yet".to_owned(),
        });
        if let Some(record) = &self.last_of_sessions {
            lines.push(format!("log of sessions: {}", told(record)));
        }
        lines.push(format!("writer: {}", self.writer().unwrap_or("none: check that a command node runs")));
        if self.nodes.is_empty() {
            lines.push("nodes: no node has reported".to_owned());
        }
        for Presence { role, node, version, state, management, since } in &self.nodes {
            lines.push(format!(
                "node: {role} {node}, version {version}, {state}, since {since}, management port {management}"
            ));
        }
        for (name, holder) in &self.leases {
            lines.push(format!("lease: {name} is held by {holder}"));
        }
        lines.extend(self.reactions.iter().map(reaction_line));
        match &self.read_models {
            Ok(ReadModels { progress, failed }) => {
                lines.extend(progress.iter().map(|Progress { projection, sequence, lag_events, lag_seconds }| {
                    format!(
                        "read model: {projection} has event {sequence}, lags {lag_events} events, {lag_seconds:.1} s"
                    )
                }));
                lines.extend(failed.iter().map(|Waits { view, count, oldest }| {
                    format!("failed events: {count} in {view}, the oldest since {oldest}; `platform failed-events list` shows them")
                }));
            }
            Err(error) => lines.push(format!("read models: unknown, {error}")),
        }
        lines
    }
}

/// Formats the progress of a reaction, and what it could not do, as a line.
fn reaction_line(reaction: &Reaction) -> String {
    let Reaction { name, sequence, lag_events, lag_seconds, waiting, given_up, .. } = reaction;
    format!(
        "reaction: {name} has event {sequence}, lags {lag_events} events, {lag_seconds:.1} s, not done: {waiting}, given up: {given_up}"
    )
}
