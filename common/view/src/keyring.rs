//! Data keys: unwrapped with the master key when first needed, then cached in memory.

mod master;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

pub use self::master::{Malformed, MasterKeys};
use base::{fold::fold, secret::SymmetricKey};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    claim::Claim,
    resource::data_key::DataKey,
    secret::{Hashed, Wrapped},
    standard::Resource,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use quick_cache::sync::Cache;
use zeroize::Zeroizing;

use crate::{
    database::{self, Database, snapshot},
    history::ClaimHash,
    projection::ACCESS,
    read_model::{ReadModel, Select},
    rows::{Stored, StoredResource},
};

/// The instance id of what belongs to the system.
pub const SYSTEM: &str = "";

/// What a data key is for. A key of one purpose is never used for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Hashes of values that only one aggregate may hold.
    Claim,
    /// Hashes of client secrets.
    ClientSecret,
    /// Private signing keys.
    SigningKey,
    /// Secrets of resources, such as the keys that sign calls to targets.
    Resource,
    /// Answers to idempotent commands.
    Answer,
    /// Consistency tokens; owned by the system.
    Consistency,
}

/// How many keys a node caches.
const MOST_KEYS: usize = 100_000;
/// The purposes of the keys that an instance has.
pub const OF_INSTANCE: [Purpose; 5] =
    [Purpose::Claim, Purpose::ClientSecret, Purpose::SigningKey, Purpose::Resource, Purpose::Answer];
/// The purposes of the keys that the system has.
pub const OF_SYSTEM: [Purpose; 3] = [Purpose::Claim, Purpose::Consistency, Purpose::Resource];

/// Why a data key is unavailable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyringFailure {
    /// There is no such key yet: nothing is set up, or the read model has not seen it.
    #[error("there is no data key of {purpose:?} for instance {instance_id:?}")]
    Absent {
        /// The instance.
        instance_id: String,
        /// The purpose of the key.
        purpose: Purpose,
    },
    /// The master key is not the one that wrapped it.
    #[error("the master key is not the one that this log was set up with; start with the one that was")]
    WrongMasterKey,
    /// The read model does not have all data keys yet.
    #[error("the read model does not have all data keys yet")]
    Lags,
    /// The read model cannot be read.
    #[error(transparent)]
    Database(Arc<database::DatabaseFailure>),
}

/// A data key that an older master key wraps.
#[derive(Debug, Clone)]
pub struct Outdated {
    /// The instance.
    pub instance_id: String,
    /// The id of the data key.
    pub id: String,
    /// The data key as the older master key wraps it.
    pub wrapped: Wrapped,
    /// The data key as the newest master key wraps it.
    pub anew: Wrapped,
}

/// The data keys of all instances.
#[derive(Clone)]
pub struct Keyring {
    master: Arc<RwLock<Arc<MasterKeys>>>,
    database: Database,
    keys: Arc<Cache<Name, Arc<SymmetricKey>>>,
    /// The loads that are under way, shared by all callers that wait for one; a load ends with the last of them.
    loading: Arc<Mutex<HashMap<Name, WeakShared<Loading>>>>,
}

/// The instance of a data key, and what the key is for.
type Name = (String, Purpose);
type Loading = BoxFuture<'static, Result<Arc<SymmetricKey>, KeyringFailure>>;

impl std::fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Keyring").finish_non_exhaustive()
    }
}

impl Keyring {
    /// Creates a keyring of the data keys that these master keys wrap.
    pub fn new(master: MasterKeys, database: Database) -> Self {
        let master = Arc::new(RwLock::new(Arc::new(master)));
        Self { master, database, keys: Arc::new(Cache::new(MOST_KEYS)), loading: Arc::default() }
    }

