//! Keys of apps and of service users, by the `kid` of what they signed.

use std::sync::Arc;

use domain::{
    resource::{
        app::App,
        key::{Holder, Key},
        user::User,
    },
    standard::Resource,
};
use serde_json::Value;

use super::{
    Cached, Directory, Lookup, is_possible,
    sql::{APP_KEY, USER_KEY},
    state,
};
use crate::{checkpoint::unsigned, database::DatabaseFailure, projection::Sql};

/// A key as endpoints see it.
#[derive(Debug)]
pub struct HeldKey {
    /// The sequence that the read model had processed, at least.
    pub processed: u64,
    /// The id.
    pub id: String,
    /// The id of the app or the user that holds the key.
    pub holder_id: String,
    /// The public half, a JSON Web Key.
    pub public: Value,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: i64,
}

/// A kind of holder whose keys the directory looks up.
pub trait Signer: Holder {
    /// The statement that finds a key by its id.
    const KEY_BY_ID: &'static Sql;
}

impl Signer for App {
    const KEY_BY_ID: &'static Sql = &APP_KEY;
}

impl Signer for User {
    const KEY_BY_ID: &'static Sql = &USER_KEY;
}

impl Directory {
    /// A key of an instance, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn key<H: Signer>(
        &self,
        instance_id: &str,
        id: &str,
        sequence: u64,
    ) -> Result<Option<Arc<HeldKey>>, Arc<DatabaseFailure>> {
        if !is_possible(id) {
            return Ok(None);
        }
        let key = Lookup::of(H::KEY, &[instance_id, id]);
        let load = || self.database.within(self.load_key::<H>(instance_id, id));
        self.keys.get(&key, sequence, self.processed(), load).await
    }

    async fn load_key<H: Signer>(&self, instance_id: &str, id: &str) -> Result<Cached<HeldKey>, DatabaseFailure> {
        let row = self.row(H::KEY_BY_ID, instance_id, &[id]).await?;
        let processed = unsigned(row.get("processed"));
        let Some(id) = row.get::<_, Option<String>>("id") else { return Ok(Cached { processed, found: None }) };
        let Key { holder_id, public, expires_at, .. } = state::<Key<H>>(Key::<H>::NAME, instance_id, &row)?;
        Ok(Cached { processed, found: Some(Arc::new(HeldKey { processed, id, holder_id, public, expires_at })) })
    }
}
