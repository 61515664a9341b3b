//! Converts users between the API and the core. Their secrets are never shown.

use domain::{
    context::Owner,
    person::{Contact, Person},
    resource::{
        app::oidc::TokenType,
        user::{Human, User, UserPatch, column},
    },
};
use index::{Filter, Method, SortKey};
use jiff::Timestamp;
use proto::user::{
    self, AccessTokenType, CreateUserRequest, Email, GetUser, GetUserRequest, HumanUser, NewPassword, PasswordState,
    PatchHumanUser, PatchServiceUser, PatchUserRequest, Phone, SearchUsersRequest, ServiceUser, UserFieldName,
    UserSearchFilter, UserState, UserType, patch_user, user::Type, user_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{in_state, named, state},
    standard::Readable,
    token_algorithm,
};

fn each(filters: Vec<UserSearchFilter>) -> Vec<Filter<User>> {
    filters.into_iter().map(|filter| filter.filter.map_or_else(match_nothing, User::filter)).collect()
}

/// Matches nothing: the filter for an empty one, which the rules of the API refuse earlier.
fn match_nothing() -> Filter<User> {
    Filter::Any(vec![])
}

impl Readable for User {
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
            UserFieldName::Type => SortKey::Column(&column::TYPE),
            UserFieldName::GivenName => SortKey::Column(&column::GIVEN_NAME),
            UserFieldName::FamilyName => SortKey::Column(&column::FAMILY_NAME),
            UserFieldName::Nickname => SortKey::Column(&column::NICKNAME),
            UserFieldName::Email => SortKey::Column(&column::EMAIL),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Username(name) => named(&column::USERNAME, name),
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
            Wanted::Type(wanted) => {
                let r#type = if wanted.r#type() == UserType::Human { column::HUMAN } else { column::SERVICE };
                Filter::text(&column::TYPE, Method::Equals, r#type.to_owned())
            }
            Wanted::GivenName(name) => named(&column::GIVEN_NAME, name),
            Wanted::FamilyName(name) => named(&column::FAMILY_NAME, name),
            Wanted::Nickname(name) => named(&column::NICKNAME, name),
            Wanted::Email(address) => named(&column::EMAIL, address),
            Wanted::Phone(number) => named(&column::PHONE, number),
            Wanted::InOrgIds(ids) => Filter::In(ids.ids.into_iter().map(Owner::organization).collect()),
            Wanted::AndFilter(all) => Filter::All(each(all.filters)),
            Wanted::OrFilter(any) => Filter::Any(each(any.filters)),
            Wanted::NotFilter(not) => match not.filter.and_then(|filter| filter.filter) {
                Some(filter) => Filter::Not(Box::new(Self::filter(filter))),
                None => match_nothing(),
            },
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetUser {
        let User { username, human, password, secrets, is_active, is_locked, .. } = found.state.clone();
        let r#type = match human {
            Some(human) => Type::Human(human_to_proto(&human)),
            None => Type::Service(ServiceUser {
                name: found.state.name.clone(),
                description: found.state.description.clone(),
                allow_token_endpoint_audience: found.state.allow_token_endpoint_audience,
                access_token_type: token_type_to_proto(found.state.has_opaque_tokens()).into(),
                access_token_alg: token_algorithm::to_proto(found.state.access_token_alg.as_deref()).into(),
                id_token_alg: token_algorithm::to_proto(found.state.id_token_alg.as_deref()).into(),
            }),
        };
        GetUser {
            details: Some(details::of(found)),
            user: Some(user::User { username, r#type: Some(r#type) }),
            state: state(found.state.is_live()).into(),
            has_secret: secrets.newest.expose().is_some(),
            user_state: user_state(is_active, is_locked).into(),
            password: password.map(|password| PasswordState {
                change_date: Timestamp::from_millisecond(password.changed_at).ok().map(Into::into),
                change_required: password.is_change_required,
                expiration_date: password
                    .expires_at
                    .and_then(|expires_at| Timestamp::from_millisecond(expires_at).ok())
                    .map(Into::into),
            }),
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

fn token_type_to_proto(is_opaque: bool) -> AccessTokenType {
    if is_opaque { AccessTokenType::Bearer } else { AccessTokenType::Jwt }
}

fn user_state(is_active: bool, is_locked: bool) -> UserState {
    match (is_active, is_locked) {
        (false, _) => UserState::Inactive,
        (true, true) => UserState::Locked,
        (true, false) => UserState::Active,
    }
}

fn human_to_proto(human: &Human) -> HumanUser {
    let person = human.person().cloned().unwrap_or_default();
    HumanUser {
        schema_id: human.schema_id.clone(),
        data: Some(person.data.into()),
        email: person.email.map(|Contact { value: address, is_verified }| Email { address, is_verified }),
        phone: person.phone.map(|Contact { value: number, is_verified }| Phone { number, is_verified }),
        password: None,
    }
}

/// Creates a service user from a request.
pub fn new(request: &CreateUserRequest) -> User {
    let wanted = request.user.clone().unwrap_or_default();
    let service = match wanted.r#type {
        Some(Type::Service(service)) => service,
        Some(Type::Human(_)) | None => ServiceUser::default(),
    };
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

/// A person to create.
pub struct NewPerson {
    /// The personal data.
    pub person: Person,
    /// The id of the schema, or an empty text.
    pub schema_id: String,
    /// The initial password.
    pub password: Option<NewPassword>,
}

/// Converts a person to create, if the request is about one.
pub fn person(request: &CreateUserRequest) -> Option<NewPerson> {
    let wanted = request.user.clone()?;
    let Some(Type::Human(HumanUser { schema_id, data, email, phone, password })) = wanted.r#type else { return None };
    let person = Person {
        username: wanted.username,
        data: data.unwrap_or_default().into(),
        email: email.map(email_contact),
        phone: phone.map(phone_contact),
    };
    Some(NewPerson { person, schema_id, password })
}

fn email_contact(Email { address, is_verified }: Email) -> Contact {
    Contact { value: address, is_verified }
}

fn phone_contact(Phone { number, is_verified }: Phone) -> Contact {
    Contact { value: number, is_verified }
}

/// Applies the changes of a request to a person.
pub fn changed(person: Person, request: &PatchUserRequest) -> Person {
    let wanted = request.user.clone().unwrap_or_default();
    let PatchHumanUser { data, email, phone } = match wanted.r#type {
        Some(patch_user::Type::Human(human)) => human,
        Some(patch_user::Type::Service(_)) | None => PatchHumanUser::default(),
    };
    // An empty contact is removed.
    let contact = |wanted: Option<Contact>, before| match wanted {
        Some(contact) => (!contact.value.is_empty()).then_some(contact),
        None => before,
    };
    Person {
        username: wanted.username.unwrap_or(person.username),
        data: data.map_or(person.data, Into::into),
        email: contact(email.map(email_contact), person.email),
        phone: contact(phone.map(phone_contact), person.phone),
    }
}

/// Whether a request changes data that only people have.
pub fn is_of_person(request: &PatchUserRequest) -> bool {
    let r#type = request.user.as_ref().and_then(|user| user.r#type.as_ref());
    matches!(r#type, Some(patch_user::Type::Human(_)))
}

/// Converts the changes of a request to a service user.
pub fn patch(request: &PatchUserRequest) -> UserPatch {
    let wanted = request.user.clone().unwrap_or_default();
    let service = match wanted.r#type {
        Some(patch_user::Type::Service(service)) => service,
        Some(patch_user::Type::Human(_)) | None => PatchServiceUser::default(),
    };
    UserPatch {
        username: wanted.username,
        access_token_type: service.access_token_type.and_then(|_| token_type(service.access_token_type())),
        access_token_alg: service.access_token_alg.map(|_| token_algorithm::name(service.access_token_alg())),
        id_token_alg: service.id_token_alg.map(|_| token_algorithm::name(service.id_token_alg())),
        name: service.name,
        description: service.description,
        allow_token_endpoint_audience: service.allow_token_endpoint_audience,
        renewal: None,
        human: None,
        password: None,
    }
}
