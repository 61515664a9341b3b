//! Personal data of people. It is ciphertext wherever events are, and clear text only where it is read.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The id of the only schema.
pub const SCHEMA: &str = "human";
/// The member of a person's state that holds the personal data.
pub const MEMBER: &str = "personal";

/// The personal data of a person.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The name that the person logs in with.
    pub username: String,
    /// The data, as the schema defines it.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// The e-mail address of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Contact>,
    /// The phone number of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone: Option<Contact>,
}

/// An e-mail address or a phone number.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The address or number.
    pub value: String,
    /// Whether it is known to belong to the person.
    #[serde(default)]
    pub is_verified: bool,
}

/// The personal data of a person, as it appears in a state.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Personal {
    /// The form in events, and in the state that the writer decides on: the block that has the person's key, and the
    /// ciphertext.
    Sealed(String),
    /// The form in what is read.
    Opened(Box<Person>),
}

impl Personal {
    /// Returns the clear text, if it is opened.
    pub fn opened(&self) -> Option<&Person> {
        match self {
            Self::Opened(person) => Some(person),
            Self::Sealed(_) => None,
        }
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Person").finish_non_exhaustive()
    }
}

impl fmt::Debug for Personal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Personal").finish_non_exhaustive()
    }
}

impl Person {
    /// Returns a member of the data that is text, or else an empty text.
    pub fn text(&self, name: &str) -> &str {
        self.data.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the texts that others may know about the person: user name, addresses and the texts of the data.
    pub fn texts(&self) -> Vec<&str> {
        fn texts_in(value: &Value) -> Vec<&str> {
            match value {
                Value::String(text) => vec![text],
                Value::Object(members) => members.values().flat_map(texts_in).collect(),
                _ => vec![],
            }
        }
        let email =
            self.email.iter().flat_map(|it| [it.value.as_str(), it.value.split('@').next().unwrap_or_default()]);
        let phone = self.phone.iter().map(|it| it.value.as_str());
        let data = self.data.values().flat_map(texts_in);
        [self.username.as_str()].into_iter().chain(email).chain(phone).chain(data).collect()
    }

    /// Returns the display name.
    pub fn name(&self) -> String {
        match self.text("name") {
            "" => format!("{} {}", self.text("given_name"), self.text("family_name")),
            name => name.to_owned(),
        }
    }
}

/// Returns the state of an aggregate in the payload of an event.
pub(crate) fn state(payload: &mut Value) -> &mut Value {
    if is_change(payload) { &mut payload["to"] } else { payload }
}

/// Whether this is the payload of a change, which has the state as `to`, and the names of the fields beside it.
fn is_change(payload: &Value) -> bool {
    payload.get("to").is_some_and(Value::is_object)
}

/// Returns the paths of members of the state in the payload of an event.
pub(crate) fn paths<const N: usize>(payload: &Value, members: [&str; N]) -> [String; N] {
    let above = if is_change(payload) { "to." } else { "" };
    members.map(|member| format!("{above}{member}"))
}

/// Returns the sealed data in the payload of an event, if there is any.
pub fn sealed_in(payload: &mut Value) -> Option<&mut Value> {
    let found = state(payload).get_mut("human")?.get_mut(MEMBER)?;
    found.is_string().then_some(found)
}

/// Replaces the sealed data by what was opened, or removes it if the key was destroyed.
pub fn put_opened(payload: &mut Value, opened: Option<Person>) {
    let state = state(payload);
    if let Some(person) = &opened {
        state["username"] = person.username.clone().into();
    }
    let Some(human) = state.get_mut("human").and_then(Value::as_object_mut) else { return };
    match opened.and_then(|person| serde_json::to_value(person).ok()) {
        Some(person) => human.insert(MEMBER.to_owned(), person),
        None => human.remove(MEMBER),
    };
}

/// Returns the paths at which [`put_opened`] puts it: the user name has a path of its own.
pub fn opened_at(payload: &Value) -> [String; 2] {
    paths(payload, ["username", "human.personal"])
}

/// Removes the sealed data, which is useless to a reader who cannot open it.
pub fn without_sealed(payload: &mut Value) {
    if sealed_in(payload).is_some() {
        put_opened(payload, None);
    }
}

/// The kinds of properties of the schema.
#[derive(Clone, Copy)]
enum Kind {
    /// Text of at most this many characters, in one line.
    Line(usize),
    /// Text of at most this many characters, in several lines.
    Lines(usize),
    /// A link to a page in the web.
    Url,
    /// A day, or a year.
    Date,
    /// Text of at most this many letters, digits and these other characters.
    Name(usize, &'static str),
    /// An object with properties of its own.
    Object(&'static [(&'static str, Kind)]),
}

