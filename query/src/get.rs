//! Getting one resource by its id, not older than the caller asks for.

use std::sync::Arc;

use api::details::{ETAG, entity_tag};
use domain::{rejection::Rejection, standard::Resource};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{Consistency, HEADER, OWN_WAIT, not_reached, unavailable, waited},
    error::Error,
    refusal::read_model,
};
use tokio::time::{Instant, timeout_at};
use view::{
    database::Failure,
    projection::Projection,
    read_model::ReadModel,
    rows::{Found, Fresh},
};

use crate::Queries;

impl Queries {
    /// The resource with this id, and an answer made of it.
    pub(crate) async fn get<R: Resource, O>(
        &self,
        call: &Call,
        projection: &'static Projection,
        id: &str,
        answer: impl FnOnce(Found<R>) -> O,
    ) -> Result<Answer<O>, Error> {
        let fresh = self.fresh(call, projection, id).await;
        waited(call.consistency, fresh.as_ref().ok().map(|fresh| fresh.processed));
        let Fresh { processed, answer: found, .. } = fresh?;
        let token = self.tokens.mint(processed).await.map_err(unavailable)?;
        let is_there = |found: &Found<R>| {
            let context = R::context(&found.id, &found.owner);
            call.may(&context) && !self.ended.is_removed(&call.tenant.id, &context)
        };
        let Some(found) = found.filter(is_there) else {
            // That there is none was read too, and may be held against a later read.
            return Err(Error::from(Rejection::NotFound(R::NAME)).header(HEADER, token));
        };
        let metadata = vec![(HEADER, token), (ETAG, entity_tag(found.sequence))];
        Ok(Answer { message: answer(found), status: None, metadata })
    }

    /// An answer that no write changes: it is as fresh as anybody asks for.
    pub(crate) async fn constant<O>(&self, call: &Call, message: O) -> Result<Answer<O>, Error> {
        let token = self.tokens.mint(call.consistency.required).await.map_err(unavailable)?;
        Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
    }

    /// A row, not older than the caller asks for.
    pub(crate) async fn fresh<R: Resource>(
        &self,
        call: &Call,
        projection: &'static Projection,
        id: &str,
    ) -> Result<Fresh<Option<Found<R>>>, Error> {
        let (shard, instance_id) = (call.tenant.shard, call.instance_of::<R>(id));
        let read = || ReadModel::new(projection, shard).get::<R>(&self.database, instance_id, id);
        self.as_fresh(call, projection, read).await
    }

    /// Reads, and where the read model is not there yet waits for it and reads again.
    pub(crate) async fn as_fresh<T, F: Future<Output = Result<Fresh<T>, Failure>>>(
        &self,
        call: &Call,
        projection: &'static Projection,
        read: impl Fn() -> F,
    ) -> Result<Fresh<T>, Error> {
        let Consistency { required, own, .. } = call.consistency;
        let (start, left) = (Instant::now(), call.consistency.left());
        let mut progress = self.progress.of(projection);
        let mut is_last = false;
        loop {
            progress.mark_unchanged();
            let fresh = read().await.map_err(|failure| read_model(Arc::new(failure)))?;
            let (is_enough, deadline) = match fresh.processed {
                processed if processed < required => (false, start + left),
                processed if processed < own => (true, start + OWN_WAIT),
                _ => return Ok(fresh),
            };
            if is_last {
                return if is_enough { Ok(fresh) } else { Err(not_reached(required, fresh.processed)) };
            }
            // What is told of progress may get lost; the last look does not rely on it.
            is_last = !matches!(timeout_at(deadline, progress.changed()).await, Ok(Ok(())));
        }
    }
}
