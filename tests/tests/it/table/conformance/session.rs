//! The rows of sessions.

use std::collections::BTreeMap;

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{InIdsFilter, ListQuery},
    operation::{CREATE_SESSION, DELETE_SESSION, END_USER_SESSIONS, GET_SESSION, PATCH_SESSION, SEARCH_SESSIONS},
    session::{
        CheckPassword, CheckUser, Checks, CreateSessionRequest, DeleteSessionRequest, EndUserSessionsRequest,
        GetSessionRequest, HeaderValues, PatchSession, PatchSessionRequest, SearchSessionsRequest, Session,
        SessionFieldName, SessionSearchFilter, UserAgent, check_user::Search, session_search_filter::Filter,
    },
    wellknown::Duration,
};
use serde_json::json;
use tests::{client::done, tenant::new_name};

use super::{
    row::{Check, Subject, row},
    subject,
    user::a_user,
    wire::World,
};

const PASSWORD: &str = "nine-lives-of-a-tabby-cat";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_SESSION, a_session)
            .good("a session", |it| DeleteSessionRequest { id: it.id.clone(), session_token: String::new() })
            .done(),
        row(&END_USER_SESSIONS, a_person).good("a person", |it| EndUserSessionsRequest { id: it.id.clone() }).done(),
        row(&GET_SESSION, a_session).good("a session", |it| GetSessionRequest { id: it.id.clone() }).done(),
        search(),
    ]
}

/// Creates a person, the person's user name, a service user, and a session of the person.
fn a_session(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let (name, service) = (new_name(), a_user(world).await.id);
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
        let password = json!({ "password": PASSWORD });
        let person = json!({ "username": name, "human": { "data": data, "password": password } });
        let person = done(&world.owner, "/resources/v3alpha/users", person).await.id();
        let session = json!({ "checks": { "user": { "userId": person } }, "metadata": { "device": "phone" } });
        let made = done(&world.owner, "/resources/v3alpha/sessions", session).await;
        subject(&made).naming([person, name, service])
    }
    .boxed()
}

fn a_person(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
        let person = json!({ "username": new_name(), "human": { "data": data } });
        subject(&done(&world.owner, "/resources/v3alpha/users", person).await)
    }
    .boxed()
}

fn checks(search: Search) -> Checks {
    Checks { user: Some(CheckUser { search: Some(search) }), password: None }
}

fn with_password(checks: Checks, password: &str) -> Checks {
    Checks { password: Some(CheckPassword { password: password.to_owned() }), ..checks }
}

fn by_id(subject: &Subject, other: usize) -> Checks {
    checks(Search::UserId(subject.others[other].clone()))
}

