//! Key pairs: generated for instances and others, or checked if somebody brings the public half.

use std::ops::RangeInclusive;

use aws_lc_rs::{
    encoding::{AsBigEndian, AsDer, Curve25519SeedBin, EcPrivateKeyBin, Pkcs8V1Der},
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
        ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
        ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, VerificationAlgorithm,
    },
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pem::{EncodeConfig, LineEnding, Pem};
use serde_json::{Map, Value, json};
use simple_asn1::ASN1Block;
use zeroize::Zeroizing;

/// The permitted bits of the modulus of an RSA key.
const RSA_BITS: RangeInclusive<usize> = 2048..=4096;
/// The most bits of an RSA exponent: signatures with longer ones cannot be checked.
const LONGEST_EXPONENT: usize = 33;
/// The members of a JSON Web Key that only the private half has (RFC 7518, sections 6.2.2, 6.3.2 and 6.4.1).
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
/// The members of a private RSA key after the public ones, in the order of its ASN.1 form (RFC 8017, appendix A.1.2).
const PRIVATE_RSA: [&str; 6] = ["d", "p", "q", "dp", "dq", "qi"];
/// The label of a public key in PEM, and of a private one.
const PUBLIC_PEM: &str = "PUBLIC KEY";
const PRIVATE_PEM: &str = "PRIVATE KEY";

/// The types of keys that are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// RSA with 2048 bits.
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
    /// The curve P-256.
    P256,
    /// The curve P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

impl KeyType {
    /// Returns the type of a public key that was generated here, from its JSON Web Key.
    pub fn of(public: &Value) -> Option<Self> {
        let member = |name: &str| public.get(name).and_then(Value::as_str);
        match (member("kty")?, member("crv")) {
            ("RSA", _) => match URL_SAFE_NO_PAD.decode(member("n")?).ok()?.len() * 8 {
                2048 => Some(Self::Rsa2048),
                3072 => Some(Self::Rsa3072),
                4096 => Some(Self::Rsa4096),
                _ => None,
            },
            ("EC", Some("P-256")) => Some(Self::P256),
            ("EC", Some("P-384")) => Some(Self::P384),
            ("OKP", Some("Ed25519")) => Some(Self::Ed25519),
            _ => None,
        }
    }
}

/// A newly generated key pair.
pub struct KeyPair {
    /// The public half, in the form of [`public_key`].
    pub public: Value,
    /// The private half, PKCS #8.
    pub der: Zeroizing<Vec<u8>>,
    /// The members that the JSON Web Key of the private half has in addition to those of the public one.
    pub private: Map<String, Value>,
}

/// Encodes the private half of a key as PEM, from its PKCS #8.
pub fn private_pem(der: &[u8]) -> Zeroizing<String> {
    let form = EncodeConfig::new().set_line_ending(LineEnding::LF);
    Zeroizing::new(pem::encode_config(&Pem::new(PRIVATE_PEM, der), form))
}

const RANDOM: &str = "key generation needs randomness only";
const OWN: &str = "a key that was just generated can be encoded";

/// Generates a key pair. An RSA key takes some hundred milliseconds of a core, with 4096 bits some seconds.
pub fn generate(r#type: KeyType) -> KeyPair {
    match r#type {
        KeyType::Rsa2048 => of_rsa(rsa::KeySize::Rsa2048),
        KeyType::Rsa3072 => of_rsa(rsa::KeySize::Rsa3072),
        KeyType::Rsa4096 => of_rsa(rsa::KeySize::Rsa4096),
        KeyType::P256 => of_curve(&P256, &ECDSA_P256_SHA256_FIXED_SIGNING),
        KeyType::P384 => of_curve(&P384, &ECDSA_P384_SHA384_FIXED_SIGNING),
        KeyType::Ed25519 => {
            let pair = Ed25519KeyPair::generate().expect(RANDOM);
            let d: Curve25519SeedBin<'_> = pair.seed().and_then(|seed| seed.as_be_bytes()).expect(OWN);
            let public = point(&EDWARDS, pair.public_key().as_ref()).expect(OWN);
            KeyPair { public, der: owned(pair.to_pkcs8v1().expect(OWN).as_ref()), private: only_d(d.as_ref()) }
        }
    }
}

fn of_rsa(size: rsa::KeySize) -> KeyPair {
    let pair = rsa::KeyPair::generate(size).expect(RANDOM);
    let der: Pkcs8V1Der<'_> = pair.as_der().expect(OWN);
    let public = rsa_key(pair.public_key().into()).expect(OWN);
    KeyPair { public, der: owned(der.as_ref()), private: private_rsa(der.as_ref()).expect(OWN) }
}

