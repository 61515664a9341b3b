//! Users with their roles.

use std::sync::Arc;

use domain::{
    context::{Owner, Part},
    resource::{membership::Membership, organization::Organization, user::User},
    rights::permits,
    standard::Resource,
};

use super::{
    AsOf, Cached, Directory, Lookup, Source, is_possible,
    sql::{USER_BY_ID, USER_BY_NAME},
    state,
};
use crate::database::DatabaseFailure;

/// A user as requests see it.
#[derive(Debug)]
pub struct Principal {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
    /// The id.
    pub id: String,
    /// The user.
    pub user: User,
    /// The organization it belongs to.
    pub owner: Owner,
    /// Whether it and its organization are switched on.
    pub is_live: bool,
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
    /// What kind of name it is, and the name.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Id(text) => ("id", text),
            Self::Username(text) => ("username", text),
        }
    }
}

impl Principal {
    /// Whether the user's roles permit something in any of the contexts.
    pub fn may(&self, permission: &str, contexts: &[Owner]) -> bool {
        self.contexts(permission).any(|context| contexts.contains(context))
    }

    /// The contexts in which, and below which, the user's roles permit something.
    pub fn contexts(&self, permission: &str) -> impl Iterator<Item = &Owner> {
        self.permitting(permission).filter(|held| held.part.is_none()).map(|held| &held.context)
    }

    /// The parts of contexts in which the user's roles permit something.
    pub fn parts(&self, permission: &str) -> impl Iterator<Item = (&Owner, &Part)> {
        self.permitting(permission).filter_map(|held| Some((&held.context, held.part.as_ref()?)))
    }

    /// Whether the user's roles permit something in any context or part of one.
    pub fn may_somewhere(&self, permission: &str) -> bool {
        self.permitting(permission).next().is_some()
    }

    fn permitting(&self, permission: &str) -> impl Iterator<Item = &Membership> {
        let gives = move |held: &&Membership| permits(held.roles.iter().map(String::as_str), permission);
        self.memberships.iter().filter(gives)
    }
}

impl Directory {
    /// A user of an instance, as of `sequence` or later if the read model has it.
    pub async fn principal(
        &self,
        instance_id: &str,
        name: Name,
        sequence: u64,
    ) -> Result<Option<Arc<Principal>>, Arc<DatabaseFailure>> {
        let (kind, text) = name.parts();
        if !is_possible(text) {
            return Ok(None);
        }
        let load = || self.database.within(self.load_principal(instance_id, &name));
        self.principals.get(Lookup::of(kind, &[instance_id, text]), self.required(sequence), load).await
    }

    async fn load_principal(&self, instance_id: &str, name: &Name) -> Result<Cached<Principal>, DatabaseFailure> {
        let (query, value) = match name {
            Name::Id(id) => (&USER_BY_ID, id),
            Name::Username(username) => (&USER_BY_NAME, username),
        };
        let row = self.row(query, instance_id, &[value]).await?;
        // A name that somebody has must not be found faster than one that nobody has.
        let lasts = matches!(name, Name::Id(_));
        let source = Source::of(&row);
        let source = Source { lasts: lasts && source.lasts, ..source };
        let Some(id) = row.get::<_, Option<String>>("id") else {
            return Ok(Cached { source, found: None, dependencies: self.dependencies(query, instance_id, &[]) });
        };
        let owner: String = row.get("owner_id");
        let memberships = serde_json::from_str(row.get("memberships")).map_err(|_| DatabaseFailure::Inconsistent {
            table: Membership::NAME,
            instance_id: instance_id.to_owned(),
            id: id.clone(),
        })?;
        let user: User = state(User::NAME, instance_id, &row)?;
        let objects = [(User::NAME, id.as_str()), (Organization::NAME, &owner)];
        let is_wanted = match name {
            Name::Id(_) => true,
            Name::Username(username) => user.username == *username,
        };
        let dependencies = self.dependencies(query, instance_id, if is_wanted { &objects } else { &[] });
        let found = Principal {
            as_of: source.as_of.clone(),
            is_live: user.is_live() && row.get::<_, bool>("is_open"),
            user,
            owner: Owner::organization(owner),
            memberships,
            id,
        };
        Ok(Cached { source, found: is_wanted.then(|| Arc::new(found)), dependencies })
    }
}
