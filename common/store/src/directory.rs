//! Who is who: the instances by their hosts, and what a user may do, through a cache of a second.
//!
//! The answers are early refusals and permissions of reads. A write decides on history again, in its turn. So what was
//! known goes on for a while when Postgres does not answer: writes to aggregates that the writer knows need no Postgres.

use std::{hash::Hash, sync::Arc, time::Duration};

use domain::{
    context::Owner,
    permission::permits,
    resource::{instance::Instance, membership::Membership, signing_key::SigningKey, user::User},
    setting::features::Features,
};
use moka::future::Cache;
use serde::de::DeserializeOwned;

use crate::{
    checkpoint::unsigned,
    database::{Database, Failure},
    keyring::SYSTEM,
};

/// The longest user name or id, in bytes: 200 characters.
const LONGEST_NAME: usize = 800;
/// The longest host name, in bytes (RFC 1035, section 2.3.4).
const LONGEST_HOST: usize = 255;
/// How old an answer may be.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// For how long an answer goes on while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// An instance as requests see it.
#[derive(Debug)]
pub struct Tenant {
    /// The sequence that the read model had processed, at least.
    pub processed: u64,
    /// The instance.
    pub id: String,
    /// What it is.
    pub instance: Instance,
    /// The host of its issuer.
    pub primary_domain: String,
    /// Its signing keys, by id.
    pub signing_keys: Vec<(String, SigningKey)>,
    /// The flags of the instance and of the system, the nearest first.
    pub features: Vec<Features>,
}

/// A user as requests see it.
#[derive(Debug)]
pub struct Standing {
    /// The sequence that the read model had processed, at least.
    pub processed: u64,
    /// The id.
    pub id: String,
    /// The user.
    pub user: User,
    /// The organization it belongs to.
    pub owner: Owner,
    /// Its roles.
    pub memberships: Vec<Membership>,
}

/// How a user is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// By id.
    Id(String),
    /// By user name, which is the `client_id` of a service user.
    Username(String),
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Self::Id(text) | Self::Username(text) => text,
        }
    }
}

/// The directory of a node.
#[derive(Clone)]
pub struct Directory {
    database: Database,
    tenants: Arc<Known<String, Tenant>>,
    standings: Arc<Known<(String, Name), Standing>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Directory").finish_non_exhaustive()
    }
}

/// Answers of Postgres: the fresh ones, and those that stand in for it.
struct Known<K, V> {
    fresh: Cache<K, Option<Arc<V>>>,
    last: Cache<K, Arc<V>>,
}

impl Directory {
    /// A directory that reads from this database.
    pub fn new(database: Database) -> Self {
        Self { database, tenants: Arc::new(Known::new(10_000)), standings: Arc::new(Known::new(100_000)) }
    }

    /// The instance that answers under a host name, as of `sequence` or later if the read model has it.
    pub async fn tenant(&self, host: &str, sequence: u64) -> Result<Option<Arc<Tenant>>, Arc<Failure>> {
        if host.len() > LONGEST_HOST {
            return Ok(None);
        }
        let load = || self.database.within(self.load_tenant(host));
        let is_new = |tenant: Option<&Tenant>| tenant.map_or(0, |tenant| tenant.processed) >= sequence;
        self.tenants.get(&host.to_owned(), is_new, load).await
    }

    /// A user of an instance, as of `sequence` or later if the read model has it.
    pub async fn standing(
        &self,
        instance_id: &str,
        name: Name,
        sequence: u64,
    ) -> Result<Option<Arc<Standing>>, Arc<Failure>> {
        if name.text().contains('\0') || name.text().len() > LONGEST_NAME {
            return Ok(None);
        }
        let key = (instance_id.to_owned(), name);
        let load = || self.database.within(self.load_standing(instance_id, &key.1));
        let is_new = |standing: Option<&Standing>| standing.map_or(0, |standing| standing.processed) >= sequence;
        self.standings.get(&key, is_new, load).await
    }

    async fn load_tenant(&self, host: &str) -> Result<Option<Arc<Tenant>>, Failure> {
        let connection = self.database.connection().await?;
        let statement = connection
            .prepare_cached(&format!(
                "select ({CHECKPOINT}), i.id, i.state::text, p.name as primary_domain from access_1.domains d \
                 join access_1.instances i on i.instance_id = d.instance_id and i.id = d.instance_id \
                 join access_1.domains p on p.instance_id = d.instance_id and p.is_primary where d.name = $1"
            ))
            .await?;
        let Some(row) = connection.query_opt(&statement, &[&host]).await? else { return Ok(None) };
        let id: String = row.get("id");
        let keys = connection
            .prepare_cached("select id, state::text from access_1.signing_keys where instance_id = $1 order by id")
            .await?;
        let features = connection
            .prepare_cached("select id, state::text from access_1.feature_settings where instance_id = any($1) and id = any($1) order by instance_id desc")
            .await?;
        let contexts: &[&str] = &[&id, SYSTEM];
        let (keys, features) =
            (connection.query(&keys, &[&id]).await?, connection.query(&features, &[&contexts]).await?);
        let read_keys = keys.iter().map(|row| Ok((row.get("id"), state("signing_key", &id, row)?)));
        Ok(Some(Arc::new(Tenant {
            processed: unsigned(row.get(0)),
            instance: state("instance", &id, &row)?,
            primary_domain: row.get("primary_domain"),
            signing_keys: read_keys.collect::<Result<_, Failure>>()?,
            features: features.iter().map(|row| state("feature_settings", &id, row)).collect::<Result<_, _>>()?,
            id,
        })))
    }

