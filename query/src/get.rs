//! Gets one resource by its id, as fresh as the caller requires.

use std::sync::Arc;

use api::details::{ETAG, entity_tag};
use base::clock;
use domain::{
    context::Owner,
    log_class::LogClass,
    reference::Reference,
    rejection::Rejection,
    standard::{Resource, goes_with},
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, waited},
    error::Error,
    refusal::{read_model, too_many_searches},
};
use serde_json::value::RawValue;
use view::{
    database::DatabaseFailure,
    projection::{Projection, rows_of},
    read_model::{ReadModel, RowKey},
    rows::{Fresh, Stored, StoredResource},
};

use crate::Queries;

/// Gets the resource with this id, if it is the requested one, and makes an answer of it.
pub(crate) async fn get<R: Resource, O>(
    queries: &Queries,
    call: &Call,
    id: &str,
    is_it: impl Fn(&R) -> bool,
    answer: impl FnOnce(StoredResource<R>) -> O,
) -> Result<Answer<O>, Error> {
    let fresh = fresh(queries, call, id).await;
    waited(call.consistency[R::CLASS], fresh.as_ref().ok().map(|fresh| fresh.processed));
    let Fresh { processed, answer: found, .. } = fresh?;
    let token = call.token_at(&queries.tokens, R::CLASS, processed).await?;
    let is_there = |found: &StoredResource<R>| {
        let context = R::context(&found.id, &found.owner);
        let also_seen_by = found.state.also_seen_by();
        let parts = found.state.parts(&found.id);
        let may = call.may_within(&context, &parts)
            || also_seen_by.as_ref().is_some_and(|other| call.may_within(other, &parts))
            || call.is_own(found.state.user(&found.id));
        let is_removed = |context: &Owner| queries.ended.is_removed(&call.tenant.id, context);
        let is_over = found.state.has_expired(clock::now().as_millisecond());
        // A sweep may remove it later.
        let is_gone = || {
            let stands_on = goes_with(&found.state, found.state.references());
            let removed = |on: &Reference| queries.ended.was_removed(&call.tenant.id, on.link.to, &on.id);
            stands_on.iter().any(removed)
        };
        may && !is_over
            && !is_gone()
            && is_it(&found.state)
            && !is_removed(&context)
            && !also_seen_by.is_some_and(|other| is_removed(&other))
    };
    let Some(found) = found.filter(is_there) else {
        // Its absence was read, too, and counts for later reads.
        return Err(Error::from(Rejection::NotFound(R::NAME)).header(HEADER, token));
    };
    let metadata = vec![(HEADER, token), (ETAG, entity_tag(found.sequence))];
    Ok(Answer { message: answer(found), status: None, metadata })
}

/// An answer that no write changes, and so is as fresh as anybody requires.
pub(crate) async fn constant<O>(queries: &Queries, call: &Call, message: O) -> Result<Answer<O>, Error> {
    let token = call.token_at(&queries.tokens, LogClass::Events, call.consistency.events.required).await?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

/// Reads a row, as fresh as the caller requires.
pub(crate) async fn fresh<R: Resource>(
    queries: &Queries,
    call: &Call,
    id: &str,
) -> Result<Fresh<Option<StoredResource<R>>>, Error> {
    fresh_in(queries, call, call.instance_of::<R>(id), id).await
}

/// Reads a row that is stored in an instance.
pub(crate) async fn fresh_in<R: Resource>(
    queries: &Queries,
    call: &Call,
    instance_id: &str,
    id: &str,
) -> Result<Fresh<Option<StoredResource<R>>>, Error> {
    let key = RowKey { aggregate_type: R::NAME, instance_id, id };
    let fresh = row(queries, call, rows_of::<R>(), key).await?;
    let found = fresh.try_map(|row| row.map(|row| row.read(R::NAME)).transpose());
    found.map_err(|failure| read_model(Arc::new(failure)))
}

/// Reads the row of an aggregate of any type.
async fn row(
    queries: &Queries,
    call: &Call,
    projection: &'static Projection,
    key: RowKey<'_>,
) -> Result<Fresh<Option<Stored<Box<RawValue>>>>, Error> {
    let rows = ReadModel::new(projection, call.tenant.shard);
    as_fresh(queries, call, projection, || rows.get(&queries.reads, key)).await
}

/// Runs a search in events or failed events when it is the turn of the caller's instance.
pub(crate) async fn in_turn<T>(
    queries: &Queries,
    call: &Call,
    search: impl Future<Output = Result<T, DatabaseFailure>>,
) -> Result<T, DatabaseFailure> {
    let _seat = queries.audits.take(&call.tenant.id).await.ok_or(DatabaseFailure::Crowded)?;
    search.await
}

/// Reads, and if the read model is not fresh enough, waits for it and reads again.
pub(crate) async fn as_fresh<T, F: Future<Output = Result<Fresh<T>, DatabaseFailure>>>(
    queries: &Queries,
    call: &Call,
    projection: &'static Projection,
    read: impl Fn() -> F,
) -> Result<Fresh<T>, Error> {
    let changes = queries.progress.of(projection);
    let consistency = call.consistency[projection.class];
    // A parked resource does not get fresher by waiting.
    let processed = |fresh: &Fresh<T>| Some(if fresh.is_parked { u64::MAX } else { fresh.processed });
    let fresh = consistency.look_until_fresh(changes, read, processed).await;
    let fresh = fresh.map_err(|failure| match failure {
        DatabaseFailure::Crowded => too_many_searches(),
        failure => read_model(Arc::new(failure)),
    })?;
    let accepted =
        if fresh.is_parked { consistency.accept_parked(fresh.processed) } else { consistency.accept(fresh.processed) };
    accepted.map(|()| fresh)
}