fn of_curve(curve: &Curve, signs: &'static EcdsaSigningAlgorithm) -> KeyPair {
    let pair = EcdsaKeyPair::generate(signs).expect(RANDOM);
    let d: EcPrivateKeyBin<'_> = pair.private_key().as_be_bytes().expect(OWN);
    let public = point(curve, pair.public_key().as_ref()).expect(OWN);
    KeyPair { public, der: owned(pair.to_pkcs8v1().expect(OWN).as_ref()), private: only_d(d.as_ref()) }
}

fn owned(der: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(der.to_vec())
}

/// Returns the public half of a key as a JSON Web Key with the members that its type requires, and `alg` if it had one,
/// from PEM or from a JSON Web Key: RSA of 2048 to 4096 bits, P-256, P-384 or Ed25519.
///
/// # Errors
/// Why it is not such a key, phrased to follow the name of the field.
pub fn public_key(text: &str) -> Result<Value, &'static str> {
    let text = text.trim();
    if !text.starts_with('{') {
        let all = pem::parse_many(text).map_err(|_| "must be PEM or a JSON Web Key")?;
        return match all.as_slice() {
            all if all.iter().any(|pem| pem.tag().contains("PRIVATE")) => Err(ONLY_PUBLIC),
            [pem] if pem.tag() == PUBLIC_PEM => of_der(pem.contents()),
            _ => Err("must be PEM of one public key, which begins with BEGIN PUBLIC KEY"),
        };
    }
    let jwk: Map<String, Value> = serde_json::from_str(text).map_err(|_| "must be PEM or a JSON Web Key")?;
    if PRIVATE.iter().any(|name| jwk.contains_key(*name)) {
        return Err(ONLY_PUBLIC);
    }
    let public = of_jwk(&jwk)?;
    let named = |name: &str| jwk.get(name).and_then(Value::as_str);
    let verifies = |all: &Vec<Value>| all.iter().any(|operation| operation == "verify");
    let operations = jwk.get("key_ops").and_then(Value::as_array);
    if named("use").is_some_and(|r#use| r#use != "sig") || !operations.is_none_or(verifies) {
        return Err("must be a key for signatures");
    }
    let Some(alg) = named("alg") else { return Ok(public) };
    let of_type = match named("kty") {
        Some("RSA") => &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..],
        Some("OKP") => &["EdDSA", "Ed25519"],
        _ if named("crv") == Some(P256.name) => &["ES256"],
        _ => &["ES384"],
    };
    let mut pinned = public;
    // Ed25519 is the newer name of EdDSA on that curve (RFC 9864).
    pinned["alg"] = if alg == "Ed25519" { "EdDSA" } else { alg }.into();
    of_type.contains(&alg).then_some(pinned).ok_or("has an alg that does not fit its type")
}

/// Returns the members that the type of a key requires.
fn of_jwk(jwk: &Map<String, Value>) -> Result<Value, &'static str> {
    let member = |name: &str| {
        let text = jwk.get(name).and_then(Value::as_str);
        text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
            .ok_or("lacks a member, or has one that is not base64url")
    };
    let named = |name: &str| jwk.get(name).and_then(Value::as_str);
    if named("kty") == Some("RSA") {
        return rsa_key(RsaPublicKeyComponents { n: member("n")?, e: member("e")? });
    }
    let curve = CURVES.iter().find(|curve| named("kty") == Some(curve.kty) && named("crv") == Some(curve.name));
    let curve = curve.ok_or(OTHER)?;
    let coordinates = curve.coordinates.iter().map(|name| member(name)).collect::<Result<Vec<_>, _>>()?;
    if coordinates.iter().any(|coordinate| coordinate.len() != curve.bytes) {
        return Err(UNUSABLE);
    }
    point(curve, &[curve.form.to_vec(), coordinates.concat()].concat())
}

const ONLY_PUBLIC: &str = "must be the public key: never share the private one";
const OTHER: &str = "must be an RSA key of 2048 to 4096 bits, or one of the curve P-256, P-384 or Ed25519";
const UNUSABLE: &str = "is not a key that can verify signatures";

