//! Converts identity providers between the API and the core.
//!
//! The requests and answers of all types differ only in the members of the configuration, which have the same names in
//! the core: so they are converted here by their JSON form, and no type has code of its own.

use std::fmt;

use domain::{
    column::Column,
    resource::idp::{AutoLinking, Idp, IdpPatch, Options, Type, column},
    reusable::{ContextState, Policy},
};
use index::{Filter, SortKey};
use proto::{
    idp::{
        self, AutoLinkingOption, GetIdp, IdpFieldName, ProviderType, SearchIdpsRequest,
        idp_search_filter::Filter as Wished,
    },
    object::State,
    shape::Request,
};
use serde_json::{Map, Value, json};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{method, state},
    reusable::{ReusableFilter, ShownReusable, parent, policy, seen_policy},
};

/// The content of a request to create or change a provider.
pub struct Wish {
    /// The type.
    pub of: &'static Type,
    /// The name.
    pub name: Option<String>,
    /// How external accounts and users are matched.
    pub options: Option<Options>,
    /// The policy of the context.
    pub policy: Option<Policy>,
    /// The members of the configuration in the request, except for the secret.
    pub config: Map<String, Value>,
    /// The secret in clear, if there is one.
    pub secret: Option<String>,
}

/// Omits the secret.
impl fmt::Debug for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wish").field("of", &self.of.name).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The error for a message that does not have the form of its type.
#[derive(Debug, thiserror::Error)]
#[error("a message about identity providers is not as those of its type are")]
pub struct Malformed(#[from] serde_json::Error);

impl ShownReusable for Idp {
    type Search = SearchIdpsRequest;

    const IS_ACTIVE: &'static Column<Self> = &column::IS_ACTIVE;

    fn key(column: IdpFieldName) -> SortKey<Self> {
        match column {
            IdpFieldName::Unspecified => SortKey::Created,
            IdpFieldName::Name => SortKey::Column(&column::NAME),
        }
    }

    fn convert_filter(filter: Wished) -> ReusableFilter<Self> {
        ReusableFilter::Plain(match filter {
            Wished::Id(id) => Filter::Ids(vec![id.id]),
            Wished::Name(name) => {
                let (method, ignores_case) = method(name.method());
                Filter::Text { column: &column::NAME, method, ignores_case, text: name.name }
            }
            Wished::State(wanted) => return ReusableFilter::Active(wanted.state() == State::EffectiveStateActive),
        })
    }

    fn to_proto(found: &StoredResource<Self>, seen: &ContextState) -> GetIdp {
        let Self { name, options, is_active: _, config, secret: _ } = &found.state;
        let r#type = format!("PROVIDER_TYPE_{}", config.r#type().name.to_uppercase());
        GetIdp {
            details: Some(details::of(found)),
            parent: parent(seen),
            state: state(seen.is_active).into(),
            r#type: ProviderType::from_str_name(&r#type).unwrap_or_default().into(),
            idp: Some(idp::Idp {
                name: name.clone(),
                state_policy: seen_policy(seen).into(),
                options: Some(options_to_proto(options)),
            }),
        }
    }
}

/// Returns the type of providers that a request is about, from the path of its operation.
///
/// # Panics
/// If the path names no type: such a node must not start.
pub fn type_of<I: Request>() -> &'static Type {
    let path = I::OPERATION.facts.path;
    let found = path.strip_prefix("/resources/v3alpha/idps/").and_then(|rest| Type::of(rest.split('/').next()?));
    found.unwrap_or_else(|| panic!("{path} is about no type of identity providers"))
}

/// Reads a request to create or change a provider.
///
/// # Errors
/// If it is not such a request.
pub fn wish<I: Request>(request: &I) -> Result<Wish, Malformed> {
    let of = type_of::<I>();
    let mut body = serde_json::to_value(request)?["idp"].take();
    let common: idp::PatchIdp = serde_json::from_value(match body["idp"].take() {
        Value::Null => json!({}),
        common => common,
    })?;
    let mut config = match in_snake_case(body["config"].take()) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let secret = of.secret.and_then(|name| config.remove(name));
    let secret = secret.as_ref().and_then(Value::as_str).filter(|secret| !secret.is_empty()).map(str::to_owned);
    let policy = policy(common.state_policy());
    Ok(Wish { of, name: common.name, options: common.options.map(options), policy, config, secret })
}

impl Wish {
    /// Creates a provider, without its secret.
    ///
    /// # Errors
    /// If the members of its configuration are not those of its type.
    pub fn new_idp(&self) -> Result<Idp, Malformed> {
        let name = self.name.as_deref().filter(|name| !name.is_empty()).or(self.of.brand).unwrap_or_default();
        let (options, config) = (self.options.clone().unwrap_or_default(), self.of.config(self.config.clone())?);
        Ok(Idp { name: name.to_owned(), options, is_active: true, config, secret: None })
    }

    /// Returns the change, without the secret.
    pub fn patch(&self) -> IdpPatch {
        let Self { of, name, options, config, .. } = self;
        IdpPatch { of: Some(of), name: name.clone(), options: options.clone(), config: config.clone(), secret: None }
    }
}

/// Returns the answer with a provider of the requested type.
///
/// # Errors
/// If answers of that type have other members.
pub fn response<I: Request>(found: &StoredResource<Idp>, seen: &ContextState) -> Result<I::Response, Malformed> {
    let mut shown = serde_json::to_value(Idp::to_proto(found, seen))?;
    let common = shown["idp"].take();
    shown["idp"] = json!({ "idp": common, "config": found.state.config.members() });
    Ok(serde_json::from_value(json!({ "idp": shown }))?)
}

fn options(wanted: idp::Options) -> Options {
    Options {
        is_linking_allowed: wanted.is_linking_allowed,
        is_creation_allowed: wanted.is_creation_allowed,
        is_auto_creation: wanted.is_auto_creation,
        is_auto_update: wanted.is_auto_update,
        auto_linking: match wanted.auto_linking() {
            AutoLinkingOption::Unspecified => None,
            AutoLinkingOption::Username => Some(AutoLinking::Username),
            AutoLinkingOption::Email => Some(AutoLinking::Email),
        },
    }
}

fn options_to_proto(options: &Options) -> idp::Options {
    let Options { is_linking_allowed, is_creation_allowed, is_auto_creation, is_auto_update, auto_linking } = *options;
    let auto_linking = match auto_linking {
        None => AutoLinkingOption::Unspecified,
        Some(AutoLinking::Username) => AutoLinkingOption::Username,
        Some(AutoLinking::Email) => AutoLinkingOption::Email,
    };
    let auto_linking = auto_linking.into();
    idp::Options { is_linking_allowed, is_creation_allowed, is_auto_creation, is_auto_update, auto_linking }
}

/// Renames the members of a value as the core names them.
fn in_snake_case(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let renamed = members.into_iter().map(|(name, value)| (snake_case(&name), in_snake_case(value)));
    Value::Object(renamed.collect())
}

fn snake_case(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, char| {
        if char.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(char.to_ascii_lowercase());
        text
    })
}