    fn master(&self) -> Arc<MasterKeys> {
        self.master.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The id of the master key that wraps.
    pub fn master_key_id(&self) -> String {
        self.master().id()
    }

    /// Replaces the master keys.
    ///
    /// # Errors
    /// When they do not open the existing data keys; the previous ones stay in use.
    pub async fn change_master(&self, master: MasterKeys) -> Result<(), KeyringFailure> {
        self.open(&master, SYSTEM, Purpose::Consistency).await?;
        *self.master.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(master);
        Ok(())
    }

    /// The data key of an instance for a purpose.
    pub async fn key(&self, instance_id: &str, purpose: Purpose) -> Result<Arc<SymmetricKey>, KeyringFailure> {
        let name = (instance_id.to_owned(), purpose);
        if let Some(key) = self.keys.get(&name) {
            return Ok(key);
        }
        self.loading(name).await
    }

    /// The load that is under way, or a new one.
    fn loading(&self, name: Name) -> Shared<Loading> {
        let mut all = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loading) = all.get(&name).and_then(WeakShared::upgrade) {
            return loading;
        }
        let loading = self.clone().load(name.clone()).boxed().shared();
        all.extend(loading.downgrade().map(|weak| (name, weak)));
        loading
    }

    async fn load(self, name: Name) -> Result<Arc<SymmetricKey>, KeyringFailure> {
        // The key may have been loaded since it was found missing.
        let loaded = match self.keys.get(&name) {
            Some(key) => Ok(key),
            None => self.open(&self.master(), &name.0, name.1).await,
        };
        if let Ok(key) = &loaded {
            self.keys.insert(name.clone(), key.clone());
        }
        self.loading.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        loaded
    }

    async fn open(
        &self,
        master: &MasterKeys,
        instance_id: &str,
        purpose: Purpose,
    ) -> Result<Arc<SymmetricKey>, KeyringFailure> {
        let wrapped = self
            .database
            .within(self.wrapped(instance_id, purpose))
            .await
            .map_err(|error| KeyringFailure::Database(Arc::new(error)))?;
        let wrapped = wrapped.ok_or_else(|| KeyringFailure::Absent { instance_id: instance_id.to_owned(), purpose })?;
        unwrap(master, instance_id, purpose.name(), &wrapped)
    }

    async fn wrapped(&self, instance_id: &str, purpose: Purpose) -> Result<Option<Wrapped>, database::DatabaseFailure> {
        static SELECT: Select<DataKey> =
            Select::new(&ACCESS, DataKey::NAME, "where instance_id = $1 and purpose = $2 order by id desc limit 1");
        let connection = self.database.connection().await?;
        let mut keys = SELECT.rows(&*connection, &[&instance_id, &purpose.name()]).await?;
        Ok(keys.pop().map(|key| key.found.state.wrapped))
    }

    /// The data keys of all instances that an older master key wraps, at most `limit` of them, and how many more there
    /// are. `at_least` is the sequence up to which the read model must have them.
    ///
    /// # Errors
    /// [`KeyringFailure::Lags`] where it has not.
    pub async fn outdated(
        &self,
        shard: u16,
        at_least: u64,
        limit: usize,
    ) -> Result<(Vec<Outdated>, usize), KeyringFailure> {
        static SELECT: Select<DataKey> = Select::new(&ACCESS, DataKey::NAME, "order by id");
        let read = async {
            let mut connection = self.database.connection().await?;
            let transaction = snapshot(&mut connection).await?;
            let checkpoint = ReadModel::new(&ACCESS, shard).checkpoint(&transaction).await?;
            let keys = SELECT.rows(&transaction, &[]).await?;
            transaction.commit().await?;
            Ok((checkpoint.map_or(0, |checkpoint| checkpoint.position.sequence), keys))
        };
        let (has, keys) =
            self.database.within(read).await.map_err(|error| KeyringFailure::Database(Arc::new(error)))?;
        if has < at_least {
            return Err(KeyringFailure::Lags);
        }
        let (master, mut outdated) = (self.master(), vec![]);
        for Stored { instance_id, found: StoredResource { id, state: DataKey { purpose, wrapped }, .. } } in keys {
            let associated = associated(&instance_id, &purpose);
            let (opened, is_newest) =
                master.open(&associated, wrapped.expose()).map_err(|_| KeyringFailure::WrongMasterKey)?;
            if !is_newest {
                let anew = Wrapped::new(master.seal(&associated, &Zeroizing::new(opened)));
                outdated.push(Outdated { instance_id, id, wrapped, anew });
            }
        }
        let more = outdated.len().saturating_sub(limit);
        outdated.truncate(limit);
        Ok((outdated, more))
    }

