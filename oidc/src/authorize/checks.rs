//! The checks of the parameters of an authorization request.

use domain::{
    redirect_uri::{Leniency, UriParts, is_registered},
    resource::app::{
        AuthMethod,
        oidc::{AppType, GrantType, Oidc as Settings, ResponseType},
    },
};
use serde_json::{Map, Value};
use view::directory::Client;

use crate::{
    auth_request::AuthRequest,
    callback::{Callback, Mode, Refusal},
    form::Form,
    scope::{self, Scope},
};

/// The longest nonce, in bytes. It comes back in the ID token.
const LONGEST_NONCE: usize = 512;
/// The longest redirect URI, in bytes: as long as registered ones may be.
const LONGEST_URI: usize = 2000;
/// The longest hint of a login name, and the longest list of languages.
const LONGEST_HINT: usize = 800;
/// How many languages of a list are considered.
const MOST_LOCALES: usize = 20;
/// The supported response types, by their words in alphabetical order.
pub(crate) const RESPONSE_TYPES: [(&str, ResponseType); 3] =
    [("code", ResponseType::Code), ("id_token", ResponseType::IdToken), ("id_token token", ResponseType::IdTokenToken)];
/// The supported prompts (OpenID Connect Core 1.0, section 3.1.2.1; Initiating User Registration 1.0).
pub(crate) const PROMPTS: [&str; 5] = ["none", "login", "consent", "select_account", "create"];
/// The method that derives the challenge from the verifier (RFC 7636, section 4.2).
pub(crate) const CHALLENGE_METHOD: &str = "S256";
/// The length of a challenge and of a verifier (RFC 7636, sections 4.1 and 4.2).
pub(crate) const CHALLENGE_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;

const fn invalid(description: &'static str) -> Refusal {
    Refusal { error: "invalid_request", description }
}

/// Returns the request of an app, if all parameters are valid.
pub(super) fn checked(
    app: &Client,
    settings: &Settings,
    form: &Form,
    callback: Callback,
    hint_user_id: Option<String>,
) -> Result<AuthRequest, Refusal> {
    no_references(form)?;
    let response = response(form, settings)?;
    insist_on_mode(form, response, &callback)?;
    let scope = scopes(form, settings, response)?;
    let prompts = prompts(form)?;
    let max_age = max_age(form)?;
    claims(form)?;
    let of = |name| form.get(name).map(str::to_owned);
    if form.get("nonce").is_some_and(|nonce| nonce.len() > LONGEST_NONCE) {
        return Err(invalid("nonce is longer than 512 bytes"));
    }
    if response != ResponseType::Code && form.get("nonce").is_none() {
        return Err(invalid("nonce is missing: an app that is answered with an ID token must send one"));
    }
    let challenge = if response == ResponseType::Code { challenge(form, settings)? } else { None };
    if prompts.iter().any(|prompt| prompt == "none") && !settings.login_uri.is_empty() {
        // The platform does not know who is logged in on the login pages of somebody else.
        let description = "nobody is logged in, and nobody may be asked to";
        return Err(Refusal { error: "login_required", description });
    }
    let locales = form.get("ui_locales").filter(|locales| locales.len() <= LONGEST_HINT).unwrap_or_default();
    let locales = locales.split(' ').filter(|locale| !locale.is_empty()).take(MOST_LOCALES);
    Ok(AuthRequest {
        client_id: app.id.clone(),
        project_id: app.app.project_id.clone(),
        response,
        callback,
        scope,
        challenge,
        nonce: of("nonce"),
        prompts,
        max_age,
        login_hint: of("login_hint").filter(|hint| hint.len() <= LONGEST_HINT),
        ui_locales: locales.map(str::to_owned).collect(),
        hint_user_id,
        organization_id: None,
    })
}

