//! Where the endpoints are, below the issuer.

/// Where browsers are sent to by apps.
pub(crate) use edge::admission::own_app::AUTHORIZATION;

/// Who somebody is (OpenID Connect Core 1.0, section 5.3).
pub(crate) const USERINFO: &str = "/oidc/v1/userinfo";

/// Where browsers are sent to sign out (OpenID Connect RP-Initiated Logout 1.0, section 2).
pub(crate) const END_SESSION: &str = "/oidc/v1/end_session";

/// Tokens (RFC 6749, section 3.2).
pub(crate) const TOKEN: &str = "/oauth/v2/token";

/// What tokens are worth (RFC 7662).
pub(crate) const INTROSPECTION: &str = "/oauth/v2/introspect";

/// The end of tokens (RFC 7009).
pub(crate) const REVOCATION: &str = "/oauth/v2/revoke";

/// The public keys (RFC 7517, section 5).
pub(crate) const KEYS: &str = "/oauth/v2/keys";

/// All that there is (OpenID Connect Discovery 1.0, section 4).
pub(crate) const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Where people log in on the platform's pages.
pub(crate) const LOGIN: &str = "/ui/login";

/// Where those are led who have logged in for no app, and for the pages of operators.
pub(crate) use edge::admission::own_app::{LOGIN_DONE, OPERATE_DONE};

/// Where they sign out.
pub(crate) const LOGOUT: &str = "/ui/logout";

/// Where they change their password.
pub(crate) const OWN_PASSWORD: &str = "/ui/login/change-password";

/// Where managers of passwords look for that (W3C, A Well-Known URL for Changing Passwords, section 2).
pub(crate) const WELL_KNOWN_PASSWORD: &str = "/.well-known/change-password";

/// What names the authorization request to login pages, in queries and forms.
pub(crate) const REQUEST: &str = "authRequest";

/// The page with a form that the browser sends to an app.
pub(crate) const ANSWER: &str = "/ui/login/answer";
