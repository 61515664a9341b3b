//! What an app may ask for, parameter by parameter.

use domain::{
    redirect_uri::{Leniency, is_registered},
    resource::app::{
        AuthMethod,
        oidc::{AppType, GrantType, Oidc as Settings, ResponseType},
    },
};
use serde_json::{Map, Value};
use view::directory::Client;

use crate::{
    auth_request::AuthRequest,
    callback::{Callback, Refusal},
    error::Error,
    form::Form,
    scope::{self, Scope},
};

/// The longest nonce, in bytes. It comes back in the ID token.
const LONGEST_NONCE: usize = 512;
/// The longest redirect URI, in bytes, as of those that are registered.
const LONGEST_URI: usize = 2000;
/// The longest hint of a login name, and the longest list of languages.
const LONGEST_HINT: usize = 800;
/// How many languages of a list count.
const MOST_LOCALES: usize = 20;
/// How a person can be asked to be asked (OpenID Connect Core 1.0, section 3.1.2.1; Initiating User Registration 1.0).
pub(crate) const PROMPTS: [&str; 5] = ["none", "login", "consent", "select_account", "create"];
/// How the challenge is made of the verifier (RFC 7636, section 4.2).
pub(crate) const CHALLENGE_METHOD: &str = "S256";
/// How long a challenge is, and a verifier (RFC 7636, sections 4.1 and 4.2).
pub(crate) const CHALLENGE_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;

const fn invalid(description: &'static str) -> Refusal {
    Refusal { error: "invalid_request", description }
}

/// The request of an app, if nothing is wrong with it.
pub(super) fn checked(
    (app, settings): (&Client, &Settings),
    form: &Form,
    (callback, hint_user_id): (Callback, Option<String>),
) -> Result<AuthRequest, Refusal> {
    no_objects(form)?;
    response(form, settings)?;
    let (scope, organization_id) = scopes(form, settings)?;
    let prompts = prompts(form)?;
    let max_age = max_age(form)?;
    claims(form)?;
    let of = |name| form.get(name).map(str::to_owned);
    if form.get("nonce").is_some_and(|nonce| nonce.len() > LONGEST_NONCE) {
        return Err(invalid("nonce is longer than 512 bytes"));
    }
    let challenge = challenge(form, settings)?;
    if prompts.iter().any(|prompt| prompt == "none") && !settings.login_uri.is_empty() {
        // Whom the login pages of somebody else know is not known.
        let description = "nobody is logged in, and nobody may be asked to";
        return Err(Refusal { error: "login_required", description });
    }
    let locales = form.get("ui_locales").filter(|locales| locales.len() <= LONGEST_HINT).unwrap_or_default();
    let locales = locales.split(' ').filter(|locale| !locale.is_empty()).take(MOST_LOCALES);
    Ok(AuthRequest {
        client_id: app.id.clone(),
        project_id: app.app.project_id.clone(),
        callback,
        scope,
        challenge,
        nonce: of("nonce"),
        prompts,
        max_age,
        login_hint: of("login_hint").filter(|hint| hint.len() <= LONGEST_HINT),
        ui_locales: locales.map(str::to_owned).collect(),
        hint_user_id,
        organization_id,
    })
}

/// Whether people may be sent to a URI, of those that an app has registered for something.
pub(crate) fn leads_to(settings: &Settings, registered: &[String], uri: &str) -> bool {
    let leniency = Leniency { any_port: settings.app_type == AppType::Native, wildcards: settings.dev_mode };
    uri.len() <= LONGEST_URI && registered.iter().any(|registered| is_registered(registered, uri, leniency))
}

/// Whether an app may ask for a code.
fn may_ask_for_code(settings: &Settings) -> bool {
    settings.response_types.contains(&ResponseType::Code)
}

/// Whether an app may still have what it has asked for, as it is set up now.
pub(crate) fn still_may(app: &Client, request: &AuthRequest) -> bool {
    let Some(settings) = app.app.config.oidc() else { return false };
    let is_safe = settings.auth_method != AuthMethod::None || request.challenge.is_some();
    is_safe && may_ask_for_code(settings) && leads_to(settings, &settings.redirect_uris, &request.callback.redirect_uri)
}

/// Requests are sent as parameters (OpenID Connect Core 1.0, section 6): nothing is ever fetched.
fn no_objects(form: &Form) -> Result<(), Refusal> {
    let refusals = [
        ("request", "request_not_supported", "the request is sent as parameters here, not as an object"),
        ("request_uri", "request_uri_not_supported", "the request is sent as parameters here, not by reference"),
        ("registration", "registration_not_supported", "apps are registered beforehand here"),
    ];
    let sent = refusals.into_iter().find(|(name, ..)| form.get(name).is_some());
    sent.map_or(Ok(()), |(_, error, description)| Err(Refusal { error, description }))
}

/// What the app is answered, and how.
fn response(form: &Form, settings: &Settings) -> Result<(), Refusal> {
    match form.get("response_type") {
        None => return Err(invalid("response_type is missing")),
        Some("code") if may_ask_for_code(settings) => {}
        Some("code") => {
            let description = "the app is not set up for the response type code";
            return Err(Refusal { error: "unauthorized_client", description });
        }
        Some(_) => {
            let description = "this server supports the response type code";
            return Err(Refusal { error: "unsupported_response_type", description });
        }
    }
    match form.get("response_mode") {
        None | Some("query" | "fragment") => Ok(()),
        Some(_) => Err(invalid("this server supports the response modes query and fragment")),
    }
}

/// What is asked for, as far as it is known and the app may have it, and the organization that the user must be of.
fn scopes(form: &Form, settings: &Settings) -> Result<(String, Option<String>), Refusal> {
    let known = scope::parse(form.get("scope")).map_err(|error| Refusal {
        error: "invalid_scope",
        description: if let Error::InvalidScope(description) = error { description } else { "scope is malformed" },
    })?;
    let refused = |description| Refusal { error: "invalid_scope", description };
    if !known.iter().any(|(_, scope)| *scope == Scope::OpenId) {
        return Err(refused("scope must have openid"));
    }
    let mut organizations = known.iter().filter_map(|(_, scope)| match scope {
        Scope::Organization(id) => Some(*id),
        _ => None,
    });
    let organization = organizations.next();
    if organizations.next().is_some() {
        return Err(refused("a user is of one organization: ask for one"));
    }
    let is_refreshable = settings.may(GrantType::RefreshToken);
    let may_have = |scope: &Scope<'_>| is_refreshable || *scope != Scope::Offline;
    let words: Vec<&str> = known.iter().filter(|(_, scope)| may_have(scope)).map(|(word, _)| *word).collect();
    Ok((words.join(" "), organization.map(str::to_owned)))
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
        return Err(invalid("prompt has none and something else"));
    }
    Ok(prompts)
}

fn max_age(form: &Form) -> Result<Option<u32>, Refusal> {
    let Some(text) = form.get("max_age") else { return Ok(None) };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| text.parse().ok()).flatten();
    seconds.map(Some).ok_or(invalid("max_age must be a number of seconds"))
}

/// Single claims cannot be asked for, but whoever does so must do it right (OpenID Connect Core 1.0, section 5.5).
fn claims(form: &Form) -> Result<(), Refusal> {
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    if form.get("claims").is_none_or(is_object) { Ok(()) } else { Err(invalid("claims must be a JSON object")) }
}

/// The challenge (RFC 7636, section 4.3). Who does not authenticate must have sent one.
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
