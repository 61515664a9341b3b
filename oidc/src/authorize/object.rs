//! Request objects: the parameters of a request as a JWT that the app has signed with a key of its own (OpenID Connect Core 1.0,
//! section 6.1; RFC 9101). Nothing is ever fetched.

use std::collections::{BTreeSet, HashMap};

use base::clock;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    resource::{app::App, key::Key},
    standard::Resource,
};
use edge::caller::LONGEST;
use serde_json::{Map, Value};
use view::directory::{Client, Tenant};

use crate::{
    Oidc,
    assertion::{AHEAD, ALGORITHMS, Flaw, Header, LONGEST_LIFE, key_named},
    callback::Refusal,
    form::Form,
};

/// The `typ` that distinguishes request objects from other JWTs (RFC 9101, section 10.8).
const TYPE: &str = "oauth-authz-req+jwt";
/// The claims about the object itself, which are no parameters.
const OWN: [&str; 6] = ["iss", "aud", "exp", "iat", "nbf", "jti"];
/// The parameters of a request that are read.
const TEXTS: [&str; 16] = [
    "claims",
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "id_token_hint",
    "login_hint",
    "max_age",
    "nonce",
    "prompt",
    "redirect_uri",
    "registration",
    "response_mode",
    "response_type",
    "scope",
    "state",
    "ui_locales",
];

const fn invalid(description: &'static str) -> Refusal {
    Refusal { error: "invalid_request_object", description }
}

const NOT_SIGNED: Refusal = Refusal {
    error: "request_not_supported",
    description: "request objects are signed here, by one of the algorithms in the discovery document",
};
const UNSIGNED: Refusal =
    invalid("the request object must be signed with a key of the app that is valid now, which its header names by kid");

/// Returns the parameters of a request with a request object; nothing where there is none. Parameters in the object
/// take precedence, and where its `typ` is that of RFC 9101 those outside are ignored.
pub(super) async fn opened(oidc: &Oidc, tenant: &Tenant, app: &Client, form: &Form) -> Result<Option<Form>, Refusal> {
    // Requests by reference are refused later, with errors of their own.
    let is_by_reference = ["request_uri", "registration"].iter().any(|name| form.get(name).is_some());
    let Some(text) = form.get("request").filter(|_| !is_by_reference) else { return Ok(None) };
    if text.len() > LONGEST {
        return Err(invalid("the request object is too long"));
    }
    let header = Header::read(text).ok_or_else(|| if is_unsigned(text) { NOT_SIGNED } else { UNSIGNED })?;
    let object = signed(oidc, tenant, app, &header, text).await?;
    check(&object, &app.id, &oidc.edge.external.issuer(tenant), clock::now().as_second())?;
    let is_whole = header.is_type(TYPE);
    if !agrees(&object, form, is_whole) {
        return Err(invalid("the client_id and response_type of the request object must be those of the request"));
    }
    let is_kept =
        |name: &str| if is_whole { name == "client_id" } else { name != "request" && !object.contains_key(name) };
    let kept = form.all().filter(|(name, _)| is_kept(name));
    let kept: Vec<_> = kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Some(Form::from(kept.into_iter().chain(parameters(object)?).collect::<HashMap<_, _>>())))
}

/// Whether the object is unsigned, or signed by an algorithm that is not supported.
fn is_unsigned(text: &str) -> bool {
    let header = text.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header: Option<Value> = header.and_then(|header| serde_json::from_slice(&header).ok());
    let alg = header.as_ref().and_then(|header| header["alg"].as_str());
    alg.is_some_and(|alg| !ALGORITHMS.contains(&alg))
}

/// Whether `client_id` and `response_type` in the object agree with those outside.
fn agrees(object: &Map<String, Value>, form: &Form, is_whole: bool) -> bool {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let is_same = |name: &str| match (form.get(name), object.get(name)) {
        (Some(outside), Some(inside)) => inside.as_str().is_some_and(|inside| words(inside) == words(outside)),
        _ => true,
    };
    is_same("client_id") && (is_whole || is_same("response_type"))
}

/// Returns the contents of an object that a key of the app has signed.
async fn signed(
    oidc: &Oidc,
    tenant: &Tenant,
    app: &Client,
    header: &Header,
    text: &str,
) -> Result<Map<String, Value>, Refusal> {
    let key = key_named::<App>(oidc, tenant, header.kid.as_deref()).await.map_err(|flaw| match flaw {
        Flaw::Unsigned | Flaw::Claim(_) => UNSIGNED,
        Flaw::Unknown(_) => Refusal {
            error: "temporarily_unavailable",
            description: "the keys of the app cannot be known at the moment: try again in a while",
        },
    })?;
    let on = [(Key::<App>::NAME, key.id.as_str())];
    let is_own = key.holder_id == app.id && !oidc.edge.ended.is_dead(&tenant.id, &app.owner, &on, key.as_of.get());
    let is_typed = header.is_untyped() || header.is_type("jwt") || header.is_type(TYPE);
    if !is_own || !is_typed {
        return Err(UNSIGNED);
    }
    let payload = header.payload(text, &key.public).ok_or(UNSIGNED)?;
    serde_json::from_slice(&payload).map_err(|_| UNSIGNED)
}

