//! Any identity provider of SAML 2.0.

use serde::{Deserialize, Serialize};

use super::{Rules, xml};
use crate::rejection::Rejection;

/// The longest metadata, in bytes.
pub const LONGEST_METADATA: usize = 200_000;

/// An identity provider of SAML 2.0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saml {
    /// The metadata; empty if it is fetched from an address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub metadata_xml: String,
    /// The address of the metadata.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub metadata_url: String,
    /// How requests are sent to it.
    pub binding: Binding,
    /// Whether requests are signed.
    pub with_signed_request: bool,
    /// How requests are signed.
    pub signature_algorithm: SignatureAlgorithm,
    /// The identifier of users.
    pub name_id_format: NameIdFormat,
    /// The attribute that identifies users whose names are transient.
    pub transient_mapping_attribute_name: String,
    /// Whether users who log out here are logged out there.
    pub federated_logout_enabled: bool,
}

/// How requests are sent to a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// In a form (HTTP-POST).
    #[default]
    #[serde(rename = "SAML_BINDING_POST", alias = "SAML_BINDING_UNSPECIFIED")]
    Post,
    /// In an address (HTTP-Redirect).
    #[serde(rename = "SAML_BINDING_REDIRECT")]
    Redirect,
    /// By a reference that the provider resolves.
    #[serde(rename = "SAML_BINDING_ARTIFACT")]
    Artifact,
}

/// How requests are signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureAlgorithm {
    /// With RSA and SHA-1.
    #[serde(rename = "SAML_SIGNATURE_ALGORITHM_RSA_SHA1")]
    RsaSha1,
    /// With RSA and SHA-256.
    #[default]
    #[serde(rename = "SAML_SIGNATURE_ALGORITHM_RSA_SHA256", alias = "SAML_SIGNATURE_ALGORITHM_UNSPECIFIED")]
    RsaSha256,
    /// With RSA and SHA-512.
    #[serde(rename = "SAML_SIGNATURE_ALGORITHM_RSA_SHA512")]
    RsaSha512,
}

/// The identifier of users at a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameIdFormat {
    /// Any format that the provider accepts.
    #[serde(rename = "SAML_NAME_ID_FORMAT_UNSPECIFIED_BY_SAML")]
    Any,
    /// The e-mail address.
    #[serde(rename = "SAML_NAME_ID_FORMAT_EMAIL_ADDRESS")]
    EmailAddress,
    /// A persistent name.
    #[default]
    #[serde(rename = "SAML_NAME_ID_FORMAT_PERSISTENT", alias = "SAML_NAME_ID_FORMAT_UNSPECIFIED")]
    Persistent,
    /// A transient name, for one login.
    #[serde(rename = "SAML_NAME_ID_FORMAT_TRANSIENT")]
    Transient,
}

impl Rules for Saml {
    fn check(&self) -> Result<(), Rejection> {
        const FIELD: &str = "idp.config.metadata_xml";
        if self.metadata_xml.is_empty() {
            return Ok(());
        }
        if self.metadata_xml.len() > LONGEST_METADATA {
            return Err(Rejection::invalid(FIELD, "must not have more than 200000 bytes"));
        }
        match xml::root(&self.metadata_xml) {
            Ok(root) if root.rsplit(':').next() == Some("EntityDescriptor") => Ok(()),
            Ok(_) => Err(Rejection::invalid(FIELD, "must be one EntityDescriptor of SAML 2.0")),
            Err(rule) => Err(Rejection::invalid(FIELD, rule)),
        }
    }
}
