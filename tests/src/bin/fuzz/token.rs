//! Access tokens, signed and opaque, and consistency tokens: only issued ones are accepted.

use base::secret::SymmetricKey;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    log_class::OfEach,
    resource::{instance::Instance, signing_key::SigningKey},
    secret::Sealed,
};
use edge::{
    caller::{AccessToken, External, SystemUsers, TOKEN_TYPE, Verifier, opaque},
    consistency::Form,
};
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use view::directory::Tenant;

use crate::{json, mutate::mutate, random::Random, run::Target};

/// A key of these tests only, PKCS #8 DER; the last 64 bytes are the public point. It never changes, so that an input
/// can be tried again.
const KEY: &str = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b02010104209e252b6f5889054dd1c991f979320d\
0571840339db182161c1615cb34bbe8a33a144034200047ac231820aa796904d21c2734ba52618566c033859eee9ea4cb7578d7ed54003bffed5409f\
3f54a1aa27c89ce528201bdcd88118d52b15c5fa4177b875b808db";

/// Words of tokens.
const WORDS: [&str; 24] = [
    "Bearer", "bearer ", "Basic", "alg", "none", "HS256", "RS256", "ES256", "ES384", "EdDSA", "typ", "JWT", "at+jwt",
    "kid", "jwk", "iss", "sub", "aud", "exp", "nbf", "iat", "seq", "jti", "crit",
];

/// A target for the value of the `Authorization` header.
pub(crate) struct Access {
    verifier: Verifier,
    own: Tenant,
    /// Another instance with the same key, for which no token is valid.
    foreign: Tenant,
    words: Vec<String>,
    /// The signed part of the valid tokens: everything but the signature, which differs each time.
    genuine: Vec<String>,
    seeds: Vec<String>,
}

impl Access {
    pub(crate) fn new() -> Self {
        let der: Vec<u8> =
            (0..KEY.len() / 2).filter_map(|at| u8::from_str_radix(&KEY[2 * at..2 * at + 2], 16).ok()).collect();
        let point = &der[der.len() - 64..];
        let own = tenant("1", point);
        let external = External { scheme: "https".into(), port: None };
        let claims = |name: &str, value: Value| {
            let mut claims = json!({
                "iss": external.issuer(&own), "sub": "7", "aud": ["p1"], "exp": 4_000_000_000_u64, "iat": 1, "nbf": 1,
                "jti": "j", "client_id": "c", "scope": "openid", "seq": 3,
            });
            claims[name] = value;
            claims
        };
        let header = Header { typ: Some(TOKEN_TYPE.into()), kid: Some("k".into()), ..Header::new(Algorithm::ES256) };
        let signed = |header: &Header, claims: &Value| {
            encode(header, claims, &EncodingKey::from_ec_der(&der)).expect("the key is for ES256")
        };
        let good = [claims("sub", json!("7")), claims("sub", json!("8"))].map(|claims| signed(&header, &claims));
        let mut seeds: Vec<String> = good.to_vec();
        for (name, value) in [
            ("exp", json!(1)),
            ("nbf", json!(4_000_000_000_u64)),
            ("aud", json!(["p2"])),
            ("iss", json!("https://evil.example")),
            ("seq", json!(-1)),
        ] {
            seeds.push(signed(&header, &claims(name, value)));
        }
        seeds.push(signed(&Header { typ: Some("JWT".into()), ..header.clone() }, &claims("sub", json!("7"))));
        let by_secret = Header { alg: Algorithm::HS256, ..header };
        let confused = encode(&by_secret, &claims("sub", json!("7")), &EncodingKey::from_secret(point));
        seeds.push(confused.expect("any secret will do"));
        Self {
            foreign: tenant("2", point),
            verifier: Verifier::new(external.clone(), SystemUsers::default()),
            genuine: good.iter().map(|token| signed_part(token).to_owned()).collect(),
            words: WORDS.map(str::to_owned).to_vec(),
            own,
            seeds,
        }
    }
}

fn signed_part(token: &str) -> &str {
    token.rsplit_once('.').map_or("", |(signed, _)| signed)
}

fn tenant(id: &str, point: &[u8]) -> Tenant {
    let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let public = json!({
        "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "k",
        "x": coordinate(&point[..32]), "y": coordinate(&point[32..]),
    });
    let key = SigningKey {
        instance_id: String::new(),
        algorithm: "ES256".into(),
        public,
        sealed: Sealed::new(""),
        signs_from: Some(0),
        signs_until: None,
    };
    Tenant {
        shard: 0,
        as_of: 1.into(),
        id: id.to_owned(),
        instance: Instance::new(id, &format!("p{id}")),
        primary_domain: format!("{id}.example.com"),
        signing_keys: vec![("k".to_owned(), key)],
    }
}

impl Target for Access {
    fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
        self.seeds.iter().map(|token| format!("Bearer {token}").into_bytes()).collect()
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        if random.once_in(3) {
            return mutate(input, other, &self.words, random);
        }
        let mut parts: Vec<Vec<u8>> = parts(input).collect();
        let others: Vec<Vec<u8>> = self::parts(other).collect();
        let (at, other) = (random.below(parts.len()), &others[random.below(others.len())]);
        let part = &mut parts[at];
        match random.below(4) {
            0 => part.clone_from(other),
            1 => {
                let mut bytes = URL_SAFE_NO_PAD.decode(&*part).unwrap_or_default();
                mutate(&mut bytes, &URL_SAFE_NO_PAD.decode(other).unwrap_or_default(), &self.words, random);
                *part = URL_SAFE_NO_PAD.encode(bytes).into_bytes();
            }
            _ => {
                let tree = |part: &[u8]| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap_or_default());
                let mut value: Value = tree(part).unwrap_or_default();
                json::mutate(&mut value, &tree(other).unwrap_or_default(), &self.words, random);
                let mut printed = vec![];
                json::print(&value, random, &mut printed);
                *part = URL_SAFE_NO_PAD.encode(printed).into_bytes();
            }
        }
        *input = [b"Bearer ", &parts.join(&b'.')[..]].concat();
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Ok(value) = HeaderValue::from_bytes(input) else { return "no header".to_owned() };
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        assert!(self.verifier.verify(&headers, &self.foreign).is_err(), "no token is for another instance");
        match self.verifier.verify(&headers, &self.own) {
            Ok(_) => {
                let text = std::str::from_utf8(input).expect("a token is text");
                let token = text.split_once(' ').map_or("", |(_, token)| token).trim();
                assert!(self.genuine.iter().any(|genuine| genuine == signed_part(token)), "{token} was never issued");
                "accepted".to_owned()
            }
            Err(refused) => {
                let error = refused.into_error();
                format!("{} {error}", error.reason().name())
            }
        }
    }
}

