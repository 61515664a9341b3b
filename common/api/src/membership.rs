//! Converts memberships between the API and the core.

use domain::{
    context::{Part, PartKind},
    resource::membership::{Membership, MembershipPatch, column},
};
use index::{Filter, Method, SortKey};
use proto::membership::{
    self, GetMembership, GetMembershipRequest, MembershipFieldName, PatchMembershipRequest, SearchMembershipsRequest,
    membership_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::contains_word,
    standard::{PatchRequest, Readable},
};

impl Readable for Membership {
    type Get = GetMembershipRequest;
    type Search = SearchMembershipsRequest;

    fn key(column: MembershipFieldName) -> SortKey<Self> {
        match column {
            MembershipFieldName::Unspecified | MembershipFieldName::CreationDate => SortKey::Created,
            MembershipFieldName::Id => SortKey::Id,
            MembershipFieldName::ChangeDate => SortKey::Changed,
            MembershipFieldName::UserId => SortKey::Column(&column::USER_ID),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::UserId(id) => Filter::text(&column::USER_ID, Method::Equals, id),
            Wanted::Role(role) => contains_word(&column::ROLES, &role),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::ProjectId(id) => Filter::text(&column::PROJECT_ID, Method::Equals, id),
            Wanted::ProjectGrantId(id) => Filter::text(&column::PROJECT_GRANT_ID, Method::Equals, id),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetMembership {
        let Self { user_id, roles, part, context: _, user_organization_id: _ } = found.state.clone();
        let part = part.map(|Part { kind, id }| match kind {
            PartKind::Project => membership::membership::Part::ProjectId(id),
            PartKind::ProjectGrant => membership::membership::Part::ProjectGrantId(id),
        });
        let membership = membership::Membership { user_id, roles, part };
        GetMembership { details: Some(details::of(found)), membership: Some(membership) }
    }
}

impl PatchRequest for PatchMembershipRequest {
    type Resource = Membership;

    fn patch(&self) -> MembershipPatch {
        // A membership without a role does not exist, so an empty list leaves the roles unchanged.
        let roles = self.membership.as_ref().map(|wanted| wanted.roles.clone());
        MembershipPatch { roles: roles.filter(|roles| !roles.is_empty()), user_organization_id: None }
    }
}
