//! Security classes S2 and S22 of the design: every artefact is presented at every place that accepts one, by the app
//! it was issued to, by another app, and at another instance. A place accepts the artefacts that it is for, and no
//! other. So case 120 is here, too: refresh and ID tokens are no access tokens at introspection.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{TARGETS, done, send},
    tenant::{Tenant, new_name},
};

use super::{
    exchange::{self, ACCESS, ID, exchanging},
    flow::{API, App, Flow, access_token, answered, location, refresh_token},
    signer::{BEARER, BY_ASSERTION},
};

const SCOPE: &str = "openid offline_access urn:platform:iam:org:project:id:platform:aud";

/// The artefacts that are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Artefact {
    AuthRequest,
    Session,
    SessionToken,
    Code,
    SignedToken,
    OpaqueToken,
    IdToken,
    RefreshToken,
    PersonalToken,
    ClientSecret,
    ConsistencyToken,
    UserId,
}

use Artefact::*;

const ARTEFACTS: [Artefact; 12] = [
    AuthRequest,
    Session,
    SessionToken,
    Code,
    SignedToken,
    OpaqueToken,
    IdToken,
    RefreshToken,
    PersonalToken,
    ClientSecret,
    ConsistencyToken,
    UserId,
];

/// The places where an artefact is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PresentedAt {
    /// As the access token of an API call, and of userinfo.
    Bearer,
    Userinfo,
    /// As the token to introspect.
    Introspection,
    /// As the code or refresh token that an app gets tokens for.
    Redemption,
    Refreshing,
    Subject,
    SubjectId,
    Assertion,
    /// As the credentials of an app.
    Secret,
    ClientAssertion,
    /// As the pending authorization request, and as the session that finishes it.
    Request,
    Finish,
    /// As the hint of the user who logs in.
    Hint,
    /// As the consistency token of a request.
    Consistency,
}

const PLACES: [PresentedAt; 14] = [
    PresentedAt::Bearer,
    PresentedAt::Userinfo,
    PresentedAt::Introspection,
    PresentedAt::Hint,
    PresentedAt::Consistency,
    PresentedAt::Request,
    PresentedAt::Secret,
    PresentedAt::ClientAssertion,
    PresentedAt::Assertion,
    PresentedAt::SubjectId,
    PresentedAt::Subject,
    PresentedAt::Finish,
    PresentedAt::Refreshing,
    PresentedAt::Redemption,
];

impl PresentedAt {
    /// Returns the artefacts that are accepted from the app they were issued to.
    fn takes(self) -> &'static [Artefact] {
        match self {
            Self::Bearer | Self::Userinfo | Self::Introspection => &[SignedToken, OpaqueToken, PersonalToken],
            Self::Redemption => &[Code],
            Self::Refreshing => &[RefreshToken],
            Self::Subject => &[SignedToken, OpaqueToken],
            Self::SubjectId | Self::Hint => &[IdToken],
            Self::Assertion | Self::ClientAssertion => &[],
            Self::Secret => &[ClientSecret],
            Self::Request => &[AuthRequest],
            Self::Finish => &[SessionToken],
            Self::Consistency => &[ConsistencyToken],
        }
    }

    /// Whether the artefact is not presented by an app.
    fn is_for_all_apps(self) -> bool {
        matches!(self, Self::Bearer | Self::Userinfo | Self::Request | Self::Finish | Self::Consistency)
    }

    /// Whether an artefact of any app is accepted. A personal access token is for no app, and each app gets the claims
    /// of its own project.
    fn takes_of_all_apps(self, shown: Artefact) -> bool {
        self == Self::Introspection && shown == PersonalToken
    }

    /// Whether an artefact of any instance is accepted: a consistency token, since all instances share the log.
    fn takes_of_all_instances(self, shown: Artefact) -> bool {
        self == Self::Consistency && shown == ConsistencyToken
    }

    /// Whether an artefact is accepted that the app of a flow presents.
    async fn accepts(self, flow: &Flow, shown: &str) -> bool {
        let get = |path: &str| flow.admin.anonymous(Method::GET, path);
        let token = |form: &[(&str, &str)]| send(as_app(flow, "/oauth/v2/token", form));
        let is_ok = match self {
            // The person may read nothing, but is somebody.
            Self::Bearer => {
                let answer = send(get(&format!("{TARGETS}/1")).bearer_auth(shown)).await;
                return answer.status != StatusCode::UNAUTHORIZED;
            }
            Self::Userinfo => send(get("/oidc/v1/userinfo").bearer_auth(shown)).await,
            Self::Introspection => {
                let told = send(as_app(flow, "/oauth/v2/introspect", &[("token", shown)])).await;
                assert_eq!(told.status, StatusCode::OK, "{}", told.body);
                return told.body["active"] == true;
            }
            Self::Redemption => send(flow.redeeming(shown, &[])).await,
            Self::Refreshing => send(flow.refreshing(shown, &[])).await,
            Self::Subject => exchange::exchange(flow, (shown, ACCESS), &[]).await,
            Self::SubjectId => exchange::exchange(flow, (shown, ID), &[]).await,
            Self::Assertion => token(&[("grant_type", BEARER), ("scope", "openid"), ("assertion", shown)]).await,
            Self::Secret => {
                let request = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect");
                send(request.basic_auth(&flow.app.id, Some(shown)).form(&[("token", "x")])).await
            }
            Self::ClientAssertion => {
                let form = [
                    ("client_id", flow.app.id.as_str()),
                    ("client_assertion_type", BY_ASSERTION),
                    ("client_assertion", shown),
                    ("token", "x"),
                ];
                send(flow.admin.anonymous(Method::POST, "/oauth/v2/introspect").form(&form)).await
            }
            Self::Request => send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{shown}"))).await,
            Self::Finish => flow.finished(&flow.waiting(&[]).await, shown).await,
            Self::Hint => {
                let answer = flow.sent(&flow.authorize_parameters(&[("id_token_hint", shown)])).await;
                return !answered(&location(&answer)).contains_key("error");
            }
            Self::Consistency => {
                let request = flow.admin.request(Method::GET, &format!("{API}/users/{}", flow.person.0));
                send(request.header("consistency-token", shown)).await
            }
        };
        is_ok.status == StatusCode::OK
    }
}

