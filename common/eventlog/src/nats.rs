//! The address of NATS: one server or several of a cluster, optionally with user and password; and what NATS refuses.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_nats::{Client, ConnectError, ConnectOptions, Event, ServerAddr, ServerError};
use percent_encoding::percent_decode_str;

/// Returns the options to connect with the user and password of the first server that has them. The client does not
/// look for them there by itself.
pub fn options(url: &str) -> ConnectOptions {
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    // An invalid address is reported when connecting.
    let servers = url.split(',').filter_map(|server| server.trim().parse::<ServerAddr>().ok());
    match servers.into_iter().find(|server| server.username().is_some()) {
        Some(server) => ConnectOptions::with_user_and_password(
            decoded(server.username().unwrap_or_default()),
            decoded(server.password().unwrap_or_default()),
        ),
        None => ConnectOptions::new(),
    }
}

/// Connects to one of the servers, whose addresses are separated by commas. If that fails later, the connection moves
/// to another one.
pub async fn connect(options: ConnectOptions, url: &str) -> Result<Client, ConnectError> {
    let servers: Vec<&str> = url.split(',').map(str::trim).collect();
    options.event_callback(async |event| note(&event)).connect(servers).await
}

/// What the server last refused, and when. It does not name the request, which gets no answer.
static REFUSED: Mutex<Option<(Instant, String)>> = Mutex::new(None);
/// How long a request without an answer may be the refused one: longer than any request waits for an answer.
const RECENT: Duration = Duration::from_secs(15);

/// Remembers and logs what the server refuses.
fn note(event: &Event) {
    let told = match event {
        Event::ServerError(ServerError::Other(told)) if told.to_lowercase().contains("permissions violation") => told,
        Event::ServerError(_) | Event::SlowConsumer(_) => return tracing::warn!(%event, "NATS reported an error"),
        _ => return tracing::debug!(%event, "the connection to NATS has changed"),
    };
    let mut last = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    if last.as_ref().is_none_or(|(_, before)| before != told) {
        tracing::warn!(
            told,
            "NATS does not let this user do what it asks for; docs/nats-permissions.md lists what it needs"
        );
    }
    *last = Some((Instant::now(), told.clone()));
}

/// Returns what the server has recently refused, phrased to follow a message about a request without an answer.
pub fn refused() -> Option<String> {
    let last = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, told) = last.as_ref().filter(|(at, _)| at.elapsed() < RECENT)?;
    Some(format!("NATS refused this user: {told}; docs/nats-permissions.md lists what it needs"))
}

/// Returns the address without credentials.
pub fn without_password(url: &str) -> String {
    let shown = |server: &str| server.rsplit_once('@').map_or(server, |(_, host)| host).to_owned();
    url.split(',').map(shown).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(without_password("nats://user:p@ss@host:4222"), "host:4222");
        assert_eq!(without_password("nats://host:4222"), "nats://host:4222");
        assert_eq!(without_password("nats://u:p@a:1,nats://u:p@b:2"), "a:1,b:2");
    }
}
