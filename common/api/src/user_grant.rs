//! Converts user grants to the API.

use domain::resource::user_grant::{UserGrant, column};
use index::{Filter, Method, SortKey};
use proto::grant::{
    self, GetUserGrant, GetUserGrantRequest, SearchUserGrantsRequest, UserGrantFieldName,
    user_grant_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{contains_word, in_state, state},
    standard::Readable,
};

impl Readable for UserGrant {
    type Get = GetUserGrantRequest;
    type Search = SearchUserGrantsRequest;

    fn key(column: UserGrantFieldName) -> SortKey<Self> {
        match column {
            UserGrantFieldName::Unspecified | UserGrantFieldName::CreationDate => SortKey::Created,
            UserGrantFieldName::Id => SortKey::Id,
            UserGrantFieldName::ChangeDate => SortKey::Changed,
            UserGrantFieldName::UserId => SortKey::Column(&column::USER_ID),
            UserGrantFieldName::ProjectId => SortKey::Column(&column::PROJECT_ID),
            UserGrantFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::UserId(id) => Filter::text(&column::USER_ID, Method::Equals, id),
            Wanted::ProjectId(id) => Filter::text(&column::PROJECT_ID, Method::Equals, id),
            Wanted::ProjectGrantId(id) => Filter::text(&column::PROJECT_GRANT_ID, Method::Equals, id),
            Wanted::RoleKey(key) => contains_word(&column::ROLE_KEYS, &key),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetUserGrant {
        let Self { user_id, project_id, project_grant_id, roles, is_active } = found.state.clone();
        let project_grant_id = project_grant_id.unwrap_or_default();
        let role_keys = roles.into_iter().map(|role| role.key).collect();
        GetUserGrant {
            details: Some(details::of(found)),
            user_grant: Some(grant::UserGrant { user_id, project_id, project_grant_id, role_keys }),
            state: state(is_active).into(),
        }
    }
}
