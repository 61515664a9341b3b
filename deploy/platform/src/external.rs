//! The address at which clients reach a node: scheme, host and port. The parser of the flag has checked it.

use std::net::SocketAddr;

use edge::caller::External;
use url::Url;

use crate::{Failure, cli};

/// Returns what the issuers of all instances have in common.
pub(crate) fn external(url: &Url) -> External {
    External { scheme: url.scheme().to_owned(), port: url.port() }
}

/// Returns the external URL: the one of the flag, or else the listen address.
pub(crate) fn external_url(serving: &cli::Serving, listening: SocketAddr) -> Result<Url, Failure> {
    let scheme = if serving.tls_cert.is_some() { "https" } else { "http" };
    match &serving.external_url {
        Some(url) => Ok(url.clone()),
        None if listening.ip().is_unspecified() => {
            Ok(Url::parse(&format!("{scheme}://localhost:{}", listening.port()))?)
        }
        None => Ok(Url::parse(&format!("{scheme}://{listening}"))?),
    }
}