/// The properties of the schema `human`: the standard claims that have no field of their own.
const PROPERTIES: [(&str, Kind); 13] = [
    ("given_name", Kind::Line(200)),
    ("family_name", Kind::Line(200)),
    ("name", Kind::Line(200)),
    ("middle_name", Kind::Line(200)),
    ("nickname", Kind::Line(200)),
    ("profile", Kind::Url),
    ("picture", Kind::Url),
    ("website", Kind::Url),
    ("gender", Kind::Line(200)),
    ("birthdate", Kind::Date),
    ("zoneinfo", Kind::Name(64, "_/+-")),
    ("locale", Kind::Name(35, "-")),
    ("address", Kind::Object(&ADDRESS)),
];
const ADDRESS: [(&str, Kind); 6] = [
    ("formatted", Kind::Lines(1000)),
    ("street_address", Kind::Lines(200)),
    ("locality", Kind::Line(200)),
    ("region", Kind::Line(200)),
    ("postal_code", Kind::Line(200)),
    ("country", Kind::Line(200)),
];
const REQUIRED: [&str; 2] = ["given_name", "family_name"];
/// The longest URL, in characters.
const LONGEST_URL: usize = 2000;

/// Returns the properties of data that break the schema, by their path, and its rules. No values are quoted.
pub fn violations(data: &Map<String, Value>) -> Vec<(String, &'static str)> {
    let mut found = vec![];
    for name in REQUIRED.iter().filter(|name| !data.contains_key(**name)) {
        found.push(((*name).to_owned(), "is required"));
    }
    check("", data, &PROPERTIES, &mut found);
    found
}

fn check(
    within: &str,
    data: &Map<String, Value>,
    properties: &[(&str, Kind)],
    found: &mut Vec<(String, &'static str)>,
) {
    for (name, value) in data {
        let path = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        match properties.iter().find(|(known, _)| known == name).map(|(_, kind)| (kind, value)) {
            None => found.push((path, "is not a property of the schema")),
            Some((Kind::Object(properties), Value::Object(members))) => check(&path, members, properties, found),
            Some((Kind::Object(_), _)) => found.push((path, "must be an object")),
            Some((kind, Value::String(text))) => found.extend(kind.fault(text).map(|rule| (path, rule))),
            Some(_) => found.push((path, "must be a string")),
        }
    }
}

impl Kind {
    /// Returns the rule that a text breaks.
    fn fault(self, text: &str) -> Option<&'static str> {
        let length = text.chars().count();
        let is_long = |most: usize| length == 0 || length > most;
        match self {
            Self::Line(most) if is_long(most) => Some("must be 1 to 200 characters long"),
            Self::Line(_) => text.chars().any(char::is_control).then_some("must not have control characters"),
            Self::Lines(200) if is_long(200) => Some("must be 1 to 200 characters long"),
            Self::Lines(most) if is_long(most) => Some("must be 1 to 1000 characters long"),
            Self::Lines(_) => {
                let is_wrong = |character: char| character.is_control() && !"\r\n".contains(character);
                text.chars().any(is_wrong).then_some("must not have control characters except line breaks")
            }
            Self::Url => (is_long(LONGEST_URL) || !is_url(text)).then_some("must be an http or https URL"),
            Self::Date => (!is_date(text)).then_some("must be a date as YYYY-MM-DD, or a year as YYYY"),
            Self::Name(most, others) => {
                let is_right = |character: char| character.is_ascii_alphanumeric() || others.contains(character);
                (is_long(most) || !text.chars().all(is_right))
                    .then_some("must be a short name, such as en-GB or Europe/Paris")
            }
            Self::Object(_) => Some("must be an object"),
        }
    }
}

/// Whether the text is a link to a page, and to nothing that runs where it is shown.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain =
        |character: char| !character.is_control() && !character.is_whitespace() && !"\"<>\\".contains(character);
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']) && rest.chars().all(is_plain))
}

/// Whether the text is a year, or a day in one, which may be 0000 if the year is not given.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, length: usize| {
        let is_right = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_right { part.parse::<u32>().ok() } else { None }
    };
    match parts.as_slice() {
        [year] => number(year, 4).is_some(),
        [year, month, day] => {
            let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
                return false;
            };
            // The year 0000 is a leap year, so that nobody whose year is unknown is without a birthday.
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let most = match month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (1..=12).contains(&month) && (1..=most).contains(&day)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
