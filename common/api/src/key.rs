//! Converts keys of apps and of service users between the API and the core: one shape, with separate requests.

use base::key_pair::{self, KeyPair};
use domain::resource::{
    app::App,
    key::{Holder, Key},
    user::User,
};
use index::{Filter, Method, SortKey};
use proto::{
    key::{
        self, CreateAppKeyRequest, CreateAppKeyResponse, CreateUserKeyRequest, CreateUserKeyResponse,
        DeleteAppKeyRequest, DeleteUserKeyRequest, GetAppKeyRequest, GetKey, GetUserKeyRequest, KeyFieldName, KeyType,
        PrivateKey, SearchAppKeysRequest, SearchUserKeysRequest, key_search_filter::Filter as Wanted,
    },
    object::Details,
    shape::{Get, Identified, Request, Search},
    wellknown::Timestamp,
};
use serde_json::Value;
use view::rows::StoredResource;

use crate::{details, standard::Readable};

/// A holder of keys, with the requests that are about these.
pub trait KeyHolder: Holder {
    /// The request that creates a key.
    type Create: Create;
    /// The request that deletes a key.
    type Delete: Identified;
    /// The request for one key.
    type Get: Get<Resource = GetKey>;
    /// The request for several keys.
    type Search: Search<Column = KeyFieldName, Filter = Wanted, Resource = GetKey>;
}

/// A request that creates a key.
pub trait Create: Request {
    /// Returns the requested key.
    fn requested_key(&self) -> key::Key;

    /// Returns the answer, with the private half if the platform has generated it.
    fn response(details: Details, private_key: Option<PrivateKey>) -> Self::Response;
}

impl KeyHolder for App {
    type Create = CreateAppKeyRequest;
    type Delete = DeleteAppKeyRequest;
    type Get = GetAppKeyRequest;
    type Search = SearchAppKeysRequest;
}

impl KeyHolder for User {
    type Create = CreateUserKeyRequest;
    type Delete = DeleteUserKeyRequest;
    type Get = GetUserKeyRequest;
    type Search = SearchUserKeysRequest;
}

impl Create for CreateAppKeyRequest {
    fn requested_key(&self) -> key::Key {
        self.key.clone().unwrap_or_default()
    }

    fn response(details: Details, private_key: Option<PrivateKey>) -> CreateAppKeyResponse {
        CreateAppKeyResponse { details: Some(details), private_key }
    }
}

impl Create for CreateUserKeyRequest {
    fn requested_key(&self) -> key::Key {
        self.key.clone().unwrap_or_default()
    }

    fn response(details: Details, private_key: Option<PrivateKey>) -> CreateUserKeyResponse {
        CreateUserKeyResponse { details: Some(details), private_key }
    }
}

impl<H: KeyHolder> Readable for Key<H> {
    type Get = H::Get;
    type Search = H::Search;

    fn key(column: KeyFieldName) -> SortKey<Self> {
        match column {
            KeyFieldName::Unspecified | KeyFieldName::CreationDate => SortKey::Created,
            KeyFieldName::Id => SortKey::Id,
            KeyFieldName::ChangeDate => SortKey::Changed,
            KeyFieldName::ExpirationDate => SortKey::Column(&Self::EXPIRES_AT),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
        }
    }

    fn of_holder(id: &str) -> Filter<Self> {
        Filter::text(&Self::HOLDER_ID, Method::Equals, id.to_owned())
    }

    fn to_proto(found: &StoredResource<Self>) -> GetKey {
        let expiration_date = Timestamp::from_millisecond(found.state.expires_at);
        let public_key = named(found.state.public.clone(), &found.id).to_string();
        GetKey { details: Some(details::of(found)), public_key, expiration_date }
    }
}

/// Converts the type of a key to generate.
pub fn key_type(wanted: KeyType) -> key_pair::KeyType {
    match wanted {
        KeyType::Rsa => key_pair::KeyType::Rsa2048,
        KeyType::Ec | KeyType::Unspecified => key_pair::KeyType::P256,
        KeyType::Ed25519 => key_pair::KeyType::Ed25519,
    }
}

/// Converts the private half of the key with this id.
pub fn private_key(pair: &KeyPair, id: &str) -> PrivateKey {
    let mut jwk = named(pair.public.clone(), id);
    for (name, member) in &pair.private {
        jwk[name] = member.clone();
    }
    PrivateKey { pem: key_pair::private_pem(&pair.der).to_string(), jwk: jwk.to_string() }
}

/// Adds the id of the key to a JSON Web Key.
fn named(mut jwk: Value, id: &str) -> Value {
    jwk["kid"] = id.into();
    jwk
}
