//! Organizations as they are read.

use std::sync::Arc;

use api::details;
use domain::{
    rejection::Rejection,
    resource::{
        instance::Instance,
        organization::{Organization, column},
    },
};
use edge::{answer::Answer, call::Call, error::Error};
use index::{Filter, Key};
use proto::organization::{
    self, GetInstanceDefaultRequest, GetInstanceDefaultResponse, GetOrganization, GetOrganizationRequest,
    OrganizationFieldName, SearchOrganizationsRequest, organization_search_filter::Filter as Wanted,
};
use view::{
    projection::{ACCESS, ORGANIZATIONS_INDEX, Projection},
    rows::Found,
};

use crate::{
    Queries,
    search::{in_state, named, state},
    standard::Shown,
};

impl Shown for Organization {
    type Get = GetOrganizationRequest;
    type Search = SearchOrganizationsRequest;
    const TABLE: &'static Projection = &ACCESS;
    const INDEX: &'static Projection = &ORGANIZATIONS_INDEX;

    fn key(column: OrganizationFieldName) -> Key {
        match column {
            OrganizationFieldName::Unspecified | OrganizationFieldName::CreationDate => Key::Created,
            OrganizationFieldName::Id => Key::Id,
            OrganizationFieldName::ChangeDate => Key::Changed,
            OrganizationFieldName::Name => Key::by(&column::NAME),
            OrganizationFieldName::State => Key::by(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn shown(found: &Found<Self>) -> GetOrganization {
        let Self { name, is_active, primary_domain } = found.state.clone();
        GetOrganization {
            details: Some(details::of(found)),
            organization: Some(organization::Organization { name }),
            state: state(is_active).into(),
            primary_domain: primary_domain.unwrap_or_default(),
        }
    }
}

pub(super) async fn instance_default(
    queries: Arc<Queries>,
    call: Call,
    GetInstanceDefaultRequest { ctx: _ }: GetInstanceDefaultRequest,
) -> Result<Answer<GetInstanceDefaultResponse>, Error> {
    let instance = queries.fresh::<Instance>(&call, &ACCESS, &call.tenant.id).await?.answer;
    let id =
        instance.and_then(|found| found.state.default_organization_id).ok_or(Rejection::NotFound("organization"))?;
    let answer = |found| GetInstanceDefaultResponse { organization: Some(Organization::shown(&found)) };
    queries.get::<Organization, _>(&call, &ACCESS, &id, answer).await
}
