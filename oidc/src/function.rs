//! Function executions: targets that are called before claims are issued, and may add some, and set metadata of the user.

use std::collections::BTreeMap;

use action::{
    chain::{Cause, Content, Interrupted},
    client::CallFailure,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::resource::execution::Function;
use edge::trigger;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use view::directory::Tenant;

use crate::{
    Oidc, claims,
    error::Error,
    metadata,
    new_metadata::{self, Entry, NewMetadata, SET},
    owner,
    scope::Scopes,
    subject::Subject,
};

/// Claims that only the platform sets, in any token.
const RESERVED: [&str; 37] = [
    "acr",
    "act",
    "active",
    "amr",
    "at_hash",
    "aud",
    "auth_time",
    "azp",
    "c_hash",
    "client_id",
    "cnf",
    "entitlements",
    "events",
    "exchangedFor",
    "exp",
    "grantId",
    "groups",
    "iat",
    "iss",
    "jti",
    "may_act",
    "nbf",
    "nonce",
    "roles",
    "s_hash",
    "scope",
    "scp",
    "seq",
    "sessionSeq",
    "sid",
    "sub",
    "sub_jwk",
    "toe",
    "token_type",
    "txn",
    "typ",
    "username",
];
/// The beginning of the names of the platform's own claims.
const OWN: &str = "urn:platform:";
/// The most that targets may add to the claims, in bytes.
const LARGEST: usize = 4 * 1024;

/// The answers of the targets of a function.
#[derive(Default)]
pub(crate) struct TargetAnswers {
    /// The claims that they add.
    pub(crate) claims: Map<String, Value>,
    /// The metadata to set for the user.
    pub(crate) metadata: NewMetadata,
}

/// The answer of a target.
#[derive(Default, Deserialize)]
struct TargetAnswer {
    /// The metadata to set for the user.
    #[serde(default)]
    set_user_metadata: Vec<Entry>,
    #[serde(default)]
    append_claims: Vec<Claim>,
    #[serde(default)]
    append_log_claims: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Claim {
    key: String,
    value: Value,
}

/// The payload for targets, and what they have answered so far.
struct Using {
    about: Value,
    answer: Map<String, Value>,
}

/// Whether targets are called for a function.
pub(crate) fn is_executed(oidc: &Oidc, tenant: &Tenant, function: Function) -> bool {
    oidc.edge.actions.executions.function(&tenant.id, function).is_some()
}

/// A call of the targets of a function, about a user who gets tokens or claims.
#[derive(Clone, Copy)]
pub(crate) struct FunctionCall<'a> {
    pub(crate) function: Function,
    /// The scopes that request claims.
    pub(crate) scopes: Scopes<'a>,
    pub(crate) subject: &'a Subject,
    pub(crate) client_id: &'a str,
}

impl FunctionCall<'_> {
    /// Calls the targets, and returns their answers. Nothing is written.
    ///
    /// # Errors
    /// `access_denied` where a target refuses and is allowed to interrupt.
    pub(crate) async fn answers(self, oidc: &Oidc, headers: &HeaderMap) -> Result<TargetAnswers, Error> {
        let (actions, function, tenant) = (&oidc.edge.actions, self.function, &self.subject.tenant);
        let Some(chain) = actions.executions.function(&tenant.id, function) else {
            return Ok(TargetAnswers::default());
        };
        let depth =
            trigger::depth(headers).map_err(|_| Error::InvalidRequest("executions call the platform in a loop"))?;
        let cause = Cause { depth, trace_context: trigger::trace_of(headers) };
        let mut using = Using { about: self.about(oidc).await?, answer: Map::new() };
        actions.run(&chain, &cause, &mut using).await.map_err(denied)?;
        let TargetAnswer { set_user_metadata, append_claims, append_log_claims } = using.parsed()?;
        let metadata = NewMetadata::of(&tenant.id, &self.subject.user.id, cause, &set_user_metadata);
        Ok(TargetAnswers { claims: added(function, &append_claims, append_log_claims), metadata })
    }

    /// Returns the payload for the first target.
    async fn about(self, oidc: &Oidc) -> Result<Value, Error> {
        let Self { function, scopes, subject, client_id } = self;
        let Subject { tenant, user, grants, sequence, .. } = subject;
        let organization = owner::of(oidc, tenant, user).await?.map(|found| found.organization.clone());
        let (name, domain) = organization.map(|found| (found.name, found.primary_domain)).unzip();
        let grants = grants.iter().map(|granted| {
            json!({
                "project_id": granted.project_id,
                "organization_id": granted.organization_id,
                "roles": granted.roles.iter().map(|role| &role.key).collect::<Vec<_>>(),
            })
        });
        let mut userinfo = claims::of(user, scopes.iter().map(|(_, scope)| scope));
        userinfo.insert("sub".to_owned(), json!(user.id));
        let metadata = metadata::of(oidc, tenant, user, *sequence).await?;
        let user_metadata =
            metadata.entries.iter().map(|(key, value)| json!({ "key": key, "value": STANDARD.encode(value) }));
        Ok(json!({
            "function": format!("function/{}", function.name()),
            "userinfo": userinfo,
            "user": { "id": user.id, "username": user.user.username },
            "user_metadata": user_metadata.collect::<Vec<_>>(),
            "user_metadata_is_all": metadata.is_all,
            "org": { "id": user.owner.id, "name": name, "primary_domain": domain.flatten() },
            "user_grants": grants.collect::<Vec<_>>(),
            "application": { "client_id": client_id },
        }))
    }
}