/// Returns the request with a form of the app of a flow.
fn as_app(flow: &Flow, path: &str, form: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let request = flow.admin.anonymous(Method::POST, path);
    request.basic_auth(&flow.app.id, flow.app.secret.as_ref()).form(form)
}

/// Issues all artefacts for an app and its person.
async fn issue_all(flow: &Flow, opaque: &App) -> BTreeMap<Artefact, String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_else(|| panic!("it is text: {value}")).to_owned();
    let (tokens, _) = flow.tokens(&[("scope", SCOPE)]).await;
    let (code, _) = flow.log_in(&[("scope", SCOPE)]).await;
    let (session, session_token) = flow.session().await;
    let of_opaque = Flow { app: opaque.clone(), ..without_tenant(flow) };
    let (opaque_tokens, _) = of_opaque.tokens(&[("scope", SCOPE)]).await;
    let robot = json!({ "username": new_name(), "service": {} });
    let robot = done(&flow.admin, &format!("{API}/users"), robot).await;
    let end = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
    let personal = done(&flow.admin, &format!("{API}/users/{}/tokens", robot.id()), end).await;
    BTreeMap::from([
        (AuthRequest, flow.waiting(&[]).await),
        (Session, session),
        (SessionToken, session_token),
        (Code, code["code"].clone()),
        (SignedToken, access_token(&tokens).to_owned()),
        (OpaqueToken, access_token(&opaque_tokens).to_owned()),
        (IdToken, text(&tokens["id_token"])),
        (RefreshToken, refresh_token(&tokens).to_owned()),
        (PersonalToken, text(&personal.body["token"])),
        (ClientSecret, flow.app.secret.clone().expect("it has one")),
        (ConsistencyToken, personal.headers["consistency-token"].to_str().expect("it is text").to_owned()),
        (UserId, flow.person.0.clone()),
    ])
}

/// Returns a flow without a tenant, as a base for another app.
fn without_tenant(flow: &Flow) -> Flow<()> {
    let Flow { admin, project, app, person, .. } = flow;
    Flow { tenant: (), admin: admin.clone(), project: project.clone(), app: app.clone(), person: person.clone() }
}

/// Starts an app with a secret and all grants, in a project of its own.
async fn start(tenant: Tenant) -> Flow {
    let admin = tenant.client().await;
    let flow = Flow::on(tenant, admin, exchanging()).await;
    exchange::enable(&flow.admin).await;
    flow
}

#[tokio::test]
async fn a_place_takes_what_it_is_for_and_nothing_else() {
    let flow = start(Tenant::start().await).await;
    let opaque = App::create(&flow.admin, &flow.project, json!({})).await;
    let given = issue_all(&flow, &opaque).await;
    let mut cells = 0;
    // What is refused is used up by nobody, so it counts afterwards.
    for is_taken in [false, true] {
        for place in PLACES {
            for artefact in ARTEFACTS {
                if place.takes().contains(&artefact) == is_taken {
                    assert_eq!(place.accepts(&flow, &given[&artefact]).await, is_taken, "{artefact:?} at {place:?}");
                    cells += 1;
                }
            }
        }
    }
    println!("{cells} cells of {} artefacts and {} places", ARTEFACTS.len(), PLACES.len());
}

#[tokio::test]
async fn what_an_app_was_given_is_worth_nothing_to_another_app() {
    let flow = start(Tenant::start().await).await;
    let opaque = App::create(&flow.admin, &flow.project, json!({})).await;
    let project = done(&flow.admin, &format!("{API}/projects"), json!({ "name": "Beside" })).await.id();
    let app = App::create(&flow.admin, &project, exchanging()).await;
    let given = issue_all(&flow, &opaque).await;
    let other = Flow { project, app, ..flow };
    for place in PLACES.into_iter().filter(|place| !place.is_for_all_apps()) {
        for artefact in ARTEFACTS {
            let is_taken = place.takes_of_all_apps(artefact);
            assert_eq!(place.accepts(&other, &given[&artefact]).await, is_taken, "{artefact:?} at {place:?}");
        }
    }
}

#[tokio::test]
async fn what_an_instance_gave_is_worth_nothing_in_another() {
    let flow = start(Tenant::start().await).await;
    let opaque = App::create(&flow.admin, &flow.project, json!({})).await;
    let given = issue_all(&flow, &opaque).await;
    let other = start(Tenant::start().await).await;
    for place in PLACES {
        for artefact in ARTEFACTS {
            let is_taken = place.takes_of_all_instances(artefact);
            assert_eq!(place.accepts(&other, &given[&artefact]).await, is_taken, "{artefact:?} at {place:?}");
        }
    }
}
