//! The rows of users.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{
        InIdsFilter, ListQuery, NameFilter, RequestContext, State, StateFilter, TextFilterMethod, TokenAlgorithm,
        request_context::ResourceOwner,
    },
    operation::{
        CREATE_USER, DEACTIVATE_USER, DELETE_USER, GENERATE_USER_SECRET, GET_USER, LOCK_USER, PATCH_USER,
        REACTIVATE_USER, SEARCH_USERS, SET_PASSWORD, UNLOCK_USER,
    },
    user::{
        AccessTokenType, CreateUserRequest, CreateUserResponse, DeactivateUserRequest, DeleteUserRequest, Email,
        GenerateUserSecretRequest, GetUserRequest, HumanUser, LockUserRequest, NewPassword, PatchHumanUser,
        PatchServiceUser, PatchUser, PatchUserRequest, Phone, ReactivateUserRequest, SearchUsersRequest, ServiceUser,
        SetPassword, SetPasswordRequest, UnlockUserRequest, User, UserFieldName, UserSearchFilter, UserType,
        UserTypeFilter, new_password::Kind, patch_user, user, user_search_filter::Filter,
    },
    wellknown::{Duration, Timestamp},
};
use serde_json::{Value, json};
use tests::client::Answer;

use super::{
    context, new_name,
    organization::a_readable_organization,
    posted,
    row::{Check, Row, Subject, row},
    subject,
    wire::World,
};

const USERS: &str = "/resources/v3alpha/users";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_USER, a_user).good("a user", |it| DeleteUserRequest { id: it.id.clone() }).done(),
        row(&DEACTIVATE_USER, a_user).good("one that is on", |it| DeactivateUserRequest { id: it.id.clone() }).done(),
        row(&REACTIVATE_USER, an_inactive_user)
            .good("one that is off", |it| ReactivateUserRequest { id: it.id.clone() })
            .done(),
        row(&LOCK_USER, a_user).good("one that is on", |it| LockUserRequest { id: it.id.clone() }).done(),
        row(&UNLOCK_USER, a_locked_user)
            .good("one that is locked", |it| UnlockUserRequest { id: it.id.clone() })
            .done(),
        generate_secret(),
        set_password(),
        row(&GET_USER, a_user).good("a user", |it| GetUserRequest { id: it.id.clone() }).done(),
        search(),
    ]
}

/// Creates a user in the organization of the caller with all rights.
pub(super) async fn created(world: &World) -> Answer {
    posted(world, USERS, &json!({ "username": new_name("user"), "service": { "name": "Conformance" } })).await
}

pub(super) fn a_user(world: &World) -> BoxFuture<'_, Subject> {
    async move { subject(&created(world).await) }.boxed()
}

