//! The measurements that are made once a second: connections, the lag of projections, the contents of indexes.

use std::{
    collections::HashMap,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use async_nats::{Client, connection};
use base::{
    explain::explain,
    health::{Health, LAGS, LogProgress, Reached, State},
    metric::catalog::{
        DELIVERIES_GIVEN_UP, FAILED_EVENTS_OLDEST, INDEX_DOCUMENTS, INDEX_SEQUENCE, LOG_LAST_SEQUENCE, NATS_CONNECTED,
        NATS_RECONNECTS, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS, WRITER_ACTIVE,
    },
};
use domain::{
    failed_event::DELIVERIES,
    log_class::{LogClass, OfEach},
};
use eventlog::log::{Lag, Log};
use index::Indexes;
use tokio::time::{MissedTickBehavior, interval, timeout};
use view::{
    checkpoint::checkpoints,
    database::Database,
    failed_event::{Parking, search::waits},
    projection::{PROJECTIONS, Projection},
};

const EVERY: Duration = Duration::from_secs(1);
/// How often failed events are counted.
const COUNTED_EVERY: Duration = Duration::from_secs(10);
/// How long one query may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The name of the read models among the parts of a node without a projector.
const READ_MODELS: &str = "read_models";

/// The objects of a node to measure.
pub(crate) struct Measuring {
    pub(crate) health: Health,
    pub(crate) logs: OfEach<Log>,
    pub(crate) shard: u16,
    pub(crate) clients: [(&'static str, Client); 2],
    pub(crate) databases: Vec<Database>,
    /// The connections to measure with.
    pub(crate) database: Database,
    pub(crate) indexes: Indexes,
    /// Since when each projection lags.
    pub(crate) lagging_since: HashMap<String, Instant>,
    /// When failed events are counted again.
    pub(crate) counted_at: Instant,
}

impl Measuring {
    /// Measures until the process ends.
    pub(crate) async fn run(mut self) {
        let mut beat = interval(EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.nats();
            self.indexes();
            tokio::join!(beat.tick(), self.postgres());
            self.projections().await;
            self.failed_events().await;
        }
    }

    /// Counts the failed events that wait for an operator. While Postgres does not answer, the counts stay as they
    /// were.
    async fn failed_events(&mut self) {
        if self.counted_at > Instant::now() {
            return;
        }
        self.counted_at = Instant::now() + COUNTED_EVERY;
        let Ok(Ok(found)) = timeout(PATIENCE, waits(&self.database)).await else { return };
        let of = |view: &str| found.iter().find(|waits| waits.view == view);
        let views = PROJECTIONS.iter().filter(|projection| Parking::of(projection, self.shard).is_some());
        for view in views.map(|projection| projection.name).chain([DELIVERIES]) {
            let oldest = of(view).map_or(0, |waits| waits.oldest.as_second());
            FAILED_EVENTS_OLDEST.with(&[view]).set_integer(u64::try_from(oldest).unwrap_or_default());
        }
        DELIVERIES_GIVEN_UP.one().set_integer(of(DELIVERIES).map_or(0, |waits| waits.count));
    }

    fn nats(&self) {
        let mut lost = vec![];
        for (name, client) in &self.clients {
            let is_connected = client.connection_state() == connection::State::Connected;
            NATS_CONNECTED.with(&[name]).set_bool(is_connected);
            let connects = client.statistics().connects.load(Relaxed);
            NATS_RECONNECTS.with(&[name]).set(connects.saturating_sub(1));
            if !is_connected {
                lost.push(*name);
            }
        }
        let reason = || format!("not connected, and tries again: {}", lost.join(", "));
        self.health.report("nats", if lost.is_empty() { State::Ok } else { State::Degraded(reason()) });
    }

    fn indexes(&self) {
        for (name, newest) in self.indexes.all() {
            let state = match &*newest.borrow() {
                Some(snapshot) => {
                    INDEX_SEQUENCE.with(&[name]).set_integer(snapshot.position.sequence);
                    INDEX_DOCUMENTS.with(&[name]).set_integer(snapshot.documents());
                    State::Ok
                }
                None => State::Starting("no published index was received yet".to_owned()),
            };
            self.health.report(&format!("index.{name}"), state);
        }
    }

    async fn postgres(&self) {
        self.databases.iter().for_each(Database::measure);
        let state = match timeout(PATIENCE, self.database.answers()).await {
            Ok(Ok(())) => State::Ok,
            Ok(Err(failure)) => State::Degraded(explain(&failure)),
            Err(_) => State::Degraded("Postgres does not answer".to_owned()),
        };
        self.health.report("postgres", state);
    }

    /// Measures how far the projections lag: those of this node, or where it has none those of other nodes. While NATS
    /// or Postgres does not answer, the values stay as they were.
    async fn projections(&mut self) {
        let parts = self.health.parts();
        let ends = async { tokio::try_join!(self.logs.events.end(), self.logs.sessions.end()) };
        let Ok(Ok((events, sessions))) = timeout(PATIENCE, ends).await else { return };
        let ends = OfEach { events, sessions };
        let followed = PROJECTIONS.iter().map(|projection| (projection, projection.part()));
        let followed = followed.filter(|(_, part)| parts.contains_key(part)).collect::<Vec<_>>();
        if followed.is_empty() {
            return self.read_models(ends).await;
        }
        for (projection, part) in followed {
            let place = parts[&part].place;
            let end = ends[projection.class];
            let (events, seconds) = self.measure(projection, &part, place, end).await;
            self.health.lag(&part, events, seconds);
            let has_all =
                projection.class == LogClass::Events && place.is_some_and(|place| place.stream_sequence >= end);
            if has_all && !is_writer() {
                let sequence = place.map_or(0, |place| place.sequence);
                LOG_LAST_SEQUENCE.with(&[&self.shard.to_string()]).set_integer(sequence);
            }
        }
    }

    /// Reports the progress of the read models that this node reads and others update; the one that lags most counts.
    async fn read_models(&mut self, ends: OfEach<u64>) {
        let database = self.database.clone();
        let mut most: Option<(&Projection, LogProgress)> = None;
        let read = async { checkpoints(&*database.connection().await?, self.shard).await };
        let Ok(Ok(found)) = timeout(PATIENCE, database.within(read)).await else { return };
        for (projection, checkpoint) in found {
            let at = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
            let place =
                LogProgress { sequence: at.sequence, stream_sequence: at.stream_sequence, ..LogProgress::default() };
            let end = ends[projection.class];
            let (events, seconds) = self.measure(projection, &projection.part(), Some(place), end).await;
            let place = LogProgress { lag_events: events, lag_seconds: seconds, ..place };
            if most.is_none_or(|(_, most)| place.lag_seconds >= most.lag_seconds) {
                most = Some((projection, place));
            }
        }
        let Some((projection, place)) = most else { return };
        self.health.report(READ_MODELS, lagging(projection.name, place.lag_seconds));
        self.health
            .report_position(READ_MODELS, Reached { sequence: place.sequence, stream_sequence: place.stream_sequence });
        self.health.lag(READ_MODELS, place.lag_events, place.lag_seconds);
    }

    async fn measure(
        &mut self,
        projection: &Projection,
        part: &str,
        place: Option<LogProgress>,
        end: u64,
    ) -> (u64, f64) {
        let Lag { events, seconds } = match place {
            Some(place) if place.stream_sequence < end => self.lag(projection.class, part, place, end).await,
            _ => {
                self.lagging_since.remove(part);
                Lag::default()
            }
        };
        let labels = [projection.name, &projection.version.to_string(), &self.shard.to_string()];
        PROJECTION_LAG_EVENTS.with(&labels).set_integer(events);
        PROJECTION_LAG_SECONDS.with(&labels).set(seconds);
        (events, seconds)
    }

    /// Returns how much of the log comes after a place. If the log cannot be read, every message counts as one event,
    /// and the lag in seconds as the time since the projection began to lag.
    async fn lag(&mut self, class: LogClass, part: &str, place: LogProgress, end: u64) -> Lag {
        let since = self.lagging_since.entry(part.to_owned()).or_insert_with(Instant::now).elapsed().as_secs_f64();
        let at = Reached { sequence: place.sequence, stream_sequence: place.stream_sequence };
        let log = &self.logs[class];
        let read = async {
            let last = log.read(end).await?.map_or(at, |last| last.position().into());
            log.lag(at, last).await
        };
        let unread = Lag { events: end - place.stream_sequence, seconds: since };
        timeout(PATIENCE, read).await.ok().and_then(Result::ok).unwrap_or(unread)
    }
}

/// Returns the state of the read models, of which this one lags most, by so many seconds.
fn lagging(projection: &str, seconds: f64) -> State {
    if seconds <= LAGS {
        return State::Ok;
    }
    // The number of seconds is reported separately: a reason that changes every second would be another state each
    // time.
    State::Degraded(format!("{projection} lags: check that a projector runs, and its log lines"))
}

/// Whether this node writes, and so knows the end of its log better.
fn is_writer() -> bool {
    WRITER_ACTIVE.one().get() > 0.5
}
