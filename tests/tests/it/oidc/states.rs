//! Security class S1 of the design: every object that a way to get or use a token of a service user depends on is
//! deactivated, locked and removed, one after the other. A way works if and only if all its objects are untouched, and
//! that at once.

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Answer, Client, SCOPE, ServiceUser, done, send, service_user},
    eventually,
    tenant::{Tenant, new_name},
};

use super::{
    exchange, flow,
    shop::API,
    signer::{BEARER, BY_ASSERTION, FAR, Signer, ask},
};

/// The objects that can be deactivated, locked or removed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SwitchedObject {
    Instance,
    /// The organization of the user.
    Home,
    User,
    UserKey,
    PersonalToken,
    SignedToken,
    OpaqueToken,
    /// A token that was exchanged for the signed one.
    ExchangedToken,
    /// The organization of the project.
    Maker,
    Project,
    ProjectGrant,
    UserGrant,
    /// The app with a secret.
    App,
    /// The app that signs, and its key.
    SigningApp,
    AppKey,
    /// The app that exchanges tokens.
    ExchangingApp,
}

use SwitchedObject::*;

/// The ways to get or use a token of a service user.
#[derive(Clone, Copy, Debug)]
enum TokenUse {
    /// By secret, by a JWT bearer grant and by a client assertion: for the API, or for a project.
    Secret(Audience),
    Bearer(Audience),
    Assertion(Audience),
    /// At the API and at userinfo.
    Api(SwitchedObject),
    Userinfo(SwitchedObject),
    /// By an app with a secret, or by one that signs.
    Introspection(SwitchedObject),
    SignedIntrospection(SwitchedObject),
    /// Exchanges the signed token for another one.
    Exchange,
    /// Revokes a token, by secret or signature.
    Revocation,
    SignedRevocation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Audience {
    Api,
    Project,
}

const TOKENS: [SwitchedObject; 3] = [SignedToken, OpaqueToken, PersonalToken];

impl TokenUse {
    fn all() -> Vec<Self> {
        let got = [Audience::Api, Audience::Project]
            .into_iter()
            .flat_map(|audience| [Self::Secret(audience), Self::Bearer(audience), Self::Assertion(audience)]);
        let used = TOKENS
            .into_iter()
            .flat_map(|token| [Self::Api(token), Self::Introspection(token), Self::SignedIntrospection(token)]);
        let others = [
            Self::Userinfo(SignedToken),
            Self::Userinfo(OpaqueToken),
            Self::Userinfo(ExchangedToken),
            Self::Introspection(ExchangedToken),
            Self::SignedIntrospection(ExchangedToken),
            Self::Exchange,
            Self::Revocation,
            Self::SignedRevocation,
        ];
        got.chain(used).chain(others).collect()
    }

    /// Returns all objects that a way depends on.
    fn stands_on(self) -> Vec<SwitchedObject> {
        let user = vec![Instance, Home, User];
        let granted = vec![Maker, Project, ProjectGrant, UserGrant];
        let of = |audience| if audience == Audience::Project { granted.clone() } else { vec![] };
        let token = |token| match token {
            ExchangedToken => vec![ExchangedToken, SignedToken, ExchangingApp, Maker, Project],
            token => vec![token],
        };
        let more = match self {
            Self::Revocation => vec![],
            Self::SignedRevocation => vec![UserKey],
            Self::Secret(audience) => of(audience),
            Self::Bearer(audience) | Self::Assertion(audience) => [vec![UserKey], of(audience)].concat(),
            Self::Api(of) | Self::Userinfo(of) => token(of),
            Self::Introspection(of) => [token(of), vec![App], granted.clone()].concat(),
            Self::SignedIntrospection(of) => [token(of), vec![SigningApp, AppKey], granted.clone()].concat(),
            Self::Exchange => [vec![SignedToken, ExchangingApp], granted.clone()].concat(),
        };
        [user, more].concat()
    }
}

/// All objects of the ways, in an instance that others may be in.
struct World<'a> {
    tenant: &'a Tenant,
    admin: Client,
    /// The paths of the objects that have one.
    paths: Vec<(SwitchedObject, String)>,
    project: String,
    user: ServiceUser,
    signer: Signer,
    app: (String, String),
    app_signer: Signer,
    exchanging: flow::App,
    tokens: Vec<(SwitchedObject, String)>,
}

