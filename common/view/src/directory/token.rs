//! Personal access tokens, by their ids.

use std::sync::Arc;

use domain::{
    resource::{personal_access_token::PersonalAccessToken, user::User},
    standard::Resource,
};

use super::{AsOf, Cached, Directory, Lookup, Source, is_possible, sql::PERSONAL_ACCESS_TOKEN, state};
use crate::database::DatabaseFailure;

/// A personal access token as requests see it.
#[derive(Debug)]
pub struct PersonalToken {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
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
        let load = || self.database.within(self.load_personal_access_token(instance_id, id));
        self.personal_access_tokens.get(Lookup::of("id", &[instance_id, id]), self.required(sequence), load).await
    }

    async fn load_personal_access_token(
        &self,
        instance_id: &str,
        id: &str,
    ) -> Result<Cached<PersonalToken>, DatabaseFailure> {
        let row = self.row(&PERSONAL_ACCESS_TOKEN, instance_id, &[id]).await?;
        let (source, by_id) = (Source::of(&row), (PersonalAccessToken::NAME, id));
        let Some(id) = row.get::<_, Option<String>>("id") else {
            let dependencies = self.dependencies(&PERSONAL_ACCESS_TOKEN, instance_id, &[by_id]);
            return Ok(Cached { source, found: None, dependencies });
        };
        let token: PersonalAccessToken = state(PersonalAccessToken::NAME, instance_id, &row)?;
        let objects = [by_id, (User::NAME, &token.user_id)];
        let dependencies = self.dependencies(&PERSONAL_ACCESS_TOKEN, instance_id, &objects);
        let found = PersonalToken { as_of: source.as_of.clone(), id, created_at: row.get("made_at"), token };
        Ok(Cached { source, found: Some(Arc::new(found)), dependencies })
    }
}
