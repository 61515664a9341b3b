//! Identity providers: where users can log in instead of here.
//!
//! All types of them are one kind of object, and are handled the same way. A type is a struct with its members, rules
//! on them, and a few facts. Members are named and written as in the API's JSON, in `snake_case`, so that no code per
//! type translates between the two.

pub mod client;
pub mod codehost;
pub mod directory_a;
pub mod jwt;
pub mod ldap;
pub mod oauth;
pub mod oidc;
pub mod saml;
pub mod social_b;
mod xml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::{
    client::Client,
    codehost::{OwnEndpoints, OwnIssuer},
    directory_a::DirectoryA,
    jwt::Jwt,
    ldap::Ldap,
    oauth::OAuth,
    oidc::Oidc,
    saml::Saml,
    social_b::SocialB,
};
use super::active;
use crate::{
    column::Column,
    permission::{Permissions, STANDARD},
    projection::Name,
    rejection::Rejection,
    reusable::Reusable,
    secret::Sealed,
    standard::{Resource, States},
};

/// An identity provider, with which users can log in instead of here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idp {
    /// The display name.
    pub name: String,
    /// How accounts of the provider and users are matched.
    pub options: Options,
    /// Whether it is switched on in its own context.
    #[serde(default = "active")]
    pub is_active: bool,
    /// The configuration that is specific to its type.
    pub config: Config,
    /// The secret that the platform authenticates with at the provider, if there is one.
    #[serde(flatten)]
    pub secret: Option<Sealed>,
}

/// How external accounts and users are matched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, as in the API")]
pub struct Options {
    /// Users may link an account they have to an external one.
    pub is_linking_allowed: bool,
    /// Users may create an account from an external one.
    pub is_creation_allowed: bool,
    /// An account is created at the first login with an external one.
    pub is_auto_creation: bool,
    /// The account is updated at each login.
    pub is_auto_update: bool,
    /// The attribute that makes the login offer to link a user; `None` makes it offer nothing.
    pub auto_linking: Option<AutoLinking>,
}

/// The attribute by which a login offers to link a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoLinking {
    /// The external user name is that of a user.
    Username,
    /// The external e-mail is the verified one of exactly one user.
    Email,
}

/// The configuration of one type of providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is of the type that it is named for")]
pub enum Config {
    Oidc(Oidc),
    Jwt(Jwt),
    Ldap(Box<Ldap>),
    Oauth(OAuth),
    DirectoryA(DirectoryA),
    CodehostA(Client),
    CodehostAEs(OwnEndpoints),
    CodehostB(Client),
    CodehostBSelfHosted(OwnIssuer),
    SocialA(Client),
    SocialB(SocialB),
    Saml(Saml),
}

/// The properties of a type of providers.
#[derive(Debug, PartialEq, Eq)]
pub struct Type {
    /// The name, as in paths and in states.
    pub name: &'static str,
    /// The default display name; `None` if a name is required.
    pub brand: Option<&'static str>,
    /// The member that holds the secret.
    pub secret: Option<&'static str>,
    /// Members of which setting one clears the others.
    one_of: &'static [&'static str],
}

/// The rules on the members of a type that the proto cannot state.
trait Rules {
    fn check(&self) -> Result<(), Rejection> {
        Ok(())
    }
}

/// The secret of most types.
const CLIENT_SECRET: Option<&str> = Some("client_secret");

/// The types, a line each.
#[rustfmt::skip]
pub static TYPES: [Type; 12] = [
    Type { name: "oidc", brand: None, secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "jwt", brand: None, secret: None, one_of: &[] },
    Type { name: "ldap", brand: None, secret: Some("bind_password"), one_of: &[] },
    Type { name: "oauth", brand: None, secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "directory_a", brand: None, secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "codehost_a", brand: Some("CodeHostA"), secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "codehost_a_es", brand: None, secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "codehost_b", brand: Some("CodeHostB"), secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "codehost_b_self_hosted", brand: None, secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "social_a", brand: Some("SocialA"), secret: CLIENT_SECRET, one_of: &[] },
    Type { name: "social_b", brand: Some("SocialB"), secret: Some("private_key"), one_of: &[] },
    Type { name: "saml", brand: None, secret: None, one_of: &["metadata_xml", "metadata_url"] },
];