impl<'a> World<'a> {
    async fn build(tenant: &'a Tenant) -> Self {
        let admin = tenant.client().await;
        let (home, maker) = (new_name(), new_name());
        let home = done(&admin, &format!("{API}/organizations"), json!({ "name": home })).await.id();
        let maker = done(&admin, &format!("{API}/organizations"), json!({ "name": maker })).await.id();
        let of_maker = |what: &str| format!("{API}/{what}?ctx.orgId={maker}");
        let project = json!({ "name": "Shop", "authorizationRequired": true, "projectAccessRequired": true });
        let project = done(&admin, &of_maker("projects"), project).await.id();
        let role = json!({ "projectId": project, "key": "clerk", "displayName": "Clerk" });
        done(&admin, &format!("{API}/roles"), role).await;
        let app = json!({ "projectId": project, "name": "Checks", "api": {} });
        let app = done(&admin, &format!("{API}/apps"), app).await;
        let secret = app.body["clientSecret"].as_str().expect("it is shown").to_owned();
        let signing = json!({ "authMethodType": "API_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" });
        let signing = json!({ "projectId": project, "name": "Signs", "api": signing });
        let signing = done(&admin, &format!("{API}/apps"), signing).await.id();
        let app_signer = Signer::new(tenant, &format!("apps/{signing}"), "EC").await;

        exchange::enable(&admin).await;
        let exchanging = flow::App::create(&admin, &project, exchange::exchanging()).await;
        let user = service_user(&admin, (&new_name(), json!({})), &format!("?ctx.orgId={home}")).await;
        let user_path = format!("users/{}", user.user_id);
        let signer = Signer::new(tenant, &user_path, "EC").await;
        let granted = json!({ "projectId": project, "orgId": home, "roleKeys": ["clerk"] });
        let project_grant = done(&admin, &format!("{API}/project_grants"), granted).await.id();
        let granted = json!({
            "userId": user.user_id, "projectId": project, "projectGrantId": project_grant, "roleKeys": ["clerk"]
        });
        let user_grant = done(&admin, &format!("{API}/user_grants"), granted).await.id();
        let personal = json!({ "expirationDate": FAR });
        let personal = done(&admin, &format!("{API}/{user_path}/tokens"), personal).await;
        let paths = vec![
            (Home, format!("organizations/{home}")),
            (UserKey, format!("{user_path}/keys/{}", signer.kid)),
            (PersonalToken, format!("{user_path}/tokens/{}", personal.id())),
            (User, user_path),
            (Maker, format!("organizations/{maker}")),
            (Project, format!("projects/{project}")),
            (ProjectGrant, format!("project_grants/{project_grant}")),
            (UserGrant, format!("user_grants/{user_grant}")),
            (App, format!("apps/{}", app.id())),
            (AppKey, format!("apps/{signing}/keys/{}", app_signer.kid)),
            (SigningApp, format!("apps/{signing}")),
            (ExchangingApp, format!("apps/{}", exchanging.id)),
        ];
        let personal = personal.body["token"].as_str().expect("it is shown").to_owned();
        let (app, tokens) = ((app.id(), secret), vec![(PersonalToken, personal)]);
        let mut world = Self { tenant, admin, paths, project, user, signer, app, app_signer, exchanging, tokens };
        world.take_tokens().await;
        world
    }

    /// Gets a signed token, and an opaque one.
    async fn take_tokens(&mut self) {
        for (token, form) in [(SignedToken, "ACCESS_TOKEN_TYPE_JWT"), (OpaqueToken, "ACCESS_TOKEN_TYPE_BEARER")] {
            let change = json!({ "service": { "accessTokenType": form } });
            let path = format!("{API}/users/{}", self.user.user_id);
            let changed = send(self.admin.request(Method::PATCH, &path).json(&change)).await;
            assert_eq!(changed.status, 200, "{}", changed.body);
            let taken = eventually("there are tokens of this form", async || {
                let answer = self.attempt(TokenUse::Secret(Audience::Project)).await;
                let taken = answer.body["access_token"].as_str()?.to_owned();
                (taken.starts_with("at-") == (token == OpaqueToken)).then_some(taken)
            })
            .await;
            self.tokens.push((token, taken));
        }
        let answer = self.attempt(TokenUse::Exchange).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.tokens.push((ExchangedToken, flow::access_token(&answer.body).to_owned()));
    }

