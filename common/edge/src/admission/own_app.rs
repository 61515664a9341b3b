//! The app of the platform's own pages. Every instance has it, though it is in no log: it follows from the instance and
//! its current addresses.

use std::sync::Arc;

use base::secret::sha256;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    client_secret::ClientSecrets,
    resource::app::{
        App, AuthMethod, Config,
        oidc::{AppType, GrantType, Oidc, ResponseType, TokenType},
    },
};
use view::{
    database::DatabaseFailure,
    directory::{Client, Tenant},
};

use super::Edge;

/// The client id of the app. No other id has a colon.
pub const CLIENT_ID: &str = "urn:platform:app:pages";

/// The path below the issuer to which people are sent who have logged in for nothing else.
pub const LOGIN_DONE: &str = "/ui/login/done";

/// The path below the issuer to which people are sent who have logged in for the pages of operators.
pub const OPERATE_DONE: &str = "/ui/login/operate";

/// The redirect paths of the app, including the description of the API.
const CALLBACKS: [&str; 3] = ["/docs", LOGIN_DONE, OPERATE_DONE];

/// The path of the authorization endpoint, below the issuer (RFC 6749, section 3.1).
pub const AUTHORIZATION: &str = "/oauth/v2/authorize";

/// A login that a page requests.
pub struct Login<'a> {
    /// The path that the browser returns to, below the issuer.
    pub callback: &'a str,
    /// The scope of the token.
    pub scope: &'a str,
    /// The code verifier (RFC 7636, section 4.1).
    pub verifier: &'a str,
    /// The state that is returned with the browser.
    pub state: Option<&'a str>,
    /// Whether another person is to log in than the one who is logged in.
    pub is_another: bool,
}

/// Returns where a browser is sent to log somebody in to the app: a path below the issuer.
pub fn login_path(edge: &Edge, tenant: &Tenant, login: &Login<'_>) -> String {
    let redirect_uri = format!("{}{}", edge.external.issuer(tenant), login.callback);
    let challenge = URL_SAFE_NO_PAD.encode(sha256(login.verifier.as_bytes()));
    let asked = [
        ("client_id", CLIENT_ID),
        ("response_type", "code"),
        ("scope", login.scope),
        ("redirect_uri", &redirect_uri),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let state = login.state.map(|state| ("state", state));
    let prompt = login.is_another.then_some(("prompt", "select_account"));
    // A list of pairs of texts is always a query.
    let query = serde_urlencoded::to_string(asked.into_iter().chain(state).chain(prompt).collect::<Vec<_>>());
    format!("{AUTHORIZATION}?{}", query.unwrap_or_default())
}

/// An app of an instance, or that of the platform's pages, as of `sequence` or later if the read model has it.
///
/// # Errors
/// When it cannot be read, and is not known from before.
pub async fn find_app(
    edge: &Edge,
    tenant: &Tenant,
    id: &str,
    sequence: u64,
) -> Result<Option<Arc<Client>>, Arc<DatabaseFailure>> {
    if id == CLIENT_ID {
        own_app(edge, tenant, sequence).await
    } else {
        edge.directory.app(&tenant.id, id, sequence).await
    }
}

/// The app of the platform's pages, which belongs to the platform's project.
async fn own_app(edge: &Edge, tenant: &Tenant, sequence: u64) -> Result<Option<Arc<Client>>, Arc<DatabaseFailure>> {
    let project_id = &tenant.instance.platform_project_id;
    // No organization is given, since grants of the project do not matter here.
    let project = edge.directory.project(&tenant.id, project_id, "", sequence).await?;
    let issuer = edge.external.issuer(tenant);
    Ok(project.map(|project| {
        let (as_of, owner, is_live) = (project.as_of.clone(), project.owner.clone(), project.is_live);
        Arc::new(Client { as_of, id: CLIENT_ID.to_owned(), app: pages_app(project_id, &issuer), owner, is_live })
    }))
}

/// The app: a public client that logs people in by authorization codes.
fn pages_app(project_id: &str, issuer: &str) -> App {
    let oidc = Oidc {
        redirect_uris: CALLBACKS.iter().map(|path| format!("{issuer}{path}")).collect(),
        response_types: vec![ResponseType::Code],
        grant_types: vec![GrantType::AuthorizationCode],
        app_type: AppType::UserAgent,
        auth_method: AuthMethod::None,
        // Only a trial installation has an issuer with http.
        dev_mode: issuer.starts_with("http:"),
        access_token_type: TokenType::Jwt,
        ..Oidc::default()
    };
    App {
        project_id: project_id.to_owned(),
        name: "Platform".to_owned(),
        config: Config::Oidc(oidc),
        allow_token_endpoint_audience: false,
        secrets: ClientSecrets::default(),
        is_active: true,
    }
}
