//! Keys that apps and service users sign with: only the public halves are stored.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{app::App, user::User};
use crate::{
    column::Column,
    context::{Part, PartKind},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    standard::{PartOf, Resource, Unpatchable},
};

/// A resource that has keys of its own.
pub trait Holder: Resource {
    /// The name of its keys, for example `app_key`.
    const KEY: &'static str;
    /// The columns of its keys.
    const KEY_COLUMNS: &'static [Column<Key<Self>>];
    /// The parts of their context in which roles for its keys can be held, too.
    const KEY_PARTS: &'static [PartOf<Key<Self>>] = &[];
    /// The projection of the search index of its keys.
    const KEYS_INDEX: Name;
}

impl Holder for App {
    const KEY: &'static str = "app_key";
    const KEY_COLUMNS: &'static [Column<Key<Self>>] = &[Key::HOLDER_ID, Key::PROJECT_ID, Key::EXPIRES_AT];
    const KEY_PARTS: &'static [PartOf<Key<Self>>] = &[PartOf::Named(PartKind::Project, &Key::PROJECT_ID)];
    const KEYS_INDEX: Name = Name { name: "app_keys_index", version: 2 };
}

impl Holder for User {
    const KEY: &'static str = "user_key";
    const KEY_COLUMNS: &'static [Column<Key<Self>>] = &[Key::HOLDER_ID, Key::EXPIRES_AT];
    const KEYS_INDEX: Name = Name::first("user_keys_index");
}

/// A key of an app or of a service user; its id is the `kid` of its signatures.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Key<H> {
    /// The app or the user.
    pub holder_id: String,
    /// The public half as a JSON Web Key (RFC 7517), with the members that the type of the key requires, and `alg` if
    /// it signs with one algorithm only.
    pub public: Value,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: i64,
    /// The project of the app that has the key; empty for a user, and for keys of the first versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project_id: String,
    #[serde(skip)]
    of: PhantomData<fn() -> H>,
}

impl<H> Key<H> {
    /// Creates a key with this public half.
    pub fn new(holder_id: impl Into<String>, public: Value, expires_at: i64) -> Self {
        Self { holder_id: holder_id.into(), public, expires_at, project_id: String::new(), of: PhantomData }
    }
}

impl<H> Clone for Key<H> {
    fn clone(&self) -> Self {
        let project_id = self.project_id.clone();
        Self { project_id, ..Self::new(self.holder_id.clone(), self.public.clone(), self.expires_at) }
    }
}

impl<H> PartialEq for Key<H> {
    fn eq(&self, other: &Self) -> bool {
        (&self.holder_id, &self.public, self.expires_at, &self.project_id)
            == (&other.holder_id, &other.public, other.expires_at, &other.project_id)
    }
}

impl<H> fmt::Debug for Key<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a key of {} until {}: {}", self.holder_id, self.expires_at, self.public)
    }
}

impl<H: Holder> Key<H> {
    /// The link from a key to its holder.
    pub const HOLDER: Link = Link { name: H::KEY, to: H::NAME };
    /// The column of the holder.
    pub const HOLDER_ID: Column<Self> = Column::text("holder_id", |key: &Self| key.holder_id.clone()).filterable();
    /// The column of the project.
    pub const PROJECT_ID: Column<Self> = Column::text("project_id", |key: &Self| key.project_id.clone()).filterable();
    /// The column of the expiry.
    pub const EXPIRES_AT: Column<Self> = Column::integer("expires_at", |key: &Self| key.expires_at);
}

impl<H: Holder> Resource for Key<H> {
    const NAME: &'static str = H::KEY;
    const COLUMNS: &'static [Column<Self>] = H::KEY_COLUMNS;
    const PARTS: &'static [PartOf<Self>] = H::KEY_PARTS;
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(H::KEYS_INDEX);
    const LINKS: &'static [Link] = &[Self::HOLDER];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(H::NAME, &Self::HOLDER_ID)];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn holder(&self) -> Option<&str> {
        Some(&self.holder_id)
    }

    fn with_holder_parts(self, parts: &[Part]) -> Self {
        let project = parts.iter().find(|part| part.kind == PartKind::Project);
        Self { project_id: project.map(|part| part.id.clone()).unwrap_or_default(), ..self }
    }

    fn references(&self) -> Vec<Reference> {
        vec![Reference::new(Self::HOLDER, &self.holder_id)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, given},
    };

    fn key<H>() -> Key<H> {
        Key::new("7", json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA" }), 10)
    }

    #[test]
    fn it_is_found_by_who_has_it_and_goes_with_that() {
        assert_columns(&key::<User>(), &json!({ "holder_id": "7", "expires_at": 10 }));
        assert_columns(&key::<App>(), &json!({ "holder_id": "7", "project_id": "", "expires_at": 10 }));
        let of_app = key::<App>().with_holder_parts(&[Part::project("5")]);
        assert_eq!((of_app.project_id.as_str(), of_app.parts("9")), ("5", vec![Part::project("5")]));
        assert_eq!(key::<User>().with_holder_parts(&[]).parts("9"), []);
        let held = Reference::new(Link { name: "user_key", to: "user" }, "7");
        assert_eq!((key::<User>().references(), key::<User>().holder()), (vec![held.clone()], Some("7")));
        given::<Standard<Key<User>>>([Event::Added(key().into())]).when(Command::Unlink(held)).then([Event::Removed]);
    }

    #[test]
    fn it_is_printed_with_its_holder_its_expiry_and_its_public_half() {
        let printed = r#"a key of 7 until 10: {"crv":"Ed25519","kty":"OKP","x":"AA"}"#;
        assert_eq!(format!("{:?}", key::<User>()), printed);
    }

    #[test]
    fn keys_are_the_same_only_if_all_members_are() {
        let (same, other) = (key::<App>(), || "other".to_owned());
        assert_eq!(same.clone(), same);
        for different in [
            Key { holder_id: other(), ..key() },
            Key { public: json!({ "kty": "RSA" }), ..key() },
            Key { expires_at: 11, ..key() },
            Key { project_id: other(), ..key() },
        ] {
            assert_ne!(different, same);
            assert_eq!(different.clone(), different);
        }
    }

    #[test]
    fn those_of_apps_and_of_users_are_of_two_kinds() {
        assert_eq!([Key::<App>::NAME, Key::<User>::NAME], ["app_key", "user_key"]);
        assert_eq!(Key::<App>::HOLDER, Link { name: "app_key", to: "app" });
    }
}
