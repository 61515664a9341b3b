//! The URIs to which apps may send people, by where they run, and what is unwise about them.

use super::{AppType, GrantType, Oidc};
use crate::{
    redirect_uri::{Leniency, UriParts, is_registered, said_origin},
    resource::app::AuthMethod,
};

/// An unwise setting of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is under development.
    DevMode,
    /// It requests answers, but has no URI to send them to.
    NoRedirectUri,
    /// It may use refresh tokens and has no way to get one.
    RefreshTokenWithoutCode,
    /// It runs where no secret can be stored, but authenticates.
    PublicAppAuthenticates,
    /// It runs in a browser and has a redirect URI of http.
    UserAgentHttp,
    /// It runs on a server, does not authenticate and has a redirect URI of http.
    WebHttp,
    /// It runs on a device and has a redirect URI of http that leads elsewhere.
    NativeHttp,
    /// It does not run on a device and has a redirect URI of a scheme of its own.
    CustomScheme,
    /// It uses the implicit grant and has a redirect URI of another scheme than https.
    Implicit,
}

impl Oidc {
    /// Returns what is unwise about the app, each problem once.
    pub fn problems(&self) -> Vec<Problem> {
        let uris: Vec<UriParts<'_>> = self.redirect_uris.iter().filter_map(|uri| UriParts::of(uri)).collect();
        let (is_public, is_native) = (self.app_type != AppType::Web, self.app_type == AppType::Native);
        let authenticates = self.auth_method != AuthMethod::None;
        let has = |grant| self.allows_grant(grant);
        let gets_refresh_tokens = has(GrantType::AuthorizationCode) || has(GrantType::DeviceCode);
        let (is_http, is_custom) = (uris.iter().any(UriParts::is_http), uris.iter().any(UriParts::is_custom));
        let leads_elsewhere = uris.iter().any(|uri| uri.is_http() && !uri.is_loopback());
        let all = [
            (Problem::DevMode, self.dev_mode),
            (Problem::NoRedirectUri, !self.response_types.is_empty() && uris.is_empty()),
            (Problem::RefreshTokenWithoutCode, has(GrantType::RefreshToken) && !gets_refresh_tokens),
            (Problem::PublicAppAuthenticates, is_public && authenticates),
            (Problem::UserAgentHttp, self.app_type == AppType::UserAgent && is_http),
            (Problem::WebHttp, !is_public && !authenticates && is_http),
            (Problem::NativeHttp, is_native && leads_elsewhere),
            (Problem::CustomScheme, !is_native && is_custom),
            (Problem::Implicit, has(GrantType::Implicit) && (is_http || is_custom)),
        ];
        all.into_iter().filter(|(_, is_so)| *is_so).map(|(problem, _)| problem).collect()
    }

    /// Whether people may be sent to a URI at all, whatever is registered: to one of https; to one of http if the app
    /// is under development, or runs on a server and authenticates, or the URI is on their own device; to one of
    /// another scheme on their device.
    pub fn may_lead_to(&self, uri: &str) -> bool {
        let Some(uri) = UriParts::of(uri) else { return false };
        let is_native = self.app_type == AppType::Native;
        if uri.is_custom() {
            return is_native;
        }
        let is_confidential = self.app_type == AppType::Web && self.auth_method != AuthMethod::None;
        !uri.is_http() || self.dev_mode || is_confidential || is_native && uri.is_loopback()
    }

    /// Returns the origins of its pages: those of its redirect URIs in the web, and the additional ones.
    pub fn origins(&self) -> Vec<String> {
        let of_uris = self.redirect_uris.iter().filter_map(|uri| UriParts::of(uri)?.origin());
        let mut origins: Vec<String> = of_uris.chain(self.additional_origins.iter().cloned()).collect();
        origins.sort_unstable();
        origins.dedup();
        origins
    }

