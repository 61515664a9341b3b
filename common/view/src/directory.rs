//! The directory: instances and organizations, users with their roles, and the projects, apps, keys and grants that
//! tokens depend on, read through a cache that the log keeps up to date.
//!
//! Its answers serve early refusals and permissions of reads: a write is decided again, on history, in its turn. So the
//! last answers serve for a while when Postgres is down: writes to aggregates in the writer's memory need no Postgres.

mod as_of;
mod changes;
mod key;
mod metadata;
mod principal;
mod project;
mod read_through;
mod sql;
mod token;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use domain::{
    resource::{instance::Instance, organization::Organization, signing_key::SigningKey},
    standard::Resource,
};
use eventlog::log::{Log, LogFailure, Reached};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_postgres::{Row, types::ToSql};

pub use self::{
    as_of::AsOf,
    key::{HeldKey, Signer},
    metadata::Metadata,
    principal::{Name, Principal},
    project::{Audience, Client, Granted, GrantedRole, Grants},
    token::PersonalToken,
};
use self::{
    changes::{Changes, Dependencies},
    read_through::{Answers, Cached, Lookup, ReadThrough, Required, Source, forget_idle},
    sql::{KEYS, ORGANIZATION_BY_DOMAIN, ORGANIZATION_BY_ID, Query, TENANT_BY_DOMAIN, TENANT_BY_ID},
};
use crate::{
    database::{Database, DatabaseFailure},
    progress::Progress,
    projection::ACCESS,
    read_model::ReadModel,
    rows::Stored,
};

/// The longest user name or id, in bytes: 200 characters.
const LONGEST_NAME: usize = 800;
/// The longest host name, in bytes (RFC 1035, section 2.3.4).
const LONGEST_HOST: usize = 255;

/// How many answers of each kind a directory remembers by default.
pub const SIZE: u32 = 50_000;
/// By how much fewer of metadata, which may be long.
const METADATA: usize = 50;

/// An instance as requests see it.
#[derive(Debug)]
pub struct Tenant {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
    /// The instance.
    pub id: String,
    /// The shard where it lives.
    pub shard: u16,
    /// The state of the instance.
    pub instance: Instance,
    /// The host of its issuer.
    pub primary_domain: String,
    /// Its signing keys, by id.
    pub signing_keys: Vec<(String, SigningKey)>,
}

/// An organization as requests see it.
#[derive(Debug)]
pub struct Tenancy {
    /// The id.
    pub id: String,
    /// The organization.
    pub organization: Organization,
}

/// How an instance or an organization is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Locator {
    /// By id.
    Id(String),
    /// By one of its verified domains.
    Domain(String),
}

impl Locator {
    /// What kind of name it is, and the name.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Id(text) => ("id", text),
            Self::Domain(text) => ("domain", text),
        }
    }
}

/// What tells a directory of changes.
pub struct Sources {
    /// The log of what changes.
    pub log: Log,
    /// How far the read models are.
    pub progress: Progress,
    /// How far it is known what has ended.
    pub ended: Reached,
}