/// A curve, and the encoding of its public keys.
struct Curve {
    kty: &'static str,
    name: &'static str,
    /// The members with the coordinates of the point.
    coordinates: &'static [&'static str],
    /// The length of each coordinate, in bytes.
    bytes: usize,
    /// The bytes before them in a key: none, or the mark of an uncompressed point (SEC 1, section 2.3.3).
    form: &'static [u8],
    /// The bytes before that in a `SubjectPublicKeyInfo` (RFC 5280, section 4.1; RFC 5480; RFC 8410).
    prefix: &'static [u8],
    checked_by: &'static dyn VerificationAlgorithm,
}

const P256: Curve = Curve {
    kty: "EC",
    name: "P-256",
    coordinates: &["x", "y"],
    bytes: 32,
    form: &[4],
    prefix: &[
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ],
    checked_by: &ECDSA_P256_SHA256_FIXED,
};

const P384: Curve = Curve {
    name: "P-384",
    bytes: 48,
    prefix: &[
        0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
        0x00, 0x22, 0x03, 0x62, 0x00,
    ],
    checked_by: &ECDSA_P384_SHA384_FIXED,
    ..P256
};

const EDWARDS: Curve = Curve {
    kty: "OKP",
    name: "Ed25519",
    coordinates: &["x"],
    bytes: 32,
    form: &[],
    prefix: &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00],
    checked_by: &ED25519,
};

static CURVES: [Curve; 3] = [P256, P384, EDWARDS];

/// Returns the key in a `SubjectPublicKeyInfo`.
fn of_der(der: &[u8]) -> Result<Value, &'static str> {
    let found = CURVES.iter().find_map(|curve| Some((curve, der.strip_prefix(curve.prefix)?)));
    match found {
        Some((curve, key)) => point(curve, key),
        None => rsa_key((&rsa::PublicKey::from_der(der).map_err(|_| OTHER)?).into()),
    }
}

fn rsa_key(RsaPublicKeyComponents { n, e }: RsaPublicKeyComponents<Vec<u8>>) -> Result<Value, &'static str> {
    let [n, e] = [n, e].map(|number| number.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>());
    let bits = |number: &[u8]| number.len() * 8 - number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits(&n)) || bits(&e) > LONGEST_EXPONENT {
        return Err(OTHER);
    }
    // Both are odd in every valid key, and with the exponent 1 anything would pass as its own signature.
    let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
    if !is_odd(&n) || !is_odd(&e) || e == [1] {
        return Err(UNUSABLE);
    }
    let public = json!({ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode(&n), "e": URL_SAFE_NO_PAD.encode(&e) });
    let is_usable = RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).is_ok();
    is_usable.then_some(public).ok_or(UNUSABLE)
}

/// Returns a key that is a point of a curve.
fn point(curve: &Curve, key: &[u8]) -> Result<Value, &'static str> {
    let coordinates = key.strip_prefix(curve.form).ok_or(UNUSABLE)?;
    let is_whole = coordinates.len() == curve.bytes * curve.coordinates.len();
    if !is_whole || ParsedPublicKey::new(curve.checked_by, key).is_err() {
        return Err(UNUSABLE);
    }
    let mut public = json!({ "kty": curve.kty, "crv": curve.name });
    for (name, coordinate) in curve.coordinates.iter().zip(coordinates.chunks(curve.bytes)) {
        public[*name] = URL_SAFE_NO_PAD.encode(coordinate).into();
    }
    Ok(public)
}

fn only_d(d: &[u8]) -> Map<String, Value> {
    Map::from_iter([("d".to_owned(), URL_SAFE_NO_PAD.encode(d).into())])
}

/// Returns the private members of an RSA key in PKCS #8 (RFC 5208, section 5; RFC 8017, appendix A.1.2).
fn private_rsa(pkcs8: &[u8]) -> Option<Map<String, Value>> {
    let ASN1Block::OctetString(_, key) = members(pkcs8)?.into_iter().nth(2)? else { return None };
    // After the version, the modulus and the public exponent.
    let numbers = members(&key)?.into_iter().skip(3).map(|member| match member {
        ASN1Block::Integer(_, number) => Some(URL_SAFE_NO_PAD.encode(number.to_bytes_be().1).into()),
        _ => None,
    });
    let numbers = numbers.collect::<Option<Vec<Value>>>()?;
    Some(PRIVATE_RSA.iter().map(|&name| name.to_owned()).zip(numbers).collect())
}

/// Returns the members of an ASN.1 sequence.
fn members(der: &[u8]) -> Option<Vec<ASN1Block>> {
    match simple_asn1::from_der(der).ok()?.into_iter().next()? {
        ASN1Block::Sequence(_, members) => Some(members),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
