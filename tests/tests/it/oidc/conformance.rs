//! The applicable modules of the OpenID Foundation's conformance suite, each under its name. Several plans run the same
//! modules, with other response types and modes: `module` has each module once, and there is a file for each plan.

mod basic;
mod dynamic;
mod form_post;
mod implicit;
mod module;

use std::ops::Deref;

use jsonwebtoken::{DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::{Browser, Page},
    client::send,
    instance::Instance,
    tenant::Tenant,
};

use super::{
    flow::{App, CALLBACK, Flow, Parameters, access_token, answered},
    pages::{browser, on_pages},
};

/// The nonce of every request, unless a module has another.
const NONCE: &str = "n-0S6_WzA2Mj";

/// A response type and a response mode with which a plan runs its modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    response_type: &'static str,
    /// Nothing where the app does not name the default of the response type.
    response_mode: &'static str,
}

impl Variant {
    const fn by_default(response_type: &'static str) -> Self {
        Self { response_type, response_mode: "" }
    }

    const fn by_form(response_type: &'static str) -> Self {
        Self { response_type, response_mode: "form_post" }
    }

    fn has_access_token(self) -> bool {
        self.response_type != "id_token"
    }

    /// Returns the names of the parameters of a success, in alphabetical order.
    fn parameters(self) -> &'static [&'static str] {
        match self.response_type {
            "code" => &["code", "iss", "state"],
            "id_token" => &["id_token", "iss", "state"],
            _ => &["access_token", "expires_in", "id_token", "iss", "scope", "state", "token_type"],
        }
    }
}

/// The variants of the plan Basic.
const BASIC: [Variant; 1] = [Variant::by_default("code")];
/// The variants of the plan Implicit.
const IMPLICIT: [Variant; 2] = [Variant::by_default("id_token"), Variant::by_default("id_token token")];
/// The variants of the plans Form Post.
const FORM_POST: [Variant; 3] =
    [Variant::by_form("code"), Variant::by_form("id_token"), Variant::by_form("id_token token")];

/// A run of a module in one variant: an app, a person, and a browser in which nobody is logged in.
struct Run<T = Tenant> {
    flow: Flow<T>,
    variant: Variant,
    browser: Browser,
}

/// What an app has after a login.
struct Login {
    tokens: Value,
    /// The claims of the ID token, which is valid.
    id_token: Value,
    /// The claims from userinfo, or of the ID token where there is no access token.
    claims: Value,
}

/// Returns the settings of an app with these credentials that may use all response types.
fn settings(credentials: &Value) -> Value {
    let mut settings = on_pages(credentials);
    settings["responseTypes"] =
        json!(["OIDC_RESPONSE_TYPE_CODE", "OIDC_RESPONSE_TYPE_ID_TOKEN", "OIDC_RESPONSE_TYPE_ID_TOKEN_TOKEN"]);
    let types = ["AUTHORIZATION_CODE", "IMPLICIT", "REFRESH_TOKEN"];
    settings["grantTypes"] = json!(types.map(|name| format!("OIDC_GRANT_TYPE_{name}")));
    settings
}

/// Runs a module in variants, each with a browser of its own.
async fn run(variants: &[Variant], module: impl AsyncFn(&mut Run)) {
    let flow = Flow::with(settings(&App::public())).await;
    let mut run = Run { variant: variants[0], browser: browser(&flow.tenant), flow };
    for variant in variants {
        println!("{variant:?}");
        (run.variant, run.browser) = (*variant, browser(&run.flow.tenant));
        module(&mut run).await;
    }
}

/// Runs a module in those of the variants that give an access token.
async fn run_with_access_token(variants: &[Variant], module: impl AsyncFn(&mut Run)) {
    let variants: Vec<_> = variants.iter().copied().filter(|variant| variant.has_access_token()).collect();
    run(&variants, module).await;
}

