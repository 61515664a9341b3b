//! Making the key pairs that instances sign tokens with.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// Binds a sealed private key to its use.
pub const SEALED: &str = "signing-key";

/// A new key pair.
pub struct Generated {
    /// The JWA name of the algorithm (RFC 7518, section 3.1).
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

/// A new key pair for ES256, whose public key carries this `kid`.
pub fn es256(kid: &str) -> Generated {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("key generation needs randomness only");
    let private = pair.to_pkcs8v1().expect("a key that was just generated can be encoded");
    // An uncompressed point: 4, then x and y of 32 bytes each (SEC 1, section 2.3.3).
    let point = pair.public_key().as_ref();
    let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let public = json!({
        "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": kid,
        "x": coordinate(&point[1..33]), "y": coordinate(&point[33..65]),
    });
    Generated { algorithm: "ES256", private: Zeroizing::new(private.as_ref().to_vec()), public }
}
