//! Where a browser goes on after somebody has signed out (OpenID Connect RP-Initiated Logout 1.0, section 3).

use base::explain::explain;
use domain::resource::app::oidc::Oidc as Settings;
use view::directory::Tenant;

use crate::{
    Oidc,
    authorize::{LONGEST_STATE, checks},
    callback,
    notice::Notice,
};

use edge::admission::{holder, own_app};

/// The parameters of a logout request that name where the browser goes on.
pub(crate) const PARAMETERS: [&str; 3] = ["client_id", "post_logout_redirect_uri", "state"];

/// Where an app asks that the browser goes on afterwards.
pub(crate) struct AfterLogout<'a> {
    pub(crate) client_id: Option<&'a str>,
    pub(crate) uri: Option<&'a str>,
    pub(crate) state: Option<&'a str>,
}

impl AfterLogout<'_> {
    /// Returns the parameters that are present, as name and value.
    pub(crate) fn sent(&self) -> Vec<(&'static str, &str)> {
        let values = [self.client_id, self.uri, self.state];
        PARAMETERS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Returns the URL that the browser goes on to: only a URI that the app has registered for that, and only while the
    /// app is active.
    pub(crate) async fn next(&self, oidc: &Oidc, tenant: &Tenant) -> Result<Option<String>, Notice> {
        if self.state.is_some_and(|state| state.len() > LONGEST_STATE) {
            return Err(Notice::UNREADABLE_LOGOUT);
        }
        let (Some(client_id), Some(uri)) = (self.client_id, self.uri) else { return Ok(None) };
        let found = own_app::find_app(&oidc.edge, tenant, client_id, 0).await;
        let app = found.map_err(|failure| {
            tracing::warn!(error = explain(&*failure), "an app cannot be read, so a session was not ended");
            Notice::MAYBE_SIGNED_OUT
        })?;
        let Some(app) = app.filter(|app| holder::is_live_app(&oidc.edge, tenant, app, app.as_of.get())) else {
            return Ok(None);
        };
        let settings: &Settings = app.app.config.oidc().ok_or(Notice::NO_LOGOUT_URI)?;
        if !checks::leads_to(settings, &settings.post_logout_redirect_uris, uri) {
            let rule = checks::no_way(settings, uri);
            tracing::info!(app = app.id, rule, "nobody is sent to the address that an app has asked for");
            return Err(Notice::NO_LOGOUT_URI);
        }
        let state: Vec<_> = self.state.map(|state| ("state", state)).into_iter().collect();
        Ok(Some(callback::with(uri, &state)))
    }
}
