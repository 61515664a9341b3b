//! Addresses to listen on, as flags have them.

use std::net::{SocketAddr, ToSocketAddrs};

/// An address to listen on: one of numbers, or a name that has one.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "such as 127.0.0.1:8080, localhost:8080, or 0.0.0.0:8080 for every address of this machine";
    if !text.contains(':') || text.starts_with(':') {
        return Err(format!("it must be an address and a port, {example}"));
    }
    let found =
        text.to_socket_addrs().map_err(|error| format!("{error}: it must be an address and a port, {example}"))?;
    let found: Vec<_> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("the name has no address; give one, {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_name() {
        assert_eq!(address("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert!(address("localhost:8080").unwrap().ip().is_loopback());
        for wrong in ["8080", ":8080", "localhost", "localhost:http", "127.0.0.1:99999", ""] {
            let told = address(wrong).unwrap_err();
            assert!(told.contains("such as 127.0.0.1:8080"), "{wrong}: {told}");
        }
    }
}
