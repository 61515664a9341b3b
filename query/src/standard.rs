//! The two reads of standard resources.

use std::sync::Arc;

use api::standard::Readable;
use domain::standard::Resource;
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use index::{Filter, Hits, SortKey};
use proto::shape::{Get, Identified, Request, Search};

use crate::{
    Queries, get,
    search::{self, List},
};

/// An upper bound of the columns of any enumeration.
const MOST_COLUMNS: i32 = 256;
/// How many filters a search may have, including nested ones, and how deep they may be nested.
const MOST_FILTERS: usize = 100;
const DEEPEST: usize = 5;

/// Mounts both reads.
///
/// # Panics
/// Where a list could be sorted by a column that the resource does not have: such a node must not start.
pub(crate) fn mount<R: Readable>(mounting: Mounting<Queries>) -> Mounting<Queries> {
    check_columns::<R>();
    mounting.on(get::<R>).on(search::<R>)
}

fn check_columns<R: Readable>() {
    let columns = (0..MOST_COLUMNS).filter_map(|number| <R::Search as Search>::Column::try_from(number).ok());
    for key in columns.map(R::key) {
        if let SortKey::Column(wanted) = key {
            let is_there = R::COLUMNS.iter().any(|column| column.definition == wanted.definition);
            assert!(
                is_there,
                "lists of {}s are sorted by {}, which is not among its columns",
                R::NAME,
                wanted.definition.name
            );
        }
    }
}

/// Shows the resource that a request names.
async fn get<R: Readable>(
    queries: Arc<Queries>,
    call: Call,
    request: R::Get,
) -> Result<Answer<<R::Get as Request>::Response>, Error> {
    let is_held = |found: &R| request.holder().is_none_or(|holder| found.holder() == Some(holder));
    let id = R::id_below(request.holder().unwrap_or_default(), request.id());
    get::get(&queries, &call, &id, is_held, |found| R::Get::response(R::to_proto(&found))).await
}

/// Searches resources.
pub(crate) async fn search<R: Readable>(
    queries: Arc<Queries>,
    call: Call,
    request: R::Search,
) -> Result<Answer<<R::Search as Request>::Response>, Error> {
    let is_gone = is_gone::<R>(&queries, &call, request.holder());
    let of_holder = request.holder().map(|holder| if is_gone { Filter::Ids(vec![]) } else { R::of_holder(holder) });
    let (query, column, filters) = request.list();
    let filters: Vec<_> = filters.into_iter().map(R::filter).collect();
    check_size(&filters)?;
    let filters = filters.into_iter().chain(of_holder).collect();
    let list = List { query, key: R::key(column), filters };
    let answer =
        |details, hits: Hits<R>| R::Search::response(details, column, hits.page.iter().map(R::to_proto).collect());
    search::search(&queries, &call, list, answer).await
}

fn check_size<R>(filters: &[Filter<R>]) -> Result<(), Error> {
    let sizes: Vec<_> = filters.iter().map(Filter::size).collect();
    let violation = if sizes.iter().map(|(count, _)| count).sum::<usize>() > MOST_FILTERS {
        format!("must have at most {MOST_FILTERS} items, nested ones included")
    } else if sizes.iter().any(|(_, depth)| *depth > DEEPEST) {
        format!("must be nested at most {DEEPEST} deep")
    } else {
        return Ok(());
    };
    let message = format!("a search has at most {MOST_FILTERS} filters, nested at most {DEEPEST} deep");
    Err(Error::new(Reason::InvalidRequest, message).violation("filters", violation))
}

/// Whether the holder that a path names was removed: everything that it holds is removed with it.
fn is_gone<R: Resource>(queries: &Queries, call: &Call, holder: Option<&str>) -> bool {
    let named = holder.zip(R::LINKS.first());
    named.is_some_and(|(id, link)| queries.ended.was_removed(&call.tenant.id, link.to, id))
}
