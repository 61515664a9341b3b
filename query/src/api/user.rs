//! Users as they are read. Nothing of their secrets is.

use api::details;
use domain::resource::user::{User, column};
use index::{Filter, Key};
use proto::user::{
    self, GetUser, GetUserRequest, SearchUsersRequest, ServiceUser, UserFieldName, user::Type,
    user_search_filter::Filter as Wanted,
};
use view::{
    projection::{ACCESS, Projection, USERS_INDEX},
    rows::Found,
};

use crate::{
    search::{in_state, named, state},
    standard::Shown,
};

impl Shown for User {
    type Get = GetUserRequest;
    type Search = SearchUsersRequest;
    const TABLE: &'static Projection = &ACCESS;
    const INDEX: &'static Projection = &USERS_INDEX;

    fn key(column: UserFieldName) -> Key {
        match column {
            UserFieldName::Unspecified | UserFieldName::CreationDate => Key::Created,
            UserFieldName::Id => Key::Id,
            UserFieldName::ChangeDate => Key::Changed,
            UserFieldName::Username => Key::by(&column::USERNAME),
            UserFieldName::Name => Key::by(&column::NAME),
            UserFieldName::State => Key::by(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter {
        match wanted {
            Wanted::Username(name) => named(&column::USERNAME, name),
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn shown(found: &Found<Self>) -> GetUser {
        let Self { username, name, description, secret, previous: _, is_active } = found.state.clone();
        GetUser {
            details: Some(details::of(found)),
            user: Some(user::User { username, r#type: Some(Type::Service(ServiceUser { name, description })) }),
            state: state(is_active).into(),
            has_secret: secret.is_some(),
        }
    }
}
