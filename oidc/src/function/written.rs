//! Metadata that targets of functions have kept of the user. Whether it is there already is not looked up here: the node that writes decides in
//! its turn what changes.

use std::time::Duration;

use base::explain::explain;
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use edge::{internal::metadata_fault, trigger};
use http::HeaderMap;
use proto::bus::{MetadataEntry, PutMetadata, internal_command::Command};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{Oidc, error::Error, subject::Subject};

/// The member of an answer that asks for it.
pub(super) const SET: &str = "set_user_metadata";
/// How long it is waited for. Whoever logs in is not kept longer by what a target wants to remember.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the claim of log lines says where it was not written, or is not known to be.
const UNWRITTEN: &str = "set_user_metadata was not done, or it is not known whether it was";
/// What it says where the read models do not have it in time.
const UNSEEN: &str = "set_user_metadata was done, and what is told here does not have it yet";
/// Base64, whether or not it is padded.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An entry as a target names it.
#[derive(Debug, Deserialize)]
pub(super) struct Kept {
    key: String,
    /// In base64.
    value: String,
}

/// Why nobody could have these entries, if nobody could.
pub(super) fn check(kept: &[Kept]) -> Result<(), String> {
    if kept.is_empty() {
        return Ok(());
    }
    // Of whichever user it is.
    let fault = metadata_fault(&PutMetadata { user_id: "1".to_owned(), entries: decoded(kept)? });
    fault.map_or(Ok(()), |rule| Err(format!("{SET}: {rule}")))
}

fn decoded(kept: &[Kept]) -> Result<Vec<MetadataEntry>, String> {
    let entry = |Kept { key, value }: &Kept| {
        let value = BASE64.decode(value).ok().and_then(|value| String::from_utf8(value).ok());
        let value = value.ok_or_else(|| format!("{SET}: values must be text in base64"))?;
        Ok(MetadataEntry { key: key.clone(), value })
    };
    kept.iter().map(entry).collect()
}

/// Has entries written, and reads the user again as of that. Where that cannot be done the login goes on, and what is answered is what the claim
/// of log lines says: what tokens are got by may be used up already.
///
/// # Errors
/// Where the user has ended meanwhile.
pub(super) async fn written(
    oidc: &Oidc,
    subject: &mut Subject,
    kept: &[Kept],
    headers: &HeaderMap,
) -> Result<Option<&'static str>, Error> {
    let (instance_id, user_id) = (subject.tenant.id.clone(), subject.user.id.clone());
    let Ok(entries) = decoded(kept) else { return Ok(Some(UNWRITTEN)) };
    let command = Command::PutMetadata(PutMetadata { user_id, entries });
    let trace_context = trigger::trace_of(headers);
    let sequence = match timeout(PATIENCE, oidc.internal.ask(&instance_id, &trace_context, command)).await {
        Ok(Ok(outcome)) if !outcome.denied => outcome.sequence,
        Ok(Ok(_)) => {
            tracing::warn!(instance = instance_id, "metadata that targets ask for is of nobody who is there");
            return Ok(Some(UNWRITTEN));
        }
        Ok(Err(undone)) => {
            tracing::warn!(
                instance = instance_id,
                error = explain(&undone),
                "metadata that targets ask for was not written"
            );
            return Ok(Some(UNWRITTEN));
        }
        Err(_) => {
            tracing::warn!(instance = instance_id, "metadata that targets ask for was not written in time");
            return Ok(Some(UNWRITTEN));
        }
    };
    Ok((!subject.renew(oidc, sequence).await?).then_some(UNSEEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_in_base64() {
        let kept = |value: &str| [Kept { key: "plan".to_owned(), value: value.to_owned() }];
        for value in ["Z29sZA==", "Z29sZA", ""] {
            assert_eq!(check(&kept(value)), Ok(()), "{value}");
        }
        for value in ["gold!", "/w==", "AA=="] {
            assert!(check(&kept(value)).is_err_and(|rule| rule.starts_with("set_user_metadata: ")), "{value}");
        }
        assert_eq!(check(&[]), Ok(()));
    }
}
