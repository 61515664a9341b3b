//! The paths of the endpoints, below the issuer.

/// The authorization endpoint, which apps send browsers to.
pub(crate) use edge::admission::own_app::AUTHORIZATION;

/// The userinfo endpoint (OpenID Connect Core 1.0, section 5.3).
pub(crate) const USERINFO: &str = "/oidc/v1/userinfo";

/// The logout endpoint (OpenID Connect RP-Initiated Logout 1.0, section 2).
pub(crate) const END_SESSION: &str = "/oidc/v1/end_session";

/// The token endpoint (RFC 6749, section 3.2).
pub(crate) const TOKEN: &str = "/oauth/v2/token";

/// The introspection endpoint (RFC 7662).
pub(crate) const INTROSPECTION: &str = "/oauth/v2/introspect";

/// The revocation endpoint (RFC 7009).
pub(crate) const REVOCATION: &str = "/oauth/v2/revoke";

/// The public keys (RFC 7517, section 5).
pub(crate) const KEYS: &str = "/oauth/v2/keys";

/// The discovery document (OpenID Connect Discovery 1.0, section 4).
pub(crate) const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The first of the platform's login pages.
pub(crate) const LOGIN: &str = "/ui/login";

/// The pages after a login for no app, and after a login for the pages of operators.
pub(crate) use edge::admission::own_app::{LOGIN_DONE, OPERATE_DONE};

/// The page on which people sign out.
pub(crate) const LOGOUT: &str = "/ui/logout";

/// The page on which people change their password.
pub(crate) const OWN_PASSWORD: &str = "/ui/login/change-password";

/// The path at which password managers look for that page (W3C, A Well-Known URL for Changing Passwords, section 2).
pub(crate) const WELL_KNOWN_PASSWORD: &str = "/.well-known/change-password";

/// The parameter that names the authorization request, in queries and forms of login pages.
pub(crate) const REQUEST: &str = "authRequest";

/// The page with a form that the browser submits to an app.
pub(crate) const ANSWER: &str = "/ui/login/answer";
