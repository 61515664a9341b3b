//! The page on which somebody consents to what an app of another organization requests.

use askama::Template;
use axum::response::Response;
use http::{StatusCode, Uri};
use page::component::Frame;
use view::directory::{Locator, Tenant};

use super::{
    next::{consent, go_on},
    shell::Shell,
    visit::{Instead, Posted, Visit, login_name},
};
use crate::{
    audience, endpoint,
    scope::{self, Scope},
};

#[derive(Template)]
#[template(path = "consent.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    message: String,
    account: &'a str,
    name: &'a str,
    wants: Vec<&'a str>,
}

/// Asks for consent.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    let user_id = visit.visitor.form.get("account").unwrap_or_default();
    let Some(account) = visit.visitor.browser.account(user_id) else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    let user = visit.visitor.user(account).await.map_err(|_| visit.away())?;
    let Some(user) = user else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    let (directory, tenant) = (&visit.visitor.oidc.edge.directory, &visit.visitor.tenant);
    let owner = directory.organization(&tenant.id, Locator::Id(visit.app.owner.id.clone()), 0).await;
    let owner = owner.map_err(|_| visit.away())?;
    let organization = owner.as_ref().map_or("", |found| &found.organization.name);
    let host = host(&visit.waiting.request.callback.redirect_uri);
    let message = visit.words.with("consent.message", &[("organization", organization), ("host", &host)]);
    let title = visit.words.with("consent.title", &[("app", &visit.app.app.name)]);
    let known = scope::parse(Some(&visit.waiting.request.scope)).unwrap_or_default();
    let mut wants: Vec<&str> = vec![];
    for key in known.iter().filter_map(|(_, scope)| key(tenant, scope)) {
        let text = visit.words.get(key);
        if !wants.contains(&text) {
            wants.push(text);
        }
    }
    let (frame, shell) = Shell::new(&visit, title);
    let is_hidden = visit.shown_name_of(&user) != login_name(&user);
    let accounts = if is_hidden { visit.visitor.accounts().await.map_err(|_| visit.away())? } else { vec![] };
    let name = visit.shown_name_among(&user, &accounts);
    let page = Page { frame, shell, message, account: user_id, name, wants };
    Ok(visit.visitor.page(StatusCode::OK, &page))
}

/// Stores the consent, and goes on to the app.
pub(super) async fn allow(Posted(mut visit): Posted) -> Result<Response, Instead> {
    let user_id = visit.visitor.form.get("account").unwrap_or_default().to_owned();
    let what = consent(&visit);
    visit.visitor.browser.allow(&user_id, what);
    go_on(&visit, &user_id, true).await
}

/// Returns the host of a redirect URI, or the scheme of a native app's.
fn host(redirect_uri: &str) -> String {
    let is_web = ["http://", "https://"].iter().any(|scheme| redirect_uri.starts_with(scheme));
    let host = redirect_uri.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).filter(|_| is_web);
    host.unwrap_or_else(|| redirect_uri.split(':').next().unwrap_or_default().to_owned())
}

/// Returns the key of the text that explains a scope to a person.
fn key(tenant: &Tenant, scope: &Scope<'_>) -> Option<&'static str> {
    Some(match scope {
        Scope::OpenId => "consent.openid",
        Scope::Profile => "consent.profile",
        Scope::Email => "consent.email",
        Scope::Phone => "consent.phone",
        Scope::Address => "consent.address",
        Scope::Offline => "consent.offline",
        Scope::Metadata => "consent.metadata",
        Scope::Roles | Scope::Role(_) | Scope::RolesOf(_) | Scope::ResourceOwner => "consent.roles",
        Scope::Audience(_) if audience::of(tenant, scope) == Some(&tenant.instance.platform_project_id) => {
            "consent.platform"
        }
        Scope::Audience(_) => "consent.projects",
        Scope::Organization(_) | Scope::OrganizationOf(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_where_it_goes_on() {
        assert_eq!(host("https://shop.example:8443/callback?a=b"), "shop.example");
        assert_eq!(host("http://127.0.0.1/callback"), "127.0.0.1");
        assert_eq!([host("com.example.app:/callback"), host("app://bank.example/x")], ["com.example.app", "app"]);
    }
}
