//! States that travel between versions: a build retains the members that it does not know, at every depth.
//!
//! A member that is renamed is brought to its new name by [`upcast`](crate::aggregate::Aggregate::upcast), not by an
//! alias: under its old name it would be retained as well.

use std::{collections::HashMap, fmt, ops::Deref, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Value, value::RawValue};

use crate::secret;

/// A state with the members that this build does not know. A newer build wrote them; they are written back as they
/// were, so that a change by an older node loses nothing, except where the change removes or replaces what they are
/// part of.
#[derive(Clone, Default)]
pub struct WithUnknown<T> {
    known: T,
    /// The whole state, if there is more in it than is known.
    written: Option<Arc<RawValue>>,
}

/// The members that identify an object within a state, or an item of a list. If one of them changes, the object is
/// another one, and gets none of the unknown members of the earlier one: what a newer build says of a password is not
/// true of the next one.
const IDENTIFYING: [&str; 3] = ["digest", "id", "value"];

impl<T> WithUnknown<T> {
    /// Returns the members that this build knows.
    pub fn into_known(self) -> T {
        self.known
    }
}

impl<T: Serialize> WithUnknown<T> {
    fn new(known: T, written: &Value) -> Result<Self, serde_json::Error> {
        let is_more = !beyond(written, &serde_json::to_value(&known)?, "").is_empty();
        let written = if is_more { Some(serde_json::value::to_raw_value(written)?.into()) } else { None };
        Ok(Self { known, written })
    }

    /// Changes the known members, and retains the others.
    pub fn map(self, change: impl FnOnce(T) -> T) -> Self {
        let Some(written) = self.written else { return change(self.known).into() };
        let of = |known: &T| serde_json::to_value(known).expect("states are plain data");
        let before = of(&self.known);
        let known = change(self.known);
        let written = serde_json::from_str(written.get()).expect("it has been read");
        let written = with_members(written, &before, of(&known));
        Self::new(known, &written).expect("states are plain data")
    }

    /// Names the members that this build does not know, by their paths, for example `config.tags[0].colour`.
    pub fn unknown(&self) -> Vec<String> {
        let Some(written) = &self.written else { return vec![] };
        let written = serde_json::from_str(written.get()).unwrap_or_default();
        beyond(&written, &serde_json::to_value(&self.known).unwrap_or_default(), "")
    }
}

/// Returns the paths of the members that a value has beyond another one.
fn beyond(written: &Value, known: &Value, path: &str) -> Vec<String> {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            let dot = if path.is_empty() { "" } else { "." };
            let of_member = |(name, value): (&String, &Value)| {
                let path = format!("{path}{dot}{name}");
                known.get(name).map_or_else(|| vec![path.clone()], |known| beyond(value, known, &path))
            };
            written.iter().flat_map(of_member).collect()
        }
        (Value::Array(written), Value::Array(known)) => {
            let pairs = written.iter().zip(known).enumerate();
            pairs.flat_map(|(place, (value, known))| beyond(value, known, &format!("{path}[{place}]"))).collect()
        }
        _ => vec![],
    }
}

/// Returns a value as it is now, with the members that were written and not known before, wherever what they are part
/// of is still there.
fn with_members(written: Value, before: &Value, now: Value) -> Value {
    match (written, before, now) {
        (Value::Object(mut written), Value::Object(before), Value::Object(now)) => {
            let mut members = serde_json::Map::new();
            for (name, now) in now {
                let now = match (written.remove(&name), before.get(&name)) {
                    (Some(written), Some(before)) if is_same(before, &now) => with_members(written, before, now),
                    _ => now,
                };
                members.insert(name, now);
            }
            written.retain(|name, _| !before.contains_key(name));
            members.extend(written);
            members.into()
        }
        (Value::Array(written), Value::Array(before), Value::Array(now)) if written.len() == before.len() => {
            let mut earlier = Items::new(written, before);
            now.into_iter().map(|now| earlier.complete(now)).collect()
        }
        (_, _, now) => now,
    }
}

