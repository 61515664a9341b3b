//! Converts project grants to the API.

use domain::resource::project_grant::{ProjectGrant, column};
use index::{Filter, Method, SortKey};
use proto::grant::{
    self, GetProjectGrant, GetProjectGrantRequest, ProjectGrantFieldName, SearchProjectGrantsRequest,
    project_grant_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{contains_word, in_state, state},
    standard::Readable,
};

impl Readable for ProjectGrant {
    type Get = GetProjectGrantRequest;
    type Search = SearchProjectGrantsRequest;

    fn key(column: ProjectGrantFieldName) -> SortKey<Self> {
        match column {
            ProjectGrantFieldName::Unspecified | ProjectGrantFieldName::CreationDate => SortKey::Created,
            ProjectGrantFieldName::Id => SortKey::Id,
            ProjectGrantFieldName::ChangeDate => SortKey::Changed,
            ProjectGrantFieldName::ProjectId => SortKey::Column(&column::PROJECT_ID),
            ProjectGrantFieldName::OrgId => SortKey::Column(&column::ORGANIZATION_ID),
            ProjectGrantFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::ProjectId(id) => Filter::text(&column::PROJECT_ID, Method::Equals, id),
            Wanted::OrgId(id) => Filter::text(&column::ORGANIZATION_ID, Method::Equals, id),
            Wanted::RoleKey(key) => contains_word(&column::ROLE_KEYS, &key),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetProjectGrant {
        let Self { project_id, organization_id: org_id, roles, is_active } = found.state.clone();
        let role_keys = roles.into_iter().map(|role| role.key).collect();
        GetProjectGrant {
            details: Some(details::of(found)),
            project_grant: Some(grant::ProjectGrant { project_id, org_id, role_keys }),
            state: state(is_active).into(),
        }
    }
}
