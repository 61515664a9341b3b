//! A unit that stands still: it says so where operators look, and goes on when one of them says so.

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use base::explain::explain;
use eventlog::{log::Log, record::Position};
use view::{
    database::{Database, DatabaseFailure},
    failed_event::{ParkedAt, Parking, decided::pending, stopped},
};

use crate::{Partition, Projector, batch::Batch, fold::EventFailure};

/// What a unit has told of itself, and why this process does not go on with it, where it does not.
pub(crate) struct Standstill {
    partition: Partition,
    /// Where operators say what becomes of it.
    log: Log,
    database: Database,
    /// Whether Postgres may have a note of it, also from the process before.
    is_noted: AtomicBool,
    /// The event at which a unit stands still that parks nothing.
    at: Mutex<Option<ParkedAt>>,
    given_up: Option<GivenUp>,
}

/// So much failed that only another build may go on, or who an operator lets.
struct GivenUp {
    reason: String,
    /// The end of the log then, as far as that is known: what an operator says later counts.
    end: Option<u64>,
}

impl Standstill {
    /// That of a unit which has just begun.
    pub(crate) fn new(Projector { logs, database, .. }: &Projector, partition: Partition) -> Self {
        let (log, database, at) = (logs.events.clone(), database.clone(), Mutex::default());
        Self { partition, log, database, is_noted: AtomicBool::new(true), at, given_up: None }
    }

    /// Notes the event of a batch that fails, where it is one.
    pub(crate) fn is_at(&self, batch: &Batch, failure: &EventFailure) {
        let event = batch.events.iter().find(|event| event.sequence == failure.sequence());
        let Some(event) = event.filter(|_| !failure.is_newer()) else { return };
        let at = ParkedAt::now(event, failure.without_values());
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Says that the unit stands still, and at which event where it stands still at one.
    pub(crate) async fn says(&self, error: &str) {
        self.is_noted.store(true, Relaxed);
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (projection, shard) = self.partition;
        let noted = async {
            let mut connection = self.database.connection().await?;
            let transaction = connection.transaction().await?;
            stopped::note(&transaction, self.partition, error).await?;
            if let (Some(at), Some(parking)) = (at, Parking::of_admission(projection, shard)) {
                parking.park(&transaction, Position::default(), &[at]).await?;
            }
            Ok(transaction.commit().await?)
        };
        self.told(noted).await;
    }

    /// Says that the unit goes on.
    pub(crate) async fn ends(&self) {
        if !self.is_noted.swap(false, Relaxed) {
            return;
        }
        let (projection, shard) = self.partition;
        let noted = async {
            let mut connection = self.database.connection().await?;
            let transaction = connection.transaction().await?;
            stopped::clear(&transaction, self.partition).await?;
            if let Some(parking) = Parking::of_admission(projection, shard) {
                parking.copy(&transaction, &[]).await?;
            }
            Ok(transaction.commit().await?)
        };
        if !self.told(noted).await {
            self.is_noted.store(true, Relaxed);
        }
    }

    async fn told(&self, told: impl Future<Output = Result<(), DatabaseFailure>>) -> bool {
        let told = self.database.within(told).await;
        if let Err(error) = &told {
            let (projection, error) = (self.partition.0.name, explain(error));
            tracing::warn!(projection, error, "whether a projection stands still is not shown as it is");
        }
        told.is_ok()
    }

    /// This process does not go on with it.
    pub(crate) async fn gives_up(&mut self, reason: String) {
        self.given_up = Some(GivenUp { reason, end: self.end().await });
    }

    async fn end(&self) -> Option<u64> {
        let last = self.log.last().await.ok()?;
        Some(last.map(|record| record.position().sequence).unwrap_or_default())
    }

    /// Why this process does not go on with it; `None` where it does, maybe because an operator has said so by now.
    pub(crate) async fn reason(&mut self) -> Option<String> {
        let GivenUp { reason, end } = self.given_up.as_ref()?;
        let (reason, known) = (reason.clone(), *end);
        let Some(end) = known else {
            let end = self.end().await;
            self.given_up = Some(GivenUp { reason: reason.clone(), end });
            return Some(reason);
        };
        let asked = async { pending(&self.database.connection().await?, end).await };
        // Where Postgres does not answer, nobody has said anything yet.
        let asked = self.database.within(asked).await.unwrap_or_default();
        let projection = self.partition.0.name;
        if asked.iter().any(|pending| pending.retried.resumes(projection)) {
            tracing::info!(projection, "an operator lets the projection go on");
            self.given_up = None;
            return None;
        }
        Some(reason)
    }
}