/// Makes the error for the client, with nothing but the message that the target has chosen.
fn denied(interrupted: Interrupted) -> Error {
    Error::AccessDenied(match interrupted.failure {
        CallFailure::Refused { message, .. } => message.chars().map(describing).collect(),
        _ => "execution failed".to_owned(),
    })
}

/// Replaces a character that an `error_description` may not contain (RFC 6749, section 5.2).
fn describing(char: char) -> char {
    match char {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => char,
        _ => '?',
    }
}

impl Using {
    fn parsed(&self) -> Result<TargetAnswer, Error> {
        serde_json::from_value(Value::Object(self.answer.clone())).map_err(|_| Error::Server)
    }
}

impl Content for Using {
    fn payload(&self) -> Bytes {
        let mut payload = self.about.clone();
        if !self.answer.is_empty() {
            payload["response"] = Value::Object(self.answer.clone());
        }
        payload.to_string().into()
    }

    /// Each answer replaces the members that it names.
    fn merge(&mut self, answer: Map<String, Value>) -> Result<(), CallFailure> {
        let mut merged = self.answer.clone();
        merged.extend(answer);
        // Metadata has limits of its own.
        let of_claims: BTreeMap<_, _> = merged.iter().filter(|(name, _)| *name != SET).collect();
        if json!(of_claims).to_string().len() > LARGEST {
            return Err(CallFailure::TooLarge);
        }
        let value = Value::Object(merged);
        let answer = TargetAnswer::deserialize(&value).map_err(|error| malformed(&value, &error))?;
        new_metadata::fault(&answer.set_user_metadata).map_or(Ok(()), |rule| Err(CallFailure::Malformed(rule)))?;
        if let Value::Object(merged) = value {
            self.answer = merged;
        }
        Ok(())
    }
}

/// Describes why an answer cannot be parsed. The parser's message repeats values, which may be personal in metadata.
fn malformed(answer: &Value, error: &serde_json::Error) -> CallFailure {
    let is_personal = answer.get(SET).is_some_and(|entries| Vec::<Entry>::deserialize(entries).is_err());
    let of_metadata = || format!("{SET} must be a list of entries, each with a key and a value that are text");
    CallFailure::Malformed(if is_personal { of_metadata() } else { error.to_string() })
}

/// Returns the claims of an answer. No claim replaces an existing one; an attempt is noted in the log claim, before the
/// given lines.
fn added(function: Function, append: &[Claim], log: Vec<String>) -> Map<String, Value> {
    let (mut claims, mut lines) = (Map::new(), vec![]);
    for Claim { key, value } in append {
        if key.is_empty() || key.starts_with(OWN) {
            continue;
        }
        if RESERVED.contains(&key.as_str()) || claims.contains_key(key) {
            lines.push(format!("claim {key} exists already"));
        } else {
            claims.insert(key.clone(), value.clone());
        }
    }
    lines.extend(log);
    if !lines.is_empty() {
        claims.insert(format!("urn:platform:iam:action:{}:log", function.name()), json!(lines));
    }
    claims
}

#[cfg(test)]
mod tests {
    use edge::caller::{AccessToken, Actor};

    use super::*;
    use crate::issue::IdToken;

