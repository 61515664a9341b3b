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
    AsOf, Cached, Directory, Lookup, Source, is_possible,
    sql::{APP_KEY, Statement, USER_KEY},
    state,
};
use crate::database::DatabaseFailure;

/// A key as endpoints see it.
#[derive(Debug)]
pub struct HeldKey {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
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
    const KEY_BY_ID: &'static Statement;
}

impl Signer for App {
    const KEY_BY_ID: &'static Statement = &APP_KEY;
}

impl Signer for User {
    const KEY_BY_ID: &'static Statement = &USER_KEY;
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
        let load = || self.database.within(self.load_key::<H>(instance_id, id));
        self.keys.get(Lookup::of(H::KEY, &[instance_id, id]), self.required(sequence), load).await
    }

    async fn load_key<H: Signer>(&self, instance_id: &str, id: &str) -> Result<Cached<HeldKey>, DatabaseFailure> {
        let row = self.row(H::KEY_BY_ID, instance_id, &[id]).await?;
        let source = Source::of(&row);
        let dependencies = self.dependencies(H::KEY_BY_ID, instance_id, &[(Key::<H>::NAME, id)]);
        let Some(id) = row.get::<_, Option<String>>("id") else {
            return Ok(Cached { source, found: None, dependencies });
        };
        let Key { holder_id, public, expires_at, .. } = state::<Key<H>>(Key::<H>::NAME, instance_id, &row)?;
        let objects = [(Key::<H>::NAME, id.as_str()), (H::NAME, &holder_id)];
        let dependencies = self.dependencies(H::KEY_BY_ID, instance_id, &objects);
        let found = HeldKey { as_of: source.as_of.clone(), id, holder_id, public, expires_at };
        Ok(Cached { source, found: Some(Arc::new(found)), dependencies })
    }
}
