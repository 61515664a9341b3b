//! Projections that are built for the first time in the version that this build reads, and so must not answer yet.

use deadpool_postgres::GenericClient;

use crate::{
    checkpoint::{Checkpoint, checkpoints},
    database::{Database, DatabaseFailure},
    projection::Projection,
};

/// The place under which a generation that answers is noted while it is incomplete.
const FIRST: &str = "first";

/// Notes that a projection is built for the first time, or anew in place of one that was lost.
pub(crate) async fn begins(client: &impl GenericClient, projection: &Projection) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.generations values ($1, $2, $3, now()) on conflict do nothing";
    client.execute(text, &[&projection.name, &projection.version, &FIRST]).await?;
    Ok(())
}

/// Notes that a projection has all that the log had when its worker began, if that worker still has the checkpoint.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note_complete(
    client: &impl GenericClient,
    projection: &Projection,
    checkpoint: Checkpoint,
) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.generations g where projection = $1 and version = $2 and place = $3 and exists \
                (select from platform.checkpoints c where c.projection = g.projection and c.version = g.version and c.epoch = $4)";
    client.execute(text, &[&projection.name, &projection.version, &FIRST, &checkpoint.epoch]).await?;
    Ok(())
}

/// Returns the projections in Postgres that are incomplete in the version that this build reads, with their
/// checkpoints: they must not answer yet.
///
/// # Errors
/// When Postgres does not answer.
pub async fn incomplete(
    database: &Database,
    shard: u16,
) -> Result<Vec<(&'static Projection, Option<Checkpoint>)>, DatabaseFailure> {
    let text = "select projection, version from platform.generations where place = $1";
    let read = async {
        let connection = database.connection().await?;
        let rows = connection.query(text, &[&FIRST]).await?;
        let mut found = checkpoints(&*connection, shard).await?;
        let is_among = |known: &Projection| {
            rows.iter().any(|row| row.get::<_, &str>(0) == known.name && row.get::<_, i32>(1) == known.version)
        };
        found.retain(|(projection, _)| is_among(projection));
        Ok(found)
    };
    database.within(read).await
}
