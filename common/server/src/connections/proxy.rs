//! Forwarding headers of trusted proxies: the host that a request was sent to, and the address that it came from.
//!
//! The values replace the host and the address of the proxy's own request, once and before anything else looks at it.
//! Headers from others are not trusted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use domain::address::Networks;
use http::{HeaderMap, HeaderValue, Request, Uri, header, uri::PathAndQuery};

use super::Peer;

const HOST: &str = "x-forwarded-host";
const FOR: &str = "x-forwarded-for";

/// Applies the headers of a trusted proxy, and removes those of others. The origin is put in the header, too, so that
/// targets, which get both headers, need not know who is trusted.
pub(super) fn believe<B>(trusted: &Networks, Peer(peer): Peer, request: &mut Request<B>) {
    let came_from = if trusted.has(peer.ip()) {
        be_sent_to(request);
        forwarded_for(trusted, request.headers()).map_or(peer, |address| SocketAddr::new(address, 0))
    } else {
        request.headers_mut().remove(HOST);
        peer
    };
    let said = HeaderValue::try_from(came_from.ip().to_canonical().to_string()).expect("an address is visible ASCII");
    request.headers_mut().insert(FOR, said);
    request.extensions_mut().insert(Peer(came_from));
}

/// Replaces the host by all forwarded ones, so that a request for two hosts is recognised as such.
fn be_sent_to<B>(request: &mut Request<B>) {
    let hosts: Vec<_> = request.headers().get_all(HOST).iter().cloned().collect();
    if hosts.is_empty() {
        return;
    }
    request.headers_mut().remove(header::HOST);
    for host in hosts {
        request.headers_mut().append(header::HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
}

/// The last address that is not one of the proxies: earlier ones are claims of the client. If it is malformed, all that
/// is known is that the request came from elsewhere.
fn forwarded_for(trusted: &Networks, headers: &HeaderMap) -> Option<IpAddr> {
    let said: Vec<&[u8]> = headers.get_all(FOR).iter().map(http::HeaderValue::as_bytes).collect();
    let parts = said.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
    let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let mut addresses = parts.map(|part| std::str::from_utf8(part).ok().and_then(|part| address(part.trim())));
    addresses.find_map(|address| match address {
        Some(proxy) if trusted.has(proxy) => None,
        address => Some(address.unwrap_or(unknown)),
    })
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().map(|socket: SocketAddr| socket.ip()).ok();
    text.trim_matches(['[', ']']).parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(peer: &str, headers: &[(&str, &str)]) -> (String, Vec<String>, IpAddr) {
        let mut request = Request::get("https://inner.example/path?query").header(header::HOST, "inner.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).expect("it is a request");
        let trusted = "10.0.0.0/8,::1".parse().expect("they are networks");
        believe(&trusted, Peer(SocketAddr::new(peer.parse().expect("it is an address"), 1)), &mut request);
        let said: Vec<_> = request.headers().get_all(FOR).iter().collect();
        let hosts = request.headers().get_all(header::HOST).iter();
        let Peer(came_from) = request.extensions().get().expect("it came from somewhere");
        assert_eq!(said, [&came_from.ip().to_canonical().to_string()], "it is said as it is believed");
        let hosts = hosts.map(|host| host.to_str().expect("it is text").to_owned()).collect();
        (request.uri().to_string(), hosts, came_from.ip())
    }

    fn is(uri: &str, hosts: &[&str], address: &str) -> (String, Vec<String>, IpAddr) {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        (uri.to_owned(), hosts, address.parse().expect("it is an address"))
    }

    const HEADERS: [(&str, &str); 2] = [(HOST, "acme.example"), (FOR, "192.0.2.1, 198.51.100.7, 10.9.9.9")];

    #[test]
    fn a_trusted_proxy_is_believed() {
        for peer in ["10.1.2.3", "::ffff:10.1.2.3", "::1"] {
            assert_eq!(believed(peer, &HEADERS), is("/path?query", &["acme.example"], "198.51.100.7"), "{peer}");
        }
    }

    #[test]
    fn nobody_else_is() {
        let as_sent = is("https://inner.example/path?query", &["inner.example"], "192.0.2.99");
        assert_eq!(believed("192.0.2.99", &HEADERS), as_sent);
    }

    #[test]
    fn what_it_does_not_say_stays() {
        let inner = "https://inner.example/path?query";
        assert_eq!(believed("10.0.0.1", &[]), is(inner, &["inner.example"], "10.0.0.1"));
        assert_eq!(believed("10.0.0.1", &[(FOR, "10.0.0.2")]), is(inner, &["inner.example"], "10.0.0.1"));
        assert_eq!(believed("10.0.0.1", &[(FOR, "192.0.2.1, unknown")]), is(inner, &["inner.example"], "0.0.0.0"));
        assert_eq!(believed("10.0.0.1", &[(FOR, "é, 192.0.2.1")]), is(inner, &["inner.example"], "192.0.2.1"));
    }

    #[test]
    fn two_hosts_stay_two() {
        let headers = [(HOST, "acme.example"), (HOST, "other.example")];
        let both = is("/path?query", &["acme.example", "other.example"], "10.0.0.1");
        assert_eq!(believed("10.0.0.1", &headers), both);
    }

    #[test]
    fn addresses_may_have_ports() {
        for said in ["192.0.2.1", "192.0.2.1:1234"] {
            assert_eq!(address(said), Some(IpAddr::from([192, 0, 2, 1])));
        }
        assert_eq!(address("[2001:db8::1]:1234"), address("2001:db8::1"));
        assert_eq!(address("_hidden"), None);
    }
}
