//! Reads return what was sent: every write that creates or changes an object is read back, each field with a value, and
//! what was removed or switched is read once more.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use proto::operation::{Facts, OPERATIONS};
use serde_json::Value;
use tests::client::Answer;

use super::outcome::Outcome;

/// The fields that no get of the object returns under their names: requests for an action, checks, what is created in
/// addition, fields for operators only, secrets, a policy where nothing is inherited, the holder, and a key, which is
/// read in one form only.
const NOT_SHOWN: [&str; 27] = [
    "appId",
    "domain.isVerified",
    "idp.config.bindPassword",
    "idp.config.clientSecret",
    "idp.config.privateKey",
    "idp.idp.statePolicy",
    "instance.domain",
    "instance.organizationName",
    "instance.person.email",
    "instance.person.familyName",
    "instance.person.givenName",
    "instance.person.username",
    "instance.serviceUsername",
    "key.ecdsa.curve",
    "key.keyType",
    "key.publicKey",
    "key.rsa.bits",
    "key.rsa.hasher",
    "session.checks.password.password",
    "session.checks.user.loginName",
    "session.checks.user.userId",
    "session.lifetime",
    "session.sessionToken",
    "target.expirationSigningKey",
    "user.human.password.hash",
    "user.human.password.password",
    "userId",
];

/// The fields that a get returns in another place than they were sent in: what is sent, and what is read.
const ELSEWHERE: [(&str, &str); 2] = [
    ("user.human.password.changeRequired", "password.changeRequired"),
    ("user.human.password.expirationDate", "password.expirationDate"),
];

/// Returns the path, without id, of the object that an operation creates or changes, where it can be read by a get.
pub(super) fn collection(facts: &Facts) -> Option<&'static str> {
    let writes = ["Create", "Patch", "Put"].iter().any(|verb| facts.method.starts_with(verb));
    let path = facts.path.trim_end_matches("/{id}");
    let gets = |other: &&&Facts| other.method.starts_with("Get") && other.path.trim_end_matches("/{id}") == path;
    OPERATIONS.iter().filter(|_| writes).find(gets).map(|get| get.path.trim_end_matches("/{id}"))
}

/// What a get returns after an operation that removes or switches an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aftermath {
    /// The object is not found.
    Gone,
    /// The name of the state of the object ends with this.
    State(&'static str),
}

/// The verbs of operations that remove or switch an object.
const VERBS: [(&str, Aftermath); 5] = [
    ("Delete", Aftermath::Gone),
    ("Deactivate", Aftermath::State("_STATE_INACTIVE")),
    ("Reactivate", Aftermath::State("_STATE_ACTIVE")),
    ("Lock", Aftermath::State("_STATE_LOCKED")),
    ("Unlock", Aftermath::State("_STATE_ACTIVE")),
];

/// The operations on objects that only gets of their type return, or none.
const WITHOUT_GET: [&str; 4] = ["DeactivateIDP", "DeleteExecution", "DeleteIDP", "ReactivateIDP"];

/// Returns the path of the object that an operation removes or switches, and what a get of it returns afterwards.
pub(super) fn aftermath(facts: &Facts) -> Option<(&'static str, Aftermath)> {
    let (verb, aftermath) = VERBS.iter().find(|(verb, _)| facts.method.starts_with(verb))?;
    let object = facts.method.strip_prefix(verb)?;
    let get = OPERATIONS.iter().find(|other| other.method.strip_prefix("Get") == Some(object));
    assert_eq!(
        get.is_none(),
        WITHOUT_GET.contains(&facts.method),
        "{} is read back, or it is said why not",
        facts.method
    );
    Some((get?.path, *aftermath))
}

impl Aftermath {
    /// Whether the answer of a get is as it has to be.
    pub(super) fn is_of(self, read: &Answer) -> bool {
        match self {
            Self::Gone => read.status == 404,
            Self::State(wanted) => {
                // A user has a state of its own, beside the one that its organization has a part in.
                let (own, effective) = (members(&read.body, "userState"), members(&read.body, "state"));
                let states = if own.is_empty() { effective } else { own };
                let is_so = |state: &Value| state.as_str().is_some_and(|state| state.ends_with(wanted));
                read.status == 200 && !states.is_empty() && states.into_iter().all(is_so)
            }
        }
    }
}