    /// Unwraps a data key that the read model does not have yet.
    ///
    /// # Errors
    /// When the master key is not the one that wrapped it.
    pub fn unwrapped(&self, instance_id: &str, key: &DataKey) -> Result<Arc<SymmetricKey>, KeyringFailure> {
        unwrap(&self.master(), instance_id, &key.purpose, &key.wrapped)
    }

    /// A new data key, and the resource that lets every node unwrap it.
    pub fn create(&self, instance_id: &str, purpose: Purpose) -> (SymmetricKey, DataKey) {
        let key = SymmetricKey::random();
        let wrapped = self.master().seal(&associated(instance_id, purpose.name()), key.expose());
        (key, DataKey { purpose: purpose.name().to_owned(), wrapped: Wrapped::new(wrapped) })
    }
}

/// The hash of a secret under its instance's key ([`Purpose::ClientSecret`]), as it is stored: of a client, or of a
/// personal access token, by its id.
pub fn secret_hash(key: &SymmetricKey, id: &str, secret: &str) -> Hashed {
    Hashed::new(URL_SAFE_NO_PAD.encode(key.mac(&[id.as_bytes(), secret.as_bytes()])))
}

fn unwrap(
    master: &MasterKeys,
    instance_id: &str,
    purpose: &str,
    wrapped: &Wrapped,
) -> Result<Arc<SymmetricKey>, KeyringFailure> {
    let wrong = |_| KeyringFailure::WrongMasterKey;
    let (opened, _) = master.open(&associated(instance_id, purpose), wrapped.expose()).map_err(wrong)?;
    let bytes = opened.try_into().map_err(|_| KeyringFailure::WrongMasterKey)?;
    Ok(Arc::new(SymmetricKey::new(bytes)))
}

/// The hash of a claim under the key of its bounds.
pub fn claim_hash(key: &SymmetricKey, claim: &Claim) -> ClaimHash {
    if claim.is_hashed {
        // A text that is not a hash is hashed like any other, and collides with no other claim.
        let hash = URL_SAFE_NO_PAD.decode(&claim.value).ok().and_then(|hash| hash.try_into().ok());
        if let Some(hash) = hash {
            return hash;
        }
    }
    let value = if claim.folds { fold(&claim.value) } else { claim.value.clone() };
    key.mac(&[claim.kind.as_bytes(), value.as_bytes()])
}

impl Purpose {
    /// The name under which the key is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::ClientSecret => "client_secret",
            Self::SigningKey => "signing_key",
            Self::Resource => "resource",
            Self::Answer => "answer",
            Self::Consistency => "consistency",
        }
    }
}

/// Whether a master key opens a data key of an instance.
pub fn opens(master: &MasterKeys, instance_id: &str, key: &DataKey) -> bool {
    master.open(&associated(instance_id, &key.purpose), key.wrapped.expose()).is_ok()
}

/// The hash of a claim as text, for states whose value is sealed.
pub fn hashed_claim(key: &SymmetricKey, claim: &Claim) -> Hashed {
    Hashed::new(URL_SAFE_NO_PAD.encode(claim_hash(key, claim)))
}

/// Binds a wrapped key to its instance and purpose.
fn associated(instance_id: &str, purpose: &str) -> String {
    format!("data-key/{instance_id}/{purpose}")
}
