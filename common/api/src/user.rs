//! Users in the API's words. Nothing of their secrets is.

use domain::resource::{
    app::oidc::TokenType,
    user::{User, UserPatch, column},
};
use index::{Filter, SortKey};
use proto::user::{
    self, AccessTokenType, CreateUserRequest, GetUser, GetUserRequest, PatchUserRequest, SearchUsersRequest,
    ServiceUser, UserFieldName, UserState, patch_user, user::Type, user_search_filter::Filter as Wanted,
};
use view::rows::Found;

use crate::{
    details,
    filter::{in_state, named, state},
    standard::Shown,
    token_algorithm,
};

impl Shown for User {
    type Get = GetUserRequest;
    type Search = SearchUsersRequest;

    fn key(column: UserFieldName) -> SortKey<Self> {
        match column {
            UserFieldName::Unspecified | UserFieldName::CreationDate => SortKey::Created,
            UserFieldName::Id => SortKey::Id,
            UserFieldName::ChangeDate => SortKey::Changed,
            UserFieldName::Username => SortKey::Column(&column::USERNAME),
            UserFieldName::Name => SortKey::Column(&column::NAME),
            UserFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Username(name) => named(&column::USERNAME, name),
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn shown(found: &Found<Self>) -> GetUser {
        let User { username, secrets, is_active, is_locked, .. } = found.state.clone();
        let service = ServiceUser {
            name: found.state.name.clone(),
            description: found.state.description.clone(),
            allow_token_endpoint_audience: found.state.allow_token_endpoint_audience,
            access_token_type: shown_token_type(found.state.has_opaque_tokens()).into(),
            access_token_alg: token_algorithm::shown(found.state.access_token_alg.as_deref()).into(),
            id_token_alg: token_algorithm::shown(found.state.id_token_alg.as_deref()).into(),
        };
        GetUser {
            details: Some(details::of(found)),
            user: Some(user::User { username, r#type: Some(Type::Service(service)) }),
            state: state(found.state.is_live()).into(),
            has_secret: secrets.newest.expose().is_some(),
            user_state: user_state(is_active, is_locked).into(),
        }
    }
}

fn token_type(wanted: AccessTokenType) -> Option<TokenType> {
    match wanted {
        AccessTokenType::Unspecified => None,
        AccessTokenType::Bearer => Some(TokenType::Opaque),
        AccessTokenType::Jwt => Some(TokenType::Jwt),
    }
}

fn shown_token_type(is_opaque: bool) -> AccessTokenType {
    if is_opaque { AccessTokenType::Bearer } else { AccessTokenType::Jwt }
}

fn user_state(is_active: bool, is_locked: bool) -> UserState {
    match (is_active, is_locked) {
        (false, _) => UserState::Inactive,
        (true, true) => UserState::Locked,
        (true, false) => UserState::Active,
    }
}

/// A new user, as a request wants it.
pub fn new(request: &CreateUserRequest) -> User {
    let wanted = request.user.clone().unwrap_or_default();
    let service = wanted.r#type.map(|Type::Service(service)| service).unwrap_or_default();
    User {
        username: wanted.username,
        access_token_type: token_type(service.access_token_type()),
        access_token_alg: token_algorithm::name(service.access_token_alg()),
        id_token_alg: token_algorithm::name(service.id_token_alg()),
        name: service.name,
        description: service.description,
        allow_token_endpoint_audience: service.allow_token_endpoint_audience,
        is_active: true,
        ..User::default()
    }
}

/// What a request changes of a user.
pub fn patch(request: &PatchUserRequest) -> UserPatch {
    let wanted = request.user.clone().unwrap_or_default();
    let service = wanted.r#type.map(|patch_user::Type::Service(service)| service).unwrap_or_default();
    UserPatch {
        username: wanted.username,
        access_token_type: service.access_token_type.and_then(|_| token_type(service.access_token_type())),
        access_token_alg: service.access_token_alg.map(|_| token_algorithm::name(service.access_token_alg())),
        id_token_alg: service.id_token_alg.map(|_| token_algorithm::name(service.id_token_alg())),
        name: service.name,
        description: service.description,
        allow_token_endpoint_audience: service.allow_token_endpoint_audience,
        renewal: None,
    }
}
