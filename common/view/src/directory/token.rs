//! Personal access tokens, by their ids.

use std::sync::Arc;

use domain::{resource::personal_access_token::PersonalAccessToken, standard::Resource};

use super::{Cached, Directory, Lookup, is_possible, sql::PERSONAL_ACCESS_TOKEN, state};
use crate::{checkpoint::unsigned, database::DatabaseFailure};

/// A personal access token as requests see it.
#[derive(Debug)]
pub struct PersonalToken {
    /// The sequence that the read model had processed, at least.
    pub processed: u64,
    /// The id.
    pub id: String,
    /// When it was made, in seconds since the Unix epoch.
    pub created_at: i64,
    /// The state of the token.
    pub token: PersonalAccessToken,
}

impl Directory {
    /// A personal access token of an instance, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn personal_access_token(
        &self,
        instance_id: &str,
        id: &str,
        sequence: u64,
    ) -> Result<Option<Arc<PersonalToken>>, Arc<DatabaseFailure>> {
        if !is_possible(id) {
            return Ok(None);
        }
        let key = Lookup::of("id", &[instance_id, id]);
        let load = || self.database.within(self.load_personal_access_token(instance_id, id));
        self.personal_access_tokens.get(&key, sequence, self.processed(), load).await
    }

    async fn load_personal_access_token(
        &self,
        instance_id: &str,
        id: &str,
    ) -> Result<Cached<PersonalToken>, DatabaseFailure> {
        let row = self.row(&PERSONAL_ACCESS_TOKEN, instance_id, &[id]).await?;
        let processed = unsigned(row.get("processed"));
        let Some(id) = row.get::<_, Option<String>>("id") else { return Ok(Cached { processed, found: None }) };
        let token = state(PersonalAccessToken::NAME, instance_id, &row)?;
        Ok(Cached {
            processed,
            found: Some(Arc::new(PersonalToken { processed, id, created_at: row.get("made_at"), token })),
        })
    }
}
