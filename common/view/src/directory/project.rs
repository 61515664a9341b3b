//! Apps, projects, and user grants: what tokens for a project depend on.

use std::sync::Arc;

use domain::{
    context::Owner,
    resource::{app::App, organization::Organization, project::Project, user_grant::UserGrant},
    standard::Resource,
};
use serde::Deserialize;

use super::{
    AsOf, Cached, Directory, Lookup, Source, is_possible,
    sql::{APP, GRANTS, PROJECT},
    state,
};
use crate::database::DatabaseFailure;

/// An app as endpoints see it.
#[derive(Debug)]
pub struct Client {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
    /// The id of the app.
    pub id: String,
    /// The state of the app.
    pub app: App,
    /// The organization that it belongs to.
    pub owner: Owner,
    /// Whether it, its project and their organization are switched on.
    pub is_live: bool,
}

/// A project as the users of an organization see it.
#[derive(Debug, Clone)]
pub struct Audience {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
    /// The id of the project.
    pub id: String,
    /// The state of the project.
    pub project: Project,
    /// The organization that it belongs to.
    pub owner: Owner,
    /// Whether it and its organization are switched on.
    pub is_live: bool,
    /// Whether it belongs to the organization of the users.
    pub is_own: bool,
    /// The ids of the project grants, switched on, that granted it to that organization.
    pub project_grants: Vec<String>,
    /// The ids of its apps that are switched on, the first 100: more would fill a token.
    pub apps: Vec<String>,
}

/// The user grants of a user that are in force.
#[derive(Debug, Default)]
pub struct Grants {
    /// The sequence as of which this is so.
    pub as_of: AsOf,
    /// The grants.
    pub granted: Vec<Granted>,
}

/// A user grant that is in force: it exists and is switched on, and so does and is everything that it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Granted {
    /// The id of the user grant.
    pub id: String,
    /// The id of the project grant that it depends on, where the project belongs to another organization.
    pub project_grant_id: Option<String>,
    /// The project.
    pub project_id: String,
    /// The organization that granted it.
    pub organization_id: String,
    /// The primary domain of that organization.
    pub primary_domain: Option<String>,
    /// The roles.
    pub roles: Vec<GrantedRole>,
}

/// A role that was granted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GrantedRole {
    /// The id.
    pub id: String,
    /// The key, by which apps know it.
    pub key: String,
}

impl Audience {
    /// Whether the project admits a user of the organization with these grants.
    pub fn admits(&self, grants: &[Granted]) -> bool {
        let is_of_organization = self.is_own || !self.project_grants.is_empty();
        let is_granted = grants.iter().any(|granted| granted.project_id == self.id);
        self.project.policies.admit(is_of_organization, is_granted)
    }
}

impl Directory {
    /// An app of an instance, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn app(
        &self,
        instance_id: &str,
        id: &str,
        sequence: u64,
    ) -> Result<Option<Arc<Client>>, Arc<DatabaseFailure>> {
        if !is_possible(id) {
            return Ok(None);
        }
        let load = || self.database.within(self.load_app(instance_id, id));
        self.apps.get(Lookup::of("id", &[instance_id, id]), self.required(sequence), load).await
    }

    /// A project of an instance as the users of an organization see it, as of `sequence` or later if the read model has
    /// it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn project(
        &self,
        instance_id: &str,
        id: &str,
        organization_id: &str,
        sequence: u64,
    ) -> Result<Option<Arc<Audience>>, Arc<DatabaseFailure>> {
        if !is_possible(id) {
            return Ok(None);
        }
        let load = || self.database.within(self.load_project(instance_id, id, organization_id));
        self.projects.get(Lookup::of("id", &[instance_id, id, organization_id]), self.required(sequence), load).await
    }

    /// The user grants of a user of an instance, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn grants(
        &self,
        instance_id: &str,
        user_id: &str,
        sequence: u64,
    ) -> Result<Arc<Grants>, Arc<DatabaseFailure>> {
        let load = || self.database.within(self.load_grants(instance_id, user_id));
        Ok(self
            .grants
            .get(Lookup::of("id", &[instance_id, user_id]), self.required(sequence), load)
            .await?
            .unwrap_or_default())
    }

    async fn load_app(&self, instance_id: &str, id: &str) -> Result<Cached<Client>, DatabaseFailure> {
        let row = self.row(&APP, instance_id, &[id]).await?;
        let (source, by_id) = (Source::of(&row), (App::NAME, id));
        let Some(id) = row.get::<_, Option<String>>("id") else {
            return Ok(Cached { source, found: None, dependencies: self.dependencies(&APP, instance_id, &[by_id]) });
        };
        let (app, owner): (App, String) = (state(App::NAME, instance_id, &row)?, row.get("owner_id"));
        let objects = [by_id, (Project::NAME, &app.project_id), (Organization::NAME, &owner)];
        let dependencies = self.dependencies(&APP, instance_id, &objects);
        let (owner, is_live) = (Owner::organization(owner), row.get("is_live"));
        let found = Client { as_of: source.as_of.clone(), app, owner, is_live, id };
        Ok(Cached { source, found: Some(Arc::new(found)), dependencies })
    }

    async fn load_project(
        &self,
        instance_id: &str,
        id: &str,
        organization_id: &str,
    ) -> Result<Cached<Audience>, DatabaseFailure> {
        let row = self.row(&PROJECT, instance_id, &[id, organization_id]).await?;
        let (source, by_id) = (Source::of(&row), (Project::NAME, id));
        let Some(id) = row.get::<_, Option<String>>("id") else {
            return Ok(Cached {
                source,
                found: None,
                dependencies: self.dependencies(&PROJECT, instance_id, &[by_id]),
            });
        };
        let owner: String = row.get("owner_id");
        let dependencies = self.dependencies(&PROJECT, instance_id, &[by_id, (Organization::NAME, &owner)]);
        let found = Audience {
            as_of: source.as_of.clone(),
            project: state(Project::NAME, instance_id, &row)?,
            owner: Owner::organization(owner),
            is_live: row.get("is_live"),
            is_own: row.get("is_own"),
            project_grants: row.get("project_grants"),
            apps: row.get("apps"),
            id,
        };
        Ok(Cached { source, found: Some(Arc::new(found)), dependencies })
    }

    async fn load_grants(&self, instance_id: &str, user_id: &str) -> Result<Cached<Grants>, DatabaseFailure> {
        let row = self.row(&GRANTS, instance_id, &[user_id]).await?;
        let granted = serde_json::from_str(row.get("grants")).map_err(|_| DatabaseFailure::Inconsistent {
            table: UserGrant::NAME,
            instance_id: instance_id.to_owned(),
            id: user_id.to_owned(),
        })?;
        let (source, dependencies) = (Source::of(&row), self.dependencies(&GRANTS, instance_id, &[]));
        Ok(Cached { found: Some(Arc::new(Grants { as_of: source.as_of.clone(), granted })), source, dependencies })
    }
}
