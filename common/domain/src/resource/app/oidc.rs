//! Apps in which people log in: their settings, which of these can never work, and which are unwise.

mod leading;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

pub use self::leading::Problem;
use super::AuthMethod;
use crate::{
    redirect_uri::{UriParts, refused, refused_origin},
    rejection::{Rejection, Violation},
};

/// The settings of an app in which people log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oidc {
    /// The URIs to which people may be sent with an answer, compared character by character.
    pub redirect_uris: Vec<String>,
    /// The response types that it may ask for.
    pub response_types: Vec<ResponseType>,
    /// The grant types by which it may get tokens.
    pub grant_types: Vec<GrantType>,
    /// The kind of environment in which it runs.
    pub app_type: AppType,
    /// How it authenticates.
    pub auth_method: AuthMethod,
    /// The URIs to which people may be sent after they have logged out.
    pub post_logout_redirect_uris: Vec<String>,
    /// Whether it is under development.
    pub dev_mode: bool,
    /// The form of its access tokens.
    pub access_token_type: TokenType,
    /// Claims that its tokens contain without being asked for.
    #[serde(flatten)]
    pub assertions: Assertions,
    /// The clock skew that is tolerated, in milliseconds.
    pub clock_skew_ms: u64,
    /// Further origins of pages that may use the API with its tokens.
    pub additional_origins: Vec<String>,
    /// Whether to skip the page that confirms the login before people are sent to a native app.
    pub skip_native_app_success_page: bool,
    /// The URI that is notified when somebody has logged out; empty for none.
    pub back_channel_logout_uri: String,
    /// The URI to which people are sent to log in; empty for the platform's own pages.
    #[serde(default)]
    pub login_uri: String,
    /// The JWA name of the algorithm that signs its access tokens, if chosen.
    #[serde(default)]
    pub access_token_alg: Option<String>,
    /// The JWA name of the algorithm that signs its ID tokens, if chosen.
    #[serde(default)]
    pub id_token_alg: Option<String>,
}

/// Claims that tokens of an app contain without being asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertions {
    /// Whether access tokens contain roles.
    pub access_token_roles: bool,
    /// Whether ID tokens contain roles.
    pub id_token_roles: bool,
    /// Whether ID tokens contain the claims of userinfo.
    pub id_token_userinfo: bool,
}

/// The response types of OAuth that an app may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseType {
    /// A code.
    Code,
    /// An ID token.
    IdToken,
    /// An ID token and an access token.
    IdTokenToken,
}

/// The ways in which an app may get tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// With a code.
    AuthorizationCode,
    /// Directly from the authorization endpoint.
    Implicit,
    /// With a refresh token.
    RefreshToken,
    /// With a code that is entered on another device.
    DeviceCode,
    /// In exchange for other tokens.
    TokenExchange,
}

/// The kind of environment in which an app runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppType {
    /// On a server.
    #[default]
    Web,
    /// In a browser.
    UserAgent,
    /// On a device of its user.
    Native,
}

/// The form of access tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenType {
    /// Only the platform can read them.
    #[default]
    Opaque,
    /// Anybody with the key set can read them.
    Jwt,
}

/// A partial update of an [`Oidc`], with the same members.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each is said where it is")]
pub struct OidcPatch {
    pub redirect_uris: Option<Vec<String>>,
    pub response_types: Option<Vec<ResponseType>>,
    pub grant_types: Option<Vec<GrantType>>,
    pub app_type: Option<AppType>,
    pub auth_method: Option<AuthMethod>,
    pub post_logout_redirect_uris: Option<Vec<String>>,
    pub dev_mode: Option<bool>,
    pub access_token_type: Option<TokenType>,
    pub access_token_roles: Option<bool>,
    pub id_token_roles: Option<bool>,
    pub id_token_userinfo: Option<bool>,
    pub clock_skew_ms: Option<u64>,
    pub additional_origins: Option<Vec<String>>,
    pub skip_native_app_success_page: Option<bool>,
    pub back_channel_logout_uri: Option<String>,
    pub login_uri: Option<String>,
    /// An inner `None` resets the algorithm to the default.
    pub access_token_alg: Option<Option<String>>,
    pub id_token_alg: Option<Option<String>>,
}

