//! Converts organizations between the API and the core.

use domain::resource::organization::{Organization, OrganizationPatch, column};
use index::{Filter, SortKey};
use proto::organization::{
    self, GetOrganization, GetOrganizationRequest, OrganizationFieldName, PatchOrganizationRequest,
    SearchOrganizationsRequest, organization_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{in_state, named, state},
    standard::{PatchRequest, Readable},
};

impl Readable for Organization {
    type Get = GetOrganizationRequest;
    type Search = SearchOrganizationsRequest;

    fn key(column: OrganizationFieldName) -> SortKey<Self> {
        match column {
            OrganizationFieldName::Unspecified | OrganizationFieldName::CreationDate => SortKey::Created,
            OrganizationFieldName::Id => SortKey::Id,
            OrganizationFieldName::ChangeDate => SortKey::Changed,
            OrganizationFieldName::Name => SortKey::Column(&column::NAME),
            OrganizationFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetOrganization {
        let Self { name, is_active, primary_domain } = found.state.clone();
        GetOrganization {
            details: Some(details::of(found)),
            organization: Some(organization::Organization { name }),
            state: state(is_active).into(),
            primary_domain: primary_domain.unwrap_or_default(),
        }
    }
}

impl PatchRequest for PatchOrganizationRequest {
    type Resource = Organization;

    fn patch(&self) -> OrganizationPatch {
        let name = self.organization.as_ref().and_then(|wanted| wanted.name.clone());
        OrganizationPatch { name, ..OrganizationPatch::default() }
    }
}
