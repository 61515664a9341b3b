//! Metadata that targets of functions want a user to have. It is written once the user gets the requested token or
//! claims, and not where that is refused. The writer decides which entries change.

use std::{collections::BTreeMap, time::Duration};

use action::chain::Cause;
use base::explain::explain;
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use edge::internal::{Internal, metadata_fault};
use proto::bus::{self, PutMetadata, internal_command::Command};
use serde::Deserialize;
use tokio::time::timeout;
use view::directory::Metadata;

use crate::Oidc;

/// The member of a target's answer with the metadata.
pub(crate) const SET: &str = "set_user_metadata";
/// How long an answer waits for the write. The write goes on after that, if the writer is available again soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// Base64, whether or not it is padded.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An entry as a target names it.
#[derive(Deserialize)]
pub(crate) struct Entry {
    key: String,
    /// The value in base64.
    value: String,
}

/// Decoded entries, and the user that they are for. It has no `Debug`: they are personal.
#[derive(Default)]
pub(crate) struct NewMetadata {
    instance_id: String,
    user_id: String,
    /// How deeply executions are nested that have called the platform.
    depth: u32,
    trace_context: String,
    entries: BTreeMap<String, String>,
}

/// Returns the rule that entries break whichever user they are for.
pub(crate) fn fault(entries: &[Entry]) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let fault = match decoded(entries) {
        // Any user: the rules do not depend on it.
        Some(entries) => metadata_fault(&PutMetadata { user_id: "1".to_owned(), entries, depth: 0 }),
        None => Some("must have values that are text in base64".to_owned()),
    };
    fault.map(|rule| format!("{SET} {rule}"))
}

fn decoded(entries: &[Entry]) -> Option<Vec<bus::MetadataEntry>> {
    let entry = |Entry { key, value }: &Entry| {
        let value = String::from_utf8(BASE64.decode(value).ok()?).ok()?;
        Some(bus::MetadataEntry { key: key.clone(), value })
    };
    entries.iter().map(entry).collect()
}

impl NewMetadata {
    /// Makes the metadata that targets have answered for a user, by its instance and its id.
    pub(crate) fn of(instance_id: &str, user_id: &str, cause: Cause, entries: &[Entry]) -> Self {
        let Cause { depth, trace_context } = cause;
        let entries = decoded(entries).unwrap_or_default();
        let entries = entries.into_iter().map(|bus::MetadataEntry { key, value }| (key, value)).collect();
        Self { instance_id: instance_id.to_owned(), user_id: user_id.to_owned(), depth, trace_context, entries }
    }

    /// Whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns these entries with later ones of the same user, which take precedence.
    #[must_use]
    pub(crate) fn then(mut self, later: Self) -> Self {
        if self.is_empty() {
            return later;
        }
        self.entries.extend(later.entries);
        self
    }

    /// Returns the metadata of the user with these entries applied.
    pub(crate) fn over(&self, found: &Metadata) -> Metadata {
        found.with(self.entries.iter())
    }

    /// Writes the metadata, and waits for that briefly. Tokens for a code are issued in any case, since the code is
    /// used up: a failed write is lost and logged.
    pub(crate) async fn write(self, oidc: &Oidc) {
        if self.is_empty() {
            return;
        }
        let writing = tokio::spawn(self.written(oidc.internal.clone()));
        let _ = timeout(PATIENCE, writing).await;
    }

    async fn written(self, internal: Internal) {
        let Self { instance_id, user_id, depth, trace_context, entries } = self;
        let entries = entries.into_iter().map(|(key, value)| bus::MetadataEntry { key, value }).collect();
        let command = Command::PutMetadata(PutMetadata { user_id, entries, depth });
        match internal.send(&instance_id, &trace_context, command).await {
            Ok(outcome) if !outcome.denied => {}
            Ok(_) => {
                tracing::warn!(
                    instance = instance_id,
                    "metadata that targets want to be set is of nobody who is there"
                );
            }
            Err(undone) => {
                let error = explain(&undone);
                tracing::warn!(instance = instance_id, error, "metadata that targets want to be set was not written");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned() }
    }

    fn of(entries: &[Entry]) -> NewMetadata {
        NewMetadata::of("1", "7", Cause::default(), entries)
    }

    #[test]
    fn values_are_text_in_base64() {
        for value in ["Z29sZA==", "Z29sZA", ""] {
            assert_eq!(fault(&[entry("plan", value)]), None, "{value}");
        }
        for value in ["gold!", "/w==", "AA=="] {
            assert!(
                fault(&[entry("plan", value)]).is_some_and(|rule| rule.starts_with("set_user_metadata ")),
                "{value}"
            );
        }
        assert_eq!(fault(&[]), None);
    }

    #[test]
    fn what_is_said_later_counts_and_stands_over_what_there_is() {
        let both = of(&[entry("plan", "Z29sZA"), entry("seat", "MQ")]).then(of(&[entry("plan", "dGlu")]));
        let found = [("plan", "none"), ("old", "kept")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let over = both.over(&Metadata { entries: found.to_vec(), is_all: true });
        let expected = [("old", "kept"), ("plan", "tin"), ("seat", "1")];
        assert_eq!(over.entries, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(of(&[]).then(of(&[entry("a", "")])).user_id == "7" && of(&[]).is_empty());
    }
}