    /// Whether an origin, as browsers send it, is one of the app's pages: with any port on the person's own device if
    /// the app runs there, and by wildcards under development, like for redirect URIs.
    pub fn is_page(&self, origin: &str) -> bool {
        let leniency = Leniency { any_port: self.app_type == AppType::Native, wildcards: self.dev_mode };
        self.origins().iter().any(|allowed| is_registered(&said_origin(allowed), origin, leniency))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            ResponseType,
            tests::{at, shop},
        },
        *,
    };

    #[test]
    fn what_is_unwise_is_named() {
        let (public, device) = (AuthMethod::None, vec![GrantType::DeviceCode, GrantType::RefreshToken]);
        let of = |app_type, auth_method, uri: &str| Oidc { app_type, auth_method, ..at(uri) };
        let (web, agent, native) = (AppType::Web, AppType::UserAgent, AppType::Native);
        let basic = AuthMethod::Basic;
        let at_once = |uri: &str| Oidc {
            response_types: vec![ResponseType::IdToken],
            grant_types: vec![GrantType::Implicit],
            ..at(uri)
        };
        let refreshing = Oidc { grant_types: vec![GrantType::RefreshToken], response_types: vec![], ..shop() };
        for (app, problems) in [
            (shop(), vec![]),
            (Oidc { dev_mode: true, ..shop() }, vec![Problem::DevMode]),
            (Oidc { redirect_uris: vec![], ..shop() }, vec![Problem::NoRedirectUri]),
            (Oidc { redirect_uris: vec![], response_types: vec![], grant_types: device, ..shop() }, vec![]),
            (refreshing, vec![Problem::RefreshTokenWithoutCode]),
            (of(native, basic, "https://a.example"), vec![Problem::PublicAppAuthenticates]),
            (of(native, public, "http://localhost/a"), vec![]),
            (of(native, public, "com.example:/a"), vec![]),
            (of(native, public, "http://a.example"), vec![Problem::NativeHttp]),
            (of(agent, public, "https://a.example"), vec![]),
            (of(agent, public, "http://localhost"), vec![Problem::UserAgentHttp]),
            (of(agent, public, "com.example:/a"), vec![Problem::CustomScheme]),
            (of(web, basic, "http://a.example"), vec![]),
            (of(web, public, "http://a.example"), vec![Problem::WebHttp]),
            (at_once("https://a.example"), vec![]),
            (at_once("http://a.example"), vec![Problem::Implicit]),
            (at_once("com.example:/a"), vec![Problem::CustomScheme, Problem::Implicit]),
        ] {
            assert_eq!(app.problems(), problems, "{app:?}");
        }
    }

    #[test]
    fn people_are_led_where_the_app_runs() {
        let of = |app_type, auth_method, dev_mode| Oidc { app_type, auth_method, dev_mode, ..shop() };
        let (web, agent, native) = (AppType::Web, AppType::UserAgent, AppType::Native);
        let (basic, public) = (AuthMethod::Basic, AuthMethod::None);
        let uris = ["https://a.example", "http://a.example", "http://127.0.0.1:7/a", "com.example:/a"];
        for (app, expected) in [
            (of(web, basic, false), [true, true, true, false]),
            (of(web, public, false), [true, false, false, false]),
            (of(web, public, true), [true, true, true, false]),
            (of(agent, public, false), [true, false, false, false]),
            (of(agent, basic, false), [true, false, false, false]),
            (of(agent, public, true), [true, true, true, false]),
            (of(native, public, false), [true, false, true, true]),
            (of(native, public, true), [true, true, true, true]),
        ] {
            assert_eq!(uris.map(|uri| app.may_lead_to(uri)), expected, "{app:?}");
        }
    }

    #[test]
    fn origins_are_those_of_pages() {
        let uris = [
            "https://b.example/in",
            "https://b.example/x",
            "com.example:/a",
            "https://*.c.example/",
            "http://[::1]:7/a",
        ];
        let redirect_uris = uris.map(str::to_owned).into();
        let app = Oidc { redirect_uris, additional_origins: vec!["https://a.example".into()], ..shop() };
        assert_eq!(app.origins(), ["http://[::1]:7", "https://a.example", "https://b.example"]);
    }

    #[test]
    fn pages_of_an_app_are_those_of_its_origins() {
        let redirect_uris = vec!["HTTPS://Shop.example:443/in".to_owned(), "http://127.0.0.1/in".to_owned()];
        let additional_origins = vec!["https://*.shop.example".to_owned()];
        let app = Oidc { redirect_uris, additional_origins, ..shop() };
        let (native, develops) =
            (Oidc { app_type: AppType::Native, ..app.clone() }, Oidc { dev_mode: true, ..app.clone() });
        for (origin, [of_web, of_native, in_development]) in [
            ("https://shop.example", [true; 3]),
            ("http://127.0.0.1", [true; 3]),
            ("http://127.0.0.1:9", [false, true, false]),
            ("https://a.shop.example", [false, false, true]),
            ("https://shop.example:8443", [false; 3]),
            ("http://shop.example", [false; 3]),
            ("https://shop.example.evil.example", [false; 3]),
            ("https://evil.example/.shop.example", [false; 3]),
            ("https://*.shop.example", [false; 3]),
            ("null", [false; 3]),
            ("", [false; 3]),
        ] {
            let are = [&app, &native, &develops].map(|app| app.is_page(origin));
            assert_eq!(are, [of_web, of_native, in_development], "{origin}");
        }
    }
}
