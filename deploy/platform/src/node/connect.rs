//! The connection of a node to NATS: by its flags, under its name, with an inbox of its role.

use std::{future::Future, time::Duration};

use async_nats::ConnectOptions;
use base::{explain::explain, private_file};
use eventlog::{lease, nats};

use super::NodeOptions;
use crate::{Failure, cli};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a node cannot connect to a server that it needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(
        "cannot connect to NATS at {url}: {error}; check --nats-url, that the server runs with JetStream, and the token, \
         credentials or user that it asks for"
    )]
    Nats { url: String, error: String },
    #[error("cannot use Postgres: {0}; check --postgres-url, and that the server runs")]
    Postgres(String),
}

/// Connects to NATS under a name that its server shows.
///
/// Each role receives answers in an inbox of its own, so that permissions can keep the others from it: the answers of
/// command nodes to each other hold secrets.
pub(crate) async fn connect(
    flags: &cli::Nats,
    url: &str,
    role: &str,
    name: &str,
) -> Result<async_nats::Client, Failure> {
    let options = match (&flags.nats_token, &flags.nats_credentials) {
        (Some(token), _) => ConnectOptions::with_token(token.clone()),
        (None, Some(file)) => {
            private_file::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            ConnectOptions::with_credentials_file(file).await?
        }
        (None, None) => nats::options(url),
    };
    let options = options.name(name).custom_inbox_prefix(format!("_INBOX.{role}")).connection_timeout(CONNECT_TIMEOUT);
    let connected = within(nats::connect(options, url)).await;
    connected.map_err(|error| ConnectError::Nats { url: nats::without_password(url), error }.into())
}

/// Returns how leases open the connection that they are renewed through.
pub(super) fn renewing(options: &NodeOptions) -> lease::Connect {
    let (flags, url, name) = (options.nats.clone(), options.nats_url.clone(), format!("{}, leases", options.name));
    let role = options.role;
    Box::new(move || {
        let (flags, url, name) = (flags.clone(), url.clone(), name.clone());
        Box::pin(async move {
            let connected = connect(&flags, &url, role, &name).await;
            connected.inspect_err(|error| tracing::warn!(%error, "cannot connect to NATS to renew leases")).ok()
        })
    })
}

async fn within<T, E: std::error::Error + 'static>(
    connecting: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(|error| explain(&error)),
        Err(_) => Err("no answer".to_owned()),
    }
}