impl OidcPatch {
    pub(super) fn apply(self, before: Oidc) -> Oidc {
        let Assertions { access_token_roles, id_token_roles, id_token_userinfo } = before.assertions;
        Oidc {
            redirect_uris: self.redirect_uris.unwrap_or(before.redirect_uris),
            response_types: self.response_types.unwrap_or(before.response_types),
            grant_types: self.grant_types.unwrap_or(before.grant_types),
            app_type: self.app_type.unwrap_or(before.app_type),
            auth_method: self.auth_method.unwrap_or(before.auth_method),
            post_logout_redirect_uris: self.post_logout_redirect_uris.unwrap_or(before.post_logout_redirect_uris),
            dev_mode: self.dev_mode.unwrap_or(before.dev_mode),
            access_token_type: self.access_token_type.unwrap_or(before.access_token_type),
            assertions: Assertions {
                access_token_roles: self.access_token_roles.unwrap_or(access_token_roles),
                id_token_roles: self.id_token_roles.unwrap_or(id_token_roles),
                id_token_userinfo: self.id_token_userinfo.unwrap_or(id_token_userinfo),
            },
            clock_skew_ms: self.clock_skew_ms.unwrap_or(before.clock_skew_ms),
            additional_origins: self.additional_origins.unwrap_or(before.additional_origins),
            skip_native_app_success_page: self
                .skip_native_app_success_page
                .unwrap_or(before.skip_native_app_success_page),
            back_channel_logout_uri: self.back_channel_logout_uri.unwrap_or(before.back_channel_logout_uri),
            login_uri: self.login_uri.unwrap_or(before.login_uri),
            access_token_alg: self.access_token_alg.unwrap_or(before.access_token_alg),
            id_token_alg: self.id_token_alg.unwrap_or(before.id_token_alg),
        }
    }
}

impl Oidc {
    /// Refuses settings that can never work.
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        let mut violations = vec![];
        let mut check =
            |field, rule: Option<&'static str>| violations.extend(rule.map(|rule| Violation { field, rule }));
        let of_uris = |uris: &[String]| uris.iter().find_map(|uri| refused(uri, self.dev_mode)).or(twice(uris));
        check("app.oidc.redirect_uris", of_uris(&self.redirect_uris));
        check("app.oidc.post_logout_redirect_uris", of_uris(&self.post_logout_redirect_uris));
        let origins = &self.additional_origins;
        let of_origins = origins.iter().find_map(|origin| refused_origin(origin, self.dev_mode));
        check("app.oidc.additional_origins", of_origins.or(twice(origins)));
        let lists = [&self.redirect_uris, &self.post_logout_redirect_uris, origins];
        let bytes: usize = lists.into_iter().flatten().map(String::len).sum();
        let rule = "must have at most 32 KiB together with the other URIs and origins";
        check("app.oidc.redirect_uris", (bytes > 32 * 1024).then_some(rule));
        check("app.oidc.response_types", twice(&self.response_types));
        check("app.oidc.grant_types", twice(&self.grant_types).or(self.misfit()));
        check("app.oidc.back_channel_logout_uri", no_web_page(&self.back_channel_logout_uri));
        check("app.oidc.login_uri", no_web_page(&self.login_uri));
        if violations.is_empty() { Ok(()) } else { Err(Rejection::Invalid(violations)) }
    }

    /// Whether it may get tokens by this grant type.
    pub fn allows_grant(&self, grant: GrantType) -> bool {
        self.grant_types.contains(&grant)
    }

    /// Returns why the grant types do not fit the response types, if so (RFC 7591, section 2.1).
    fn misfit(&self) -> Option<&'static str> {
        let asks_for_code = self.response_types.contains(&ResponseType::Code);
        let asks_for_tokens = self.response_types.iter().any(|response| *response != ResponseType::Code);
        if asks_for_code != self.allows_grant(GrantType::AuthorizationCode) {
            return Some("must have AUTHORIZATION_CODE with the response type CODE, and only with it");
        }
        (asks_for_tokens != self.allows_grant(GrantType::Implicit))
            .then_some("must have IMPLICIT with the response types ID_TOKEN and ID_TOKEN_TOKEN, and only with them")
    }
}

/// Returns why a URI is not one in the web, if so. An empty one is fine.
fn no_web_page(uri: &str) -> Option<&'static str> {
    if uri.is_empty() {
        return None;
    }
    let is_custom = UriParts::of(uri).is_some_and(|parts| parts.is_custom());
    refused(uri, false).or(is_custom.then_some("must be of http or https"))
}

