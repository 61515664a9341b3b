//! The keys of a running platform, with which tests can make what nobody else can: tokens that have valid signatures
//! and are wrong nevertheless.

use base::signing;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::Value;
use view::{
    database::Database,
    keyring::{Keyring, Purpose, SYSTEM},
    projection::ACCESS,
};

use crate::instance::Instance;

/// The length of the MAC at the end of a consistency token.
const MAC: usize = 16;

/// The keys of a platform.
#[derive(Debug)]
pub struct Secrets {
    keyring: Keyring,
    /// The instance's private signing key.
    signing: EncodingKey,
}

impl Secrets {
    /// Reads the keys from the data folder and the database of a running platform.
    pub async fn of(instance: &Instance) -> Self {
        let key = std::fs::read_to_string(instance.data().join("master.key")).expect("the folder has the key");
        let master = key.parse().expect("it is a master key");
        let database = Database::new(&instance.postgres_url(), 1).expect("the address is right");
        let connection = database.connection().await.expect("Postgres is there");
        let (id, text) =
            (&instance.bootstrap.instance_id, "where instance_id = $1 and state ->> 'algorithm' = 'ES256'");
        let text = ACCESS.sql(&format!("select state ->> 'sealed' from {{schema}}.signing_keys {text}"));
        let row = connection.query_one(&text, &[id]).await;
        let sealed: String = row.expect("it has one key for ES256").get(0);
        drop(connection);
        let keyring = Keyring::new(master, database);
        let wrapping = keyring.key(id, Purpose::SigningKey).await.expect("the master key is right");
        let private = wrapping.open(signing::SEALED, &sealed).expect("the data key is right");
        Self { signing: EncodingKey::from_ec_der(&private), keyring }
    }

    /// Signs any claims like the platform.
    pub fn sign(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.signing).expect("the key is for ES256")
    }

    /// Returns the consistency token of another sequence of the same log.
    pub async fn consistency(&self, token: &str, sequence: u64) -> String {
        self.changed(token, |body| {
            let place = body.len() - 8;
            body[place..].copy_from_slice(&sequence.to_be_bytes());
        })
        .await
    }

    /// Returns a consistency token with a changed body and a valid MAC.
    pub async fn changed(&self, token: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut body = URL_SAFE_NO_PAD.decode(token).expect("tokens are base64url");
        body.truncate(body.len() - MAC);
        change(&mut body);
        let key = self.keyring.key(SYSTEM, Purpose::Consistency).await.expect("the master key is right");
        let mac = key.mac(&[&body]);
        URL_SAFE_NO_PAD.encode([&body, &mac[..MAC]].concat())
    }
}
