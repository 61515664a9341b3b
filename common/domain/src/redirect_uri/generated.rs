//! S4: however a registered URI is changed, nobody is sent there. What may differ is determined here in another way.

use super::{Leniency, is_registered};

const REGISTERED: [&str; 7] = [
    "https://shop.example/callback?tenant=1",
    "https://shop.example:8443/cb",
    "https://127.0.0.1:3000/callback",
    "http://127.0.0.1:3000/callback",
    "http://[::1]/callback",
    "http://localhost:1/cb?a=b",
    "com.example.shop:/callback",
];

/// Pieces that are inserted into a URI, or replace a part of it.
const PIECES: [&str; 44] = [
    "",
    "@",
    "@evil.example",
    ".evil.example",
    "//evil.example",
    "/",
    "//",
    "\\",
    "\\\\",
    "?",
    "#",
    "&",
    "=",
    ":",
    ":80",
    ":1",
    ":65536",
    "%",
    "%00",
    "%0a",
    "%2e",
    "%2f",
    "%5c",
    "%23",
    "..",
    "/../",
    "/./",
    ";",
    "*",
    " ",
    "\t",
    "\n",
    "\0",
    "\u{2028}",
    "é",
    "a",
    "A",
    "0",
    "1",
    "[",
    "http://",
    "https://evil.example/",
    "javascript:",
    "?code=1",
];

/// Hosts that name the machine that opens a URI.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];

/// Returns a URI with each piece inserted at each offset, replacing nothing, one character, or all that follows.
fn mutations(uri: &str) -> impl Iterator<Item = String> {
    let at = (0..=uri.len()).flat_map(|at| PIECES.map(|piece| (at, piece)));
    at.flat_map(move |(at, piece)| {
        let (before, after) = uri.split_at(at);
        let next = after.get(1..).unwrap_or_default();
        [format!("{before}{piece}{after}"), format!("{before}{piece}{next}"), format!("{before}{piece}")]
    })
}

/// Returns the host of this machine and what follows its port.
fn on_this_machine(uri: &str) -> Option<(&str, &str)> {
    let host = LOOPBACK.iter().find(|host| uri.starts_with(**host))?;
    let rest = &uri[host.len()..];
    let Some(port) = rest.strip_prefix(':') else {
        return (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((*host, rest));
    };
    let end = port.find(['/', '?']).unwrap_or(port.len());
    let is_port = port[..end].bytes().all(|byte| byte.is_ascii_digit()) && port[..end].parse::<u16>().is_ok();
    is_port.then_some((*host, &port[end..]))
}

#[test]
fn nothing_but_a_port_may_differ_whatever_is_changed() {
    let (mut tried, mut let_through) = (0, 0);
    for registered in REGISTERED {
        for uri in mutations(registered) {
            let is_same_but_port =
                on_this_machine(&uri).is_some_and(|parts| Some(parts) == on_this_machine(registered));
            for any_port in [false, true] {
                let found = is_registered(registered, &uri, Leniency { any_port, wildcards: false });
                assert_eq!(found, uri == registered || any_port && is_same_but_port, "{registered} {uri:?} {any_port}");
                tried += 1;
                let_through += usize::from(found && uri != registered);
            }
        }
    }
    assert!(tried > 10_000 && let_through > 0, "{tried}, {let_through}");
}