/// Checks issuer, audience and times, at a time in seconds since the Unix epoch.
fn check(object: &Map<String, Value>, client_id: &str, issuer: &str, now: i64) -> Result<(), Refusal> {
    let time = |name: &str| object.get(name).map(|value| value.as_i64().ok_or(())).transpose();
    let (Ok(exp), Ok(iat), Ok(nbf)) = (time("exp"), time("iat"), time("nbf")) else {
        return Err(invalid("the exp, iat and nbf of the request object must be whole seconds"));
    };
    let is_for_us = match object.get("aud") {
        Some(Value::String(aud)) => aud == issuer,
        Some(Value::Array(all)) => all.iter().any(|aud| aud == issuer),
        _ => false,
    };
    let begins = iat.unwrap_or(now).max(nbf.unwrap_or(now));
    let rules = [
        (
            object.get("iss").and_then(Value::as_str) == Some(client_id),
            "the iss of the request object must be the client_id",
        ),
        (is_for_us, "the aud of the request object must have the issuer"),
        // Otherwise an assertion, which authenticates a client or is exchanged for tokens, could be used as a request
        // object.
        (!object.contains_key("sub"), "the request object must not have a sub"),
        (exp.is_some_and(|exp| exp > now), "the request object has expired, or has no exp"),
        (
            exp.is_some_and(|exp| exp <= now.saturating_add(LONGEST_LIFE + AHEAD)),
            "the exp of the request object must be at most an hour from now",
        ),
        (begins <= now.saturating_add(AHEAD), "the iat or nbf of the request object is in the future"),
        (
            iat.is_none_or(|iat| iat >= now - LONGEST_LIFE) && nbf.is_none_or(|nbf| nbf >= now - LONGEST_LIFE),
            "the iat or nbf of the request object is more than an hour ago",
        ),
        (
            !object.contains_key("request") && !object.contains_key("request_uri"),
            "the request object must not have another one",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(invalid(rule)))
}

/// Returns the parameters as those of a form. Empty or null values count as omitted, and unknown parameters are
/// ignored.
fn parameters(object: Map<String, Value>) -> Result<HashMap<String, String>, Refusal> {
    let mut parameters = HashMap::new();
    for (name, value) in object.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) if name == "max_age" => number.to_string(),
            Value::Object(_) if ["claims", "registration"].contains(&&*name) => value.to_string(),
            _ if !TEXTS.contains(&&*name) => continue,
            _ => return Err(invalid("the parameters in the request object must be text, and max_age a number")),
        };
        if !text.is_empty() {
            parameters.insert(name, text);
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(change: impl Fn(&mut Value)) -> Map<String, Value> {
        let mut object = json!({ "iss": "8", "aud": "https://id.example", "exp": 1060, "scope": "openid" });
        change(&mut object);
        object.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn an_object_says_who_asks_whom_and_for_how_long() {
        let fault = |change: fn(&mut Value)| {
            check(&object(change), "8", "https://id.example", 1000).err().map(|refusal| refusal.description)
        };
        assert_eq!(fault(|_| {}), None);
        assert_eq!(fault(|it| it["aud"] = json!(["https://rs.example", "https://id.example"])), None);
        for (change, expected) in [
            ((|it| it["iss"] = json!("9")) as fn(&mut Value), "iss"),
            (|it| it["aud"] = json!("https://id.example/"), "aud"),
            (|it| it["aud"] = json!(null), "aud"),
            (|it| it["sub"] = json!("8"), "sub"),
            (|it| it["exp"] = json!(1000), "expired"),
            (|it| drop(it.as_object_mut().map(|it| it.remove("exp"))), "expired"),
            (|it| it["exp"] = json!(1000 + 3661), "at most an hour"),
            (|it| it["exp"] = json!("1060"), "whole seconds"),
            (|it| it["nbf"] = json!(1061), "future"),
            (|it| it["iat"] = json!(1000 - 3601), "an hour ago"),
            (|it| it["request_uri"] = json!("https://a.example"), "another one"),
        ] {
            assert!(fault(change).is_some_and(|text| text.contains(expected)), "{expected}");
        }
    }

    #[test]
    fn parameters_are_those_of_a_form() {
        let said = object(|it| {
            it["max_age"] = json!(60);
            it["claims"] = json!({ "userinfo": {} });
            it["state"] = json!("");
            it["nonce"] = json!(null);
            it["authorization_details"] = json!([{ "type": "x" }]);
        });
        let found = parameters(said).ok();
        let wanted = [("scope", "openid"), ("max_age", "60"), ("claims", "{\"userinfo\":{}}")];
        assert_eq!(found, Some(wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into()));
        assert!(parameters(object(|it| it["scope"] = json!(["openid"]))).is_err());
    }
}
