//! The address of a NATS server, which may carry a user and a password.

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

/// The options to connect with the user and password of an address, where it has them. The client by itself does not
/// look for them there.
pub fn options(url: &str) -> ConnectOptions {
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    match url.parse::<ServerAddr>() {
        Ok(address) => match (address.username(), address.password()) {
            (Some(user), password) => {
                ConnectOptions::with_user_and_password(decoded(user), decoded(password.unwrap_or_default()))
            }
            (None, _) => ConnectOptions::new(),
        },
        // Connecting says what is wrong with it.
        Err(_) => ConnectOptions::new(),
    }
}

/// The address as it may be shown.
pub fn without_password(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(without_password("nats://user:p@ss@host:4222"), "host:4222");
        assert_eq!(without_password("nats://host:4222"), "nats://host:4222");
    }
}
