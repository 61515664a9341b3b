//! Roles of projects as claims: those that scopes request, of those that user grants give.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use view::directory::{Audience, Granted, Tenant};

use crate::scope::Scope;

/// The claim of the roles of the client's own project.
pub(crate) const OWN: &str = "urn:platform:iam:org:project:roles";
/// What stands before and after the id in the name of the claim of a project.
const PREFIX: &str = "urn:platform:iam:org:project:";
const SUFFIX: &str = ":roles";

/// Roles by their keys, each with the organizations that gave it, and their primary domains.
type Roles<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>;

/// The roles that scopes request.
#[derive(Debug, Default)]
pub(crate) struct RequestedScopes<'a> {
    all: bool,
    keys: Vec<&'a str>,
    organizations: Vec<&'a str>,
}

impl<'a> RequestedScopes<'a> {
    /// Returns the roles that these scopes request.
    pub(crate) fn of(scopes: impl IntoIterator<Item = Scope<'a>>) -> Self {
        scopes.into_iter().fold(Self::default(), |mut asked, scope| {
            match scope {
                Scope::Roles => asked.all = true,
                Scope::Role(key) => asked.keys.push(key),
                Scope::RolesOf(id) => asked.organizations.push(id),
                _ => {}
            }
            asked
        })
    }

    /// Returns the roles of a project that grants give, as far as they are requested or the project asserts them. An
    /// organization without a domain of its own gets that of the instance.
    fn of_project<'b>(&self, host: &'b str, project: &Audience, grants: &'b [Granted]) -> Roles<'b> {
        let mut found = Roles::new();
        let is_whole = self.all || project.project.policies.role_assertion;
        let is_asked = |key: &String| is_whole || self.keys.contains(&key.as_str());
        let is_of = |id: &String| self.organizations.is_empty() || self.organizations.contains(&id.as_str());
        for granted in
            grants.iter().filter(|granted| granted.project_id == project.id && is_of(&granted.organization_id))
        {
            for key in granted.roles.iter().map(|role| &role.key).filter(|key| is_asked(key)) {
                let domain = granted.primary_domain.as_deref().unwrap_or(host);
                found.entry(key).or_default().insert(&granted.organization_id, domain);
            }
        }
        found
    }

    /// Returns the claims of a token for these projects: one for each project with roles.
    pub(crate) fn claims<'b>(
        &self,
        tenant: &Tenant,
        projects: impl IntoIterator<Item = &'b Audience>,
        grants: &[Granted],
    ) -> Map<String, Value> {
        let of = |project| (project, self.of_project(&tenant.primary_domain, project, grants));
        let claims = projects.into_iter().map(of).filter(|(_, roles)| !roles.is_empty());
        claims.map(|(project, roles)| (name(&project.id), json!(roles))).collect()
    }

    /// Returns the claims for an app of a project: under the name with the project's id, and under the short one.
    pub(crate) fn claims_for(&self, tenant: &Tenant, project: &Audience, grants: &[Granted]) -> Map<String, Value> {
        let mut claims = self.claims(tenant, [project], grants);
        let own = claims.get(&name(&project.id)).cloned();
        claims.extend(own.map(|roles| (OWN.to_owned(), roles)));
        claims
    }
}

/// Whether a claim has the roles of a project.
pub(crate) fn is_claim(name: &str) -> bool {
    name == OWN || name.strip_prefix(PREFIX).is_some_and(|rest| rest.ends_with(SUFFIX))
}

/// Returns the name of the claim with the roles of a project.
fn name(project_id: &str) -> String {
    format!("{PREFIX}{project_id}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use domain::{
        context::Owner,
        resource::{
            instance::Instance,
            project::{Policies, Project},
        },
    };

    use view::directory::{AsOf, GrantedRole};

    use super::*;

    fn project(id: &str, role_assertion: bool) -> Audience {
        let policies = Policies { role_assertion, ..Policies::default() };
        Audience {
            as_of: AsOf::default(),
            id: id.to_owned(),
            project: Project { policies, ..Project::new("Shop") },
            owner: Owner::organization("1"),
            is_live: true,
            is_own: true,
            project_grants: vec![],
            apps: vec![],
        }
    }

    fn tenant() -> Tenant {
        Tenant {
            as_of: AsOf::default(),
            id: "1".to_owned(),
            shard: 0,
            instance: Instance::new("Acme", "9"),
            primary_domain: "auth.example".to_owned(),
            signing_keys: vec![],
        }
    }

    fn granted(project_id: &str, organization_id: &str, roles: &[&str]) -> Granted {
        let role = |key: &&str| GrantedRole { id: format!("{project_id}-{key}"), key: (*key).to_owned() };
        Granted {
            id: "1".to_owned(),
            project_grant_id: None,
            project_id: project_id.to_owned(),
            organization_id: organization_id.to_owned(),
            primary_domain: Some(format!("{organization_id}.example")),
            roles: roles.iter().map(role).collect(),
        }
    }

    fn claim_of(scopes: &[Scope<'_>], project: &Audience) -> Value {
        let grants = [granted("7", "1", &["admin", "guest"]), granted("7", "2", &["guest"]), granted("8", "1", &["x"])];
        json!(RequestedScopes::of(scopes.to_vec()).claims(&tenant(), [project], &grants))
    }

    #[test]
    fn roles_are_told_that_are_asked_for_or_that_the_project_asserts() {
        let (quiet, asserting) = (project("7", false), project("7", true));
        let name = "urn:platform:iam:org:project:7:roles";
        let guest = json!({ "1": "1.example", "2": "2.example" });
        let all = json!({ name: { "admin": { "1": "1.example" }, "guest": guest } });
        assert_eq!(claim_of(&[Scope::OpenId], &quiet), json!({}));
        assert_eq!(claim_of(&[Scope::OpenId], &asserting), all);
        assert_eq!(claim_of(&[Scope::Roles], &quiet), all);
        assert_eq!(claim_of(&[Scope::Role("guest"), Scope::Role("none")], &quiet), json!({ name: { "guest": guest } }));
        let of_second = json!({ name: { "guest": { "2": "2.example" } } });
        assert_eq!(claim_of(&[Scope::Roles, Scope::RolesOf("2")], &quiet), of_second);
        assert_eq!(claim_of(&[Scope::Roles, Scope::RolesOf("3")], &asserting), json!({}));
    }

    #[test]
    fn an_app_sees_the_roles_of_its_own_project_under_both_names() {
        let grants = [granted("7", "1", &["admin"]), granted("8", "1", &["other"])];
        let claims = RequestedScopes::of([Scope::Roles]).claims_for(&tenant(), &project("7", false), &grants);
        let roles = json!({ "admin": { "1": "1.example" } });
        assert_eq!(json!(claims), json!({ OWN: roles, "urn:platform:iam:org:project:7:roles": roles }));
        assert!(claims.keys().all(|name| is_claim(name)));
        assert!(!is_claim("urn:platform:iam:org:project:7") && !is_claim("roles"));
        assert_eq!(
            RequestedScopes::of([Scope::Roles]).claims_for(&tenant(), &project("9", false), &grants),
            Map::new()
        );
    }

    #[test]
    fn an_organization_without_a_domain_is_told_with_that_of_the_instance() {
        let grants = [Granted { primary_domain: None, ..granted("7", "1", &["admin"]) }];
        let claims = RequestedScopes::of([Scope::Roles]).claims(&tenant(), [&project("7", false)], &grants);
        let expected = json!({ "urn:platform:iam:org:project:7:roles": { "admin": { "1": "auth.example" } } });
        assert_eq!(json!(claims), expected);
    }
}