fn an_inactive_user(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let id = created(world).await.id();
        subject(&posted(world, &format!("{USERS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn a_locked_user(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let id = created(world).await.id();
        subject(&posted(world, &format!("{USERS}/{id}/_lock"), &json!({})).await)
    }
    .boxed()
}

fn a_user_with_a_secret(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let id = created(world).await.id();
        subject(&posted(world, &format!("{USERS}/{id}/_generate_secret"), &json!({})).await)
    }
    .boxed()
}

fn created_as(user_id: Option<&str>, user: User) -> CreateUserRequest {
    CreateUserRequest { ctx: None, user: Some(user), user_id: user_id.unwrap_or_default().into() }
}

fn service(username: &str) -> CreateUserRequest {
    let kind = user::Type::Service(ServiceUser::default());
    created_as(None, User { username: username.into(), r#type: Some(kind) })
}

fn within(owner: ResourceOwner, username: &str) -> CreateUserRequest {
    CreateUserRequest { ctx: Some(context(owner)), ..service(username) }
}

/// Returns a request for a person with these data.
fn human(username: &str, data: &Value) -> CreateUserRequest {
    created_as(None, User { username: username.into(), r#type: Some(user::Type::Human(person(data))) })
}

fn person(data: &Value) -> HumanUser {
    let mut all = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let members = all.as_object_mut().expect("it is one");
    members.extend(data.as_object().cloned().unwrap_or_default());
    HumanUser { data: Some(members.clone().into()), ..HumanUser::default() }
}

fn reached_at(address: &str, number: &str) -> CreateUserRequest {
    let email = Some(Email { address: address.into(), is_verified: true });
    let phone = Some(Phone { number: number.into(), is_verified: true });
    let human = HumanUser { schema_id: "human".into(), email, phone, ..person(&json!({})) };
    created_as(None, User { username: new_name("reached"), r#type: Some(user::Type::Human(human)) })
}

fn with_password(name: &str, kind: Kind) -> CreateUserRequest {
    let expiration_date = Some(Timestamp { seconds: 4_000_000_000, nanos: 0 });
    let password = Some(NewPassword { kind: Some(kind), change_required: true, expiration_date });
    let human = HumanUser { password, ..person(&json!({})) };
    created_as(None, User { username: new_name(name), r#type: Some(user::Type::Human(human)) })
}

fn of_people(row: Row<CreateUserRequest, CreateUserResponse>) -> Row<CreateUserRequest, CreateUserResponse> {
    row
        .good("a person", |it| human(&format!("a person of {}", it.id), &json!({})))
        .good("a person with all data", |it| {
            let data = json!({ "nickname": "\u{1f980} \"quoted\"", "address": { "formatted": "1 Road\nLondon" }, "locale": "en" });
            human(&format!("all of {}", it.id), &data)
        })
        .good("a person who is reached", |_| reached_at("ada@example.com", "+441632960123"))
        .good("a person under a given id", |it| {
            let request = human(&format!("given {}", it.id), &json!({}));
            CreateUserRequest { user_id: new_name(&format!("given-{}", it.id)).replace(' ', "-"), ..request }
        })
        .good("a person with a password", |_| with_password("keyed", Kind::Password("nine-lives-of-a-tabby-cat".into())))
        .good("a person with a hash", |_| with_password("hashed", Kind::Hash(BCRYPT.into())))
        .bad("a short password", "INVALID_REQUEST", |_| with_password("never", Kind::Password("\u{e9}12345678".into())))
        .bad("a common password", "INVALID_REQUEST", |_| with_password("never", Kind::Password("password123".into())))
        .bad("a hash that is none", "INVALID_REQUEST", |_| with_password("never", Kind::Hash("$1$abc$def".into())))
        .bad("a hash that takes long", "INVALID_REQUEST", |_| with_password("never", Kind::Hash(BCRYPT.replace("$04", "$31"))))
        .bad("an id for a service user", "INVALID_REQUEST", |it| {
            CreateUserRequest { user_id: "given".into(), ..service(&format!("given to {}", it.id)) }
        })
        .bad("an id that is none", "INVALID_REQUEST", |_| {
            CreateUserRequest { user_id: "a/b".into(), ..human("never made", &json!({})) }
        })
        .bad("an unknown schema", "RESOURCE_NOT_FOUND", |_| {
            let human = HumanUser { schema_id: "martian".into(), ..person(&json!({})) };
            created_as(None, User { username: "never made".into(), r#type: Some(user::Type::Human(human)) })
        })
        .bad("a person without data", "INVALID_REQUEST", |_| {
            let user = user::Type::Human(HumanUser::default());
            created_as(None, User { username: "never made".into(), r#type: Some(user) })
        })
        .bad("data of wrong types", "INVALID_REQUEST", |_| human("never made", &json!({ "given_name": 7, "nickname": [] })))
        .bad("a long name", "INVALID_REQUEST", |_| human("never made", &json!({ "family_name": "x".repeat(201) })))
        .bad("unknown data", "INVALID_REQUEST", |_| human("never made", &json!({ "email": "a@b", "address": { "x": "y" } })))
        .bad("a picture that runs", "INVALID_REQUEST", |_| human("never made", &json!({ "picture": "javascript:alert(1)" })))
        .bad("no e-mail address", "INVALID_REQUEST", |_| reached_at("ada", "+441632960123"))
        .bad("no phone number", "INVALID_REQUEST", |_| reached_at("ada@example.com", "01632 960123"))
        .bad("a name that a service user has", "RESOURCE_EXISTS", |_| human("NOBODY", &json!({})))
}

fn create() -> Box<dyn Check + Sync> {
    of_people(row(&CREATE_USER, a_readable_organization))
        .good("in the own organization", |it| service(&format!("next to {}", it.id)))
        .good("in another organization", |it| {
            within(ResourceOwner::OrgId(it.id.clone()), &format!("a user of {}", it.id))
        })
        .good("all fields", |it| {
            let kind = ServiceUser {
                name: "\u{1f980} \"quoted\"".into(),
                description: "two\nlines".into(),
                allow_token_endpoint_audience: true,
                access_token_alg: TokenAlgorithm::Rs256.into(),
                id_token_alg: TokenAlgorithm::Es256.into(),
                access_token_type: AccessTokenType::Bearer.into(),
            };
            let username = format!("\\ \u{202e} {}", it.id);
            created_as(None, User { username, r#type: Some(user::Type::Service(kind)) })
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateUserRequest::default())
        .bad("no user name", "INVALID_REQUEST", |_| service(""))
        .bad("a long user name", "INVALID_REQUEST", |_| service(&"é".repeat(201)))
        .bad("no type", "INVALID_REQUEST", |_| created_as(None, User { username: "of no type".into(), r#type: None }))
        .bad("every field wrong", "INVALID_REQUEST", |_| {
            let kind = ServiceUser { name: "\u{0}".into(), description: "x".repeat(501), ..ServiceUser::default() };
            let user = User { username: "a\nb".into(), r#type: Some(user::Type::Service(kind)) };
            created_as(None, user)
        })
        .bad("in the system", "PERMISSION_DENIED", |_| within(ResourceOwner::System(true), "never made"))
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            within(ResourceOwner::OrgId("1".into()), "never made")
        })
        .bad("a taken name", "RESOURCE_EXISTS", |_| service("NOBODY"))
        .done()
}

/// The bcrypt hash of `correct horse é`.
const BCRYPT: &str = "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2";

fn chosen(id: &str, new: &str, current: &str) -> SetPasswordRequest {
    let current_password = (!current.is_empty()).then(|| current.into());
    let change_required = current_password.is_some();
    let password =
        SetPassword { new_password: new.into(), change_required, current_password, ..SetPassword::default() };
    SetPasswordRequest { id: id.into(), password: Some(password) }
}

/// Returns a request for a password that expires at a time, in seconds since the Unix epoch.
fn until(id: &str, seconds: i64) -> SetPasswordRequest {
    let mut request = chosen(id, &format!("a-hive-of-{seconds}-bees"), "");
    let expiration_date = Some(Timestamp { seconds, nanos: 0 });
    request.password.as_mut().expect("it has one").expiration_date = expiration_date;
    request
}

/// Creates a person with a password, and names one without and a service user.
fn people(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
        let keyed = json!({ "data": data, "password": { "hash": BCRYPT } });
        let person =
            async |human: Value| posted(world, USERS, &json!({ "username": new_name("ada"), "human": human })).await;
        let without = person(json!({ "data": data })).await.id();
        subject(&person(keyed).await).naming([without, created(world).await.id()])
    }
    .boxed()
}

fn set_password() -> Box<dyn Check + Sync> {
    row(&SET_PASSWORD, people)
        .good("another one", |it| chosen(&it.id, "a-hive-of-27-bees", ""))
        .good("a first one", |it| chosen(&it.others[0], "a-hive-of-28-bees", ""))
        .good("another one, with the current one", |it| chosen(&it.id, "a-hive-of-29-bees", "correct horse \u{e9}"))
        .good("one for a while", |it| until(&it.id, 4_000_000_000))
        .bad("one that has expired", "INVALID_REQUEST", |it| until(&it.id, 1_500_000_000))
        .bad("with a wrong one", "INVALID_REQUEST", |it| chosen(&it.id, "a-hive-of-30-bees", "correct horse"))
        .bad("with one where there is none", "INVALID_REQUEST", |it| chosen(&it.others[0], "a-hive-of-31-bees", "x"))
        .bad("with an empty one", "INVALID_REQUEST", |it| {
            let password = SetPassword {
                new_password: "a-hive-of-33-bees".into(),
                current_password: Some(String::new()),
                ..SetPassword::default()
            };
            SetPasswordRequest { id: it.id.clone(), password: Some(password) }
        })
        .bad("of a service user", "PRECONDITION_FAILED", |it| chosen(&it.others[1], "a-hive-of-32-bees", ""))
        .bad("a short one", "INVALID_REQUEST", |it| chosen(&it.id, "bees", ""))
        .bad("a long one", "INVALID_REQUEST", |it| chosen(&it.id, &"a bee ".repeat(34), ""))
        .bad("one with a line break", "INVALID_REQUEST", |it| chosen(&it.id, "a-hive-of\n-33-bees", ""))
        .bad("a common one", "INVALID_REQUEST", |it| chosen(&it.id, "qwertyuiop123", ""))
        .bad("none", "INVALID_REQUEST", |it| SetPasswordRequest { id: it.id.clone(), password: None })
        .done()
}

fn patched(subject: &Subject, user: PatchUser) -> PatchUserRequest {
    PatchUserRequest { id: subject.id.clone(), user: Some(user) }
}

fn username(username: &str) -> PatchUser {
    PatchUser { username: Some(username.into()), r#type: None }
}

fn profile(name: Option<&str>, description: Option<&str>) -> PatchUser {
    let allow_token_endpoint_audience = name.map(|_| true);
    let (name, description) = (name.map(Into::into), description.map(Into::into));
    let algorithm = allow_token_endpoint_audience.map(|_| TokenAlgorithm::Rs256.into());
    let service = PatchServiceUser {
        name,
        description,
        allow_token_endpoint_audience,
        access_token_alg: algorithm,
        id_token_alg: algorithm,
        access_token_type: algorithm.map(|_| AccessTokenType::Bearer.into()),
    };
    PatchUser { username: None, r#type: Some(patch_user::Type::Service(service)) }
}

fn a_user_beside_a_person(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
        let person = json!({ "username": new_name("ada"), "human": { "data": data } });
        let person = posted(world, "/resources/v3alpha/users", &person).await.id();
        a_user(world).await.naming([person])
    }
    .boxed()
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_USER, a_user_beside_a_person)
        .good("a user name", |it| patched(it, username(&format!("renamed {}", it.id))))
        .good("a display name", |it| patched(it, profile(Some("Renamed"), Some(""))))
        .good("all of a person", |it| {
            let email = Some(Email { address: "byron@example.com".into(), is_verified: true });
            let phone = Some(Phone { number: "+441632960999".into(), is_verified: true });
            let data = person(&json!({ "nickname": "Byron" })).data;
            let user = Some(of_person(PatchHumanUser { data, email, phone }));
            PatchUserRequest { id: it.others[0].clone(), user }
        })
        .good("no change", |it| patched(it, profile(None, Some(""))))
        .good("nothing", |it| patched(it, PatchUser::default()))
        .bad("no user", "INVALID_REQUEST", |it| PatchUserRequest { id: it.id.clone(), user: None })
        .bad("an empty user name", "INVALID_REQUEST", |it| patched(it, username("")))
        .bad("long texts", "INVALID_REQUEST", |it| patched(it, profile(Some(&"x".repeat(201)), Some(&"x".repeat(501)))))
        .bad("a taken name", "RESOURCE_EXISTS", |it| patched(it, username("NOBODY")))
        .bad("data of a person", "PRECONDITION_FAILED", |it| patched(it, of_person(PatchHumanUser::default())))
        .done()
}

fn of_person(human: PatchHumanUser) -> PatchUser {
    PatchUser { username: None, r#type: Some(patch_user::Type::Human(human)) }
}

fn secret(subject: &Subject, previous_expiration: Option<Duration>) -> GenerateUserSecretRequest {
    GenerateUserSecretRequest { id: subject.id.clone(), previous_expiration }
}

fn generate_secret() -> Box<dyn Check + Sync> {
    row(&GENERATE_USER_SECRET, a_user_with_a_secret)
        .good("instead of the one before", |it| secret(it, None))
        .good("beside the one before", |it| secret(it, Some(Duration::from_seconds(3600))))
        .good("beside the one before for no time", |it| secret(it, Some(Duration::ZERO)))
        .bad("less than no time", "INVALID_REQUEST", |it| secret(it, Some(Duration::from_seconds(-1))))
        .bad("more than 30 days", "INVALID_REQUEST", |it| secret(it, Some(Duration::from_seconds(2_592_001))))
        .done()
}

fn search_request(ctx: Option<RequestContext>, filters: Vec<Filter>) -> SearchUsersRequest {
    let filters = filters.into_iter().map(|filter| UserSearchFilter { filter: Some(filter) }).collect();
    SearchUsersRequest { ctx, filters, ..SearchUsersRequest::default() }
}

fn text(name: &str, method: TextFilterMethod) -> NameFilter {
    NameFilter { name: name.into(), method: method.into() }
}

fn in_state(state: State) -> Filter {
    Filter::State(StateFilter { state: state.into() })
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_USERS, a_user)
        .good("by id", |it| search_request(None, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("everything", |_| search_request(None, vec![]))
        .good("by name, of what is on", |_| {
            let name = Filter::Name(text("Conf", TextFilterMethod::StartsWith));
            search_request(None, vec![name, in_state(State::EffectiveStateActive)])
        })
        .good("people by their data", |_| {
            let named = |make: fn(NameFilter) -> Filter| make(text("a", TextFilterMethod::ContainsIgnoreCase));
            let r#type = Filter::Type(UserTypeFilter { r#type: UserType::Human.into() });
            let all = [Filter::GivenName, Filter::FamilyName, Filter::Nickname, Filter::Email, Filter::Phone];
            search_request(None, all.map(named).into_iter().chain([r#type]).collect())
        })
        .bad("a type that is none", "INVALID_REQUEST", |_| {
            search_request(None, vec![Filter::Type(UserTypeFilter { r#type: UserType::Unspecified.into() })])
        })
        .good("nothing found", |_| {
            search_request(None, vec![Filter::Name(text("no such name", TextFilterMethod::Equals))])
        })
        .good("a page in another order", |_| SearchUsersRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: UserFieldName::Username.into(),
            ..search_request(None, vec![Filter::Username(text("USER", TextFilterMethod::ContainsIgnoreCase))])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchUsersRequest {
            filters: vec![UserSearchFilter { filter: None }],
            ..SearchUsersRequest::default()
        })
        .bad("long names and no state", "INVALID_REQUEST", |_| {
            let long = text(&"x".repeat(201), TextFilterMethod::Contains);
            let names = [Filter::Username(long.clone()), Filter::Name(long)];
            search_request(None, names.into_iter().chain([in_state(State::EffectiveStateUnspecified)]).collect())
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchUsersRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchUsersRequest::default()
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            search_request(Some(context(ResourceOwner::OrgId("1".into()))), vec![])
        })
        .done()
}
