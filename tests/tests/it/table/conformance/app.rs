//! The rows of apps.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    app::{
        ApiAuthMethodType, ApiConfig, App, AppFieldName, AppSearchFilter, CreateAppRequest, DeactivateAppRequest,
        DeleteAppRequest, GenerateAppSecretRequest, GetAppRequest, OidcAppConfig, OidcAppType, OidcAuthMethodType,
        OidcGrantType, OidcResponseType, OidcTokenType, PatchApiConfig, PatchApp, PatchAppRequest, PatchOidcAppConfig,
        ReactivateAppRequest, SearchAppsRequest, SetOidcGrantTypes, SetOidcResponseTypes, SetUris, app,
        app_search_filter::Filter, patch_app,
    },
    object::{InIdsFilter, ListQuery, NameFilter, State, StateFilter, TextFilterMethod, TokenAlgorithm},
    operation::{
        CREATE_APP, DEACTIVATE_APP, DELETE_APP, GENERATE_APP_SECRET, GET_APP, PATCH_APP, REACTIVATE_APP, SEARCH_APPS,
    },
    wellknown::Duration,
};
use serde_json::{Value, json};

use super::{
    posted,
    project::a_project,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const APPS: &str = "/resources/v3alpha/apps";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_APP, an_app).good("an app", |it| DeleteAppRequest { id: it.id.clone() }).done(),
        row(&DEACTIVATE_APP, an_app).good("one that is on", |it| DeactivateAppRequest { id: it.id.clone() }).done(),
        row(&REACTIVATE_APP, an_inactive_app)
            .good("one that is off", |it| ReactivateAppRequest { id: it.id.clone() })
            .done(),
        row(&GENERATE_APP_SECRET, an_app)
            .good("instead of the one before", |it| secret(it, None))
            .good("beside the one before", |it| secret(it, Some(Duration::from_seconds(3600))))
            .bad("more than 30 days", "INVALID_REQUEST", |it| secret(it, Some(Duration::from_seconds(2_592_001))))
            .done(),
        row(&GET_APP, an_app).good("an app", |it| GetAppRequest { id: it.id.clone() }).done(),
        search(),
    ]
}

async fn create_app(world: &World, config: Value) -> Subject {
    let project = a_project(world).await.id;
    let mut app = json!({ "projectId": project, "name": "Conformance" });
    app.as_object_mut().expect("it is one").extend(config.as_object().expect("it is one").clone());
    subject(&posted(world, APPS, &app).await).naming([project])
}

pub(super) fn an_app(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id: checking, .. } = create_app(world, json!({ "api": {} })).await;
        let app = create_app(world, json!({ "oidc": { "redirectUris": ["https://shop.example/callback"] } })).await;
        let project = app.others[0].clone();
        app.naming([project, checking])
    }
    .boxed()
}