/// The directory of a node.
#[derive(Clone)]
pub struct Directory {
    database: Database,
    progress: Progress,
    /// The highest processed sequence that was read from Postgres.
    looked: Arc<AtomicU64>,
    shard: u16,
    changes: Changes,
    tenants: Arc<ReadThrough<Tenant>>,
    /// By instance and name.
    organizations: Arc<ReadThrough<Tenancy>>,
    /// By instance and name.
    principals: Arc<ReadThrough<Principal>>,
    /// By instance and id.
    apps: Arc<ReadThrough<Client>>,
    /// By kind, instance and id.
    keys: Arc<ReadThrough<HeldKey>>,
    /// By instance and id.
    personal_access_tokens: Arc<ReadThrough<PersonalToken>>,
    /// By instance, project, and the organization of the users.
    projects: Arc<ReadThrough<Audience>>,
    /// By instance and user.
    grants: Arc<ReadThrough<Grants>>,
    /// By instance and user.
    metadata: Arc<ReadThrough<Metadata>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Directory {
    /// Opens the directory of a shard, which reads from this database and remembers this many answers of each kind.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn open(sources: Sources, database: Database, shard: u16, size: u32) -> Result<Self, LogFailure> {
        let Sources { log, progress, ended } = sources;
        let changes = Changes::follow(log, database.clone(), shard, ended).await?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let directory = Self {
            database,
            progress,
            looked: Arc::default(),
            shard,
            tenants: Arc::new(ReadThrough::new("tenants", size, &changes)),
            organizations: Arc::new(ReadThrough::new("organizations", size, &changes)),
            principals: Arc::new(ReadThrough::new("users", size, &changes)),
            apps: Arc::new(ReadThrough::new("apps", size, &changes)),
            keys: Arc::new(ReadThrough::new("keys", size, &changes)),
            personal_access_tokens: Arc::new(ReadThrough::new("personal_access_tokens", size, &changes)),
            projects: Arc::new(ReadThrough::new("projects", size, &changes)),
            grants: Arc::new(ReadThrough::new("grants", size, &changes)),
            metadata: Arc::new(ReadThrough::new("metadata", size / METADATA, &changes)),
            changes,
        };
        tokio::spawn(forget_idle(directory.answers()));
        Ok(directory)
    }

    /// The answers of each kind.
    fn answers(&self) -> Vec<Weak<Answers>> {
        let of_instance = [self.tenants.answers(), self.organizations.answers(), self.principals.answers()];
        let of_tokens = [self.apps.answers(), self.keys.answers(), self.personal_access_tokens.answers()];
        let of_projects = [self.projects.answers(), self.grants.answers(), self.metadata.answers()];
        [of_instance, of_tokens, of_projects].concat()
    }

    /// The highest sequence that the read model is known to have processed.
    fn processed(&self) -> u64 {
        self.progress.of(&ACCESS).borrow().sequence.max(self.looked.load(Relaxed))
    }

    /// The sequence at which an object last changed after it was read, as far as this node has followed the log. Where
    /// that is forgotten, it counts as changed.
    pub fn changed_since(&self, instance_id: &str, kind: &'static str, id: &str, as_of: &AsOf) -> Option<u64> {
        self.changes.of_object(instance_id, kind, id, as_of.get())
    }

    /// What is required of an answer as of a sequence.
    fn required(&self, sequence: u64) -> Required {
        Required { sequence, processed: self.processed() }
    }