/// The items of a list before a change.
struct Items<'a> {
    /// Each as it was written and as it was known, until it is found among those after the change.
    items: Vec<Option<(Value, &'a Value)>>,
    by_content: HashMap<&'a Value, Vec<usize>>,
    by_identity: HashMap<[Option<&'a Value>; MEMBERS], Vec<usize>>,
}

impl<'a> Items<'a> {
    fn new(written: Vec<Value>, before: &'a [Value]) -> Self {
        let (mut by_content, mut by_identity): (HashMap<_, Vec<usize>>, HashMap<_, Vec<usize>>) = Default::default();
        for (place, item) in before.iter().enumerate() {
            by_content.entry(item).or_default().push(place);
            if let Some(identity) = identity(item) {
                by_identity.entry(identity).or_default().push(place);
            }
        }
        Self { items: written.into_iter().zip(before).map(Some).collect(), by_content, by_identity }
    }

    /// Adds the members that are not known to an item that was there before, perhaps with other content.
    fn complete(&mut self, now: Value) -> Value {
        let places = self.by_content.get(&now);
        // Whichever of several items with one identity it was, it gets nothing of another.
        let places = places.or_else(|| self.by_identity.get(&identity(&now)?).filter(|places| places.len() == 1));
        let found = places.into_iter().flatten().find_map(|place| self.items[*place].take());
        match found {
            Some((written, before)) => with_members(written, before, now),
            None => now,
        }
    }
}

/// How many members may identify an object.
const MEMBERS: usize = IDENTIFYING.len() + secret::MEMBERS.len();

/// Returns what identifies an object: a text of its own, a secret, or its ciphertext.
fn identity(value: &Value) -> Option<[Option<&Value>; MEMBERS]> {
    let mut names = IDENTIFYING.iter().chain(&secret::MEMBERS);
    let members = [(); MEMBERS].map(|()| names.next().and_then(|name| value.get(name)));
    members.iter().any(Option::is_some).then_some(members)
}

fn is_same(before: &Value, now: &Value) -> bool {
    identity(before) == identity(now)
}

impl<T: PartialEq> PartialEq for WithUnknown<T> {
    fn eq(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|state| state.written.as_deref().map(RawValue::get));
        self.known == other.known && own == others
    }
}

/// Prints no unknown member: nobody knows which of them are secret.
impl<T: fmt::Debug> fmt::Debug for WithUnknown<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = formatter.debug_struct("WithUnknown");
        printed.field("known", &self.known).field("has_unknown", &self.written.is_some()).finish()
    }
}

impl<T: Serialize> Serialize for WithUnknown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.written {
            Some(written) => written.serialize(serializer),
            None => self.known.serialize(serializer),
        }
    }
}

/// It is read from JSON alone, and in an event only after the type, as events are written.
impl<'de, T: Serialize + DeserializeOwned> Deserialize<'de> for WithUnknown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Box::<RawValue>::deserialize(deserializer)?;
        let known: T = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
        // Most states were written by a build that knows as much, and then nothing needs to be compared in detail.
        if serde_json::to_string(&known).map_err(D::Error::custom)? == written.get() {
            return Ok(known.into());
        }
        // Members that are missing are written with their defaults, as in a state without unknown ones.
        let written = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
        let complete = serde_json::to_value(&known).map(|now| with_members(written, &now.clone(), now));
        complete.and_then(|complete| Self::new(known, &complete)).map_err(D::Error::custom)
    }
}

impl<T> From<T> for WithUnknown<T> {
    fn from(known: T) -> Self {
        Self { known, written: None }
    }
}

