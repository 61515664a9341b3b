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
use tokio_postgres::types::ToSql;

use crate::{
    checkpoint::unsigned,
    database::{Database, Failure},
    explain::explain,
    keyring::SYSTEM,
    progress::Progress,
    projection::{ACCESS, Sql},
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
    /// The shard where it lives.
    pub shard: u16,
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
    progress: Progress,
    shard: u16,
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
    fresh: Cache<K, Said<V>>,
    last: Cache<K, Said<V>>,
}

/// What the read model said when it had processed some sequence, at least.
struct Said<V> {
    processed: u64,
    found: Option<Arc<V>>,
}

impl<V> Clone for Said<V> {
    fn clone(&self) -> Self {
        Self { processed: self.processed, found: self.found.clone() }
    }
}

impl Directory {
    /// A directory of a shard that reads from this database.
    pub fn new(database: Database, progress: Progress, shard: u16) -> Self {
        let (tenants, standings) = (Arc::new(Known::new(10_000)), Arc::new(Known::new(100_000)));
        Self { database, progress, shard, tenants, standings }
    }

    /// The instance that answers under a host name, as of `sequence` or later if the read model has it.
    pub async fn tenant(&self, host: &str, sequence: u64) -> Result<Option<Arc<Tenant>>, Arc<Failure>> {
        if host.len() > LONGEST_HOST {
            return Ok(None);
        }
        let load = || self.database.within(self.load_tenant(host));
        self.tenants.get(&host.to_owned(), (sequence, &self.progress), load).await
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
        self.standings.get(&key, (sequence, &self.progress), load).await
    }

    async fn load_tenant(&self, host: &str) -> Result<Said<Tenant>, Failure> {
        let connection = self.database.connection().await?;
        let statement = connection.prepare_cached(&TENANT).await?;
        let parameters: [&(dyn ToSql + Sync); 4] = [&ACCESS.name, &ACCESS.version, &i32::from(self.shard), &host];
        let row = connection.query_one(&statement, &parameters).await?;
        let processed = unsigned(row.get("processed"));
        let Some(id) = row.get::<_, Option<String>>("id") else { return Ok(Said { processed, found: None }) };
        let (keys, features) = (connection.prepare_cached(&KEYS).await?, connection.prepare_cached(&FEATURES).await?);
        let contexts: &[&str] = &[&id, SYSTEM];
        let (keys, features) =
            (connection.query(&keys, &[&id]).await?, connection.query(&features, &[&contexts]).await?);
        let read_keys = keys.iter().map(|row| Ok((row.get("id"), state("signing_key", &id, row)?)));
        let found = Tenant {
            processed,
            shard: self.shard,
            instance: state("instance", &id, &row)?,
            primary_domain: row.get("primary_domain"),
            signing_keys: read_keys.collect::<Result<_, Failure>>()?,
            features: features.iter().map(|row| state("feature_settings", &id, row)).collect::<Result<_, _>>()?,
            id,
        };
        Ok(Said { processed, found: Some(Arc::new(found)) })
    }

