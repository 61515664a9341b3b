//! Metadata of users: entries in which apps store what the platform does not know about a user.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::user::User;
use crate::{
    column::Column,
    person::{paths, state},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    rejection::Rejection,
    secret::Sealed,
    standard::{Resource, Unpatchable},
};

/// The longest value, in bytes.
const LONGEST_VALUE: usize = 16 * 1024;

/// Returns the rule that a value breaks. Postgres does not permit U+0000 in texts.
pub fn value_fault(value: &str) -> Option<&'static str> {
    if value.len() > LONGEST_VALUE {
        return Some("must have at most 16,384 bytes");
    }
    value.contains('\0').then_some("must not have the character U+0000")
}

/// A metadata entry of a user. Its key is its id below the user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMetadata {
    /// The user.
    pub user_id: String,
    /// The key.
    pub key: String,
    /// The value. A person's is here only in what is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value encrypted under the key of the person, in events and in the state that the writer decides on.
    #[serde(flatten)]
    pub sealed: Option<Sealed>,
}

impl fmt::Debug for UserMetadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UserMetadata").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The link from an entry to its user.
pub const USER: Link = Link { name: "user_metadata", to: User::NAME };

/// The columns of the read model.
pub mod column {
    use super::UserMetadata;
    use crate::column::Column;

    /// The user.
    pub const USER_ID: Column<UserMetadata> =
        Column::text("user_id", |entry: &UserMetadata| entry.user_id.clone()).filterable();
    /// The key.
    pub const KEY: Column<UserMetadata> =
        Column::text("metadata_key", |entry: &UserMetadata| entry.key.clone()).filterable();
}

/// The separator between user and key in an id. Ids of users do not contain it.
const BETWEEN: char = '/';

/// Splits the id of an entry into user and key.
pub fn parts(id: &str) -> Option<(&str, &str)> {
    id.split_once(BETWEEN)
}

/// The name of the member with the sealed value.
const SEALED: &str = "sealed";
/// The name of the member with the value in clear.
const OPENED: &str = "value";

/// Returns the sealed value in the payload of an event, if there is one.
pub fn sealed_in(payload: &mut Value) -> Option<String> {
    state(payload).get(SEALED).and_then(Value::as_str).map(str::to_owned)
}

/// Replaces the sealed value by what was opened, or removes it if the key of the person was destroyed.
pub fn put_opened(payload: &mut Value, opened: Option<String>) {
    let Some(entry) = state(payload).as_object_mut() else { return };
    entry.remove(SEALED);
    entry.extend(opened.map(|value| (OPENED.to_owned(), value.into())));
}

/// Returns the path at which [`put_opened`] puts it.
pub fn opened_at(payload: &Value) -> [String; 1] {
    paths(payload, [OPENED])
}

impl Resource for UserMetadata {
    const NAME: &'static str = "user_metadata";
    const COLUMNS: &'static [Column<Self>] = &[column::USER_ID, column::KEY];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("user_metadata_index"));
    const LINKS: &'static [Link] = &[USER];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(User::NAME, &column::USER_ID)];
    type Patch = Unpatchable;

    fn validate(&self) -> Result<(), Rejection> {
        match (&self.value, &self.sealed) {
            (Some(value), None) => {
                value_fault(value).map_or(Ok(()), |rule| Err(Rejection::invalid("metadata.value", rule)))
            }
            (None, Some(_)) => Ok(()),
            _ => Err(Rejection::Precondition("an entry has one value, in clear or sealed")),
        }
    }

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn id_below(holder: &str, id: &str) -> String {
        format!("{holder}{BETWEEN}{id}")
    }

    fn holder(&self) -> Option<&str> {
        Some(&self.user_id)
    }

    fn references(&self) -> Vec<Reference> {
        vec![Reference::new(USER, &self.user_id)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, given},
        with_unknown::WithUnknown,
    };

    fn entry(value: &str) -> UserMetadata {
        UserMetadata { user_id: "7".into(), key: "plan".into(), value: Some(value.into()), sealed: None }
    }