impl<T> Deref for WithUnknown<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.known
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct State {
        name: String,
        #[serde(default)]
        is_on: bool,
        part: Option<Part>,
        secret: Option<Secret>,
        items: Vec<Item>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Part {
        size: u32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Secret {
        sealed: String,
        changed_at: u32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Item {
        id: String,
        is_on: bool,
    }

    fn item(id: &str) -> Item {
        Item { id: id.to_owned(), is_on: true }
    }

    fn own() -> State {
        let secret = Some(Secret { sealed: "s".to_owned(), changed_at: 1 });
        let items = vec![item("a"), item("b")];
        State { name: "n".to_owned(), is_on: false, part: Some(Part { size: 7 }), secret, items }
    }

    /// Returns the state with a member at every depth that this build does not know.
    fn written() -> Value {
        let mut written = serde_json::to_value(own()).unwrap();
        for (place, path) in ["", "/part", "/secret", "/items/0", "/items/1"].into_iter().enumerate() {
            written.pointer_mut(path).unwrap()["new"] = json!({ "place": place, "none": null });
        }
        written
    }

    fn read(written: &Value) -> WithUnknown<State> {
        serde_json::from_value(written.clone()).unwrap()
    }

    /// Checks what is written after a change, which is read as it was written.
    #[track_caller]
    fn assert_written(change: impl FnOnce(&mut State), differences: impl FnOnce(&mut Value)) {
        let changed = read(&written()).map(|mut state| {
            change(&mut state);
            state
        });
        let mut expected = written();
        differences(&mut expected);
        assert_eq!(serde_json::to_value(&changed).unwrap(), expected);
        assert_eq!(read(&expected), changed);
    }

    #[test]
    fn unknown_members_are_named_by_their_paths_and_not_printed() {
        let newer = read(&written());
        assert_eq!(newer.unknown(), ["items[0].new", "items[1].new", "new", "part.new", "secret.new"]);
        assert!(!format!("{newer:?}").contains("place"));
        let text = serde_json::to_string(&own()).unwrap();
        let same: WithUnknown<State> = serde_json::from_str(&text).unwrap();
        assert_eq!(same, own().into());
        assert!(same.unknown().is_empty() && newer != own().into());
    }

    #[test]
    fn a_change_retains_them_at_every_depth() {
        assert_written(|_| {}, |_| {});
        let change = |state: &mut State| {
            state.name = "m".to_owned();
            state.part.as_mut().unwrap().size = 8;
            state.secret.as_mut().unwrap().changed_at = 2;
            state.items[1].is_on = false;
        };
        assert_written(change, |written| {
            written["name"] = "m".into();
            written["part"]["size"] = 8.into();
            written["secret"]["changed_at"] = 2.into();
            written["items"][1]["is_on"] = false.into();
        });
    }

    #[test]
    fn what_replaces_an_object_gets_nothing_of_it() {
        let change = |state: &mut State| state.secret = Some(Secret { sealed: "t".to_owned(), changed_at: 1 });
        assert_written(change, |written| written["secret"] = json!({ "sealed": "t", "changed_at": 1 }));
        let change = |state: &mut State| state.items[0] = item("c");
        assert_written(change, |written| written["items"][0] = json!({ "id": "c", "is_on": true }));
    }

    #[test]
    fn items_are_found_wherever_they_are_moved() {
        let change = |state: &mut State| state.items = vec![item("b"), item("c"), item("a"), item("a")];
        assert_written(change, |written| {
            let [a, b] = [0, 1].map(|place| written["items"][place].clone());
            let new = |id| json!({ "id": id, "is_on": true });
            written["items"] = json!([b, new("c"), a, new("a")]);
        });
    }

    #[test]
    fn which_of_two_items_with_one_identity_was_changed_is_not_guessed() {
        let mut twice = written();
        twice["items"][1]["id"] = "a".into();
        twice["items"][1]["is_on"] = false.into();
        let without_first = read(&twice).map(|state| State { items: state.items[1..].to_vec(), ..state });
        let left = serde_json::to_value(&without_first).unwrap();
        assert_eq!(left["items"], json!([twice["items"][1]]));
        let both_on = read(&twice).map(|state| State { items: vec![item("a"), item("a")], ..state });
        let both_on = serde_json::to_value(&both_on).unwrap();
        assert_eq!(both_on["items"], json!([twice["items"][0], { "id": "a", "is_on": true }]));
    }

    #[test]
    fn they_go_with_what_they_are_part_of_and_do_not_come_back_with_it() {
        let gone = read(&written()).map(|state| State { part: None, secret: None, items: vec![], ..state });
        assert_eq!(gone.unknown(), ["new"]);
        let again = gone.map(|_| own());
        assert_eq!(again.unknown(), ["new"]);
        assert_eq!(again.into_known(), own());
    }

    #[test]
    fn known_members_that_are_missing_are_written_with_their_defaults() {
        let mut without = written();
        without.as_object_mut().unwrap().remove("is_on");
        assert_eq!(serde_json::to_value(read(&without)).unwrap(), written());
    }
}
