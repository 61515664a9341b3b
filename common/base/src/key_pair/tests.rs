//! Tests of generated keys and of keys that somebody brings.

use aws_lc_rs::encoding::PublicKeyX509Der;
use simple_asn1::{BigUint, to_der};

use super::*;

fn number(key: &Map<String, Value>, name: &str) -> BigUint {
    BigUint::from_bytes_be(&URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap())
}

/// The public half in PEM.
fn in_pem(r#type: KeyType, private: &str) -> String {
    let private = pem::parse(private).unwrap();
    let der: PublicKeyX509Der<'_> = match r#type {
        KeyType::Rsa2048 | KeyType::Rsa3072 | KeyType::Rsa4096 => {
            rsa::KeyPair::from_pkcs8(private.contents()).unwrap().public_key().as_der().unwrap()
        }
        KeyType::P256 | KeyType::P384 => {
            let signs = if r#type == KeyType::P256 {
                &ECDSA_P256_SHA256_FIXED_SIGNING
            } else {
                &ECDSA_P384_SHA384_FIXED_SIGNING
            };
            let pair = EcdsaKeyPair::from_pkcs8(signs, private.contents()).unwrap();
            pair.public_key().as_der().unwrap()
        }
        KeyType::Ed25519 => {
            let pair = Ed25519KeyPair::from_pkcs8(private.contents()).unwrap();
            pair.public_key().as_der().unwrap()
        }
    };
    pem::encode(&Pem::new(PUBLIC_PEM, der.as_ref()))
}

#[test]
fn what_is_made_is_read_again_in_both_forms() {
    for r#type in [KeyType::Rsa2048, KeyType::Rsa3072, KeyType::P256, KeyType::P384, KeyType::Ed25519] {
        let pair = generate(r#type);
        let (pem, KeyPair { public, private, .. }) = (private_pem(&pair.der), pair);
        assert_eq!(public_key(&public.to_string()), Ok(public.clone()), "{type:?}");
        assert_eq!(KeyType::of(&public), Some(r#type));
        assert_eq!(public_key(&in_pem(r#type, &pem)), Ok(public.clone()), "{type:?}");
        let mut whole = public.as_object().unwrap().clone();
        whole.extend(private);
        assert!(public_key(&Value::Object(whole.clone()).to_string()).is_err(), "{type:?}");
        assert!(public_key(&pem).unwrap_err().contains("never share the private one"), "{type:?}");
        if r#type == KeyType::Rsa2048 {
            assert_eq!(number(&whole, "p") * number(&whole, "q"), number(&whole, "n"));
            assert!(PRIVATE_RSA.iter().all(|name| whole.contains_key(*name)), "{whole:?}");
        }
    }
}

#[test]
fn members_that_say_nothing_of_the_key_are_left_out() {
    let public = generate(KeyType::Ed25519).public;
    let mut more = public.clone();
    (more["kid"], more["use"], more["key_ops"]) = ("mine".into(), "sig".into(), json!(["verify"]));
    assert_eq!(public_key(&more.to_string()), Ok(public.clone()));
    more["alg"] = "EdDSA".into();
    let pinned = public_key(&more.to_string()).unwrap();
    assert_eq!((&pinned["alg"], &pinned["x"]), (&json!("EdDSA"), &public["x"]));
}

#[test]
fn what_signatures_cannot_be_checked_with_is_refused() {
    let of_bytes = |length: usize| URL_SAFE_NO_PAD.encode(vec![0xff; length]);
    let with = |name: &str, value: String| {
        let mut key = generate(KeyType::P256).public;
        key[name] = value.into();
        key.to_string()
    };
    let small = [BigUint::from_bytes_be(&[0xff; 128]), BigUint::from(65_537_u32)];
    let small = small.map(|number| ASN1Block::Integer(0, number.into()));
    let certificate = pem::encode(&Pem::new("CERTIFICATE", vec![1; 40]));
    for wrong in [
        String::new(),
        "key".to_owned(),
        "{}".to_owned(),
        r#"{"kty":"oct","k":"c2VjcmV0"}"#.to_owned(),
        r#"{"kty":"RSA","n":"!","e":"AQAB"}"#.to_owned(),
        json!({ "kty": "RSA", "n": of_bytes(255), "e": "AQAB" }).to_string(),
        json!({ "kty": "RSA", "n": of_bytes(513), "e": "AQAB" }).to_string(),
        json!({ "kty": "RSA", "n": of_bytes(256), "e": "Ag" }).to_string(),
        json!({ "kty": "RSA", "n": of_bytes(256), "e": "AQ" }).to_string(),
        json!({ "kty": "OKP", "crv": "X25519", "x": of_bytes(32) }).to_string(),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": of_bytes(31) }).to_string(),
        with("x", of_bytes(32)),
        with("crv", "secp256k1".to_owned()),
        with("crv", "P-384".to_owned()),
        with("y", String::new()),
        with("use", "enc".to_owned()),
        with("alg", "RS256".to_owned()),
        json!({ "kty": "RSA", "n": of_bytes(256).replacen('_', "A", 2), "e": "AQAB" }).to_string(),
        json!({ "kty": "RSA", "n": of_bytes(256), "e": of_bytes(5) }).to_string(),
        pem::encode(&Pem::new(PUBLIC_PEM, to_der(&ASN1Block::Sequence(0, small.to_vec())).unwrap())),
        pem::encode(&Pem::new(PUBLIC_PEM, vec![0; 91])),
        certificate,
    ] {
        assert!(public_key(&wrong).is_err(), "{wrong}");
    }
}