    #[test]
    fn it_is_found_by_its_user_and_goes_with_that() {
        assert_columns(&entry("gold"), &json!({ "user_id": "7", "metadata_key": "plan" }));
        let of_user = Reference::new(USER, "7");
        assert_eq!((entry("gold").references(), entry("gold").holder()), (vec![of_user.clone()], Some("7")));
        given::<Standard<UserMetadata>>([Event::Added(entry("gold").into())])
            .when(Command::Unlink(of_user))
            .then([Event::Removed]);
    }

    #[test]
    fn users_and_keys_come_to_ids_that_differ() {
        let id = UserMetadata::id_below("7", "a/b");
        assert_eq!((id.as_str(), parts(&id)), ("7/a/b", Some(("7", "a/b"))));
    }

    #[test]
    fn a_value_is_replaced_and_the_same_one_is_no_event() {
        let added = || Event::Added(entry("gold").into());
        given::<Standard<UserMetadata>>([added()]).when(Command::Put(entry("gold"))).then([]);
        let changed = Event::Changed { to: entry("").into(), fields: vec!["value".to_owned()] };
        given::<Standard<UserMetadata>>([added()]).when(Command::Put(entry(""))).then([changed]);
    }

    #[test]
    fn there_is_one_value_which_is_not_too_long() {
        let put = |entry: UserMetadata| given::<Standard<UserMetadata>>([]).when(Command::Put(entry));
        let longest = entry(&"ä".repeat(16_384 / 2));
        let sealed = UserMetadata { value: None, sealed: Some(Sealed::new("x")), ..entry("") };
        for right in [longest, sealed] {
            put(right.clone()).then([Event::Added(right.into())]);
        }
        put(entry(&"ä".repeat(16_384 / 2 + 1)))
            .then_rejected(&Rejection::invalid("metadata.value", "must have at most 16,384 bytes"));
        put(entry("a\0")).then_rejected(&Rejection::invalid("metadata.value", "must not have the character U+0000"));
        let one = Rejection::Precondition("an entry has one value, in clear or sealed");
        put(UserMetadata { value: None, ..entry("") }).then_rejected(&one);
        put(UserMetadata { sealed: Some(Sealed::new("x")), ..entry("") }).then_rejected(&one);
    }

    #[test]
    fn what_is_sealed_is_written_and_read_as_such() {
        let sealed = UserMetadata { value: None, sealed: Some(Sealed::new("x")), ..entry("") };
        let written = json!({ "user_id": "7", "key": "plan", "sealed": "x" });
        assert_eq!(serde_json::to_value(&sealed).unwrap(), written);
        assert_eq!(serde_json::from_value::<WithUnknown<UserMetadata>>(written).unwrap(), sealed.into());
        let clear = json!({ "user_id": "7", "key": "plan", "value": "gold" });
        assert_eq!(serde_json::from_value::<WithUnknown<UserMetadata>>(clear).unwrap(), entry("gold").into());
    }

    #[test]
    fn what_is_opened_takes_the_place_of_what_is_sealed() {
        let mut changed = json!({ "to": { "key": "plan", "sealed": "x" }, "fields": ["sealed"] });
        assert_eq!(sealed_in(&mut changed).as_deref(), Some("x"));
        put_opened(&mut changed, Some("gold".to_owned()));
        assert_eq!(changed, json!({ "to": { "key": "plan", "value": "gold" }, "fields": ["sealed"] }));
        assert_eq!(sealed_in(&mut changed), None);
        let mut added = json!({ "key": "plan", "sealed": "x" });
        put_opened(&mut added, None);
        assert_eq!(added, json!({ "key": "plan" }));
    }

    #[test]
    fn what_is_opened_is_where_it_is_said_to_be() {
        for (payload, path) in [
            (json!({ "key": "plan", "value": "gold" }), "value"),
            (json!({ "to": { "key": "plan", "value": "gold" }, "fields": ["value"] }), "to.value"),
        ] {
            assert_eq!(opened_at(&payload), [path]);
        }
    }

    #[test]
    fn a_value_is_not_printed() {
        assert_eq!(format!("{:?}", entry("gold")), r#"UserMetadata { key: "plan", .. }"#);
    }
}
