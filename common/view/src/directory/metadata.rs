//! Metadata of users, as claims and targets get it.

use std::{collections::BTreeMap, sync::Arc};

use domain::{resource::user_metadata::UserMetadata, standard::Resource};

use super::{Cached, Directory, Lookup, Source, sql};
use crate::database::DatabaseFailure;

/// The metadata of a user.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Keys and values, by key.
    pub entries: Vec<(String, String)>,
    /// Whether these are all entries, and not just the first 32 KiB of them.
    pub is_all: bool,
}

impl Metadata {
    /// Returns this metadata with some entries replaced or added.
    #[must_use]
    pub fn with<'a>(&self, others: impl Iterator<Item = (&'a String, &'a String)>) -> Self {
        let mut entries: BTreeMap<_, _> = self.entries.iter().cloned().collect();
        entries.extend(others.map(|(key, value)| (key.clone(), value.clone())));
        let size: usize = entries.iter().map(|(key, value)| key.len() + value.len() + sql::OF_ENTRY).sum();
        Self { entries: entries.into_iter().collect(), is_all: self.is_all && size <= sql::MOST_METADATA }
    }
}

impl Directory {
    /// The metadata of a user of an instance, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn metadata(
        &self,
        instance_id: &str,
        user_id: &str,
        sequence: u64,
    ) -> Result<Arc<Metadata>, Arc<DatabaseFailure>> {
        let load = || self.database.within(self.load_metadata(instance_id, user_id));
        Ok(self
            .metadata
            .get(Lookup::of("id", &[instance_id, user_id]), self.required(sequence), load)
            .await?
            .unwrap_or_default())
    }

    async fn load_metadata(&self, instance_id: &str, user_id: &str) -> Result<Cached<Metadata>, DatabaseFailure> {
        let row = self.row(&sql::METADATA, instance_id, &[user_id]).await?;
        let entries = serde_json::from_str(row.get("entries")).map_err(|_| DatabaseFailure::Inconsistent {
            table: UserMetadata::NAME,
            instance_id: instance_id.to_owned(),
            id: user_id.to_owned(),
        })?;
        let found = Metadata { entries, is_all: row.get("is_all") };
        let dependencies = self.dependencies(&sql::METADATA, instance_id, &[]);
        Ok(Cached { source: Source::of(&row), found: Some(Arc::new(found)), dependencies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_counts_in_what_is_told_at_all() {
        let entries = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let (found, other) = (Metadata { entries: entries(&[("plan", "tin")]), is_all: true }, "plan".to_owned());
        let with = |value: &str| found.with([(&other, &value.to_owned())].into_iter());
        assert_eq!(with("gold").entries, entries(&[("plan", "gold")]));
        let room = sql::MOST_METADATA - sql::OF_ENTRY - other.len();
        assert!(with(&"x".repeat(room)).is_all && !with(&"x".repeat(room + 1)).is_all);
        assert!(!Metadata { is_all: false, ..Metadata::default() }.with(std::iter::empty()).is_all);
    }
}