    fn path(&self, subject: SwitchedObject) -> &str {
        let found = self.paths.iter().find(|(named, _)| *named == subject);
        &found.unwrap_or_else(|| panic!("{subject:?} has no path")).1
    }

    fn token(&self, subject: SwitchedObject) -> &str {
        &self.tokens.iter().find(|(named, _)| *named == subject).expect("it is a token").1
    }

    /// Returns the scope for an audience; that of the project includes the API.
    fn scope(&self, audience: Audience) -> String {
        let of_project = format!("{SCOPE} urn:platform:iam:org:project:id:{}:aud", self.project);
        if audience == Audience::Project { of_project } else { SCOPE.to_owned() }
    }

    async fn granted(&self, form: &[(&str, &str)], audience: Audience) -> Answer {
        let scope = self.scope(audience);
        ask(self.tenant, "/oauth/v2/token", &[form, &[("scope", &scope)]].concat()).await
    }

    /// Tries a way.
    async fn attempt(&self, way: TokenUse) -> Answer {
        let secret = Some(&self.user.client_secret);
        let by_secret = |path: &str| self.admin.anonymous(Method::POST, path).basic_auth(&self.user.client_id, secret);
        let signed = |signer: &Signer| {
            [("client_assertion_type", BY_ASSERTION.to_owned()), ("client_assertion", signer.assertion())]
        };
        match way {
            TokenUse::Secret(audience) => {
                let scope = self.scope(audience);
                send(by_secret("/oauth/v2/token").form(&[("grant_type", "client_credentials"), ("scope", &scope)]))
                    .await
            }
            TokenUse::Bearer(audience) => {
                self.granted(&[("grant_type", BEARER), ("assertion", &self.signer.assertion())], audience).await
            }
            TokenUse::Assertion(audience) => {
                let [kind, assertion] = signed(&self.signer);
                let form = [("grant_type", "client_credentials"), (kind.0, &kind.1), (assertion.0, &assertion.1)];
                self.granted(&form, audience).await
            }
            TokenUse::Api(token) => {
                let request = self.admin.anonymous(Method::GET, "/settings/v3alpha/languages");
                send(request.bearer_auth(self.token(token))).await
            }
            TokenUse::Userinfo(token) => {
                let request = self.admin.anonymous(Method::GET, "/oidc/v1/userinfo");
                send(request.bearer_auth(self.token(token))).await
            }
            TokenUse::Introspection(token) => {
                let request = self.admin.anonymous(Method::POST, "/oauth/v2/introspect");
                let request = request.basic_auth(&self.app.0, Some(&self.app.1));
                send(request.form(&[("token", self.token(token))])).await
            }
            TokenUse::SignedIntrospection(token) => {
                let [kind, assertion] = signed(&self.app_signer);
                let form = [("token", self.token(token)), (kind.0, &kind.1), (assertion.0, &assertion.1)];
                ask(self.tenant, "/oauth/v2/introspect", &form).await
            }
            TokenUse::Exchange => {
                let subject = [("subject_token", self.token(SignedToken)), ("subject_token_type", exchange::ACCESS)];
                exchange::post_exchange(&self.admin, &self.exchanging, &subject).await
            }
            TokenUse::Revocation => send(by_secret("/oauth/v2/revoke").form(&[("token", "unknown")])).await,
            TokenUse::SignedRevocation => {
                let [kind, assertion] = signed(&self.signer);
                let form = [("token", "unknown"), (kind.0, &kind.1), (assertion.0, &assertion.1)];
                ask(self.tenant, "/oauth/v2/revoke", &form).await
            }
        }
    }

    /// Whether the answer of a way is a success.
    fn works(&self, way: TokenUse, answer: &Answer) -> bool {
        let is_got = match way {
            // What a token is not given for is left out of what it is given for.
            TokenUse::Secret(audience) | TokenUse::Bearer(audience) | TokenUse::Assertion(audience) => {
                answer.body["scope"] == self.scope(audience)
            }
            TokenUse::Introspection(_) | TokenUse::SignedIntrospection(_) => answer.body["active"] == true,
            _ => true,
        };
        answer.status == 200 && is_got
    }

