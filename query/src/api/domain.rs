//! Domains as they are read.

use std::sync::Arc;

use ::domain::{field::Kind, resource::domain::Domain};
use proto::domain::{
    self, DomainFieldName, DomainSearchFilter, GetDomain, GetDomainRequest, GetDomainResponse, SearchDomainsRequest,
    SearchDomainsResponse, domain_search_filter,
};
use store::{
    index::{Filter, Hits, Key},
    projection::{ACCESS, DOMAINS_INDEX},
    rows::Found,
};
use transport::{details, edge::Call, error::Error, mount::Answer};

use crate::{
    Queries,
    search::{List, named},
};

pub(super) async fn get(
    queries: Arc<Queries>,
    call: Call,
    request: GetDomainRequest,
) -> Result<Answer<GetDomainResponse>, Error> {
    let answer = |found| GetDomainResponse { domain: Some(response(&found)) };
    queries.get::<Domain, _>(&call, &ACCESS, &request.id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchDomainsRequest,
) -> Result<Answer<SearchDomainsResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<Domain>| SearchDomainsResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &DOMAINS_INDEX, list, answer).await
}

fn key(column: DomainFieldName) -> Key {
    match column {
        DomainFieldName::Unspecified | DomainFieldName::CreationDate => Key::Created,
        DomainFieldName::Id => Key::Id,
        DomainFieldName::ChangeDate => Key::Changed,
        DomainFieldName::Domain => Key::Column("name", Kind::Text),
    }
}

fn filter(filter: DomainSearchFilter) -> Option<Filter> {
    use domain_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Domain(name) => named("name", name),
        Wanted::InIds(ids) => Filter::Ids(ids.ids),
        Wanted::IsVerified(value) => Filter::Is { column: "is_verified", value },
        Wanted::IsPrimary(value) => Filter::Is { column: "is_primary", value },
    })
}

fn response(found: &Found<Domain>) -> GetDomain {
    let Domain { name, is_primary, is_verified, challenge: _, context: _ } = found.state.clone();
    GetDomain {
        details: Some(details::of(found)),
        domain: Some(domain::Domain { domain: name, is_verified }),
        is_primary,
        challenge: details::challenge(&found.state),
    }
}
