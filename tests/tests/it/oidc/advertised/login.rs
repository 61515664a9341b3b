//! The listed values that concern logins.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::Page,
    client::{Answer, done, send},
    eventually,
};

use super::{
    super::{
        exchange,
        flow::{
            API, App, CALLBACK, Flow, Parameters, VERIFIER, access_token, answered, challenge, location, other_verifier,
        },
        pages::{back, browser, id_token_claims, on_pages, set, title},
        shop,
        token::assert_error,
    },
    assert_listed, discovery,
};

/// The response types (RFC 6749; OAuth 2.0 Multiple Response Type Encoding Practices), with the parameters of their
/// answers.
const RESPONSES: [(&str, &[&str]); 8] = [
    ("none", &[]),
    ("code", &["code"]),
    ("token", &["access_token"]),
    ("id_token", &["id_token"]),
    ("id_token token", &["access_token", "id_token"]),
    ("code token", &["access_token", "code"]),
    ("code id_token", &["code", "id_token"]),
    ("code id_token token", &["access_token", "code", "id_token"]),
];
/// The response modes (the same; JARM, section 2.3).
const MODES: [&str; 8] =
    ["query", "fragment", "form_post", "web_message", "jwt", "query.jwt", "fragment.jwt", "form_post.jwt"];

/// Returns the settings of an app with all response and grant types, whose people log in on the platform's own pages.
fn everything() -> Value {
    let mut settings = on_pages(&App::public());
    let named = |kind: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("OIDC_{kind}_TYPE_{name}")).collect()
    };
    settings["responseTypes"] = json!(named("RESPONSE", &["CODE", "ID_TOKEN", "ID_TOKEN_TOKEN"]));
    settings["grantTypes"] = json!(named("GRANT", &["AUTHORIZATION_CODE", "IMPLICIT", "REFRESH_TOKEN"]));
    settings
}

/// Returns the mode in which an app is answered, and the parameters.
fn mode_and_parameters(shown: &Page) -> (&'static str, Parameters) {
    match shown.location() {
        "" => {
            assert_eq!(shown.action(), CALLBACK, "{}", shown.text);
            ("form_post", shown.hidden().into_iter().collect())
        }
        url if url.starts_with(&format!("{CALLBACK}#")) => ("fragment", answered(url)),
        url if url.starts_with(&format!("{CALLBACK}?")) => ("query", answered(url)),
        url => panic!("it is answered elsewhere: {url}"),
    }
}

#[tokio::test]
async fn an_app_is_answered_with_what_is_listed_and_how_it_is_listed() {
    let flow = Flow::with(everything()).await;
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    let (mut types, mut modes, mut pairs) = (BTreeSet::new(), BTreeSet::new(), vec![]);
    for (response, members) in RESPONSES {
        for mode in MODES {
            let case = format!("{response}, {mode}");
            let asked = [("response_type", response), ("response_mode", mode)];
            let (by, told) = mode_and_parameters(&flow.sent_by(&mut browser, &asked).await);
            assert_eq!((&*told["state"], &*told["iss"]), ("a b&c", &*flow.tenant.bootstrap.issuer), "{case}");
            let kinds = ["access_token", "code", "id_token"].into_iter().filter(|kind| told.contains_key(*kind));
            let kinds: Vec<&str> = kinds.collect();
            if let Some(error) = told.get("error") {
                assert!(["invalid_request", "unsupported_response_type"].contains(&&**error), "{case}: {error}");
                assert!(kinds.is_empty(), "{case}: {told:?}");
                continue;
            }
            assert_eq!((by, &*kinds), (mode, members), "{case}: {told:?}");
            types.insert(response);
            modes.insert(mode);
            pairs.push((response, mode));
        }
    }
    let document = discovery(&flow.tenant).await;
    assert_listed(&document, "response_types_supported", &Vec::from_iter(types));
    assert_listed(&document, "response_modes_supported", &Vec::from_iter(modes));
    let in_query: Vec<&str> =
        pairs.iter().filter(|(_, mode)| *mode == "query").map(|(response, _)| *response).collect();
    assert_eq!((in_query, pairs.len()), (vec!["code"], 7), "tokens come in no query, and in any other way: {pairs:?}");
}