    /// Fails unless exactly the ways that do not depend on this object work.
    async fn assert_without(&self, case: &str, touched: Option<SwitchedObject>) -> usize {
        let (mut refused, mut wrong) = (0, vec![]);
        for way in TokenUse::all() {
            let answer = self.attempt(way).await;
            let is_expected = touched.is_none_or(|subject| !way.stands_on().contains(&subject));
            if self.works(way, &answer) != is_expected {
                wrong.push(format!("{way:?} is answered {}: {}", answer.status, answer.body));
            }
            refused += usize::from(!is_expected);
        }
        assert!(wrong.is_empty(), "{case}:\n{}", wrong.join("\n"));
        refused
    }

    /// Brings an object into a state.
    async fn set_state(&self, subject: SwitchedObject, state: &str) {
        let request = match (subject, state) {
            (SignedToken | OpaqueToken, _) => {
                let request = self.admin.anonymous(Method::POST, "/oauth/v2/revoke");
                let request = request.basic_auth(&self.user.client_id, Some(&self.user.client_secret));
                request.form(&[("token", self.token(subject))])
            }
            (ExchangedToken, _) => {
                let request = self.admin.anonymous(Method::POST, "/oauth/v2/revoke");
                let request = request.basic_auth(&self.exchanging.id, self.exchanging.secret.as_ref());
                request.form(&[("token", self.token(subject))])
            }
            (Instance, _) => {
                let path = format!("{API}/instances/{}", self.tenant.bootstrap.instance_id);
                let operator = self.tenant.shared.operator().await;
                if state.is_empty() {
                    operator.request(Method::DELETE, &path)
                } else {
                    operator.request(Method::POST, &(path + state))
                }
            }
            (subject, "") => self.admin.request(Method::DELETE, &format!("{API}/{}", self.path(subject))),
            (subject, state) => self.admin.request(Method::POST, &format!("{API}/{}{state}", self.path(subject))),
        };
        let answer = send(request).await;
        assert_eq!(answer.status, 200, "{subject:?}{state}: {}", answer.body);
    }
}

/// Each object, with the states in which it does not count.
const STATES: [(SwitchedObject, &[&str]); 16] = [
    (Instance, &["/_deactivate", ""]),
    (Home, &["/_deactivate", ""]),
    (User, &["/_deactivate", "/_lock", ""]),
    (UserKey, &[""]),
    (PersonalToken, &[""]),
    (SignedToken, &["revoked"]),
    (OpaqueToken, &["revoked"]),
    (ExchangedToken, &["revoked"]),
    (Maker, &["/_deactivate", ""]),
    (Project, &["/_deactivate", ""]),
    (ProjectGrant, &["/_deactivate", ""]),
    (UserGrant, &["/_deactivate", ""]),
    (App, &["/_deactivate", ""]),
    (SigningApp, &["/_deactivate", ""]),
    (AppKey, &[""]),
    (ExchangingApp, &["/_deactivate", ""]),
];

async fn cell(tenant: &Tenant, subject: SwitchedObject, state: &str) -> usize {
    let world = World::build(tenant).await;
    let case = format!("{subject:?}{state}");
    world.assert_without(&case, None).await;
    world.set_state(subject, state).await;
    world.assert_without(&case, Some(subject)).await
}

#[tokio::test]
async fn a_way_works_as_long_as_all_that_it_stands_on_and_not_longer() {
    let tenant = Tenant::start().await;
    let cells = STATES.iter().flat_map(|(subject, states)| states.iter().map(|state| (*subject, *state)));
    let (of_instance, others): (Vec<_>, Vec<_>) = cells.partition(|(subject, _)| *subject == Instance);
    let mut refused = 0;
    for some in others.chunks(4) {
        refused += join_all(some.iter().map(|(subject, state)| cell(&tenant, *subject, state)))
            .await
            .into_iter()
            .sum::<usize>();
    }
    for (subject, state) in of_instance {
        refused += cell(&Tenant::start().await, subject, state).await;
    }
    println!("{refused} cells were refused");
    assert!(refused > 200, "{refused}");
}