fn entries(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn a_user_agent(ip: &str) -> UserAgent {
    let header = BTreeMap::from([("user-agent".to_owned(), HeaderValues { values: vec!["Mozilla/5.0".to_owned()] })]);
    UserAgent { fingerprint_id: "7".to_owned(), ip: ip.to_owned(), description: "a phone".to_owned(), header }
}

fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

fn creating(session: Session) -> CreateSessionRequest {
    CreateSessionRequest { session: Some(session) }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_SESSION, a_session)
        .good("of nobody yet", |_| creating(Session::default()))
        .good("of a person", |it| {
            let metadata = entries(&[("device", "tablet")]);
            let (checks, user_agent) = (Some(by_id(it, 0)), Some(a_user_agent("192.0.2.7")));
            creating(Session { checks, metadata, lifetime: Some(seconds(60)), user_agent })
        })
        .good("by user name, in another case", |it| {
            let name = it.others[1].to_uppercase();
            creating(Session { checks: Some(checks(Search::LoginName(name))), ..Session::default() })
        })
        .good("with the password", |it| {
            creating(Session { checks: Some(with_password(by_id(it, 0), PASSWORD)), ..Session::default() })
        })
        .good("as long as can be", |_| creating(Session { lifetime: Some(seconds(7_776_000)), ..Session::default() }))
        .bad("nothing", "INVALID_REQUEST", |_| CreateSessionRequest::default())
        .bad("too long", "INVALID_REQUEST", |_| {
            creating(Session { lifetime: Some(seconds(7_776_001)), ..Session::default() })
        })
        .bad("no time", "INVALID_REQUEST", |_| creating(Session { lifetime: Some(seconds(0)), ..Session::default() }))
        .bad("a check of nothing", "INVALID_REQUEST", |_| {
            let checks = Some(Checks { user: Some(CheckUser { search: None }), password: None });
            creating(Session { checks, ..Session::default() })
        })
        .bad("a key that is no name", "INVALID_REQUEST", |_| {
            creating(Session { metadata: entries(&[("a b", "c")]), ..Session::default() })
        })
        .bad("long metadata", "INVALID_REQUEST", |_| {
            creating(Session { metadata: entries(&[("a", &"x".repeat(16_384))]), ..Session::default() })
        })
        .bad("the user agent of nobody", "INVALID_REQUEST", |_| {
            creating(Session { user_agent: Some(a_user_agent("192.0.2.7")), ..Session::default() })
        })
        .bad("no address", "INVALID_REQUEST", |it| {
            let (checks, user_agent) = (Some(by_id(it, 0)), Some(a_user_agent("1.2")));
            creating(Session { checks, user_agent, ..Session::default() })
        })
        .bad("nobody", "RESOURCE_NOT_FOUND", |_| {
            creating(Session { checks: Some(checks(Search::UserId("1".into()))), ..Session::default() })
        })
        .bad("nobody by name", "RESOURCE_NOT_FOUND", |_| {
            creating(Session { checks: Some(checks(Search::LoginName("nobody at all".into()))), ..Session::default() })
        })
        .bad("nobody's password", "INVALID_REQUEST", |_| {
            creating(Session { checks: Some(with_password(Checks::default(), PASSWORD)), ..Session::default() })
        })
        .bad("a wrong password", "CREDENTIALS_INVALID", |it| {
            creating(Session { checks: Some(with_password(by_id(it, 0), "eight-lives")), ..Session::default() })
        })
        .bad("a service user", "PRECONDITION_FAILED", |it| {
            creating(Session { checks: Some(by_id(it, 2)), ..Session::default() })
        })
        .done()
}

fn patching(subject: &Subject, session: PatchSession) -> PatchSessionRequest {
    PatchSessionRequest { id: subject.id.clone(), session: Some(session) }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_SESSION, a_session)
        .good("metadata", |it| {
            let metadata = entries(&[("device", "watch"), ("place", "home")]);
            patching(it, PatchSession { metadata, ..PatchSession::default() })
        })
        .good("nothing", |it| patching(it, PatchSession::default()))
        .good("the same person once more", |it| {
            patching(it, PatchSession { checks: Some(by_id(it, 0)), ..PatchSession::default() })
        })
        .good("the password", |it| {
            let checks = Some(with_password(Checks::default(), PASSWORD));
            patching(it, PatchSession { checks, ..PatchSession::default() })
        })
        .good("another user agent", |it| {
            patching(it, PatchSession { user_agent: Some(a_user_agent("2001:db8::7")), ..PatchSession::default() })
        })
        .good("a shorter life", |it| {
            patching(it, PatchSession { lifetime: Some(seconds(60)), ..PatchSession::default() })
        })
        .bad("beyond the longest life", "INVALID_REQUEST", |it| {
            patching(it, PatchSession { lifetime: Some(seconds(7_776_000)), ..PatchSession::default() })
        })
        .bad("a service user", "PRECONDITION_FAILED", |it| {
            patching(it, PatchSession { checks: Some(by_id(it, 2)), ..PatchSession::default() })
        })
        .bad("nothing at all", "INVALID_REQUEST", |it| PatchSessionRequest { id: it.id.clone(), session: None })
        .done()
}

fn search_request(filters: Vec<Filter>) -> SearchSessionsRequest {
    let filters = filters.into_iter().map(|filter| SessionSearchFilter { filter: Some(filter) }).collect();
    SearchSessionsRequest { filters, ..SearchSessionsRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_SESSIONS, a_session)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("of a person", |it| search_request(vec![Filter::UserId(it.others[0].clone())]))
        .good("of nobody", |_| search_request(vec![Filter::UserId("1".into())]))
        .good("a page in another order", |it| SearchSessionsRequest {
            query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
            sorting_column: SessionFieldName::ExpirationDate.into(),
            ..search_request(vec![Filter::UserId(it.others[0].clone())])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchSessionsRequest {
            filters: vec![SessionSearchFilter { filter: None }],
            ..SearchSessionsRequest::default()
        })
        .done()
}