/// Whether people may be sent to a URI: it is among those that are registered, and allowed for the type of the app.
pub(crate) fn leads_to(settings: &Settings, registered: &[String], uri: &str) -> bool {
    let leniency = Leniency { any_port: settings.app_type == AppType::Native, wildcards: settings.dev_mode };
    uri.len() <= LONGEST_URI
        && settings.may_lead_to(uri)
        && registered.iter().any(|registered| is_registered(registered, uri, leniency))
}

/// Returns why people are not sent to a URI, for the log that the operator of the app reads.
pub(crate) fn no_way(settings: &Settings, uri: &str) -> &'static str {
    if settings.may_lead_to(uri) {
        "the address is not registered"
    } else {
        "apps of this type do not lead to addresses of this scheme, whatever is registered"
    }
}

/// Whether an app is registered for a response type.
fn may_ask_for(settings: &Settings, response: ResponseType) -> bool {
    settings.response_types.contains(&response)
}

/// Whether the current settings of an app still permit its request.
pub(crate) fn still_may(app: &Client, AuthRequest { response, challenge, callback, .. }: &AuthRequest) -> bool {
    let Some(settings) = app.app.config.oidc() else { return false };
    let has_code = *response == ResponseType::Code;
    let is_safe = !has_code || settings.auth_method != AuthMethod::None || challenge.is_some();
    is_safe && may_ask_for(settings, *response) && leads_to(settings, &settings.redirect_uris, &callback.redirect_uri)
}

/// Refuses requests by reference: only parameters and request objects (OpenID Connect Core 1.0, section 6) are read,
/// nothing is fetched.
fn no_references(form: &Form) -> Result<(), Refusal> {
    let refusals = [
        ("request_uri", "request_uri_not_supported", "request_uri is not supported: send the parameters instead"),
        ("registration", "registration_not_supported", "apps are registered beforehand here"),
    ];
    let sent = refusals.into_iter().find(|(name, ..)| form.get(name).is_some());
    sent.map_or(Ok(()), |(_, error, description)| Err(Refusal { error, description }))
}

/// Returns the requested response type (OAuth 2.0 Multiple Response Types, section 3), whatever the order of its words.
fn response_type(form: &Form) -> Option<ResponseType> {
    let mut words: Vec<&str> = form.get("response_type")?.split(' ').filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    RESPONSE_TYPES.into_iter().find(|(name, _)| words == name.split(' ').collect::<Vec<_>>()).map(|(_, known)| known)
}

/// Returns the response type, if it is supported and the app is registered for it.
fn response(form: &Form, settings: &Settings) -> Result<ResponseType, Refusal> {
    if form.get("response_type").is_none() {
        return Err(invalid("response_type is missing"));
    }
    let description = "this server supports the response types code, id_token, and id_token token";
    let response = response_type(form).ok_or(Refusal { error: "unsupported_response_type", description })?;
    let description = "the app is not set up for this response type";
    let refusal = Refusal { error: "unauthorized_client", description };
    if may_ask_for(settings, response) { Ok(response) } else { Err(refusal) }
}

/// Checks the response mode: no tokens in a query, which logs would store, or over http to other machines; forms need
/// pages.
fn insist_on_mode(form: &Form, response: ResponseType, callback: &Callback) -> Result<(), Refusal> {
    let has_tokens = response != ResponseType::Code;
    let uri = UriParts::of(&callback.redirect_uri);
    let is_open = uri.as_ref().is_some_and(|uri| uri.is_http() && !uri.is_loopback());
    match form.get("response_mode") {
        _ if has_tokens && is_open => {
            Err(invalid("tokens are not sent over http: register a redirect URI with https, or ask for a code"))
        }
        Some("query") if has_tokens => {
            Err(invalid("tokens are not sent in a query: ask for the response mode fragment or form_post"))
        }
        Some("form_post") if callback.mode != Mode::FormPost => {
            Err(invalid("a form is sent only where pages are served, over https, and to http and https addresses"))
        }
        Some(name) if Mode::named(name).is_none() => {
            Err(invalid("this server supports the response modes query, fragment and form_post"))
        }
        _ => Ok(()),
    }
}