/// The prompts (OpenID Connect Core 1.0, section 3.1.2.1, and others), and where each leads a person who is logged in.
const PROMPTS: [(&str, &str); 8] = [
    ("none", ""),
    ("login", "Enter your password"),
    ("consent", "Shop asks for access"),
    ("select_account", "Choose an account"),
    ("create", "Create an account"),
    ("signup", "Create an account"),
    ("enroll", "Create an account"),
    ("reauthenticate", "Enter your password"),
];

#[tokio::test]
async fn a_person_is_asked_for_what_is_listed() {
    let flow = Flow::with(everything()).await;
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    let mut works = vec![];
    for (prompt, leads_to) in PROMPTS {
        let shown = flow.sent_by(&mut browser.clone(), &[("prompt", prompt)]).await;
        if shown.location().is_empty() {
            assert_eq!((shown.status, title(&shown)), (StatusCode::OK, leads_to), "{prompt}");
            works.push(prompt);
            continue;
        }
        let told = answered(shown.location());
        assert!(shown.location().starts_with(CALLBACK), "{prompt}: {}", shown.location());
        match (told.get("code"), told.get("error").map(String::as_str)) {
            (Some(code), None) if leads_to.is_empty() => {
                assert_eq!(id_token_claims(&flow.redeemed(code).await)["sub"], flow.person.0.as_str(), "{prompt}");
                works.push(prompt);
            }
            (None, Some("invalid_request")) => {}
            other => panic!("{prompt}: {other:?}"),
        }
    }
    assert_listed(&discovery(&flow.tenant).await, "prompt_values_supported", &works);
}

/// Languages of which some are supported (ISO 639-1).
const LANGUAGES: [&str; 14] = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ar", "sv", "tr", "he"];

#[tokio::test]
async fn pages_are_in_the_languages_that_are_listed() {
    let flow = Flow::with(everything()).await;
    let works = async || {
        let mut works = vec![];
        for code in LANGUAGES {
            let shown = flow.sent_by(&mut browser(&flow.tenant), &[("ui_locales", code)]).await;
            works.extend(shown.text.contains(&format!("<html lang=\"{code}\"")).then_some(code));
        }
        works
    };
    assert_listed(&discovery(&flow.tenant).await, "ui_locales_supported", &works().await);
    let only = json!({ "restrictedLanguages": { "languages": [{ "key": "en" }, { "key": "es" }] } });
    set(&flow.admin, "/settings/v3alpha/languages", only).await;
    let works = eventually("others are not allowed", async || Some(works().await).filter(|works| works.len() < 3));
    assert_listed(&discovery(&flow.tenant).await, "ui_locales_supported", &works.await);
}

#[tokio::test]
async fn a_challenge_is_made_as_it_is_listed() {
    let flow = Flow::start().await;
    let mut works = vec![];
    for method in ["plain", "S256", "S384", "S512", "s256", ""] {
        let challenge = if method == "plain" || method.is_empty() { VERIFIER.to_owned() } else { challenge(VERIFIER) };
        let asked = [("code_challenge", challenge.as_str()), ("code_challenge_method", method)];
        let told = answered(&location(&flow.sent(&flow.authorize_parameters(&asked)).await));
        if let Some(error) = told.get("error") {
            assert_eq!(error, "invalid_request", "{method}");
            continue;
        }
        let (told, _) = flow.log_in(&asked).await;
        let wrong = send(flow.redeeming(&told["code"], &[("code_verifier", &other_verifier())])).await;
        assert_error(method, &wrong, 400, "invalid_grant");
        let (told, _) = flow.log_in(&asked).await;
        flow.redeemed(&told["code"]).await;
        works.push(method);
    }
    assert_listed(&discovery(&flow.tenant).await, "code_challenge_methods_supported", &works);
}