/// Returns the parts of the token after `Bearer`.
fn parts(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let token = input.splitn(2, |byte| *byte == b' ').last().unwrap_or_default();
    token.split(|byte| *byte == b'.').map(<[u8]>::to_vec)
}

/// A target for an opaque access token.
pub(crate) struct Opaque {
    key: SymmetricKey,
    /// The tokens that the instance has issued.
    genuine: Vec<String>,
}

impl Opaque {
    pub(crate) fn new() -> Self {
        let key = SymmetricKey::new([5; 32]);
        let genuine = ["7", "8"].map(|subject| sealed(&key, "1", subject)).to_vec();
        Self { key, genuine }
    }
}

fn sealed(key: &SymmetricKey, instance_id: &str, subject: &str) -> String {
    let claims = json!({
        "iss": "https://1.example.com", "sub": subject, "aud": ["p1"], "exp": 4_000_000_000_u64, "iat": 1, "nbf": 1,
        "jti": "j", "client_id": "c", "scope": "openid", "seq": 3,
    });
    let claims: AccessToken = serde_json::from_value(claims).expect("they are all that there must be");
    opaque::seal("k", key, instance_id, &claims).expect("claims are plain data")
}

impl Target for Opaque {
    fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
        let foreign = [(SymmetricKey::new([6; 32]), "1"), (SymmetricKey::new([5; 32]), "2")];
        let foreign = foreign.map(|(key, instance_id)| sealed(&key, instance_id, "7"));
        self.genuine.iter().cloned().chain(foreign).map(String::into_bytes).collect()
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let bytes = |token: &[u8]| {
            let part = token.splitn(3, |byte| *byte == b'-').nth(2).unwrap_or_default();
            URL_SAFE_NO_PAD.decode(part).unwrap_or_default()
        };
        if random.once_in(2) {
            return mutate(input, other, &["at-", "-", "at-k-"].map(str::to_owned), random);
        }
        let mut changed = bytes(input);
        mutate(&mut changed, &bytes(other), &[], random);
        *input = format!("at-k-{}", URL_SAFE_NO_PAD.encode(changed)).into_bytes();
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Ok(token) = std::str::from_utf8(input) else { return "no text".to_owned() };
        let Some(sent) = opaque::parse(token) else { return "no token".to_owned() };
        assert!(sent.open(&self.key, "3").is_none(), "no token is for this instance");
        let length = token.len().min(400);
        let Some(claims) = sent.open(&self.key, "1") else { return format!("unopened {length}") };
        let sealed = |token: &str| token.splitn(3, '-').nth(2).map(str::to_owned);
        assert!(self.genuine.iter().any(|genuine| sealed(genuine) == sealed(token)), "{token} was never issued");
        format!("accepted {}", claims.sub)
    }
}

/// A target for a consistency token.
pub(crate) struct Consistency {
    form: Form,
    key: SymmetricKey,
}

/// The sequences of the issued tokens, of each log.
const SEQUENCES: [(u64, u64); 6] = [(0, 0), (1, 0), (4711, 12), (0, 1), (u32::MAX as u64, 0), (u64::MAX, u64::MAX)];

impl Consistency {
    pub(crate) fn new() -> Self {
        Self { form: Form { shard: 0, log_id: [7; 16], incarnation: 1 }, key: SymmetricKey::new([3; 32]) }
    }
}

impl Target for Consistency {
    fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
        let other_log = Form { log_id: [8; 16], ..self.form.clone() };
        let five = OfEach { events: 5, sessions: 5 };
        let foreign = [other_log.write(&self.key, five), self.form.write(&SymmetricKey::new([4; 32]), five)];
        let own = SEQUENCES.map(|(events, sessions)| self.form.write(&self.key, OfEach { events, sessions }));
        own.into_iter().chain(foreign).map(String::into_bytes).collect()
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        match URL_SAFE_NO_PAD.decode(&*input) {
            Ok(mut bytes) if random.once_in(2) => {
                mutate(&mut bytes, &URL_SAFE_NO_PAD.decode(other).unwrap_or_default(), &[], random);
                *input = URL_SAFE_NO_PAD.encode(bytes).into_bytes();
            }
            _ => mutate(input, other, &[], random),
        }
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Ok(token) = std::str::from_utf8(input) else { return "no text".to_owned() };
        let Some(sequences) = self.form.read(&self.key, token) else {
            let length = URL_SAFE_NO_PAD.decode(token.trim()).map_or(0, |bytes| bytes.len());
            return format!("refused {}", length.min(100));
        };
        assert!(SEQUENCES.contains(&(sequences.events, sequences.sessions)), "{sequences:?} were never issued");
        assert_eq!(self.form.write(&self.key, sequences), token.trim(), "what was seen has one token");
        "accepted".to_owned()
    }
}