    /// Security case S16 of the design.
    #[test]
    fn no_claim_of_the_platform_is_replaced() {
        let listed = "iss sub aud exp iat nbf jti azp amr acr act cnf client_id scope sid";
        assert!(listed.split(' ').all(|name| RESERVED.contains(&name)));
        let claim = |key: &str| Claim { key: key.to_owned(), value: json!(1) };
        let keys = ["tier", "sub", "urn:platform:iam:x", "", "tier", "seq"];
        let log = json!(["claim sub exists already", "claim tier exists already", "claim seq exists already", "hello"]);
        let expected = json!({ "tier": 1, "urn:platform:iam:action:preaccesstoken:log": log });
        assert_eq!(
            Value::Object(added(Function::PreAccessToken, &keys.map(claim), vec!["hello".to_owned()])),
            expected
        );
    }

    #[test]
    fn every_claim_of_a_token_is_reserved() {
        let actor = || Some(Actor { iss: String::new(), sub: String::new(), act: None });
        let token = AccessToken {
            iss: String::new(),
            sub: String::new(),
            aud: vec![],
            exp: 0,
            iat: 0,
            nbf: 0,
            jti: String::new(),
            client_id: String::new(),
            scope: String::new(),
            seq: 0,
            session_seq: 1,
            sid: None,
            grant_id: None,
            auth_time: Some(0),
            amr: vec![String::new()],
            act: actor(),
            exchanged_for: vec![],
            added: Map::new(),
        };
        let token = AccessToken { exchanged_for: token.bases(Some(String::new()), true), ..token };
        for token in [serde_json::to_value(token), serde_json::to_value(IdToken::default())] {
            let Ok(Value::Object(claims)) = token else { panic!("it is an object") };
            for name in claims.keys() {
                assert!(RESERVED.contains(&name.as_str()), "{name}");
            }
        }
    }

    fn answer(value: Value) -> Map<String, Value> {
        let Value::Object(members) = value else { panic!("{value} is no object") };
        members
    }

    fn using() -> Using {
        Using { about: json!({ "function": "function/preuserinfo" }), answer: Map::new() }
    }

    #[test]
    fn each_answer_replaces_the_members_that_it_names_and_the_next_target_sees_it() {
        let mut using = using();
        let payload = |using: &Using| serde_json::from_slice::<Value>(&using.payload()).unwrap();
        assert_eq!(payload(&using), json!({ "function": "function/preuserinfo" }), "nobody has answered yet");
        let claim = |value: u8| json!([{ "key": "tier", "value": value }]);
        using.merge(answer(json!({ "append_claims": claim(1), "append_log_claims": ["a"] }))).unwrap();
        using.merge(answer(json!({ "append_claims": claim(2) }))).unwrap();
        let both = json!({ "append_claims": claim(2), "append_log_claims": ["a"] });
        assert_eq!(payload(&using), json!({ "function": "function/preuserinfo", "response": both }));
        let said = using.parsed().unwrap();
        assert_eq!((said.append_claims[0].key.as_str(), &said.append_claims[0].value), ("tier", &json!(2)));
        assert_eq!(said.append_log_claims, ["a"]);
    }

    #[test]
    fn an_answer_that_does_not_fit_changes_nothing() {
        let mut using = using();
        let malformed = using.merge(answer(json!({ "append_claims": "tier" })));
        assert!(matches!(malformed, Err(CallFailure::Malformed(_))));
        // 4 KiB in all, including the name of the member.
        let line = |length: usize| json!({ "append_log_claims": ["x".repeat(length)] });
        let room = 4096 - line(0).to_string().len();
        assert!(matches!(using.merge(answer(line(room + 1))), Err(CallFailure::TooLarge)));
        assert_eq!(using.answer, Map::new());
        using.merge(answer(line(room))).unwrap();
        assert_eq!(using.answer, answer(line(room)));
    }

    #[test]
    fn a_client_is_told_what_the_target_chose_to_say_in_characters_that_an_error_may_have() {
        let said = |failure| denied(Interrupted { failure });
        let refused = CallFailure::Refused { status: Some(403), message: "a \"b\" \\c~\n\u{e9}".to_owned() };
        assert_eq!(said(refused), Error::AccessDenied("a 'b' /c~??".to_owned()));
        assert_eq!(said(CallFailure::Timeout), Error::AccessDenied("execution failed".to_owned()));
    }
}
