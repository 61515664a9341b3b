//! Roles of projects as claims: which are asked for, and of which grants they follow.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use view::directory::{Audience, Granted};

use crate::{error::Error, scope::Scope};

/// The claim of the roles of the client's own project.
pub(crate) const OWN: &str = "urn:platform:iam:org:project:roles";
/// The most that the roles in a token may take, in bytes: a longer token is refused by the platform itself.
const LARGEST: usize = 4 * 1024;

/// By its key, which organizations gave a role, and their primary domains.
type Roles<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>;

/// What scopes ask for.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    all: bool,
    keys: Vec<&'a str>,
    organizations: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    /// What these scopes ask for.
    pub(crate) fn of(scopes: impl IntoIterator<Item = Scope<'a>>) -> Self {
        scopes.into_iter().fold(Self::default(), |mut asked, scope| {
            match scope {
                Scope::Roles => asked.all = true,
                Scope::Role(key) => asked.keys.push(key),
                Scope::RolesOf(id) => asked.organizations.push(id),
                Scope::OpenId | Scope::Audience(_) | Scope::ResourceOwner => {}
            }
            asked
        })
    }

    /// The roles of a project that grants give, as far as they are asked for here or the project asserts them unasked.
    fn of_project<'b>(&self, project: &Audience, grants: &'b [Granted]) -> Roles<'b> {
        let mut found = Roles::new();
        let is_whole = self.all || project.project.policies.role_assertion;
        let is_asked = |key: &String| is_whole || self.keys.contains(&key.as_str());
        let is_of = |id: &String| self.organizations.is_empty() || self.organizations.contains(&id.as_str());
        for granted in
            grants.iter().filter(|granted| granted.project_id == project.id && is_of(&granted.organization_id))
        {
            for key in granted.roles.iter().filter(|key| is_asked(key)) {
                let domain = granted.primary_domain.as_deref().unwrap_or_default();
                found.entry(key).or_default().insert(&granted.organization_id, domain);
            }
        }
        found
    }

    /// The claims of a token for these projects: one for each of which there are roles to tell.
    ///
    /// # Errors
    /// Where they do not fit.
    pub(crate) fn claims<'b>(
        &self,
        projects: impl IntoIterator<Item = &'b Audience>,
        grants: &[Granted],
    ) -> Result<Map<String, Value>, Error> {
        let mut claims = Map::new();
        for project in projects {
            let roles = self.of_project(project, grants);
            if !roles.is_empty() {
                claims.insert(name(&project.id), json!(roles));
            }
        }
        if json!(claims).to_string().len() > LARGEST {
            let advice = "the roles do not fit into a token: ask for single roles, or for those of one organization";
            return Err(Error::InvalidScope(advice));
        }
        Ok(claims)
    }

    /// The claims that an app of a project gets: under the name that says which project, and under the short one.
    pub(crate) fn claims_for(&self, project: &Audience, grants: &[Granted]) -> Map<String, Value> {
        let roles = self.of_project(project, grants);
        let names = [OWN.to_owned(), name(&project.id)];
        names.into_iter().filter(|_| !roles.is_empty()).map(|name| (name, json!(roles))).collect()
    }
}

/// Whether a claim says roles of some project.
pub(crate) fn is_claim(name: &str) -> bool {
    name == OWN || name.strip_prefix(PREFIX).is_some_and(|rest| rest.ends_with(SUFFIX))
}

const PREFIX: &str = "urn:platform:iam:org:project:";
const SUFFIX: &str = ":roles";

/// The claim of the roles of a project.
fn name(project_id: &str) -> String {
    format!("{PREFIX}{project_id}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use domain::{
        context::Owner,
        resource::project::{Policies, Project},
    };

    use super::*;

    fn project(id: &str, role_assertion: bool) -> Audience {
        let policies = Policies { role_assertion, ..Policies::default() };
        Audience {
            processed: 0,
            id: id.to_owned(),
            project: Project { policies, ..Project::new("Shop") },
            owner: Owner::organization("1"),
            is_live: true,
            is_of_organization: true,
        }
    }

    fn granted(project_id: &str, organization_id: &str, roles: &[&str]) -> Granted {
        Granted {
            project_id: project_id.to_owned(),
            organization_id: organization_id.to_owned(),
            primary_domain: Some(format!("{organization_id}.example")),
            roles: roles.iter().map(|&role| role.to_owned()).collect(),
        }
    }

    fn told(scopes: &[Scope<'_>], project: &Audience) -> Value {
        let grants = [granted("7", "1", &["admin", "guest"]), granted("7", "2", &["guest"]), granted("8", "1", &["x"])];
        json!(Asked::of(scopes.to_vec()).claims([project], &grants).unwrap())
    }

    #[test]
    fn roles_are_told_that_are_asked_for_or_that_the_project_asserts() {
        let (quiet, asserting) = (project("7", false), project("7", true));
        let name = "urn:platform:iam:org:project:7:roles";
        let guest = json!({ "1": "1.example", "2": "2.example" });
        let all = json!({ name: { "admin": { "1": "1.example" }, "guest": guest } });
        assert_eq!(told(&[Scope::OpenId], &quiet), json!({}));
        assert_eq!(told(&[Scope::OpenId], &asserting), all);
        assert_eq!(told(&[Scope::Roles], &quiet), all);
        assert_eq!(told(&[Scope::Role("guest"), Scope::Role("none")], &quiet), json!({ name: { "guest": guest } }));
        let of_second = json!({ name: { "guest": { "2": "2.example" } } });
        assert_eq!(told(&[Scope::Roles, Scope::RolesOf("2")], &quiet), of_second);
        assert_eq!(told(&[Scope::Roles, Scope::RolesOf("3")], &asserting), json!({}));
    }

    #[test]
    fn an_app_sees_the_roles_of_its_own_project_under_both_names() {
        let grants = [granted("7", "1", &["admin"]), granted("8", "1", &["other"])];
        let claims = Asked::of([Scope::Roles]).claims_for(&project("7", false), &grants);
        let roles = json!({ "admin": { "1": "1.example" } });
        assert_eq!(json!(claims), json!({ OWN: roles, "urn:platform:iam:org:project:7:roles": roles }));
        assert!(claims.keys().all(|name| is_claim(name)));
        assert!(!is_claim("urn:platform:iam:org:project:7") && !is_claim("roles"));
        assert_eq!(Asked::of([Scope::Roles]).claims_for(&project("9", false), &grants), Map::new());
    }

    #[test]
    fn roles_that_do_not_fit_are_refused() {
        let keys: Vec<String> = (0..200).map(|number| format!("a role with a long key {number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let grants = [granted("7", "1", &keys)];
        assert!(Asked::of([Scope::Roles]).claims([&project("7", false)], &grants).is_err());
        let claims = Asked::of([Scope::Role(keys[0])]).claims([&project("7", false)], &grants);
        assert_eq!(claims.map(|claims| claims.len()), Ok(1));
    }
}