impl Type {
    /// Returns the type with this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        TYPES.iter().find(|known| known.name == name)
    }

    /// Creates a configuration with these members.
    ///
    /// # Errors
    /// If they are not the members of the type.
    pub fn config(&self, members: Map<String, Value>) -> serde_json::Result<Config> {
        let name = ("type".to_owned(), Value::from(self.name));
        serde_json::from_value(members.into_iter().chain([name]).collect())
    }
}

impl Config {
    /// Returns the name of the type, and the rules.
    fn parts(&self) -> (&'static str, &dyn Rules) {
        match self {
            Self::Oidc(config) => ("oidc", config),
            Self::Jwt(config) => ("jwt", config),
            Self::Ldap(config) => ("ldap", config.as_ref()),
            Self::Oauth(config) => ("oauth", config),
            Self::DirectoryA(config) => ("directory_a", config),
            Self::CodehostA(config) => ("codehost_a", config),
            Self::CodehostAEs(config) => ("codehost_a_es", config),
            Self::CodehostB(config) => ("codehost_b", config),
            Self::CodehostBSelfHosted(config) => ("codehost_b_self_hosted", config),
            Self::SocialA(config) => ("social_a", config),
            Self::SocialB(config) => ("social_b", config),
            Self::Saml(config) => ("saml", config),
        }
    }

    /// Returns the type.
    pub fn r#type(&self) -> &'static Type {
        Type::of(self.parts().0).expect("every configuration is of a type")
    }

    /// Returns the members.
    pub fn members(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut members)) = serde_json::to_value(self) else { return Map::new() };
        members.remove("type");
        members
    }

    /// Returns the configuration with some members changed. Members of another type change nothing; the API refuses
    /// them.
    fn patched(self, changes: Map<String, Value>) -> Self {
        let (kind, mut members) = (self.r#type(), self.members());
        if kind.one_of.iter().any(|name| changes.contains_key(*name)) {
            members.retain(|name, _| !kind.one_of.contains(&name.as_str()));
        }
        members.extend(changes);
        kind.config(members).unwrap_or(self)
    }
}

/// A partial update of an [`Idp`].
#[derive(Debug, Clone, Default)]
pub struct IdpPatch {
    /// The type that the update is for; `None` for any.
    pub of: Option<&'static Type>,
    /// See [`Idp::name`].
    pub name: Option<String>,
    /// See [`Idp::options`].
    pub options: Option<Options>,
    /// Members of [`Idp::config`].
    pub config: Map<String, Value>,
    /// See [`Idp::secret`].
    pub secret: Option<Sealed>,
}

/// The columns of the read model.
pub mod column {
    use super::Idp;
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Idp> = Column::text("name", |idp: &Idp| idp.name.clone()).filterable();
    /// Whether it is switched on in its own context.
    pub const IS_ACTIVE: Column<Idp> = Column::bool("is_active", |idp: &Idp| idp.is_active).filterable();
}

impl Resource for Idp {
    const NAME: &'static str = "idp";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME, column::IS_ACTIVE];
    const ROWS: Option<Name> = Some(Name::first("idps"));
    const INDEX: Option<Name> = Some(Name::first("idps_index"));
    const STATES: States = States::Switched;
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("idp", STANDARD)];
    type Patch = IdpPatch;

    fn validate(&self) -> Result<(), Rejection> {
        if self.name.is_empty() {
            return Err(Rejection::invalid("idp.idp.name", "must not be empty for a provider of this type"));
        }
        self.config.parts().1.check()
    }

    fn patched(self, patch: IdpPatch) -> Self {
        Self {
            name: patch.name.unwrap_or(self.name),
            options: patch.options.unwrap_or(self.options),
            config: self.config.patched(patch.config),
            secret: patch.secret.or(self.secret),
            is_active: self.is_active,
        }
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }
}

impl Reusable for Idp {
    const POLICY: &'static str = "idp_state_policy";

    fn is_active(&self) -> bool {
        self.is_active
    }

    fn changes(patch: &IdpPatch) -> bool {
        patch.name.is_some() || patch.options.is_some() || !patch.config.is_empty() || patch.secret.is_some()
    }

    fn is_for(&self, patch: &IdpPatch) -> bool {
        patch.of.is_none_or(|wanted| wanted.name == self.config.r#type().name)
    }
}

#[cfg(test)]
mod tests;
