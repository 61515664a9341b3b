//! Converts apps between the API and the core. Their secrets are never shown.

use domain::{
    client_secret::ClientSecrets,
    resource::app::{
        App, AppPatch, AuthMethod, Config, ConfigPatch, column,
        oidc::{AppType, Assertions, GrantType, Oidc, OidcPatch, Problem, ResponseType, TokenType},
    },
};
use index::{Filter, Method, SortKey};
use proto::app::{
    self, ApiAuthMethodType, ApiConfig, AppFieldName, CreateAppRequest, GetApp, GetAppRequest, OidcAppConfig,
    OidcAppType, OidcAuthMethodType, OidcComplianceProblem, OidcGrantType, OidcResponseType, OidcTokenType,
    PatchApiConfig, PatchAppRequest, PatchOidcAppConfig, SearchAppsRequest, app_search_filter::Filter as Wanted,
    patch_app,
};
use view::rows::StoredResource;

use crate::{
    details,
    duration::{duration, milliseconds},
    filter::{in_state, named, state},
    standard::Readable,
    token_algorithm,
};

impl Readable for App {
    type Get = GetAppRequest;
    type Search = SearchAppsRequest;

    fn key(column: AppFieldName) -> SortKey<Self> {
        match column {
            AppFieldName::Unspecified | AppFieldName::CreationDate => SortKey::Created,
            AppFieldName::Id => SortKey::Id,
            AppFieldName::ChangeDate => SortKey::Changed,
            AppFieldName::Name => SortKey::Column(&column::NAME),
            AppFieldName::ProjectId => SortKey::Column(&column::PROJECT_ID),
            AppFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::ProjectId(id) => Filter::text(&column::PROJECT_ID, Method::Equals, id),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetApp {
        let Self { project_id, name, config, allow_token_endpoint_audience, secrets, is_active } = found.state.clone();
        let (problems, origins) =
            if let Config::Oidc(oidc) = &config { (oidc.problems(), oidc.origins()) } else { Default::default() };
        let config = match config {
            Config::Oidc(oidc) => app::app::Config::Oidc(oidc_to_proto(oidc)),
            Config::Api { auth_method } => {
                app::app::Config::Api(ApiConfig { auth_method_type: api_method_to_proto(auth_method).into() })
            }
        };
        GetApp {
            details: Some(details::of(found)),
            app: Some(app::App { project_id, name, config: Some(config), allow_token_endpoint_audience }),
            state: state(is_active).into(),
            client_id: found.id.clone(),
            has_secret: secrets.newest.expose().is_some(),
            non_compliant: !problems.is_empty(),
            compliance_problems: problems.into_iter().map(|problem| problem_to_proto(problem).into()).collect(),
            allowed_origins: origins,
        }
    }
}

/// Creates an app without a secret from a request.
pub fn new(request: &CreateAppRequest) -> App {
    let wanted = request.app.clone().unwrap_or_default();
    let config = match wanted.config {
        Some(app::app::Config::Oidc(oidc)) => Config::Oidc(new_oidc(oidc)),
        Some(app::app::Config::Api(api)) => Config::Api { auth_method: api_method(api.auth_method_type()) },
        None => Config::Api { auth_method: AuthMethod::default() },
    };
    App {
        project_id: wanted.project_id,
        name: wanted.name,
        config,
        allow_token_endpoint_audience: wanted.allow_token_endpoint_audience,
        secrets: ClientSecrets::default(),
        is_active: true,
    }
}

/// Converts the changes of a request.
pub fn patch(request: &PatchAppRequest) -> AppPatch {
    let wanted = request.app.clone().unwrap_or_default();
    let config = wanted.config.map(|config| match config {
        patch_app::Config::Oidc(oidc) => ConfigPatch::Oidc(Box::new(patch_oidc(oidc))),
        patch_app::Config::Api(api) => ConfigPatch::Api(patch_api(api)),
    });
    let allow_token_endpoint_audience = wanted.allow_token_endpoint_audience;
    AppPatch { name: wanted.name, config, allow_token_endpoint_audience, renewal: None }
}

fn new_oidc(wanted: OidcAppConfig) -> Oidc {
    let assertions = Assertions {
        access_token_roles: wanted.access_token_role_assertion,
        id_token_roles: wanted.id_token_role_assertion,
        id_token_userinfo: wanted.id_token_userinfo_assertion,
    };
    let mut oidc = Oidc {
        response_types: wanted.response_types().filter_map(response_type).collect(),
        grant_types: wanted.grant_types().filter_map(grant_type).collect(),
        app_type: app_type(wanted.app_type()),
        auth_method: auth_method(wanted.auth_method_type()),
        access_token_type: token_type(wanted.access_token_type()),
        access_token_alg: token_algorithm::name(wanted.access_token_alg()),
        id_token_alg: token_algorithm::name(wanted.id_token_alg()),
        clock_skew_ms: wanted.clock_skew.map_or(0, milliseconds),
        redirect_uris: wanted.redirect_uris,
        post_logout_redirect_uris: wanted.post_logout_redirect_uris,
        dev_mode: wanted.dev_mode,
        assertions,
        additional_origins: wanted.additional_origins,
        skip_native_app_success_page: wanted.skip_native_app_success_page,
        back_channel_logout_uri: wanted.back_channel_logout_uri,
        login_uri: wanted.login_uri,
    };
    // The default of RFC 7591, section 2.
    if oidc.response_types.is_empty() && oidc.grant_types.is_empty() {
        oidc.response_types.push(ResponseType::Code);
        oidc.grant_types.push(GrantType::AuthorizationCode);
    }
    oidc
}

fn patch_oidc(wanted: PatchOidcAppConfig) -> OidcPatch {
    OidcPatch {
        app_type: wanted.app_type.map(|_| app_type(wanted.app_type())),
        auth_method: wanted.auth_method_type.map(|_| auth_method(wanted.auth_method_type())),
        access_token_type: wanted.access_token_type.map(|_| token_type(wanted.access_token_type())),
        access_token_alg: wanted.access_token_alg.map(|_| token_algorithm::name(wanted.access_token_alg())),
        id_token_alg: wanted.id_token_alg.map(|_| token_algorithm::name(wanted.id_token_alg())),
        clock_skew_ms: wanted.clock_skew.map(milliseconds),
        redirect_uris: wanted.redirect_uris.map(|uris| uris.values),
        response_types: wanted.response_types.map(|types| types.values().filter_map(response_type).collect()),
        grant_types: wanted.grant_types.map(|types| types.values().filter_map(grant_type).collect()),
        post_logout_redirect_uris: wanted.post_logout_redirect_uris.map(|uris| uris.values),
        dev_mode: wanted.dev_mode,
        access_token_roles: wanted.access_token_role_assertion,
        id_token_roles: wanted.id_token_role_assertion,
        id_token_userinfo: wanted.id_token_userinfo_assertion,
        additional_origins: wanted.additional_origins.map(|origins| origins.values),
        skip_native_app_success_page: wanted.skip_native_app_success_page,
        back_channel_logout_uri: wanted.back_channel_logout_uri,
        login_uri: wanted.login_uri,
    }
}

fn patch_api(wanted: PatchApiConfig) -> Option<AuthMethod> {
    wanted.auth_method_type.map(|_| api_method(wanted.auth_method_type()))
}

fn oidc_to_proto(oidc: Oidc) -> OidcAppConfig {
    let Assertions { access_token_roles, id_token_roles, id_token_userinfo } = oidc.assertions;
    OidcAppConfig {
        redirect_uris: oidc.redirect_uris,
        response_types: oidc.response_types.into_iter().map(|of| response_type_to_proto(of).into()).collect(),
        grant_types: oidc.grant_types.into_iter().map(|of| grant_type_to_proto(of).into()).collect(),
        app_type: app_type_to_proto(oidc.app_type).into(),
        auth_method_type: method_to_proto(oidc.auth_method).into(),
        post_logout_redirect_uris: oidc.post_logout_redirect_uris,
        dev_mode: oidc.dev_mode,
        access_token_type: token_type_to_proto(oidc.access_token_type).into(),
        access_token_role_assertion: access_token_roles,
        id_token_role_assertion: id_token_roles,
        id_token_userinfo_assertion: id_token_userinfo,
        clock_skew: duration(oidc.clock_skew_ms),
        additional_origins: oidc.additional_origins,
        skip_native_app_success_page: oidc.skip_native_app_success_page,
        back_channel_logout_uri: oidc.back_channel_logout_uri,
        login_uri: oidc.login_uri,
        access_token_alg: token_algorithm::to_proto(oidc.access_token_alg.as_deref()).into(),
        id_token_alg: token_algorithm::to_proto(oidc.id_token_alg.as_deref()).into(),
    }
}

fn response_type(wanted: OidcResponseType) -> Option<ResponseType> {
    match wanted {
        OidcResponseType::Unspecified => None,
        OidcResponseType::Code => Some(ResponseType::Code),
        OidcResponseType::IdToken => Some(ResponseType::IdToken),
        OidcResponseType::IdTokenToken => Some(ResponseType::IdTokenToken),
    }
}

fn response_type_to_proto(response: ResponseType) -> OidcResponseType {
    match response {
        ResponseType::Code => OidcResponseType::Code,
        ResponseType::IdToken => OidcResponseType::IdToken,
        ResponseType::IdTokenToken => OidcResponseType::IdTokenToken,
    }
}

fn grant_type(wanted: OidcGrantType) -> Option<GrantType> {
    match wanted {
        OidcGrantType::Unspecified => None,
        OidcGrantType::AuthorizationCode => Some(GrantType::AuthorizationCode),
        OidcGrantType::Implicit => Some(GrantType::Implicit),
        OidcGrantType::RefreshToken => Some(GrantType::RefreshToken),
        OidcGrantType::DeviceCode => Some(GrantType::DeviceCode),
        OidcGrantType::TokenExchange => Some(GrantType::TokenExchange),
    }
}

fn grant_type_to_proto(grant: GrantType) -> OidcGrantType {
    match grant {
        GrantType::AuthorizationCode => OidcGrantType::AuthorizationCode,
        GrantType::Implicit => OidcGrantType::Implicit,
        GrantType::RefreshToken => OidcGrantType::RefreshToken,
        GrantType::DeviceCode => OidcGrantType::DeviceCode,
        GrantType::TokenExchange => OidcGrantType::TokenExchange,
    }
}

fn app_type(wanted: OidcAppType) -> AppType {
    match wanted {
        OidcAppType::Unspecified | OidcAppType::Web => AppType::Web,
        OidcAppType::UserAgent => AppType::UserAgent,
        OidcAppType::Native => AppType::Native,
    }
}

fn app_type_to_proto(app_type: AppType) -> OidcAppType {
    match app_type {
        AppType::Web => OidcAppType::Web,
        AppType::UserAgent => OidcAppType::UserAgent,
        AppType::Native => OidcAppType::Native,
    }
}

fn auth_method(wanted: OidcAuthMethodType) -> AuthMethod {
    match wanted {
        OidcAuthMethodType::Unspecified | OidcAuthMethodType::Basic => AuthMethod::Basic,
        OidcAuthMethodType::Post => AuthMethod::Post,
        OidcAuthMethodType::None => AuthMethod::None,
        OidcAuthMethodType::PrivateKeyJwt => AuthMethod::PrivateKeyJwt,
    }
}

fn method_to_proto(method: AuthMethod) -> OidcAuthMethodType {
    match method {
        AuthMethod::Basic => OidcAuthMethodType::Basic,
        AuthMethod::Post => OidcAuthMethodType::Post,
        AuthMethod::None => OidcAuthMethodType::None,
        AuthMethod::PrivateKeyJwt => OidcAuthMethodType::PrivateKeyJwt,
    }
}

fn api_method(wanted: ApiAuthMethodType) -> AuthMethod {
    match wanted {
        ApiAuthMethodType::Unspecified | ApiAuthMethodType::Basic => AuthMethod::Basic,
        ApiAuthMethodType::PrivateKeyJwt => AuthMethod::PrivateKeyJwt,
    }
}

/// These apps have no other methods.
fn api_method_to_proto(method: AuthMethod) -> ApiAuthMethodType {
    match method {
        AuthMethod::Basic | AuthMethod::Post | AuthMethod::None => ApiAuthMethodType::Basic,
        AuthMethod::PrivateKeyJwt => ApiAuthMethodType::PrivateKeyJwt,
    }
}

fn token_type(wanted: OidcTokenType) -> TokenType {
    match wanted {
        OidcTokenType::Unspecified | OidcTokenType::Bearer => TokenType::Opaque,
        OidcTokenType::Jwt => TokenType::Jwt,
    }
}

fn token_type_to_proto(token_type: TokenType) -> OidcTokenType {
    match token_type {
        TokenType::Opaque => OidcTokenType::Bearer,
        TokenType::Jwt => OidcTokenType::Jwt,
    }
}

fn problem_to_proto(problem: Problem) -> OidcComplianceProblem {
    match problem {
        Problem::DevMode => OidcComplianceProblem::DevMode,
        Problem::NoRedirectUri => OidcComplianceProblem::NoRedirectUri,
        Problem::RefreshTokenWithoutCode => OidcComplianceProblem::RefreshTokenWithoutCode,
        Problem::PublicAppAuthenticates => OidcComplianceProblem::PublicAppAuthenticates,
        Problem::UserAgentHttp => OidcComplianceProblem::UserAgentHttpRedirectUri,
        Problem::WebHttp => OidcComplianceProblem::WebHttpRedirectUri,
        Problem::NativeHttp => OidcComplianceProblem::NativeHttpRedirectUri,
        Problem::CustomScheme => OidcComplianceProblem::CustomSchemeRedirectUri,
        Problem::Implicit => OidcComplianceProblem::ImplicitRedirectUri,
    }
}
