//! Converts domains between the API and the core.

use ::domain::resource::domain::{Domain, DomainPatch, column};
use index::{Filter, SortKey};
use proto::domain::{
    self, DomainFieldName, GetDomain, GetDomainRequest, PatchDomainRequest, SearchDomainsRequest,
    domain_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::named,
    standard::{PatchRequest, Readable},
};

impl Readable for Domain {
    type Get = GetDomainRequest;
    type Search = SearchDomainsRequest;

    fn key(column: DomainFieldName) -> SortKey<Self> {
        match column {
            DomainFieldName::Unspecified | DomainFieldName::CreationDate => SortKey::Created,
            DomainFieldName::Id => SortKey::Id,
            DomainFieldName::ChangeDate => SortKey::Changed,
            DomainFieldName::Domain => SortKey::Column(&column::NAME),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Domain(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::IsVerified(value) => Filter::Is { column: &column::IS_VERIFIED, value },
            Wanted::IsPrimary(value) => Filter::Is { column: &column::IS_PRIMARY, value },
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetDomain {
        let Self { name, is_primary, is_verified, challenge: _, context: _ } = found.state.clone();
        GetDomain {
            details: Some(details::of(found)),
            domain: Some(domain::Domain { domain: name, is_verified }),
            is_primary,
            challenge: details::challenge(&found.state),
        }
    }
}

impl PatchRequest for PatchDomainRequest {
    type Resource = Domain;

    fn patch(&self) -> DomainPatch {
        DomainPatch { name: self.domain.as_ref().and_then(|domain| domain.domain.clone()), ..DomainPatch::default() }
    }
}
