//! Converts web keys between the API and the core. Their private halves are never shown.

use base::{
    clock,
    key_pair::KeyType,
    signing::{ES256, KeySpec, RS256},
};
use domain::resource::signing_key::{SigningKey, Stage, column};
use index::{Filter, SortKey};
use jiff::Timestamp;
use proto::web_key::{
    CreateWebKeyRequest, EcdsaCurve, GetWebKey, GetWebKeyRequest, RsaBits, RsaHasher, RsaWebKey, SearchWebKeysRequest,
    WebKeyFieldName, WebKeyState, web_key::Type, web_key_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{details, filter::named, standard::Readable};

impl Readable for SigningKey {
    type Get = GetWebKeyRequest;
    type Search = SearchWebKeysRequest;

    fn key(column: WebKeyFieldName) -> SortKey<Self> {
        match column {
            WebKeyFieldName::Unspecified | WebKeyFieldName::CreationDate => SortKey::Created,
            WebKeyFieldName::Id => SortKey::Id,
            WebKeyFieldName::ChangeDate => SortKey::Changed,
            WebKeyFieldName::Algorithm => SortKey::Column(&column::ALGORITHM),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::Algorithm(name) => named(&column::ALGORITHM, name),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetWebKey {
        let key = &found.state;
        let date = |time: Option<i64>| time.and_then(|time| Timestamp::from_millisecond(time).ok()).map(Into::into);
        let state = match key.stage(clock::now().as_millisecond()) {
            Stage::Initial => WebKeyState::Initial,
            Stage::Active => WebKeyState::Active,
            Stage::Inactive => WebKeyState::Inactive,
        };
        GetWebKey {
            details: Some(details::of(found)),
            state: state.into(),
            algorithm: key.algorithm.clone(),
            public_key: key.public.to_string(),
            signs_from: date(key.signs_from),
            signs_until: date(key.signs_until),
        }
    }
}

/// Returns the algorithm and key type that a request asks for.
pub fn key_spec(request: &CreateWebKeyRequest) -> KeySpec {
    match request.key.as_ref().and_then(|key| key.r#type.as_ref()) {
        Some(Type::Rsa(wanted)) => rsa(*wanted),
        Some(Type::Ecdsa(wanted)) if wanted.curve() == EcdsaCurve::P384 => {
            KeySpec { algorithm: "ES384", key: KeyType::P384 }
        }
        Some(Type::Ecdsa(_)) | None => ES256,
        Some(Type::Ed25519(_)) => KeySpec { algorithm: "EdDSA", key: KeyType::Ed25519 },
    }
}

fn rsa(wanted: RsaWebKey) -> KeySpec {
    let algorithm = match wanted.hasher() {
        RsaHasher::Sha384 => "RS384",
        RsaHasher::Sha512 => "RS512",
        RsaHasher::Sha256 | RsaHasher::Unspecified => RS256.algorithm,
    };
    let key = match wanted.bits() {
        RsaBits::RsaBits3072 => KeyType::Rsa3072,
        RsaBits::RsaBits4096 => KeyType::Rsa4096,
        RsaBits::RsaBits2048 | RsaBits::Unspecified => RS256.key,
    };
    KeySpec { algorithm, key }
}
