//! Domains: the hosts under which an instance answers, and the names that organizations have proven to own.

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    column::Column,
    context::{Owner, OwnerType},
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    rejection::Rejection,
    standard::Resource,
};

/// A host name of an instance or of an organization. It means nothing before it is verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The host name or the literal address, without port, in lower case.
    pub name: String,
    /// Whether it is the primary domain of its context: the issuer of an instance is derived from it.
    pub is_primary: bool,
    /// Whether it was proven to belong to the context.
    #[serde(default = "verified")]
    pub is_verified: bool,
    /// The challenge that must be found at the domain to prove that: 32 letters and digits. It is public.
    #[serde(default)]
    pub challenge: String,
    /// The instance or organization; `None` if an older build wrote it, for an instance.
    #[serde(default)]
    pub context: Option<Owner>,
}

/// A partial update of a [`Domain`].
#[derive(Debug, Clone, Default)]
pub struct DomainPatch {
    /// See [`Domain::name`]. Another name is not verified.
    pub name: Option<String>,
    /// See [`Domain::is_primary`].
    pub is_primary: Option<bool>,
    /// See [`Domain::is_verified`].
    pub is_verified: Option<bool>,
    /// Sets [`Domain::context`] if an older build left it out.
    pub context: Option<Owner>,
}

/// The default for domains from before there was verification.
fn verified() -> bool {
    true
}

impl Domain {
    /// Creates a verified host of an instance.
    pub fn of_instance(instance_id: &str, name: &str, is_primary: bool) -> Self {
        let context = Some(Owner::instance(instance_id));
        Self { name: name.to_owned(), is_primary, is_verified: true, challenge: String::new(), context }
    }

    /// Returns the name of the TXT record in which the challenge must be found, unless it is found at the URL.
    pub fn dns_record(&self) -> String {
        format!("_platform-challenge.{}", self.name)
    }

    /// Returns the URL at which the challenge must be found.
    pub fn http_url(&self) -> String {
        format!("https://{}/.well-known/platform-challenge/{}.txt", self.name, self.challenge)
    }

    /// Returns the claim that only one verified domain may hold: hosts of instances are unique in the system, names of
    /// organizations in their instance.
    pub fn claim(context: Option<&Owner>, name: &str) -> Claim {
        match organization(context) {
            None => Claim::system("instance_domain", name),
            Some(_) => Claim::instance("organization_domain", name),
        }
    }

    /// Returns the claim by which the primary domain of a context is found.
    pub fn primary_claim(context: &Owner) -> Claim {
        Claim::instance("primary_domain", &context.id)
    }
}

fn organization(context: Option<&Owner>) -> Option<&str> {
    context.filter(|context| context.kind == OwnerType::Organization).map(|context| context.id.as_str())
}

/// The columns of the read model.
pub mod column {
    use super::Domain;
    use crate::column::{Column, Lookup};

    /// The domain name.
    pub const NAME: Column<Domain> =
        Column::text("name", |domain: &Domain| domain.name.clone()).filterable().looked_up(Lookup::System);
    /// Whether it is the primary one of its context.
    pub const IS_PRIMARY: Column<Domain> = Column::bool("is_primary", |domain: &Domain| domain.is_primary).filterable();
    /// Whether it is known to belong to its context.
    pub const IS_VERIFIED: Column<Domain> =
        Column::bool("is_verified", |domain: &Domain| domain.is_verified).filterable();
}

