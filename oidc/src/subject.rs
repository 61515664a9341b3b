//! The facts that the tokens of a user are based on.

use std::{collections::BTreeMap, sync::Arc};

use domain::{resource::user::User, standard::Resource};
use view::directory::{Audience, Granted, Locator, Name, Principal, Tenant};

use crate::{Oidc, audience, error::Error};

/// A user with all facts that its tokens are based on. A token carries the sequence that its issuer had seen, and is
/// dead when one of the facts ended after it: so no part may be older than that.
pub(crate) struct Subject {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) user: Arc<Principal>,
    pub(crate) grants: Vec<Granted>,
    /// The projects that the tokens are for, by id.
    pub(crate) projects: BTreeMap<String, Arc<Audience>>,
    /// A sequence that every part is as of, or newer.
    pub(crate) sequence: u64,
}

impl Subject {
    /// Reads a user with the projects among these ids that exist and are active.
    ///
    /// # Errors
    /// Where the user is not active any more, or something cannot be read.
    pub(crate) async fn read(
        oidc: &Oidc,
        tenant: Arc<Tenant>,
        user: Arc<Principal>,
        projects: &[&str],
    ) -> Result<Self, Error> {
        let mut subject = Self { tenant, user, grants: vec![], projects: BTreeMap::new(), sequence: 0 };
        // What is read last may be newer than what was known before, which is read again then.
        subject.refresh(oidc, projects).await?;
        subject.refresh(oidc, projects).await?;
        let Self { tenant, user, projects, .. } = &subject;
        let seen = projects.values().map(|project| project.as_of.get());
        let sequence = seen.fold(user.as_of.get().min(tenant.as_of.get()), u64::min);
        if !user.is_live || oidc.edge.ended.is_dead(&tenant.id, &user.owner, &[(User::NAME, &user.id)], sequence) {
            return Err(Error::InvalidClient);
        }
        let tenant = tenant.clone();
        subject.projects.retain(|_, project| audience::is_live(oidc, &tenant, project, sequence));
        subject.sequence = sequence;
        Ok(subject)
    }

    /// Reads again what is older than the newest part.
    async fn refresh(&mut self, oidc: &Oidc, projects: &[&str]) -> Result<(), Error> {
        let directory = &oidc.edge.directory;
        let seen = self.projects.values().map(|project| project.as_of.get());
        let newest = seen.fold(self.user.as_of.get().max(self.tenant.as_of.get()), u64::max);
        if self.tenant.as_of.get() < newest {
            let found = directory.tenant(Locator::Id(self.tenant.id.clone()), newest).await?;
            let is_open = |tenant: &Arc<Tenant>| tenant.instance.is_active && !tenant.instance.limits.block;
            self.tenant = found.filter(is_open).ok_or(Error::InvalidClient)?;
        }
        if self.user.as_of.get() < newest {
            let found = directory.principal(&self.tenant.id, Name::Id(self.user.id.clone()), newest).await?;
            self.user = found.ok_or(Error::InvalidClient)?;
        }
        self.grants = audience::grants(oidc, &self.tenant, &self.user, newest).await?;
        self.projects.clear();
        for id in projects {
            if let Some(found) = audience::project(oidc, &self.tenant, id, &self.user.owner.id, newest).await? {
                self.projects.insert(found.id.clone(), found);
            }
        }
        Ok(())
    }
}
