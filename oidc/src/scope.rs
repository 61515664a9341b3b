//! Scopes: what a client requests, and is granted.

use crate::error::Error;

/// The roles of all projects that the token is for.
const ROLES: &str = "urn:platform:iam:org:projects:roles";
/// One role, by its key.
const ROLE: &str = "urn:platform:iam:org:project:role:";
/// Only roles that an organization gave, by its id.
const ROLES_OF: &str = "urn:platform:iam:org:roles:id:";
/// The organization of the user.
const RESOURCE_OWNER: &str = "urn:platform:iam:user:resourceowner";
/// A user of one organization only, by its id.
const ORGANIZATION: &str = "urn:platform:iam:org:id:";
/// A user of one organization only, by its primary domain.
const ORGANIZATION_BY_DOMAIN: &str = "urn:platform:iam:org:domain:primary:";
/// The metadata of the user.
const METADATA: &str = "urn:platform:iam:user:metadata";
const AUDIENCE_PREFIX: &str = "urn:platform:iam:org:project:id:";
const AUDIENCE_SUFFIX: &str = ":aud";
/// A refresh token (OpenID Connect Core 1.0, section 11).
pub(crate) const OFFLINE: &str = "offline_access";
/// How many scopes a request may name.
const MOST_SCOPES: usize = 100;
/// The scopes of OpenID Connect Core 1.0 (sections 5.4 and 11), as in the discovery document.
pub(crate) const STANDARD: [&str; 6] = ["openid", "profile", "email", "phone", "address", OFFLINE];

/// One scope that this server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// `openid`.
    OpenId,
    /// Claims about the user (OpenID Connect Core 1.0, section 5.4); so are the next three.
    Profile,
    /// The e-mail address.
    Email,
    /// The phone number.
    Phone,
    /// The address.
    Address,
    /// A refresh token (OpenID Connect Core 1.0, section 11).
    Offline,
    /// A user of this organization, by its id.
    Organization(&'a str),
    /// A user of this organization, by its primary domain.
    OrganizationOf(&'a str),
    /// The audience of a project, by its id or by the word `platform` for the platform's own.
    Audience(&'a str),
    /// The roles of the user in the projects that the token is for.
    Roles,
    /// One of the roles that the user has, by its key.
    Role(&'a str),
    /// Only roles that an organization gave, by its id.
    RolesOf(&'a str),
    /// The organization that the user belongs to.
    ResourceOwner,
    /// The metadata of the user.
    Metadata,
}

/// Scopes, each with its name.
pub(crate) type Scopes<'a> = &'a [(&'a str, Scope<'a>)];

/// Returns the known scopes of a request, in their order; unknown ones are dropped.
///
/// # Errors
/// `invalid_scope` when there is none, when one has other characters than RFC 6749, section 3.3 allows, or when there
/// are too many.
pub(crate) fn parse(scope: Option<&str>) -> Result<Vec<(&str, Scope<'_>)>, Error> {
    let missing = Error::InvalidScope("scope is missing; ask for openid, for example");
    let scope = scope.filter(|scope| scope.contains(|char| char != ' ')).ok_or(missing)?;
    let is_token = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
    let mut known: Vec<(&str, Scope)> = vec![];
    for (count, word) in scope.split(' ').filter(|word| !word.is_empty()).enumerate() {
        if count == MOST_SCOPES {
            return Err(Error::InvalidScope("too many scopes"));
        }
        if !word.bytes().all(is_token) {
            return Err(Error::InvalidScope("a scope has a character that scopes cannot have"));
        }
        if let Some(scope) = Scope::parse(word)
            && !known.iter().any(|(other, _)| *other == word)
        {
            known.push((word, scope));
        }
    }
    Ok(known)
}

impl<'a> Scope<'a> {
    pub(crate) fn parse(word: &'a str) -> Option<Self> {
        match word {
            "openid" => return Some(Self::OpenId),
            "profile" => return Some(Self::Profile),
            "email" => return Some(Self::Email),
            "phone" => return Some(Self::Phone),
            "address" => return Some(Self::Address),
            OFFLINE => return Some(Self::Offline),
            ROLES => return Some(Self::Roles),
            RESOURCE_OWNER => return Some(Self::ResourceOwner),
            METADATA => return Some(Self::Metadata),
            _ => {}
        }
        let named = |prefix| word.strip_prefix(prefix).filter(|named| !named.is_empty());
        named(ROLE)
            .map(Self::Role)
            .or_else(|| named(ROLES_OF).map(Self::RolesOf))
            .or_else(|| named(ORGANIZATION).map(Self::Organization))
            .or_else(|| named(ORGANIZATION_BY_DOMAIN).map(Self::OrganizationOf))
            .or_else(|| named(AUDIENCE_PREFIX)?.strip_suffix(AUDIENCE_SUFFIX).map(Self::Audience))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_are_dropped_and_none_is_an_error() {
        let known = parse(Some("openid  coffee urn:platform:iam:org:project:id:7:aud openid")).unwrap();
        let scopes: Vec<_> = known.into_iter().map(|(_, scope)| scope).collect();
        assert_eq!(scopes, [Scope::OpenId, Scope::Audience("7")]);
        let words = "urn:platform:iam:org:projects:roles urn:platform:iam:org:project:role:admin \
                     urn:platform:iam:org:roles:id:5 urn:platform:iam:user:resourceowner urn:platform:iam:org:project:role:";
        let known = parse(Some(words)).unwrap().into_iter().map(|(_, scope)| scope).collect::<Vec<_>>();
        assert_eq!(known, [Scope::Roles, Scope::Role("admin"), Scope::RolesOf("5"), Scope::ResourceOwner]);
        assert_eq!(Scope::parse("urn:platform:iam:user:metadata"), Some(Scope::Metadata));
        assert_eq!(Scope::parse("urn:platform:iam:org:id:5"), Some(Scope::Organization("5")));
        let by_domain = "urn:platform:iam:org:domain:primary:acme.example";
        assert_eq!(Scope::parse(by_domain), Some(Scope::OrganizationOf("acme.example")));
        assert!(STANDARD.iter().all(|word| Scope::parse(word).is_some()));
        assert!(parse(None).is_err());
        assert!(parse(Some("  ")).is_err());
        assert!(parse(Some("a\u{7f}")).is_err());
        assert!(parse(Some(&"x ".repeat(101))).is_err());
    }
}
