//! Data keys, which the master key wraps and under which everything secret is encrypted.

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    projection::{ACCESS, Name},
    secret::Wrapped,
    standard::Resource,
};

/// A wrapped key of one purpose, owned by the system or an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKey {
    /// Its purpose, for example `claim`.
    pub purpose: String,
    /// The key, encrypted under the master key.
    #[serde(flatten)]
    pub wrapped: Wrapped,
}

/// A data key, encrypted under another master key.
#[derive(Debug, Clone)]
pub struct Rewrapped {
    /// See [`DataKey::wrapped`].
    pub wrapped: Wrapped,
}

/// The columns of the read model.
pub mod column {
    use super::DataKey;
    use crate::column::Column;

    /// The purpose.
    pub const PURPOSE: Column<DataKey> = Column::text("purpose", |key: &DataKey| key.purpose.clone());
}

impl Resource for DataKey {
    const NAME: &'static str = "data_key";
    const COLUMNS: &'static [Column<Self>] = &[column::PURPOSE];
    const ROWS: Option<Name> = Some(ACCESS);
    // What is hashed or sealed with a key is needed until everything else is removed.
    const GOES_WITH_OWNER: bool = false;
    type Patch = Rewrapped;

    fn patched(self, Rewrapped { wrapped }: Rewrapped) -> Self {
        Self { wrapped, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_columns, assert_patches};

    #[test]
    fn a_key_is_wrapped_anew_and_stays_what_it_is_for() {
        let key = DataKey { purpose: "claim".into(), wrapped: Wrapped::new("old") };
        assert_columns(&key, &serde_json::json!({ "purpose": "claim" }));
        let rewrapped = (Rewrapped { wrapped: Wrapped::new("new") }, serde_json::json!({ "wrapped": "new" }));
        assert_patches(&key, vec![rewrapped], &["purpose"]);
    }
}
