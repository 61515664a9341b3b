//! The app of the platform's own pages. Every instance has it, and no log: it follows from the instance, with the addresses that the
//! instance has now.

use std::sync::Arc;

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

/// What the app is known by. No id has a colon.
pub const CLIENT_ID: &str = "urn:platform:app:pages";

/// Where those are led, below the issuer, who have logged in for nothing else.
pub const LOGIN_DONE: &str = "/ui/login/done";

/// Where people are led with an answer: to the description of the API too.
const CALLBACKS: [&str; 2] = ["/docs", LOGIN_DONE];

impl Edge {
    /// An app of an instance, one that was made there or that of the platform's pages, as of `sequence` or later if the read model has it.
    ///
    /// # Errors
    /// When it cannot be read, and is not known from before.
    pub async fn app(
        &self,
        tenant: &Tenant,
        id: &str,
        sequence: u64,
    ) -> Result<Option<Arc<Client>>, Arc<DatabaseFailure>> {
        if id == CLIENT_ID {
            self.own_app(tenant, sequence).await
        } else {
            self.directory.app(&tenant.id, id, sequence).await
        }
    }

    /// It belongs to the platform's project.
    async fn own_app(&self, tenant: &Tenant, sequence: u64) -> Result<Option<Arc<Client>>, Arc<DatabaseFailure>> {
        let project_id = &tenant.instance.platform_project_id;
        // Nobody's organization: how the project is granted is of no matter here.
        let project = self.directory.project(&tenant.id, (project_id, ""), sequence).await?;
        let issuer = self.external.issuer(tenant);
        Ok(project.map(|project| {
            let (processed, owner, is_live) = (project.processed, project.owner.clone(), project.is_live);
            Arc::new(Client { processed, id: CLIENT_ID.to_owned(), app: app(project_id, &issuer), owner, is_live })
        }))
    }
}

/// A public client that logs people in by a code.
fn app(project_id: &str, issuer: &str) -> App {
    let oidc = Oidc {
        redirect_uris: CALLBACKS.iter().map(|path| format!("{issuer}{path}")).collect(),
        response_types: vec![ResponseType::Code],
        grant_types: vec![GrantType::AuthorizationCode],
        app_type: AppType::UserAgent,
        auth_method: AuthMethod::None,
        // An issuer of http is one to try the platform with.
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
