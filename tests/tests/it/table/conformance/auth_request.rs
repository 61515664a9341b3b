//! The rows of authorization requests.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    auth_request::{
        AuthError, Finish, FinishAuthRequestRequest, GetAuthRequestRequest, Refusal, RefuseAuthRequestRequest,
    },
    operation::{FINISH_AUTH_REQUEST, GET_AUTH_REQUEST, REFUSE_AUTH_REQUEST},
};
use reqwest::{Method, Url};
use serde_json::json;
use tests::{
    client::{done, send},
    tenant::new_name,
};

use super::{
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const PASSWORD: &str = "nine-lives-of-a-tabby-cat";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        row(&GET_AUTH_REQUEST, a_request)
            .good("one that waits", |it| GetAuthRequestRequest { id: it.id.clone() })
            .done(),
        finish(),
        refuse(),
    ]
}

/// Creates a pending request, and the tokens of a session in which a password was checked, and of one in which none
/// was.
fn a_request(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let (owner, api) = (&world.owner, "/resources/v3alpha");
        let project = done(owner, &format!("{api}/projects"), json!({ "name": "Shop" })).await.id();
        let callback = "https://shop.example/callback";
        let oidc = json!({ "redirectUris": [callback], "loginUri": "https://login.example/start" });
        let app = json!({ "projectId": project, "name": "Shop", "oidc": oidc });
        let app = done(owner, &format!("{api}/apps"), app).await.id();
        let asked = [
            ("client_id", app.as_str()),
            ("redirect_uri", callback),
            ("response_type", "code"),
            ("scope", "openid profile"),
            ("login_hint", "ada"),
            ("max_age", "600"),
            ("ui_locales", "de en"),
            ("prompt", "select_account"),
        ];
        let led = send(owner.anonymous(Method::GET, "/oauth/v2/authorize").query(&asked)).await;
        let url: Url = led.headers["location"].to_str().expect("it is text").parse().expect("it is a URL");
        let id = url.query_pairs().find(|(name, _)| name == "authRequest").expect("it waits").1.into_owned();
        let human =
            json!({ "data": { "given_name": "Ada", "family_name": "Lovelace" }, "password": { "password": PASSWORD } });
        let user = json!({ "username": new_name(), "human": human });
        let user = json!({ "userId": done(owner, &format!("{api}/users"), user).await.id() });
        let checks = [json!({ "user": user, "password": { "password": PASSWORD } }), json!({ "user": user })];
        let mut tokens = vec![];
        let mut made = None;
        for checks in checks {
            let session = done(owner, &format!("{api}/sessions"), json!({ "checks": checks })).await;
            tokens.push(session.body["sessionToken"].as_str().expect("it is shown").to_owned());
            made = Some(session);
        }
        Subject { id, ..subject(&made.expect("two were made")).naming(tokens) }
    }
    .boxed()
}

fn finishing(it: &Subject, token: &str) -> FinishAuthRequestRequest {
    FinishAuthRequestRequest { id: it.id.clone(), finish: Some(Finish { session_token: token.to_owned() }) }
}

fn finish() -> Box<dyn Check + Sync> {
    row(&FINISH_AUTH_REQUEST, a_request)
        .good("a session with a password", |it| finishing(it, &it.others[0]))
        .bad("one without", "PRECONDITION_FAILED", |it| finishing(it, &it.others[1]))
        .bad("no session", "INVALID_REQUEST", |it| finishing(it, "sess-1-x"))
        .bad("nothing", "INVALID_REQUEST", |it| FinishAuthRequestRequest { finish: None, id: it.id.clone() })
        .done()
}

fn refusing(it: &Subject, error: AuthError, description: &str) -> RefuseAuthRequestRequest {
    let refusal = Refusal { error: error.into(), description: description.to_owned() };
    RefuseAuthRequestRequest { id: it.id.clone(), refusal: Some(refusal) }
}

fn refuse() -> Box<dyn Check + Sync> {
    row(&REFUSE_AUTH_REQUEST, a_request)
        .good("with a reason", |it| refusing(it, AuthError::AccessDenied, "the person has pressed Cancel"))
        .good("without", |it| refusing(it, AuthError::ConsentRequired, ""))
        .bad("no error", "INVALID_REQUEST", |it| refusing(it, AuthError::Unspecified, ""))
        .bad("quotation marks", "INVALID_REQUEST", |it| refusing(it, AuthError::ServerError, "a \"b\""))
        .bad("nothing", "INVALID_REQUEST", |it| RefuseAuthRequestRequest { id: it.id.clone(), refusal: None })
        .done()
}
