//! Directories that are queried over LDAP.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::Rules;
use crate::rejection::Rejection;

/// A directory that is queried over LDAP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ldap {
    /// Its servers, which are tried one after the other: `ldap://host:port` or `ldaps://host:port`.
    pub servers: Vec<String>,
    /// Whether connections to `ldap://` are upgraded to TLS.
    pub start_tls: bool,
    /// The entry below which users are searched.
    pub base_dn: String,
    /// The entry as which the platform binds.
    pub bind_dn: String,
    /// The attribute that names users.
    pub user_base: String,
    /// The object classes of users.
    pub user_object_classes: Vec<String>,
    /// The attributes that are compared with the login name.
    pub user_filters: Vec<String>,
    /// The time to wait for an answer, in the API's form: `10s`.
    pub timeout: String,
    /// The attributes that describe a user.
    pub attributes: Attributes,
    /// The certificates to trust in addition to those of the machine, in PEM.
    pub root_ca: String,
}

/// The names of the attributes that describe a user; empty ones are not requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "they say what they are, as in the API")]
pub struct Attributes {
    pub id_attribute: String,
    pub first_name_attribute: String,
    pub last_name_attribute: String,
    pub display_name_attribute: String,
    pub nick_name_attribute: String,
    pub preferred_username_attribute: String,
    pub email_attribute: String,
    pub email_verified_attribute: String,
    pub phone_attribute: String,
    pub phone_verified_attribute: String,
    pub preferred_language_attribute: String,
    pub avatar_url_attribute: String,
    pub profile_attribute: String,
}

impl Default for Ldap {
    fn default() -> Self {
        Self {
            timeout: "10s".into(),
            servers: vec![],
            start_tls: false,
            base_dn: String::new(),
            bind_dn: String::new(),
            user_base: String::new(),
            user_object_classes: vec![],
            user_filters: vec![],
            attributes: Attributes::default(),
            root_ca: String::new(),
        }
    }
}

impl Rules for Ldap {
    fn check(&self) -> Result<(), Rejection> {
        for (list, field) in [
            (&self.servers, "idp.config.servers"),
            (&self.user_object_classes, "idp.config.user_object_classes"),
            (&self.user_filters, "idp.config.user_filters"),
        ] {
            if list.is_empty() {
                return Err(Rejection::invalid(field, "must not be empty"));
            }
        }
        let Some(servers) = self.servers.iter().map(|server| address(server)).collect::<Option<Vec<_>>>() else {
            let rule = "must each be ldap:// or ldaps:// with a host and optionally a port, and nothing else";
            return Err(Rejection::invalid("idp.config.servers", rule));
        };
        let mut seen = HashSet::new();
        if !servers.iter().all(|server| seen.insert(server)) {
            return Err(Rejection::invalid("idp.config.servers", "must not have a server twice"));
        }
        if self.start_tls && servers.iter().any(|(scheme, ..)| *scheme == "ldaps") {
            let rule = "must be false if a server is ldaps://, which uses TLS from the start";
            return Err(Rejection::invalid("idp.config.start_tls", rule));
        }
        Ok(())
    }
}

/// Returns scheme, host and port of a server, in one form for each server; `None` if it is not valid.
fn address(server: &str) -> Option<(&'static str, String, u16)> {
    let (scheme, rest) = server.split_once("://")?;
    let (scheme, default) = match scheme.to_ascii_lowercase().as_str() {
        "ldap" => ("ldap", 389),
        "ldaps" => ("ldaps", 636),
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest).to_ascii_lowercase();
    // The colons of an IPv6 address are between brackets.
    let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (rest.as_str(), default),
    };
    let is_literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match is_literal {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(|char| char.is_ascii_alphanumeric() || ".-_".contains(char)),
    };
    is_host.then(|| (scheme, host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_form() {
        let found = ["ldap://A.example", "ldap://a.example:389/", "ldaps://a.example", "LDAP://[::1]:390"].map(address);
        let is = |scheme, host: &str, port| Some((scheme, host.to_owned(), port));
        assert_eq!(found[0], is("ldap", "a.example", 389));
        assert_eq!(found[1], found[0]);
        assert_eq!([&found[2], &found[3]], [&is("ldaps", "a.example", 636), &is("ldap", "[::1]", 390)]);
        for bad in
            ["http://a.example", "ldap://", "ldap://a@b", "ldap://a:0", "ldap://a:x", "ldap://a/b", "ldap://[::g]"]
        {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
