//! The user agent of a request, which is stored in the session of a login.

use http::{Extensions, HeaderMap, header};
use proto::bus::UserAgent;
use server::connections::Peer;

/// The longest stored User-Agent header, in characters.
const LONGEST: usize = 500;

/// Returns the IP address of a request, which a trusted proxy may have forwarded, and its User-Agent header (RFC 9110,
/// section 10.1.5).
pub(super) fn of(extensions: &Extensions, headers: &HeaderMap) -> UserAgent {
    let ip = extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
    let header = headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let user_agent =
        header.unwrap_or_default().chars().filter(|character| !character.is_control()).take(LONGEST).collect();
    UserAgent { ip: ip.unwrap_or_default(), user_agent }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::HeaderValue;

    use super::*;

    #[test]
    fn it_is_the_address_and_the_first_characters_of_the_header() {
        let of = |header: &[u8], from: &str| {
            let (mut extensions, mut headers) = (Extensions::new(), HeaderMap::new());
            let from: SocketAddr = from.parse().expect("it is an address");
            extensions.insert(Peer(from));
            headers.insert(header::USER_AGENT, HeaderValue::from_bytes(header).expect("it can be sent"));
            of(&extensions, &headers)
        };
        let agent = of(b"Mozilla/5.0\t(X11)", "[::ffff:192.0.2.7]:80");
        assert_eq!((agent.ip.as_str(), agent.user_agent.as_str()), ("192.0.2.7", "Mozilla/5.0(X11)"));
        let long = of(&[0xe9; 9000], "[2001:db8::7]:80");
        assert_eq!((long.ip.as_str(), long.user_agent.chars().count()), ("2001:db8::7", LONGEST));
        assert_eq!(super::of(&Extensions::new(), &HeaderMap::new()), UserAgent::default());
    }
}
