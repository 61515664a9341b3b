//! Generates the key pairs that instances sign tokens with.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::key_pair::{self, KeyType};

/// Binds a sealed private key to its use.
pub const SEALED: &str = "signing-key";

/// The algorithm of a signing key, and the type of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// The JWA name of the algorithm (RFC 7518, section 3.1; RFC 8037, section 3.1).
    pub algorithm: &'static str,
    /// The type of the key.
    pub key: KeyType,
}

/// The spec of keys for access tokens.
pub const ES256: KeySpec = KeySpec { algorithm: "ES256", key: KeyType::P256 };
/// The spec of keys for ID tokens unless the client asks for another one (OpenID Connect Core 1.0, section 15.1).
pub const RS256: KeySpec = KeySpec { algorithm: "RS256", key: KeyType::Rsa2048 };

/// The specs of the keys that every instance has from its beginning.
pub const OF_INSTANCE: [KeySpec; 2] = [ES256, RS256];

/// The algorithms that keys are made for.
const ALGORITHMS: [&str; 6] = ["ES256", "ES384", "EdDSA", "RS256", "RS384", "RS512"];

/// A new key pair.
pub struct Generated {
    /// The JWA name of the algorithm.
    pub algorithm: &'static str,
    /// The private key, PKCS #8 DER.
    pub private: Zeroizing<Vec<u8>>,
    /// The public key as a JSON Web Key (RFC 7517).
    pub public: Value,
}

/// Whether this is a private key for ES256, as PKCS #8 DER.
pub fn is_for_es256(private: &[u8]) -> bool {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private).is_ok()
}

/// Returns the spec of an instance's key, for its successor. `None` if no such keys are generated.
pub fn like(algorithm: &str, public: &Value) -> Option<KeySpec> {
    let algorithm = ALGORITHMS.into_iter().find(|known| *known == algorithm)?;
    Some(KeySpec { algorithm, key: KeyType::of(public)? })
}

/// Returns the left half of the hash of a token that another token refers to, as base64url: the hash is that of the
/// algorithm of the other token (OpenID Connect Core 1.0, section 3.1.3.6), for Ed25519 SHA-512.
pub fn half_hash(algorithm: &str, token: &str) -> String {
    let by = match algorithm {
        "RS384" | "ES384" => &digest::SHA384,
        "RS512" | "EdDSA" => &digest::SHA512,
        _ => &digest::SHA256,
    };
    let hash = digest::digest(by, token.as_bytes());
    URL_SAFE_NO_PAD.encode(&hash.as_ref()[..hash.as_ref().len() / 2])
}

/// Generates a key pair for ES256, whose public key carries this `kid`.
pub fn es256(kid: &str) -> Generated {
    generate(ES256, kid)
}

/// Generates a key pair, whose public key carries this `kid`. An RSA key takes its time ([`key_pair::generate`]).
pub fn generate(KeySpec { algorithm, key }: KeySpec, kid: &str) -> Generated {
    let pair = key_pair::generate(key);
    let mut public = pair.public;
    (public["use"], public["alg"], public["kid"]) = ("sig".into(), algorithm.into(), kid.into());
    Generated { algorithm, private: pair.der, public }
}
