//! Generations of what is stored in files: Postgres has the list of them and their progress, and nothing else. Whoever
//! knows the files exchanges them, in a transaction on that list.

use deadpool_postgres::{Client, GenericClient, Transaction};
use jiff::Timestamp;

use super::{change, forget, note_exchange};
use crate::{
    checkpoint::{Checkpoint, signed},
    failure::DatabaseFailure,
    projection::{GenerationSlot, Projection, generation_at},
};

/// How long an exchange may wait for NATS, in milliseconds.
const STANDSTILL: u32 = 30_000;

/// An exchange of files that is under way: nobody else changes the generations of the projection meanwhile.
pub struct FileExchange<'a> {
    transaction: Transaction<'a>,
    projection: &'a Projection,
    place: GenerationSlot,
    /// Since when the generation that is to answer is at its place.
    pub since: Timestamp,
    /// Since when the one that answers is at the opposite place, once this is completed.
    pub kept_since: Timestamp,
    /// How far the generation that is to answer has come; `None` before it began.
    pub reached: Option<Checkpoint>,
}

impl<'a> FileExchange<'a> {
    /// Begins an exchange with the generation at a place; `None` where there is none.
    ///
    /// # Errors
    /// When Postgres does not answer, or others hold the required locks.
    pub async fn begin(
        connection: &'a mut Client,
        projection: &'a Projection,
        place: GenerationSlot,
        shard: u16,
    ) -> Result<Option<Self>, DatabaseFailure> {
        let transaction = change(connection, projection).await?;
        // NATS is waited for in the middle of it, and nobody waits for this transaction but other changes.
        transaction.batch_execute(&format!("set local idle_in_transaction_session_timeout = {STANDSTILL}")).await?;
        let text =
            "select since, now() from platform.generations where projection = $1 and version = $2 and place = $3";
        let found = transaction.query_opt(text, &[&projection.view, &projection.version, &place.name()]).await?;
        let Some(row) = found else { return Ok(None) };
        let (since, kept_since) = (row.get(0), row.get(1));
        let reached = Checkpoint::read(&transaction, generation_at(projection, place), shard).await?;
        Ok(Some(Self { transaction, projection, place, since, kept_since, reached }))
    }

    /// Makes sure that nobody else changes the generations.
    ///
    /// # Errors
    /// When Postgres does not answer, or has ended the transaction.
    pub async fn confirm(&self) -> Result<(), DatabaseFailure> {
        Ok(self.transaction.batch_execute("select").await?)
    }

    /// Notes that the files were exchanged.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn complete(self) -> Result<(), DatabaseFailure> {
        let Self { transaction, projection, place, .. } = self;
        for place in GenerationSlot::ALL {
            forget(&transaction, generation_at(projection, place)).await?;
        }
        note_exchange(&transaction, projection, place.opposite()).await?;
        Ok(transaction.commit().await?)
    }
}

/// Notes how far a generation in files has come, as long as it is the one that was begun then. The epoch is the revision
/// of the manifest of the files that this is about.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note_progress(
    client: &impl GenericClient,
    projection: &Projection,
    shard: u16,
    since: Timestamp,
    Checkpoint { epoch, position, committed_at }: Checkpoint,
) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.checkpoints select $1, $2, $3, $10, $4, $5, $6, $7 where exists \
                (select from platform.generations where projection = $8 and version = $2 and since = $9) \
                on conflict (projection, version, shard) do update set sequence = excluded.sequence, \
                stream_sequence = excluded.stream_sequence, digest = excluded.digest, committed_at = excluded.committed_at";
    let statement = client.prepare_cached(text).await?;
    let (sequence, stream_sequence) = (signed(position.sequence), signed(position.stream_sequence));
    let (digest, shard) = (position.digest.as_slice(), i32::from(shard));
    let Projection { name, view, version, .. } = projection;
    client
        .execute(
            &statement,
            &[name, version, &shard, &sequence, &stream_sequence, &digest, &committed_at, view, &since, &epoch],
        )
        .await?;
    Ok(())
}