    async fn load_standing(&self, instance_id: &str, name: &Name) -> Result<Said<Standing>, Failure> {
        let (text, value) = match name {
            Name::Id(id) => (&USER_BY_ID, id),
            Name::Username(username) => (&USER_BY_NAME, username),
        };
        let connection = self.database.connection().await?;
        let statement = connection.prepare_cached(text).await?;
        let shard = i32::from(self.shard);
        let parameters: [&(dyn ToSql + Sync); 5] = [&ACCESS.name, &ACCESS.version, &shard, &instance_id, value];
        let row = connection.query_one(&statement, &parameters).await?;
        let processed = unsigned(row.get("processed"));
        let Some(id) = row.get::<_, Option<String>>("id") else { return Ok(Said { processed, found: None }) };
        let memberships = serde_json::from_str(row.get("memberships")).map_err(|_| Failure::Inconsistent {
            table: "membership",
            instance_id: instance_id.to_owned(),
            id: id.clone(),
        })?;
        let found = Standing {
            processed,
            user: state("user", instance_id, &row)?,
            owner: Owner::organization(row.get::<_, String>("owner_id")),
            memberships,
            id,
        };
        Ok(Said { processed, found: Some(Arc::new(found)) })
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, V: Send + Sync + 'static> Known<K, V> {
    fn new(capacity: u64) -> Self {
        Self {
            fresh: Cache::builder().max_capacity(capacity).time_to_live(TIME_TO_LIVE).build(),
            last: Cache::builder().max_capacity(capacity).time_to_live(KNOWN_FOR).build(),
        }
    }

    /// What is known under a key, as of a sequence or later if the read model has it.
    async fn get<L: Future<Output = Result<Said<V>, Failure>>>(
        &self,
        key: &K,
        (sequence, progress): (u64, &Progress),
        load: impl Fn() -> L,
    ) -> Result<Option<Arc<V>>, Arc<Failure>> {
        let said = match self.fresh.get(key).await {
            Some(said) => said,
            None => self.learn(key, load()).await?,
        };
        if said.processed >= sequence || progress.of(&ACCESS).borrow().sequence < sequence {
            return Ok(said.found);
        }
        // Somebody else may have noticed it first; and who notices it later waits for this load.
        if self.fresh.get(key).await.is_some_and(|said| said.processed < sequence) {
            self.fresh.invalidate(key).await;
        }
        Ok(self.learn(key, load()).await?.found)
    }

    /// Asks the read model, once for all that want to know. Boxed, because most know already.
    async fn learn(
        &self,
        key: &K,
        load: impl Future<Output = Result<Said<V>, Failure>>,
    ) -> Result<Said<V>, Arc<Failure>> {
        Box::pin(self.fresh.try_get_with_by_ref(key, self.load(key, load))).await
    }

    async fn load(&self, key: &K, load: impl Future<Output = Result<Said<V>, Failure>>) -> Result<Said<V>, Failure> {
        let (said, known) = (load.await, self.last.get(key).await);
        match (said, known) {
            (Err(failure @ Failure::Inconsistent { .. }), _) | (Err(failure), None) => Err(failure),
            (Err(failure), Some(known)) => {
                tracing::debug!(error = explain(&failure), "the read model cannot be read; what it said last goes on");
                Ok(known)
            }
            // Postgres has lost what it said; it comes back from the log.
            (Ok(said), Some(known)) if said.processed < known.processed => Ok(known),
            (Ok(said), _) => {
                if said.found.is_some() {
                    self.last.insert(key.clone(), said.clone()).await;
                } else {
                    self.last.remove(key).await;
                }
                Ok(said)
            }
        }
    }
}

static TENANT: Sql = Sql::new(|| {
    with_processed(
        "select i.id, i.state::text, p.name as primary_domain from {schema}.domains d \
         join {schema}.instances i on i.instance_id = d.instance_id and i.id = d.instance_id \
         join {schema}.domains p on p.instance_id = d.instance_id and p.is_primary where d.name = $4",
    )
});

static KEYS: Sql =
    Sql::new(|| ACCESS.sql("select id, state::text from {schema}.signing_keys where instance_id = $1 order by id"));

static FEATURES: Sql = Sql::new(|| {
    ACCESS.sql(
        "select id, state::text from {schema}.feature_settings where instance_id = any($1) and id = any($1) \
         order by instance_id desc",
    )
});

static USER_BY_ID: Sql = Sql::new(|| with_processed(&format!("{USER} and u.id = $5")));

static USER_BY_NAME: Sql = Sql::new(|| with_processed(&format!("{USER} and u.username = $5")));

/// A user with its roles. In one statement, so that a name that exists takes no longer than one that does not.
const USER: &str = "select u.id, u.owner_id, u.state::text, (select coalesce(json_agg(m.state), '[]')::text \
                    from {schema}.memberships m where m.instance_id = u.instance_id and m.user_id = u.id) \
                    as memberships from {schema}.users u where u.instance_id = $4";

/// One row: what the statement finds, if it finds something, and the sequence that the read model had processed. That is
/// read with or before the data, so that it promises no more than the data holds.
fn with_processed(statement: &str) -> String {
    ACCESS.sql(&format!(
        "select (select coalesce(max(sequence), 0) from platform.checkpoints \
         where projection = $1 and version = $2 and shard = $3) as processed, found.* \
         from (values (1)) as one left join ({statement}) as found on true"
    ))
}

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