fn an_inactive_app(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = create_app(world, json!({ "api": {} })).await;
        subject(&posted(world, &format!("{APPS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn owned(uris: &[&str]) -> Vec<String> {
    uris.iter().map(|&uri| uri.to_owned()).collect()
}

fn app(it: &Subject, config: app::Config) -> CreateAppRequest {
    let app = App { project_id: it.id.clone(), name: "Shop".into(), config: Some(config), ..App::default() };
    CreateAppRequest { app: Some(app) }
}

fn oidc(it: &Subject, oidc: OidcAppConfig) -> CreateAppRequest {
    app(it, app::Config::Oidc(oidc))
}

fn at(uri: &str) -> OidcAppConfig {
    OidcAppConfig { redirect_uris: owned(&[uri]), ..OidcAppConfig::default() }
}

fn everything() -> OidcAppConfig {
    OidcAppConfig {
        redirect_uris: owned(&["com.example.shop:/callback", "http://*.shop.example/"]),
        response_types: vec![OidcResponseType::Code.into(), OidcResponseType::IdTokenToken.into()],
        grant_types: vec![
            OidcGrantType::AuthorizationCode.into(),
            OidcGrantType::Implicit.into(),
            OidcGrantType::RefreshToken.into(),
        ],
        app_type: OidcAppType::Native.into(),
        auth_method_type: OidcAuthMethodType::None.into(),
        post_logout_redirect_uris: owned(&["https://shop.example/bye"]),
        dev_mode: true,
        access_token_type: OidcTokenType::Jwt.into(),
        access_token_role_assertion: true,
        id_token_role_assertion: true,
        id_token_userinfo_assertion: true,
        clock_skew: Some(Duration::from_seconds(5)),
        additional_origins: owned(&["https://admin.shop.example"]),
        skip_native_app_success_page: true,
        back_channel_logout_uri: "https://shop.example/logged-out".into(),
        login_uri: "https://login.example/start".into(),
        access_token_alg: TokenAlgorithm::Rs256.into(),
        id_token_alg: TokenAlgorithm::Es256.into(),
    }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_APP, a_project)
        .good("as little as possible", |it| oidc(it, at("https://shop.example/callback")))
        .good("all fields", |it| oidc(it, everything()))
        .good("that checks tokens", |it| {
            let auth_method_type = ApiAuthMethodType::PrivateKeyJwt.into();
            let CreateAppRequest { app } = app(it, app::Config::Api(ApiConfig { auth_method_type }));
            CreateAppRequest { app: app.map(|app| App { allow_token_endpoint_audience: true, ..app }) }
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateAppRequest::default())
        .bad("an empty app", "INVALID_REQUEST", |_| CreateAppRequest { app: Some(App::default()) })
        .bad("a relative redirect URI", "INVALID_REQUEST", |it| oidc(it, at("/callback")))
        .bad("a redirect URI that runs", "INVALID_REQUEST", |it| oidc(it, at("javascript:alert(1)")))
        .bad("too many redirect URIs", "INVALID_REQUEST", |it| {
            oidc(
                it,
                OidcAppConfig { redirect_uris: owned(&["https://shop.example/"; 101]), ..OidcAppConfig::default() },
            )
        })
        .bad("a long redirect URI", "INVALID_REQUEST", |it| {
            oidc(it, at(&format!("https://shop.example/{}", "x".repeat(2000))))
        })
        .bad("a grant type that does not fit", "INVALID_REQUEST", |it| {
            let grant_types = vec![OidcGrantType::Implicit.into()];
            oidc(it, OidcAppConfig { grant_types, ..at("https://shop.example/") })
        })
        .bad("an unspecified response type", "INVALID_REQUEST", |it| {
            oidc(it, OidcAppConfig { response_types: vec![0], ..at("https://shop.example/") })
        })
        .bad("a clock that differs much", "INVALID_REQUEST", |it| {
            oidc(it, OidcAppConfig { clock_skew: Some(Duration::from_seconds(6)), ..at("https://shop.example/") })
        })
        .bad("an unknown project", "RESOURCE_NOT_FOUND", |it| {
            let CreateAppRequest { app } = oidc(it, at("https://shop.example/"));
            CreateAppRequest { app: app.map(|app| App { project_id: "1".into(), ..app }) }
        })
        .done()
}

fn patched(subject: &Subject, app: PatchApp) -> PatchAppRequest {
    PatchAppRequest { id: subject.id.clone(), app: Some(app) }
}

fn configured(subject: &Subject, config: patch_app::Config) -> PatchAppRequest {
    patched(subject, PatchApp { config: Some(config), ..PatchApp::default() })
}

fn reconfigured(subject: &Subject, oidc: PatchOidcAppConfig) -> PatchAppRequest {
    configured(subject, patch_app::Config::Oidc(oidc))
}

#[expect(clippy::unnecessary_wraps, reason = "as a patch has them")]
fn uris(uris: &[&str]) -> Option<SetUris> {
    Some(SetUris { values: owned(uris) })
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_APP, an_app)
        .good("a name", |it| patched(it, PatchApp { name: Some("Renamed".into()), ..PatchApp::default() }))
        .good("all of its configuration", |it| {
            let OidcAppConfig { response_types, grant_types, .. } = everything();
            reconfigured(
                it,
                PatchOidcAppConfig {
                    redirect_uris: uris(&["http://*.shop.example/"]),
                    response_types: Some(SetOidcResponseTypes { values: response_types }),
                    grant_types: Some(SetOidcGrantTypes { values: grant_types }),
                    app_type: Some(OidcAppType::UserAgent.into()),
                    auth_method_type: Some(OidcAuthMethodType::None.into()),
                    post_logout_redirect_uris: uris(&["https://shop.example/bye"]),
                    dev_mode: Some(true),
                    access_token_type: Some(OidcTokenType::Jwt.into()),
                    access_token_role_assertion: Some(true),
                    id_token_role_assertion: Some(true),
                    id_token_userinfo_assertion: Some(true),
                    clock_skew: Some(Duration::from_seconds(1)),
                    additional_origins: uris(&["https://admin.shop.example"]),
                    skip_native_app_success_page: Some(true),
                    back_channel_logout_uri: Some("https://shop.example/logged-out".into()),
                    login_uri: Some("https://login.example/start".into()),
                    access_token_alg: Some(TokenAlgorithm::Es256.into()),
                    id_token_alg: Some(TokenAlgorithm::Rs256.into()),
                },
            )
        })
        .good("no redirect URIs", |it| {
            reconfigured(it, PatchOidcAppConfig { redirect_uris: uris(&[]), ..PatchOidcAppConfig::default() })
        })
        .good("one that checks tokens", |it| {
            let api = PatchApiConfig { auth_method_type: Some(ApiAuthMethodType::PrivateKeyJwt.into()) };
            let app = PatchApp {
                config: Some(patch_app::Config::Api(api)),
                allow_token_endpoint_audience: Some(true),
                ..PatchApp::default()
            };
            PatchAppRequest { id: it.others[1].clone(), app: Some(app) }
        })
        .good("nothing", |it| patched(it, PatchApp::default()))
        .bad("no app", "INVALID_REQUEST", |it| PatchAppRequest { id: it.id.clone(), app: None })
        .bad("an empty name", "INVALID_REQUEST", |it| {
            patched(it, PatchApp { name: Some(String::new()), ..PatchApp::default() })
        })
        .bad("another type", "INVALID_REQUEST", |it| {
            configured(it, patch_app::Config::Api(PatchApiConfig { auth_method_type: None }))
        })
        .bad("a wildcard", "INVALID_REQUEST", |it| {
            let redirect_uris = uris(&["https://*.shop.example/"]);
            reconfigured(it, PatchOidcAppConfig { redirect_uris, ..PatchOidcAppConfig::default() })
        })
        .bad("an unspecified method", "INVALID_REQUEST", |it| {
            reconfigured(it, PatchOidcAppConfig { auth_method_type: Some(0), ..PatchOidcAppConfig::default() })
        })
        .done()
}

fn secret(subject: &Subject, previous_expiration: Option<Duration>) -> GenerateAppSecretRequest {
    GenerateAppSecretRequest { id: subject.id.clone(), previous_expiration }
}

fn search_request(filters: Vec<Filter>) -> SearchAppsRequest {
    let filters = filters.into_iter().map(|filter| AppSearchFilter { filter: Some(filter) }).collect();
    SearchAppsRequest { filters, ..SearchAppsRequest::default() }
}

fn named(name: &str, method: TextFilterMethod) -> Filter {
    Filter::Name(NameFilter { name: name.into(), method: method.into() })
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_APPS, an_app)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("of a project, of what is on", |it| {
            let on = StateFilter { state: State::EffectiveStateActive.into() };
            search_request(vec![Filter::ProjectId(it.others[0].clone()), Filter::State(on)])
        })
        .good("nothing found", |_| search_request(vec![named("no such name", TextFilterMethod::Equals)]))
        .good("a page in another order", |_| SearchAppsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: AppFieldName::Name.into(),
            ..search_request(vec![named("CONF", TextFilterMethod::StartsWithIgnoreCase)])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchAppsRequest {
            filters: vec![AppSearchFilter { filter: None }],
            ..SearchAppsRequest::default()
        })
        .bad("a long name and no project", "INVALID_REQUEST", |_| {
            search_request(vec![named(&"x".repeat(201), TextFilterMethod::Contains), Filter::ProjectId(String::new())])
        })
        .done()
}