/// Returns why a list is not a set, if so.
fn twice<T: Eq + std::hash::Hash>(items: &[T]) -> Option<&'static str> {
    let mut seen = HashSet::new();
    (!items.iter().all(|item| seen.insert(item))).then_some("must not contain duplicates")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An app without any problems.
    pub(super) fn shop() -> Oidc {
        Oidc {
            redirect_uris: vec!["https://shop.example/callback".into()],
            response_types: vec![ResponseType::Code],
            grant_types: vec![GrantType::AuthorizationCode],
            ..Oidc::default()
        }
    }

    pub(super) fn at(uri: &str) -> Oidc {
        Oidc { redirect_uris: vec![uri.into()], ..shop() }
    }

    #[test]
    fn all_that_cannot_work_is_named_at_once() {
        assert_eq!(shop().validate(), Ok(()));
        assert_eq!(Oidc { dev_mode: true, ..at("http://*.shop.example") }.validate(), Ok(()));
        assert_eq!(Oidc { additional_origins: vec!["https://a.example".into()], ..shop() }.validate(), Ok(()));
        assert_eq!(Oidc { back_channel_logout_uri: "https://a.example/out".into(), ..shop() }.validate(), Ok(()));
        assert_eq!(Oidc { login_uri: "https://a.example/in?x=1".into(), ..shop() }.validate(), Ok(()));
        let wrong = Oidc {
            redirect_uris: vec!["javascript:a".into()],
            response_types: vec![ResponseType::IdToken],
            post_logout_redirect_uris: vec!["https://a.example/".into(), "https://a.example/".into()],
            additional_origins: vec!["https://a.example/b".into()],
            back_channel_logout_uri: "shop:logged-out".into(),
            login_uri: "shop:log-in".into(),
            ..shop()
        };
        let Err(Rejection::Invalid(violations)) = wrong.validate() else { panic!("it is refused") };
        let fields: Vec<_> =
            violations.iter().map(|violation| violation.field.trim_start_matches("app.oidc.")).collect();
        let expected = [
            "redirect_uris",
            "post_logout_redirect_uris",
            "additional_origins",
            "grant_types",
            "back_channel_logout_uri",
            "login_uri",
        ];
        assert_eq!(fields, expected);
        assert!(at("https://*.shop.example").validate().is_err(), "wildcards are for development");
    }

    #[test]
    fn all_uris_together_have_at_most_32_kib() {
        let (uri, origin) = ("https://shop.example/callback", "https://a.example");
        let of = |bytes: usize| {
            let padding = bytes - 2 * uri.len() - origin.len() - "/".len();
            Oidc {
                redirect_uris: vec![uri.into(), format!("{uri}/{}", "x".repeat(padding))],
                additional_origins: vec![origin.into()],
                ..shop()
            }
        };
        assert_eq!(of(32_768).validate(), Ok(()));
        let rule = "must have at most 32 KiB together with the other URIs and origins";
        assert_eq!(of(32_769).validate(), Err(Rejection::invalid("app.oidc.redirect_uris", rule)));
    }

    #[test]
    fn grant_types_fit_response_types() {
        use {GrantType as G, ResponseType as R};
        for (responses, grants, fits) in [
            (vec![R::Code], vec![G::AuthorizationCode], true),
            (vec![R::Code, R::IdToken], vec![G::AuthorizationCode, G::Implicit, G::RefreshToken], true),
            (vec![R::IdTokenToken, R::IdToken], vec![G::Implicit], true),
            (vec![], vec![G::DeviceCode, G::TokenExchange], true),
            (vec![], vec![], true),
            (vec![R::Code], vec![], false),
            (vec![], vec![G::AuthorizationCode], false),
            (vec![R::IdToken], vec![G::AuthorizationCode], false),
            (vec![R::Code], vec![G::AuthorizationCode, G::Implicit], false),
            (vec![R::Code, R::Code], vec![G::AuthorizationCode], false),
            (vec![R::Code], vec![G::AuthorizationCode, G::AuthorizationCode], false),
        ] {
            let app = Oidc { response_types: responses, grant_types: grants, ..shop() };
            assert_eq!(app.validate().is_ok(), fits, "{app:?}");
        }
    }

    #[test]
    fn an_app_of_an_older_build_has_no_login_pages_of_its_own() {
        let mut old = serde_json::to_value(shop()).unwrap();
        old.as_object_mut().unwrap().remove("login_uri").unwrap();
        assert_eq!(serde_json::from_value::<Oidc>(old).unwrap(), shop());
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        assert_eq!(OidcPatch::default().apply(shop()), shop());
        let patch = OidcPatch { redirect_uris: Some(vec![]), id_token_roles: Some(true), ..OidcPatch::default() };
        let assertions = Assertions { id_token_roles: true, ..Assertions::default() };
        assert_eq!(patch.apply(shop()), Oidc { redirect_uris: vec![], assertions, ..shop() });
    }
}