/// Starts an app with refresh tokens, and a person with all data.
async fn start_with_full_person() -> Flow {
    let mut settings = App::public();
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE"]);
    let names = ["AUTHORIZATION_CODE", "REFRESH_TOKEN", "TOKEN_EXCHANGE"];
    settings["grantTypes"] = json!(names.map(|name| format!("OIDC_GRANT_TYPE_{name}")));
    let flow = Flow::with(settings).await;
    let data = json!({
        "given_name": "Radia", "middle_name": "Joy", "family_name": "Perlman", "nickname": "mother of trees",
        "birthdate": "1951-12-18", "gender": "female", "locale": "en", "zoneinfo": "America/New_York",
        "picture": "https://radia.example/picture", "profile": "https://radia.example/profile",
        "website": "https://radia.example", "address": { "country": "US" },
    });
    let path = format!("{API}/users/{}", flow.person.0);
    let change = flow.admin.request(Method::PATCH, &path).header("prefer", "wait=10");
    let changed: Answer = send(change.json(&json!({ "human": { "data": data } }))).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    flow
}

/// Exchanges tokens for one by which an actor acts as the person.
async fn acting(flow: &Flow) -> Value {
    exchange::enable(&flow.admin).await;
    let helper = shop::user(&flow.admin, "helper", "").await;
    let role = json!({ "userId": helper.user_id, "roles": ["IAM_END_USER_IMPERSONATOR"] });
    done(&flow.admin, &format!("{API}/memberships"), role).await;
    let scope = format!("openid urn:platform:iam:org:project:id:{}:aud", flow.project);
    let request = flow.admin.anonymous(Method::POST, "/oauth/v2/token");
    let request = request.basic_auth(&helper.client_id, Some(&helper.client_secret));
    let token = send(request.form(&[("grant_type", "client_credentials"), ("scope", &scope)])).await.body;
    let actor = [("actor_token", access_token(&token)), ("actor_token_type", exchange::ACCESS)];
    exchange::exchanged(flow, (&flow.person.0, exchange::USER_ID), &actor).await
}

fn members(said: &Value) -> BTreeSet<String> {
    said.as_object().unwrap_or_else(|| panic!("it is an object: {said}")).keys().cloned().collect()
}

#[tokio::test]
async fn a_scope_that_is_listed_gives_something_and_no_other_does() {
    let flow = start_with_full_person().await;
    let mut works = vec![];
    for scope in [
        "openid",
        "profile",
        "email",
        "phone",
        "address",
        "offline_access",
        "groups",
        "roles",
        "entitlements",
        "device_sso",
        "Profile",
        "api",
    ] {
        let (tokens, _) = flow.tokens(&[("scope", &format!("openid {scope}"))]).await;
        let told = members(&flow.userinfo(access_token(&tokens)).await.body);
        let more = told.len() > 1 || tokens.get("refresh_token").is_some();
        let is_granted = tokens["scope"].as_str().is_some_and(|granted| granted.split(' ').any(|word| word == scope));
        assert_eq!(is_granted, more || scope == "openid", "{scope}: {tokens} {told:?}");
        if is_granted {
            works.push(scope);
        }
    }
    let without = answered(&location(&flow.sent(&flow.authorize_parameters(&[("scope", "profile")])).await));
    assert_eq!(without["error"], "invalid_scope", "that it is OpenID Connect must be said");
    assert_listed(&discovery(&flow.tenant).await, "scopes_supported", &works);
}

#[tokio::test]
async fn the_claims_that_are_listed_are_told_and_no_others() {
    let flow = start_with_full_person().await;
    let (tokens, _) = flow.tokens(&[("scope", "openid profile email phone address offline_access")]).await;
    let userinfo = flow.userinfo(access_token(&tokens)).await.body;
    let acting = members(&id_token_claims(&acting(&flow).await));
    let told: BTreeSet<String> =
        [members(&id_token_claims(&tokens)), members(&userinfo), acting].into_iter().flatten().collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let document = discovery(&flow.tenant).await;
    assert_listed(&document, "claims_supported", &told);
    assert_eq!(document["claims_parameter_supported"], false);
    // Who asks for a single one is not told it.
    let claims = json!({ "userinfo": { "email": { "essential": true } }, "id_token": { "email": null } });
    let (tokens, _) = flow.tokens(&[("scope", "openid"), ("claims", &claims.to_string())]).await;
    let userinfo = flow.userinfo(access_token(&tokens)).await.body;
    assert_eq!((userinfo.get("email"), id_token_claims(&tokens).get("email")), (None, None), "{userinfo}");
}
