//! The signature by which a target verifies that a call comes from its platform and is new.

use base::secret::{Unopened, hmac_sha256};
use view::keyring::{Keyring, KeyringFailure, Purpose};

use crate::executions::CallableTarget;

/// The header with the signature.
pub const HEADER: &str = "platform-signature";
/// The purpose that a sealed signing key is bound to.
pub const SEALED: &str = "target-signing-key";

/// The error for a signing key that is not available.
#[derive(Debug, thiserror::Error)]
pub enum Unsigned {
    /// The data key that it is sealed with is not available.
    #[error(transparent)]
    SymmetricKey(#[from] KeyringFailure),
    /// The data key does not open it.
    #[error(transparent)]
    Unopened(#[from] Unopened),
}

/// Signs a body with every key of a target that signs at a time, in milliseconds since the Unix epoch.
pub(crate) async fn sign(
    keyring: &Keyring,
    called: &CallableTarget,
    now: i64,
    body: &[u8],
) -> Result<String, Unsigned> {
    let data_key = keyring.key(&called.instance_id, Purpose::Resource).await?;
    let seconds = now.div_euclid(1000);
    let mut header = format!("t={seconds}");
    for key in called.target.signing_keys.iter().filter(|key| key.signs_at(now)) {
        let opened = data_key.open(SEALED, key.sealed.expose())?;
        header += ",v1=";
        header += &signature(&opened, seconds, body);
    }
    Ok(header)
}

/// Returns the signature of a body with one key.
pub fn signature(key: &[u8], time: i64, body: &[u8]) -> String {
    hex::encode(hmac_sha256(key, &[time.to_string().as_bytes(), b".", body]))
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn a_signature_is_what_docs_and_other_languages_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac Ncb5tR8wYd0KsUqJ2fHvXz7LmGa4PoEi1TkB
        let key = b"Ncb5tR8wYd0KsUqJ2fHvXz7LmGa4PoEi1TkB";
        assert_eq!(
            signature(key, 1_700_000_000, br#"{"a":1}"#),
            "d58945184b097eab7c31f4cb32100da320b56d7b4aaefc9b6a066eec850bef28"
        );
    }
}
