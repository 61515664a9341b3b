//! Reads of reusable resources, as seen from a context: its own, one below it that inherits it, or one above.

use std::sync::Arc;

use api::{
    details::{ETAG, entity_tag},
    reusable::{ReusableFilter, ShownReusable},
};
use domain::{
    context::{Owner, OwnerType},
    rejection::Rejection,
    reusable::{ContextState, Reusable, home, path},
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, waited},
    error::Error,
};
use index::{Filter, Hits};
use proto::{
    object::ListDetails,
    shape::{Identified, Request, Search},
};
use view::{
    keyring::SYSTEM,
    rows::{Fresh, StoredResource},
    settings::Policies,
};

use crate::{
    Queries, get,
    search::{self, List, Visible},
};

/// Gets the resource that a request names, as seen from the context that it names or else from its own, and makes
/// an answer of it.
pub(crate) async fn get_reusable<R: Reusable, I: Identified, O>(
    queries: &Queries,
    call: &Call,
    request: &I,
    is_it: impl Fn(&R) -> bool,
    answer: impl FnOnce(&StoredResource<R>, &ContextState) -> Result<O, Error>,
) -> Result<Answer<O>, Error> {
    let fresh = fresh_reusable::<R>(queries, call, request.id()).await;
    waited(call.consistency[R::CLASS], fresh.as_ref().ok().map(|fresh| fresh.processed));
    let Fresh { processed, answer: found, .. } = fresh?;
    let found = found.filter(|found| is_it(&found.state));
    let seen = found.and_then(|found| seen_from(queries, call, call.named(request), found));
    // The policies may be newer than the row.
    let processed = processed.max(seen.as_ref().map_or(0, |(_, _, newest)| *newest));
    let token = call.token_at(&queries.tokens, R::CLASS, processed).await?;
    let Some((found, seen, _)) = seen else {
        // Its absence was read, too, and counts for later reads.
        return Err(Error::from(Rejection::NotFound(R::NAME)).header(HEADER, token));
    };
    let metadata = vec![(HEADER, token), (ETAG, entity_tag(found.sequence))];
    Ok(Answer { message: answer(&found, &seen)?, status: None, metadata })
}

/// Reads the row of the instance, or else that of the system, which exists in all instances.
async fn fresh_reusable<R: Reusable>(
    queries: &Queries,
    call: &Call,
    id: &str,
) -> Result<Fresh<Option<StoredResource<R>>>, Error> {
    let of_instance = get::fresh_in(queries, call, &call.tenant.id, id).await?;
    if of_instance.answer.is_some() { Ok(of_instance) } else { get::fresh_in(queries, call, SYSTEM, id).await }
}

/// A resource as seen from a context, if the caller may see it there, and the sequence of the newest policy on it.
fn seen_from<R: Reusable>(
    queries: &Queries,
    call: &Call,
    context: Option<&Owner>,
    found: StoredResource<R>,
) -> Option<(StoredResource<R>, ContextState, u64)> {
    let instance_id = &call.tenant.id;
    let context = context.cloned().unwrap_or_else(|| home(&found.owner, instance_id));
    let path = path(&found.owner, &context, instance_id)?;
    let asked = path.last().unwrap_or(&found.owner);
    if !call.may(asked) || queries.ended.is_removed(instance_id, asked) {
        return None;
    }
    let policies = queries.settings.policies::<R>(instance_id, &path);
    let newest = path.iter().filter_map(|context| policies.set(context, &found.id)).map(|set| set.sequence).max();
    let (found, seen) = as_seen_at(found, &path, &policies);
    Some((found, seen, newest.unwrap_or_default()))
}

/// Searches resources as seen from the requested context.
pub(crate) async fn search_reusable<R: ShownReusable>(
    queries: &Queries,
    call: &Call,
    request: R::Search,
) -> Result<Answer<<R::Search as Request>::Response>, Error> {
    let instance_id = &call.tenant.id;
    let mut inheriting = call.context.chain(instance_id);
    inheriting.retain(|context| context.kind != OwnerType::System);
    inheriting.reverse();
    let policies = queries.settings.policies::<R>(instance_id, &inheriting);
    let [on, off] = policies.decided(&inheriting);
    let filter = |wanted| match wanted {
        ReusableFilter::Plain(filter) => filter,
        ReusableFilter::Active(value) => {
            let (found, passed) = if value { (on.clone(), off.clone()) } else { (off.clone(), on.clone()) };
            Filter::IsUnless { column: R::IS_ACTIVE, value, found, passed }
        }
    };
    let (query, column, filters) = request.list();
    let filters = filters.into_iter().map(R::convert_filter).map(filter).collect();
    let list = List { query, key: R::key(column), filters };
    let answer = |details: ListDetails, hits: Hits<R>| {
        let shown = hits.page.into_iter().filter_map(|found| {
            let path = path(&found.owner, &call.context, instance_id)?;
            let (found, seen) = as_seen_at(found, &path, &policies);
            Some(R::to_proto(&found, &seen))
        });
        R::Search::response(details, column, shown.collect())
    };
    search::search_in(queries, call, reachable(queries, call), list, answer).await
}

/// What exists in the context of a call: what belongs to it, to those above it, and to those below it. The caller
/// may read all of it, or, with rights only in some contexts below, what belongs to those.
fn reachable<R: Reusable>(queries: &Queries, call: &Call) -> Visible<R> {
    let id = &call.tenant.id;
    let (instances, within, removed) = match (call.context.kind, call.contexts()) {
        (OwnerType::System, _) if call.may(&call.context) => (None, None, queries.ended.removed_anywhere()),
        (OwnerType::System, _) => (None, Some(vec![]), vec![]),
        (OwnerType::Instance, None) => (Some(vec![id.clone(), SYSTEM.to_owned()]), None, queries.ended.removed(id)),
        (OwnerType::Instance, Some(places)) => (Some(vec![id.clone()]), Some(places), queries.ended.removed(id)),
        // Whether the caller may read it was checked at admission.
        (OwnerType::Organization, _) => {
            (Some(vec![id.clone(), SYSTEM.to_owned()]), Some(call.context.chain(id)), queries.ended.removed(id))
        }
    };
    let removed = (!removed.is_empty()).then_some(Filter::NotIn(removed));
    Visible { instances, filters: within.map(Filter::In).into_iter().chain(removed).collect() }
}

/// A resource as seen at the end of a path. The policy of a context below its own counts as a change of it there.
fn as_seen_at<R: Reusable>(
    mut found: StoredResource<R>,
    path: &[Owner],
    policies: &Policies,
) -> (StoredResource<R>, ContextState) {
    let policy = |context: &Owner| policies.policy(context, &found.id);
    let seen = ContextState::at(&found.owner, found.state.is_active(), path, policy);
    if let Some(set) = path.last().and_then(|context| policies.set(context, &found.id)) {
        found.sequence = found.sequence.max(set.sequence);
        found.changed_at = found.changed_at.max(set.changed_at);
    }
    (found, seen)
}

/// A handler of searches.
pub(crate) async fn search<R: ShownReusable>(
    queries: Arc<Queries>,
    call: Call,
    request: R::Search,
) -> Result<Answer<<R::Search as Request>::Response>, Error> {
    search_reusable::<R>(&queries, &call, request).await
}
