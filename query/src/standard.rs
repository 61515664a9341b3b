//! The two reads of any standard resource.

use std::sync::Arc;

use domain::standard::Resource;
use edge::{answer::Answer, call::Call, error::Error};
use index::{Filter, Hits, Key};
use proto::shape::{Get, Identified, Search};
use view::{projection::Projection, rows::Found};

use crate::{Queries, search::List};

/// How clients read a standard resource.
pub(crate) trait Shown: Resource {
    /// The request for one.
    type Get: Get;
    /// The request for several.
    type Search: Search<Resource = <Self::Get as Get>::Resource>;
    /// Where its table is.
    const TABLE: &'static Projection;
    /// Where its index is.
    const INDEX: &'static Projection;

    /// What a list is sorted by.
    fn key(column: <Self::Search as Search>::Column) -> Key;

    /// What a filter finds.
    fn filter(wanted: <Self::Search as Search>::Filter) -> Filter;

    /// What clients see of it.
    fn shown(found: &Found<Self>) -> <Self::Get as Get>::Resource;
}

/// Shows the resource that a request names.
pub(crate) async fn get<R: Shown>(
    queries: Arc<Queries>,
    call: Call,
    request: R::Get,
) -> Result<Answer<<R::Get as Get>::Response>, Error> {
    queries.get(&call, R::TABLE, request.id(), |found| R::Get::response(R::shown(&found))).await
}

/// Shows what a request finds.
pub(crate) async fn search<R: Shown>(
    queries: Arc<Queries>,
    call: Call,
    request: R::Search,
) -> Result<Answer<<R::Search as Search>::Response>, Error> {
    let (query, column, filters) = request.list();
    let list = List { query, key: R::key(column), filters: filters.into_iter().map(R::filter).collect() };
    let answer =
        |details, hits: Hits<R>| R::Search::response(details, column, hits.page.iter().map(R::shown).collect());
    queries.search(&call, R::INDEX, list, answer).await
}
