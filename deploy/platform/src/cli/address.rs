//! Parsers for addresses in flags, whose errors say what is expected.

use std::net::{SocketAddr, ToSocketAddrs};

use url::Url;

/// Parses an address to listen on: an IP address, or a name that resolves to one.
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

/// Parses the address of a DNS server.
pub(crate) fn server(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it must be an address and a port, such as 10.0.0.53:53 or [fd00::53]:53".to_owned())
}

/// Parses an http or https URL.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| format!("it must begin with http:// or https://, such as https://{EXAMPLE}"))
}

/// Parses the external URL of a platform: an http or https URL with nothing after the port.
pub(crate) fn external_url(text: &str) -> Result<Url, String> {
    let url = url(text)?;
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    if is_anonymous && url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
        return Ok(url);
    }
    Err(format!("it must be scheme, host and port only, such as https://{EXAMPLE} or http://{EXAMPLE}:8080"))
}

const EXAMPLE: &str = "id.example.com";

/// Parses the number of a command node.
pub(crate) fn node_number(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (0..=1023).contains(number));
    number.ok_or_else(|| "it must be a number from 0 to 1023, a different one for every command node".to_owned())
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

    #[test]
    fn what_is_wrong_is_told_with_what_is_wanted() {
        assert_eq!(external_url("https://id.example.com").unwrap().as_str(), "https://id.example.com/");
        for wrong in ["id.example.com", "id.example.com:8080", "ftp://x", "", "http://", "https://x/y", "https://u:p@x"]
        {
            let told = external_url(wrong).unwrap_err();
            assert!(told.contains("such as https://id.example.com"), "{wrong}: {told}");
        }
        assert!(url("http://collector:4317/v1").is_ok());
        assert!(server("10.0.0.53").unwrap_err().contains("such as 10.0.0.53:53") && server("[::1]:53").is_ok());
        assert!(node_number("5000").unwrap_err().contains("0 to 1023") && node_number("x").is_err());
        assert_eq!(node_number("1023"), Ok(1023));
    }
}
