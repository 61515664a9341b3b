//! Signing keys: what an instance signs its tokens with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    column::Column,
    projection::{ACCESS, Name},
    secret::Sealed,
    standard::{Resource, Unpatchable},
};

/// A key pair; its id is the `kid` of the tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// The JWA name of the algorithm, for example `ES256`.
    pub algorithm: String,
    /// The public key as a JSON Web Key (RFC 7517), without private members.
    pub public: Value,
    /// The private key, PKCS #8, encrypted under the instance's data key.
    #[serde(flatten)]
    pub sealed: Sealed,
    /// From when it signs, in milliseconds since the Unix epoch; every cache has seen it by then.
    pub signs_from: i64,
    /// Until when it signs; `None` until it is replaced.
    pub signs_until: Option<i64>,
}

/// The columns of the read model.
pub mod column {
    use super::SigningKey;
    use crate::column::Column;

    /// The algorithm.
    pub const ALGORITHM: Column<SigningKey> = Column::text("algorithm", |key: &SigningKey| key.algorithm.clone());
}

impl Resource for SigningKey {
    const NAME: &'static str = "signing_key";
    const COLUMNS: &'static [Column<Self>] = &[column::ALGORITHM];
    const ROWS: Option<Name> = Some(ACCESS);
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::assert_columns;

    #[test]
    fn of_a_key_only_the_algorithm_is_a_column() {
        let (algorithm, sealed) = ("ES256".to_owned(), Sealed::new("sealed"));
        let public = json!({ "kty": "EC" });
        let key = SigningKey { algorithm, public, sealed, signs_from: 1, signs_until: Some(2) };
        assert_columns(&key, &json!({ "algorithm": "ES256" }));
    }
}
