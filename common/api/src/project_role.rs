//! Converts roles of projects between the API and the core.

use domain::resource::project_role::{ProjectRole, ProjectRolePatch, column};
use index::{Filter, Method, SortKey};
use proto::grant::{
    GetRole, GetRoleRequest, PatchRoleRequest, Role, RoleFieldName, SearchRolesRequest,
    role_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::named,
    standard::{PatchRequest, Readable},
};

impl Readable for ProjectRole {
    type Get = GetRoleRequest;
    type Search = SearchRolesRequest;

    fn key(column: RoleFieldName) -> SortKey<Self> {
        match column {
            RoleFieldName::Unspecified | RoleFieldName::CreationDate => SortKey::Created,
            RoleFieldName::Id => SortKey::Id,
            RoleFieldName::ChangeDate => SortKey::Changed,
            RoleFieldName::Key => SortKey::Column(&column::KEY),
            RoleFieldName::DisplayName => SortKey::Column(&column::DISPLAY_NAME),
            RoleFieldName::Group => SortKey::Column(&column::GROUP),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::ProjectId(id) => Filter::text(&column::PROJECT_ID, Method::Equals, id),
            Wanted::Key(key) => named(&column::KEY, key),
            Wanted::DisplayName(name) => named(&column::DISPLAY_NAME, name),
            Wanted::Group(group) => named(&column::GROUP, group),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetRole {
        let Self { project_id, key, display_name, group } = found.state.clone();
        GetRole { details: Some(details::of(found)), role: Some(Role { project_id, key, display_name, group }) }
    }
}

impl PatchRequest for PatchRoleRequest {
    type Resource = ProjectRole;

    fn patch(&self) -> ProjectRolePatch {
        let wanted = self.role.clone().unwrap_or_default();
        ProjectRolePatch { display_name: wanted.display_name, group: wanted.group }
    }
}
