//! The form that a client sends to an endpoint.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use axum::body::{Body, Bytes};
use edge::mount::{is_plain, read_body};
use http::{HeaderMap, Method, Request, header};
use view::directory::Tenant;

use crate::{
    Oidc,
    error::{Error, Refused},
};

/// The largest request, in bytes.
const LARGEST: usize = 64 * 1024;

/// A request to an endpoint.
pub(crate) struct EndpointRequest {
    /// The instance that it was sent to.
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) headers: HeaderMap,
    pub(crate) form: Form,
}

/// Reads the parameters of a request from the query, or from the form of a POST.
pub(crate) async fn read_either(oidc: &Oidc, request: Request<Body>) -> Result<EndpointRequest, Refused> {
    if request.method() == Method::POST { read(oidc, request).await } else { read_query(oidc, request).await }
}

/// Reads the parameters of a request from the query.
async fn read_query(oidc: &Oidc, request: Request<Body>) -> Result<EndpointRequest, Refused> {
    let (parts, _) = request.into_parts();
    let tenant = oidc.edge.open_tenant(&parts).await.map_err(Refused::Platform)?;
    let form = Form::of(parts.uri.query().unwrap_or_default().as_bytes())?;
    Ok(EndpointRequest { tenant, headers: parts.headers, form })
}

/// Reads the parameters of a request from its form.
pub(crate) async fn read(oidc: &Oidc, request: Request<Body>) -> Result<EndpointRequest, Refused> {
    let (parts, body) = request.into_parts();
    // Before anything is refused: most clients read the answer only once they have sent all.
    let body = read_body(body, LARGEST).await;
    let tenant = oidc.edge.open_tenant(&parts).await.map_err(Refused::Platform)?;
    let body = body.map_err(|_| Error::InvalidRequest("the request is too large or was cut off"))?;
    let form = Form::read(&parts.headers, &body)?;
    Ok(EndpointRequest { tenant, headers: parts.headers, form })
}

/// The grant type by which an app exchanges tokens (RFC 8693, section 2.1).
pub(crate) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The parameters of a token exchange that may be repeated (RFC 8693, section 2.1); their values are joined to a list.
const LISTS: [&str; 2] = ["audience", "resource"];

/// The parameters of a request; no other parameter may be repeated (RFC 6749, section 3.2).
#[derive(Debug)]
pub(crate) struct Form(HashMap<String, String>);

impl From<HashMap<String, String>> for Form {
    fn from(parameters: HashMap<String, String>) -> Self {
        Self(parameters)
    }
}

impl Form {
    /// Reads the form. An empty parameter counts as omitted.
    fn read(headers: &HeaderMap, body: &Bytes) -> Result<Self, Error> {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Error::InvalidRequest("the request must be application/x-www-form-urlencoded"));
        }
        if !is_plain(headers) {
            return Err(Error::InvalidRequest("the request must not be compressed"));
        }
        Self::of(body)
    }

    /// Parses form-urlencoded parameters. An empty one counts as omitted.
    fn of(text: &[u8]) -> Result<Self, Error> {
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_bytes(text).map_err(|_| Error::InvalidRequest("the request is no valid form"))?;
        let exchanges = pairs.iter().any(|(name, value)| name == "grant_type" && value == TOKEN_EXCHANGE);
        let mut parameters: HashMap<String, String> = HashMap::new();
        for (name, value) in pairs {
            let is_list = exchanges && LISTS.contains(&name.as_str());
            match parameters.entry(name) {
                Entry::Occupied(mut before) if is_list => {
                    before.get_mut().push(' ');
                    before.get_mut().push_str(&value);
                }
                Entry::Occupied(_) => return Err(Error::InvalidRequest("a parameter is given twice")),
                Entry::Vacant(entry) => drop(entry.insert(value)),
            }
        }
        parameters.retain(|_, value| !value.is_empty());
        Ok(Self(parameters))
    }

    /// Returns all parameters, encoded for a query.
    pub(crate) fn encoded(&self) -> String {
        serde_urlencoded::to_string(&self.0).unwrap_or_default()
    }

    /// Returns all parameters with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_tokens_are_exchanged_a_parameter_is_a_list() {
        let of = |grant: &str, twice: &str| {
            Form::of(format!("{twice}=a&grant_type={grant}&{twice}=b&{twice}=").as_bytes()).map(|form| form.encoded())
        };
        let exchange = TOKEN_EXCHANGE.replace(':', "%3A");
        for (grant, name, is_list) in [
            (exchange.as_str(), "audience", true),
            (&exchange, "resource", true),
            (&exchange, "scope", false),
            ("client_credentials", "audience", false),
            ("", "resource", false),
        ] {
            let read = of(grant, name);
            assert_eq!(read.is_ok_and(|form| form.contains(&format!("{name}=a+b"))), is_list, "{grant} {name}");
        }
    }
}