    /// Waits until the read model has processed a sequence or the time is over, and returns how far it is. Reports of
    /// progress may get lost, or precede the subscription of this node, so Postgres has the last word.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn processed_by(&self, sequence: u64, wait: Duration) -> Result<u64, DatabaseFailure> {
        let known = self.processed();
        if known >= sequence {
            return Ok(known);
        }
        let mut progress = self.progress.of(&ACCESS);
        let told = async { progress.wait_for(|reached| reached.sequence >= sequence).await.map(|it| it.sequence) };
        if let Ok(Ok(reached)) = timeout(wait, told).await {
            return Ok(reached);
        }
        let access = ReadModel::new(&ACCESS, self.shard);
        let look = async { access.checkpoint(&*self.database.connection().await?).await };
        let found = self.database.within(look).await?.map_or(0, |checkpoint| checkpoint.position.sequence);
        self.looked.fetch_max(found, Relaxed);
        Ok(found)
    }

    /// An instance, as of `sequence` or later if the read model has it.
    pub async fn tenant(&self, host: Locator, sequence: u64) -> Result<Option<Arc<Tenant>>, Arc<DatabaseFailure>> {
        let (kind, text) = host.parts();
        if text.len() > LONGEST_HOST || text.contains('\0') {
            return Ok(None);
        }
        let load = || self.database.within(self.load_tenant(&host));
        self.tenants.get(Lookup::of(kind, &[text]), self.required(sequence), load).await
    }

    /// An organization of an instance, as of `sequence` or later if the read model has it.
    pub async fn organization(
        &self,
        instance_id: &str,
        name: Locator,
        sequence: u64,
    ) -> Result<Option<Arc<Tenancy>>, Arc<DatabaseFailure>> {
        let (kind, text) = name.parts();
        if !is_possible(text) {
            return Ok(None);
        }
        let load = || self.database.within(self.load_organization(instance_id, &name));
        self.organizations.get(Lookup::of(kind, &[instance_id, text]), self.required(sequence), load).await
    }

    async fn load_tenant(&self, host: &Locator) -> Result<Cached<Tenant>, DatabaseFailure> {
        let connection = self.database.connection().await?;
        let (query, value) = match host {
            Locator::Id(id) => (&TENANT_BY_ID, id),
            Locator::Domain(name) => (&TENANT_BY_DOMAIN, name),
        };
        let statement = connection.prepare_cached(&query.text).await?;
        let parameters: [&(dyn ToSql + Sync); 4] = [&ACCESS.name, &ACCESS.version, &i32::from(self.shard), &value];
        let row = connection.query_one(&statement, &parameters).await?;
        let source = Source::of(&row);
        let Some(id) = row.get::<_, Option<String>>("id") else {
            let dependencies = self.changes.dependencies(None, &query.kinds, &[]);
            return Ok(Cached { source, found: None, dependencies });
        };
        let signing_keys = KEYS.rows(&*connection, &[&id]).await?.into_iter().map(|Stored { found, .. }| found);
        let kinds = [query.kinds.as_slice(), &[SigningKey::NAME]].concat();
        let dependencies = self.changes.dependencies(Some(&id), &kinds, &[(Instance::NAME, &id)]);
        let found = Tenant {
            as_of: source.as_of.clone(),
            shard: self.shard,
            instance: state(Instance::NAME, &id, &row)?,
            primary_domain: row.get("primary_domain"),
            signing_keys: signing_keys.map(|key| (key.id, key.state)).collect(),
            id,
        };
        Ok(Cached { source, found: Some(Arc::new(found)), dependencies })
    }

    /// What an answer depends on that a statement reads from rows of an instance: for a kind of which objects are given,
    /// only these.
    fn dependencies(&self, query: &Query, instance_id: &str, objects: &[(&'static str, &str)]) -> Dependencies {
        self.changes.dependencies(Some(instance_id), &query.kinds, objects)
    }

    /// Runs a statement about something in an instance, and returns its row.
    async fn row(&self, query: &Query, instance_id: &str, values: &[&str]) -> Result<Row, DatabaseFailure> {
        let connection = self.database.connection().await?;
        let statement = connection.prepare_cached(&query.text).await?;
        let shard = i32::from(self.shard);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&ACCESS.name, &ACCESS.version, &shard, &instance_id];
        parameters.extend(values.iter().map(|value| value as &(dyn ToSql + Sync)));
        Ok(connection.query_one(&statement, &parameters).await?)
    }

    async fn load_organization(&self, instance_id: &str, name: &Locator) -> Result<Cached<Tenancy>, DatabaseFailure> {
        let (query, value) = match name {
            Locator::Id(id) => (&ORGANIZATION_BY_ID, id),
            Locator::Domain(name) => (&ORGANIZATION_BY_DOMAIN, name),
        };
        let row = self.row(query, instance_id, &[value]).await?;
        let id = row.get::<_, Option<String>>("id");
        let objects: Vec<_> = id.iter().map(|id| (Organization::NAME, id.as_str())).collect();
        let dependencies = self.dependencies(query, instance_id, &objects);
        let found = match id {
            Some(id) => Some(Arc::new(Tenancy { organization: state(Organization::NAME, instance_id, &row)?, id })),
            None => None,
        };
        Ok(Cached { source: Source::of(&row), found, dependencies })
    }
}

/// Whether something may have this id.
fn is_possible(id: &str) -> bool {
    !id.contains('\0') && id.len() <= LONGEST_NAME
}

fn state<R: DeserializeOwned>(table: &'static str, instance_id: &str, row: &Row) -> Result<R, DatabaseFailure> {
    serde_json::from_str(row.get("state")).map_err(|_| DatabaseFailure::Inconsistent {
        table,
        instance_id: instance_id.to_owned(),
        id: row.get("id"),
    })
}