/// Returns the response mode: the requested one where that is possible, else the default of the response type.
pub(super) fn mode(form: &Form, redirect_uri: &str, has_pages: bool) -> Mode {
    let words = form.get("response_type").unwrap_or_default().split(' ');
    let has_tokens = words.into_iter().any(|word| ["id_token", "token"].contains(&word));
    let takes_forms = has_pages && UriParts::of(redirect_uri).is_some_and(|uri| !uri.is_custom());
    let usual = if has_tokens { Mode::Fragment } else { Mode::Query };
    let is_possible = |mode: &Mode| match mode {
        Mode::Query => !has_tokens,
        Mode::Fragment => true,
        Mode::FormPost => takes_forms,
    };
    form.get("response_mode").and_then(Mode::named).filter(is_possible).unwrap_or(usual)
}

/// Returns the requested scopes that are known and that the app may have.
fn scopes(form: &Form, settings: &Settings, response: ResponseType) -> Result<String, Refusal> {
    let known = scope::parse(form.get("scope")).map_err(|error| Refusal::of_scope(&error))?;
    if !known.iter().any(|(_, scope)| *scope == Scope::OpenId) {
        return Err(Refusal { error: "invalid_scope", description: "scope must have openid" });
    }
    let is_refreshable = settings.allows_grant(GrantType::RefreshToken) && response == ResponseType::Code;
    let may_have = |scope: &Scope<'_>| is_refreshable || *scope != Scope::Offline;
    let words: Vec<&str> = known.iter().filter(|(_, scope)| may_have(scope)).map(|(word, _)| *word).collect();
    Ok(words.join(" "))
}

fn prompts(form: &Form) -> Result<Vec<String>, Refusal> {
    let words = form.get("prompt").unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    let mut prompts: Vec<String> = vec![];
    for word in words {
        if !PROMPTS.contains(&word) {
            return Err(invalid("prompt must be of none, login, consent, select_account and create"));
        }
        if !prompts.iter().any(|other| other == word) {
            prompts.push(word.to_owned());
        }
    }
    if prompts.len() > 1 && prompts.iter().any(|prompt| prompt == "none") {
        return Err(invalid("prompt must not combine none with other values"));
    }
    Ok(prompts)
}

fn max_age(form: &Form) -> Result<Option<u32>, Refusal> {
    let Some(text) = form.get("max_age") else { return Ok(None) };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| text.parse().ok()).flatten();
    seconds.map(Some).ok_or(invalid("max_age must be a number of seconds"))
}

/// Checks that `claims` is well-formed. It is ignored otherwise: single claims cannot be requested (OpenID Connect Core
/// 1.0, section 5.5).
fn claims(form: &Form) -> Result<(), Refusal> {
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if form.get("claims").is_none_or(is_object) { Ok(()) } else { Err(invalid("claims must be a JSON object")) }
}

/// Returns the challenge (RFC 7636, section 4.3), which an app that does not authenticate must send.
fn challenge(form: &Form, settings: &Settings) -> Result<Option<String>, Refusal> {
    match (form.get("code_challenge"), form.get("code_challenge_method")) {
        (None, None) if settings.auth_method == AuthMethod::None => {
            Err(invalid("code_challenge is missing: an app that does not authenticate must send one"))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(invalid("code_challenge is missing")),
        (Some(challenge), Some(CHALLENGE_METHOD)) if is_challenge(challenge) => Ok(Some(challenge.to_owned())),
        (Some(_), Some(CHALLENGE_METHOD)) => {
            Err(invalid("code_challenge must have 43 to 128 letters, digits and - . _ ~"))
        }
        (Some(_), _) => Err(invalid("code_challenge_method must be S256")),
    }
}

/// Whether a text may be a challenge or a verifier.
pub(crate) fn is_challenge(text: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    CHALLENGE_LENGTH.contains(&text.len()) && text.bytes().all(is_unreserved)
}