    async fn load_standing(&self, instance_id: &str, name: &Name) -> Result<Option<Arc<Standing>>, Failure> {
        let (column, value) = match name {
            Name::Id(id) => ("id", id),
            Name::Username(username) => ("username", username),
        };
        let connection = self.database.connection().await?;
        // One statement, so that a name that exists takes no longer than one that does not.
        let text = format!(
            "select ({CHECKPOINT}), u.id, u.owner_id, u.state::text, (select coalesce(json_agg(m.state), '[]')::text \
             from access_1.memberships m where m.instance_id = u.instance_id and m.user_id = u.id) as memberships \
             from access_1.users u where u.instance_id = $1 and u.{column} = $2"
        );
        let statement = connection.prepare_cached(&text).await?;
        let Some(row) = connection.query_opt(&statement, &[&instance_id, value]).await? else { return Ok(None) };
        let memberships = serde_json::from_str(row.get("memberships")).map_err(|_| Failure::Inconsistent {
            table: "membership",
            instance_id: instance_id.to_owned(),
            id: row.get("id"),
        })?;
        Ok(Some(Arc::new(Standing {
            processed: unsigned(row.get(0)),
            user: state("user", instance_id, &row)?,
            owner: Owner::organization(row.get::<_, String>("owner_id")),
            memberships,
            id: row.get("id"),
        })))
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, V: Send + Sync + 'static> Known<K, V> {
    fn new(capacity: u64) -> Self {
        Self {
            fresh: Cache::builder().max_capacity(capacity).time_to_live(TIME_TO_LIVE).build(),
            last: Cache::builder().max_capacity(capacity).time_to_live(KNOWN_FOR).build(),
        }
    }

    async fn get<L: Future<Output = Result<Option<Arc<V>>, Failure>>>(
        &self,
        key: &K,
        is_new: impl Fn(Option<&V>) -> bool,
        load: impl Fn() -> L,
    ) -> Result<Option<Arc<V>>, Arc<Failure>> {
        let cached = self.fresh.try_get_with_by_ref(key, self.load(key, load())).await?;
        if is_new(cached.as_deref()) {
            return Ok(cached);
        }
        let loaded = self.load(key, load()).await?;
        self.fresh.insert(key.clone(), loaded.clone()).await;
        Ok(loaded)
    }

    async fn load(
        &self,
        key: &K,
        load: impl Future<Output = Result<Option<Arc<V>>, Failure>>,
    ) -> Result<Option<Arc<V>>, Failure> {
        match load.await {
            Ok(Some(found)) => {
                self.last.insert(key.clone(), found.clone()).await;
                Ok(Some(found))
            }
            Ok(None) => {
                self.last.remove(key).await;
                Ok(None)
            }
            Err(failure @ Failure::Inconsistent { .. }) => Err(failure),
            Err(failure) => match self.last.get(key).await {
                Some(known) => {
                    tracing::debug!(error = %failure, "the read model cannot be read; what it said last goes on");
                    Ok(Some(known))
                }
                None => Err(failure),
            },
        }
    }
}

/// Read with or before the data, so that it promises no more than the data holds.
const CHECKPOINT: &str =
    "select coalesce(max(sequence), 0) from platform.checkpoints where projection = 'access' and version = 1";

fn state<R: DeserializeOwned>(table: &'static str, instance_id: &str, row: &tokio_postgres::Row) -> Result<R, Failure> {
    serde_json::from_str(row.get("state")).map_err(|_| Failure::Inconsistent {
        table,
        instance_id: instance_id.to_owned(),
        id: row.get("id"),
    })
}

impl Tenant {
    /// Whether a feature is switched on; a flag that no context sets is off.
    pub fn has_feature(&self, flag: &str) -> bool {
        self.features.iter().find_map(|features| features.flag(flag)).unwrap_or(false)
    }
}

impl Standing {
    /// Whether the user's roles permit something in any of the contexts.
    pub fn may(&self, permission: &str, contexts: &[Owner]) -> bool {
        let held = self.memberships.iter().filter(|membership| contexts.contains(&membership.context));
        permits(held.flat_map(|membership| membership.roles.iter().map(String::as_str)), permission)
    }
}