impl Resource for Domain {
    const NAME: &'static str = "domain";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME, column::IS_PRIMARY, column::IS_VERIFIED];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("domains_index"));
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("domain", STANDARD)];
    type Patch = DomainPatch;

    fn validate(&self) -> Result<(), Rejection> {
        if self.is_primary && !self.is_verified {
            return Err(Rejection::Precondition("a primary domain must be verified"));
        }
        Ok(())
    }

    fn patched(self, DomainPatch { name, is_primary, is_verified, context }: DomainPatch) -> Self {
        let name = name.unwrap_or_else(|| self.name.clone());
        Self {
            is_primary: is_primary.unwrap_or(self.is_primary),
            is_verified: is_verified.unwrap_or(self.is_verified && name == self.name),
            context: self.context.or(context),
            name,
            ..self
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let context = self.context.as_ref();
        let listed = context.map(|context| Claim::instance("domain", format!("{}/{}", context.id, self.name)));
        let verified = self.is_verified.then(|| Self::claim(context, &self.name));
        let primary = context.filter(|_| self.is_primary).map(Self::primary_claim);
        listed.into_iter().chain(verified).chain(primary).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, given},
    };

    fn pending() -> Domain {
        Domain { is_verified: false, challenge: "x".repeat(32), ..Domain::of_instance("1", "acme.example", false) }
    }

    fn added(domain: Domain) -> Event<Domain> {
        Event::Added(domain.into())
    }

    #[test]
    fn a_domain_of_an_older_build_is_verified() {
        let old: Domain = serde_json::from_str(r#"{ "name": "localhost", "is_primary": true }"#).unwrap();
        assert_eq!(old, Domain { context: None, ..Domain::of_instance("1", "localhost", true) });
    }

    #[test]
    fn only_a_verified_one_holds_the_name() {
        let name = Domain::claim(None, "acme.example");
        assert!(!pending().claims().contains(&name));
        assert!(Domain { is_verified: true, ..pending() }.claims().contains(&name));
        let of_organization = Some(Owner::organization("2"));
        let theirs = Domain { is_verified: true, context: of_organization.clone(), ..pending() };
        assert!(!theirs.claims().contains(&name), "the host of an instance is another thing");
        assert!(theirs.claims().contains(&Domain::claim(of_organization.as_ref(), "acme.example")));
    }

    #[test]
    fn only_a_verified_one_becomes_primary() {
        let first = DomainPatch { is_primary: Some(true), ..DomainPatch::default() };
        given::<Standard<Domain>>([added(pending())])
            .when(Command::Patch(first))
            .then_rejected(&Rejection::Precondition("a primary domain must be verified"));
    }

    #[test]
    fn another_name_is_not_verified() {
        let verified = Domain { is_verified: true, ..pending() };
        let rename = |name: &str| Command::Patch(DomainPatch { name: Some(name.into()), ..DomainPatch::default() });
        given::<Standard<Domain>>([added(verified.clone())]).when(rename("acme.example")).then([]);
        let to = Domain { name: "other.example".into(), ..pending() };
        let fields = vec!["is_verified".into(), "name".into()];
        given::<Standard<Domain>>([added(verified.clone())])
            .when(rename("other.example"))
            .then([Event::Changed { to: to.into(), fields }]);
        given::<Standard<Domain>>([added(Domain { is_primary: true, ..verified })])
            .when(rename("other.example"))
            .then_rejected(&Rejection::Precondition("a primary domain must be verified"));
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        let domain = Domain { context: None, is_verified: true, ..pending() };
        assert_columns(&domain, &json!({ "name": "acme.example", "is_primary": false, "is_verified": true }));
        let patch = DomainPatch::default;
        let context = Owner::organization("2");
        assert_patches(
            &domain,
            vec![
                (
                    DomainPatch { name: Some("b.example".into()), ..patch() },
                    json!({ "name": "b.example", "is_verified": false }),
                ),
                (DomainPatch { is_primary: Some(true), ..patch() }, json!({ "is_primary": true })),
                (DomainPatch { is_verified: Some(false), ..patch() }, json!({ "is_verified": false })),
                (DomainPatch { context: Some(context.clone()), ..patch() }, json!({ "context": context })),
            ],
            &["challenge"],
        );
    }

    #[test]
    fn a_domain_stays_in_its_context() {
        let elsewhere = DomainPatch { context: Some(Owner::instance("2")), ..DomainPatch::default() };
        given::<Standard<Domain>>([added(pending())]).when(Command::Patch(elsewhere)).then([]);
    }

    #[test]
    fn a_domain_is_listed_in_its_context_and_found_where_it_is_the_first() {
        let instance = Owner::instance("1");
        let listed = Claim::instance("domain", "1/acme.example");
        assert_eq!(pending().claims(), vec![listed.clone()]);
        let (host, first) = (Claim::system("instance_domain", "acme.example"), Claim::instance("primary_domain", "1"));
        assert_eq!(Domain::primary_claim(&instance), first);
        assert_eq!(Domain::of_instance("1", "acme.example", true).claims(), [listed, host, first]);
        let theirs = Domain::claim(Some(&Owner::organization("2")), "acme.example");
        assert_eq!(theirs, Claim::instance("organization_domain", "acme.example"));
    }

    #[test]
    fn the_challenge_is_found_under_the_name_of_the_domain() {
        let domain = Domain { challenge: "abc".into(), ..pending() };
        assert_eq!(domain.dns_record(), "_platform-challenge.acme.example");
        assert_eq!(domain.http_url(), "https://acme.example/.well-known/platform-challenge/abc.txt");
    }
}