impl<T: Deref<Target = Instance>> Run<T> {
    /// Returns the parameters that the variant requires, with others, which replace them.
    fn parameters<'a>(&self, others: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let Variant { response_type, response_mode } = self.variant;
        let required = [("response_type", response_type), ("response_mode", response_mode)];
        let without_code = [("code_challenge", ""), ("code_challenge_method", "")];
        let without_code = if response_type.starts_with("id_token") { &without_code[..] } else { &[] };
        [&required[..], without_code, others].concat()
    }

    /// Sends the browser with a request of the app, and returns the page that it ends at.
    async fn send(&mut self, others: &[(&str, &str)]) -> Page {
        let parameters = self.parameters(others);
        self.flow.sent_by(&mut self.browser, &parameters).await
    }

    /// Enters the login name and the password.
    async fn enter(&mut self, shown: &Page) -> Page {
        self.flow.enters(&mut self.browser, shown, &self.flow.person.1).await
    }

    /// Enters the password, which is asked for without the login name.
    async fn enter_password(&mut self, shown: &Page) -> Page {
        self.flow.enters_password(&mut self.browser, shown, &self.flow.person.1).await
    }

    /// Logs the person in by a request.
    async fn log_in(&mut self, others: &[(&str, &str)]) -> Login {
        let shown = self.send(others).await;
        let shown = self.enter(&shown).await;
        self.login(&shown).await
    }

    /// Returns the answer to the app, which must come by the mode of the variant.
    fn answer(&self, shown: &Page) -> Parameters {
        let answer = if self.variant.response_mode == "form_post" {
            assert_eq!((shown.status, shown.action()), (StatusCode::OK, CALLBACK.to_owned()), "{}", shown.text);
            shown.hidden().into_iter().collect()
        } else {
            let mark = if self.variant.response_type.starts_with("id_token") { '#' } else { '?' };
            assert!(shown.location().starts_with(&format!("{CALLBACK}{mark}")), "{} {}", shown.location(), shown.text);
            assert!(shown.status.is_redirection(), "{}", shown.status);
            answered(shown.location())
        };
        assert_eq!((answer["state"].as_str(), &answer["iss"]), ("a b&c", &self.flow.tenant.bootstrap.issuer));
        answer
    }

    /// Returns what the app has with a success: it redeems a code, and checks the ID token.
    async fn login(&self, shown: &Page) -> Login {
        let answer = self.answer(shown);
        let names: Vec<_> = answer.keys().map(String::as_str).collect();
        assert_eq!(names, self.variant.parameters(), "{answer:?}");
        let tokens = match answer.get("code") {
            Some(code) => self.flow.redeemed(code).await,
            None => json!(answer),
        };
        let id_token = verified(&self.flow, &tokens).await;
        assert_eq!(id_token["sub"], json!(self.flow.person.0));
        assert_eq!(tokens.get("access_token").is_some(), self.variant.has_access_token(), "{tokens}");
        let claims = match tokens.get("access_token") {
            Some(_) => self.flow.userinfo(access_token(&tokens)).await.body,
            None => id_token.clone(),
        };
        assert_eq!(claims["sub"], id_token["sub"], "{claims}");
        Login { tokens, id_token, claims }
    }

    /// Fails unless the app gets one of these errors for a request.
    async fn assert_refused(&mut self, others: &[(&str, &str)], errors: &[&str]) {
        let shown = self.send(others).await;
        let answer = self.answer(&shown);
        assert!(answer.get("error").is_some_and(|error| errors.contains(&error.as_str())), "{others:?}: {answer:?}");
        for name in ["code", "id_token", "access_token"] {
            assert!(!answer.contains_key(name), "{others:?}: {answer:?}");
        }
    }
}

/// Verifies an ID token by the key set of the instance, and returns its claims.
async fn verified<T: Deref<Target = Instance>>(flow: &Flow<T>, tokens: &Value) -> Value {
    let token = tokens["id_token"].as_str().expect("there is one");
    let keys = send(flow.admin.anonymous(Method::GET, "/oauth/v2/keys")).await.body;
    let keys: JwkSet = serde_json::from_value(keys).expect("they are keys");
    let header = decode_header(token).expect("it is a JWT");
    let key = keys.find(header.kid.as_deref().expect("it names its key")).expect("the key is published");
    let mut validation = Validation::new(header.alg);
    validation.set_audience(&[&flow.app.id]);
    validation.set_issuer(&[&flow.tenant.bootstrap.issuer]);
    let key = DecodingKey::from_jwk(key).expect("it can be used");
    decode::<Value>(token, &key, &validation).expect("it is valid").claims
}
