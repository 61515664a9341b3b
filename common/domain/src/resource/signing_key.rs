//! Signing keys, with which an instance signs its tokens.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::instance::Instance;
use crate::{
    column::Column,
    context::OwnerType,
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    secret::Sealed,
    standard::Resource,
};

/// A key pair; its id is the `kid` of the tokens that it signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// The instance; empty if an older build wrote the key.
    #[serde(default)]
    pub instance_id: String,
    /// The JWA name of the algorithm, for example `ES256`.
    pub algorithm: String,
    /// The public key as a JSON Web Key (RFC 7517), without private members.
    pub public: Value,
    /// The private key, PKCS #8, encrypted under the instance's data key.
    #[serde(flatten)]
    pub sealed: Sealed,
    /// When it begins to sign, in milliseconds since the Unix epoch: every cache has seen it by then. `None` until it
    /// is activated.
    pub signs_from: Option<i64>,
    /// When it stops signing; `None` until it is replaced.
    pub signs_until: Option<i64>,
}

/// The stage of a key at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was not activated, or does not sign yet.
    Initial,
    /// It signs.
    Active,
    /// It has stopped signing.
    Inactive,
}

/// A change of a [`SigningKey`].
#[derive(Debug, Clone, Default)]
pub struct SigningKeyPatch {
    /// See [`SigningKey::signs_from`].
    pub signs_from: Option<i64>,
    /// See [`SigningKey::signs_until`].
    pub signs_until: Option<i64>,
}

impl SigningKey {
    /// Returns its stage at a time, in milliseconds since the Unix epoch.
    pub fn stage(&self, now: i64) -> Stage {
        match (self.signs_from, self.signs_until) {
            (_, Some(until)) if until <= now => Stage::Inactive,
            (Some(from), _) if from <= now => Stage::Active,
            _ => Stage::Initial,
        }
    }

    /// Whether it signs, or will, and no other key of its algorithm was activated after it.
    pub fn is_last(&self) -> bool {
        self.signs_from.is_some() && self.signs_until.is_none()
    }
}

/// The link from a key to the instance that signs with it.
pub const INSTANCE: Link = Link { name: "signing_key", to: Instance::NAME };

/// The columns of the read model.
pub mod column {
    use super::SigningKey;
    use crate::column::Column;

    /// The algorithm.
    pub const ALGORITHM: Column<SigningKey> =
        Column::text("algorithm", |key: &SigningKey| key.algorithm.clone()).filterable();
}

impl Resource for SigningKey {
    const NAME: &'static str = "signing_key";
    const COLUMNS: &'static [Column<Self>] = &[column::ALGORITHM];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("signing_keys_index"));
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("iam.web_key", STANDARD).at(&[OwnerType::Instance])];
    const LINKS: &'static [Link] = &[INSTANCE];
    type Patch = SigningKeyPatch;

    fn patched(self, patch: SigningKeyPatch) -> Self {
        Self {
            signs_from: patch.signs_from.or(self.signs_from),
            signs_until: patch.signs_until.or(self.signs_until),
            ..self
        }
    }

    fn references(&self) -> Vec<Reference> {
        let is_known = !self.instance_id.is_empty();
        is_known.then(|| Reference::new(INSTANCE, &self.instance_id)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{assert_columns, assert_patches};

    fn key(signs_from: Option<i64>, signs_until: Option<i64>) -> SigningKey {
        let (algorithm, sealed) = ("ES256".to_owned(), Sealed::new("sealed"));
        SigningKey {
            instance_id: "1".into(),
            algorithm,
            public: json!({ "kty": "EC" }),
            sealed,
            signs_from,
            signs_until,
        }
    }

    #[test]
    fn of_a_key_only_the_algorithm_is_a_column() {
        assert_columns(&key(Some(1), Some(2)), &json!({ "algorithm": "ES256" }));
    }

    #[test]
    fn a_key_signs_between_its_times() {
        for (from, until, stage) in [
            (None, None, Stage::Initial),
            (Some(11), None, Stage::Initial),
            (Some(10), None, Stage::Active),
            (Some(1), Some(11), Stage::Active),
            (Some(1), Some(10), Stage::Inactive),
            (Some(9), Some(9), Stage::Inactive),
        ] {
            assert_eq!(key(from, until).stage(10), stage, "{from:?} to {until:?}");
        }
    }

    #[test]
    fn it_names_its_instance_unless_an_older_build_wrote_it() {
        assert_eq!(key(None, None).references(), [Reference::new(INSTANCE, "1")]);
        let mut old = serde_json::to_value(key(None, None)).unwrap();
        old.as_object_mut().unwrap().remove("instance_id");
        assert_eq!(serde_json::from_value::<SigningKey>(old).unwrap().references(), []);
    }

    #[test]
    fn the_last_has_a_beginning_and_no_end() {
        assert!(key(Some(11), None).is_last() && !key(None, None).is_last() && !key(Some(1), Some(11)).is_last());
    }

    #[test]
    fn its_times_change_and_nothing_else() {
        let patches = vec![
            (SigningKeyPatch { signs_from: Some(1), ..SigningKeyPatch::default() }, json!({ "signs_from": 1 })),
            (SigningKeyPatch { signs_until: Some(2), ..SigningKeyPatch::default() }, json!({ "signs_until": 2 })),
        ];
        assert_patches(&key(None, None), patches, &["algorithm", "instance_id", "public", "sealed"]);
    }
}