/// Returns the fields that an operation accepts and a get returns, by their paths.
pub(super) fn fields(facts: &Facts) -> BTreeSet<String> {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("it was built from good files");
    let service = pool.get_service_by_name(facts.service).expect("it is described");
    let method = service.methods().find(|method| method.name() == facts.method).expect("it is described");
    let mut found = BTreeSet::new();
    add(&mut found, "", &method.input());
    found.retain(|path| is_shown(path));
    found
}

fn add(found: &mut BTreeSet<String>, above: &str, message: &MessageDescriptor) {
    for field in message.fields() {
        let path = within(above, field.json_name());
        match field.kind() {
            Kind::Message(inner) if !field.is_map() && !inner.full_name().starts_with("google.") => {
                add(found, &format!("{path}."), &inner);
            }
            _ => drop(found.insert(path)),
        }
    }
}

/// Returns the path of a field. The list in a patch has the path of the list itself.
fn within(above: &str, name: &str) -> String {
    if name == "values" { above.trim_end_matches('.').to_owned() } else { format!("{above}{name}") }
}

/// Whether a field belongs to the object, and not to the request or to [`NOT_SHOWN`].
fn is_shown(path: &str) -> bool {
    path != "id" && !path.starts_with("ctx.") && !NOT_SHOWN.contains(&path)
}

/// Returns the fields of a message that a get must return, by their paths, with the values that were sent.
pub(super) fn sent(message: &Value) -> BTreeMap<String, Value> {
    fn walk(found: &mut BTreeMap<String, Value>, above: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = within(above, name);
            match value {
                Value::Object(_) => walk(found, &format!("{path}."), value),
                value => drop(found.insert(path, value.clone())),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&mut found, "", message);
    found.retain(|path, _| is_shown(path));
    found
}

/// Whether a field was sent, or a part of it, where it is a JSON object of its own.
pub(super) fn has(sent: &BTreeMap<String, Value>, field: &str) -> bool {
    sent.keys().any(|path| path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Fails unless an object that was read has all values that were sent, each in a member with the same path, wherever in
/// the answer the path begins.
pub(super) fn assert_shown(what: &str, sent: &BTreeMap<String, Value>, read: &Value) {
    for (path, value) in sent {
        let elsewhere = ELSEWHERE.iter().find(|(sent, _)| sent == path).map(|(_, read)| *read);
        // The first part of the path names the object, around which an answer has its details.
        let place = elsewhere.unwrap_or_else(|| path.split_once('.').map_or(path, |(_, place)| place));
        let found = at(read, place);
        // Lists here are sets, and what is empty is left out.
        let is_empty = matches!(value, Value::Bool(false)) || value.as_str().is_some_and(str::is_empty);
        let is_there = found.iter().any(|found| sorted(found) == sorted(value)) || is_empty && found.is_empty();
        assert!(is_there, "{what}: {path} was sent as {value}, and read is {read}");
    }
}

/// The fields of requests with the secrets of providers.
const SECRETS: [&str; 3] = ["bindPassword", "clientSecret", "privateKey"];

/// Fails where the outcome of a request repeats a secret of it.
pub(super) fn assert_secret(facts: &Facts, sent: &Value, outcome: &Outcome) {
    let told = format!("{outcome:?}");
    for secret in SECRETS.iter().filter_map(|name| sent["idp"]["config"][name].as_str()) {
        // A key has lines, which are told apart where it is quoted.
        let is_told = secret.lines().any(|line| !line.starts_with("-----") && told.contains(line));
        assert!(!is_told, "{} answers with a secret: {told}", facts.method);
    }
}

/// Returns the values at a path, wherever in the answer the path begins.
fn at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let found = members(value, first).into_iter();
    match rest {
        Some(rest) => found.filter_map(|found| value_at(found, rest)).collect(),
        None => found.filter(|value| !value.is_object()).collect(),
    }
}

/// Returns the value at a path that begins at a value.
fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let value = path.split('.').try_fold(value, |value, name| value.get(name))?;
    Some(value.get("values").unwrap_or(value))
}

/// Returns the values of all members with this name, at any depth.
fn members<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = value.as_object().into_iter().flatten();
    all.flat_map(|(own, value)| {
        let inner = members(value, name);
        // A list in a map has a message of its own.
        let own = (own == name).then(|| value.get("values").unwrap_or(value));
        inner.into_iter().chain(own)
    })
    .collect()
}

fn sorted(value: &Value) -> Vec<String> {
    let mut all: Vec<_> =
        value.as_array().map_or(vec![value.to_string()], |all| all.iter().map(Value::to_string).collect());
    all.sort_unstable();
    all
}
