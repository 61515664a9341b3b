//! A request of a browser for a page: its site, instance, browser and authorization request.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{FromRequest, Request},
    response::{IntoResponse, Response},
};
use base::{explain::explain, fold::fold};
use domain::{
    context::{Owner, OwnerType},
    resource::{
        project::PrivateLabeling,
        user::contact::{EMAIL, Kind, PHONE},
    },
    setting::login::Login,
    settings::Chain,
};
use edge::{header::host, internal::CommandFailure, mount::read_body, trigger::trace_of};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
pub(super) use page::answer::Instead;
use page::{
    answer::{Policy, page, see_other},
    asset::Asset,
    form::{self, Form},
    origin,
    site::Site,
};
use proto::bus::{Checked, UserAgent, internal_command::Command};
use view::directory::{Client, Locator, Name, Principal, Tenant};

pub(super) use super::person::{AccountView, KnownAccount, called, login_name};
use super::{
    browser::{Account, Browser, Keys},
    hidden_domain::HiddenDomain,
    user_agent,
};
use crate::{
    Oidc,
    auth_request::PendingRequest,
    authorize::origin_of,
    catch_up, ending,
    endpoint::{LOGIN, REQUEST},
    error::{Error, no_store},
    files::FILES,
    notice::Notice,
    session,
    words::Words,
};

/// A request for a page of an instance.
pub(super) struct Visitor {
    pub(super) oidc: Arc<Oidc>,
    pub(super) site: Site,
    pub(super) tenant: Arc<Tenant>,
    pub(super) headers: HeaderMap,
    /// A hash of the network of the browser, by which requests are limited.
    pub(super) origin: String,
    /// The user agent, as a session stores it.
    pub(super) user_agent: UserAgent,
    pub(super) browser: Browser,
    /// The parameters, from the query or from a form.
    pub(super) form: Form,
    /// The id of the authorization request that it names, or nothing.
    pub(super) request: String,
    path: String,
    keys: Keys,
    /// The browser as in its cookie.
    before: Option<Browser>,
    /// Whether this browser was given the form.
    is_given: bool,
}

/// A request for a page on the way to an app.
pub(super) struct Visit {
    pub(super) visitor: Visitor,
    pub(super) waiting: PendingRequest,
    pub(super) app: Arc<Client>,
    /// The context whose branding and texts the pages have.
    pub(super) context: Owner,
    /// The name of the context, where it is an organization.
    pub(super) organization: Option<String>,
    pub(super) words: Words,
    hidden_domain: HiddenDomain,
}

/// A visit with a form that this browser was given.
pub(super) struct Posted(pub(super) Visit);

impl Visitor {
    pub(super) async fn read(oidc: &Arc<Oidc>, request: Request) -> Result<Self, Instead> {
        let (parts, body) = request.into_parts();
        let is_post = parts.method == Method::POST;
        // Before anything is refused: browsers read the answer only after they have sent everything.
        let body = if is_post { Some(read_body(body, form::LARGEST).await) } else { None };
        let Parts { uri, headers, .. } = &parts;
        let words = Words::built_in(headers);
        let notice = |notice: Notice, site: Option<&Site>| Instead::from(notice.answer(site, &words));
        let site = oidc.site(uri, headers);
        let tenant = oidc.edge.open_tenant(&parts).await.map_err(|error| Instead::from(error.into_response()))?;
        let site = site.ok_or_else(|| notice(Notice::NO_PAGES, None))?;
        // Cookies belong to one host.
        if host(uri, headers).is_ok_and(|named| named != tenant.primary_domain) {
            if is_post {
                return Err(notice(Notice::FOREIGN, Some(&site)));
            }
            let path = uri.path_and_query().map_or(LOGIN, |path| path.as_str());
            return Err(see_other(&format!("{}{path}", oidc.edge.external.issuer(&tenant))).into());
        }
        let keys = Keys::of(oidc, &tenant.id).await.map_err(|_| notice(Notice::AWAY, Some(&site)))?;
        let before = Browser::read(&keys, &tenant.id, &site, headers);
        let form = match body {
            None => Form::of_query(uri.query()),
            Some(body) => {
                let read = body.ok().and_then(|body| Form::read(headers, &body));
                read.filter(|_| origin::is_own(headers, &site)).ok_or_else(|| notice(Notice::FOREIGN, Some(&site)))?
            }
        };
        let request = form.get(REQUEST).unwrap_or_default().to_owned();
        let is_given = before.as_ref().is_some_and(|it| form::is_of(&keys.form, &it.binding(&request), &form));
        let mut browser = before.clone().unwrap_or_else(Browser::new);
        if let Some(code) = form.get("language").filter(|_| !is_post) {
            browser.pick(&request, code);
        }
        Ok(Self {
            oidc: oidc.clone(),
            site,
            tenant,
            origin: origin_of(&parts.extensions),
            user_agent: user_agent::of(&parts.extensions, headers),
            browser,
            form,
            request,
            path: uri.path().to_owned(),
            keys,
            before,
            is_given,
            headers: parts.headers,
        })
    }

    /// Returns a token for the forms of a page.
    pub(super) fn token(&self) -> String {
        form::token(&self.keys.form, &self.browser.binding(&self.request))
    }

    /// Whether this browser was given the form, for this request.
    pub(super) const fn is_given(&self) -> bool {
        self.is_given
    }

    /// Returns the given fields that are present, with their values.
    pub(super) fn sent(&self, names: &[&'static str]) -> Vec<(&'static str, &str)> {
        names.iter().filter_map(|name| Some((*name, self.form.get(name)?))).collect()
    }

    /// Returns the path of the page.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the texts of a page in a context.
    pub(super) fn words(&self, context: &Owner, wanted: &[String]) -> Words {
        let (picked, last) = self.browser.languages(&self.request);
        let wanted = picked.into_iter().chain(wanted.iter().map(String::as_str)).chain(last);
        Words::of(&self.oidc.edge.settings, &self.tenant.id, context, wanted, &self.headers)
    }

    /// Returns the texts in the context of the instance.
    pub(super) fn in_general(&self) -> Words {
        self.words(&Owner::instance(&self.tenant.id), &[])
    }

    /// Renders a page whose forms may lead to an app.
    pub(super) fn page(&self, status: StatusCode, template: &impl Template) -> Response {
        self.page_with(&FILES.script, status, template)
    }

    /// Renders a page with a script of its own.
    pub(super) fn page_with(&self, script: &Asset, status: StatusCode, template: &impl Template) -> Response {
        let policy = Policy { scripts: vec![script.path.clone()], connects: false, leaves: true };
        self.with_cookie(page(status, template, &policy.text(&self.site)))
    }

    /// Makes a message page that ends the request early.
    pub(super) fn notice(&self, notice: Notice, words: &Words) -> Instead {
        self.render_notice(notice, words).into()
    }

    /// Renders a message page.
    pub(super) fn render_notice(&self, notice: Notice, words: &Words) -> Response {
        self.with_cookie(notice.answer(Some(&self.site), words))
    }

    /// Returns a MAC of texts under the key of the instance's forms.
    pub(super) fn sealed(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.keys.form.mac(parts)
    }

    /// Redirects the browser to a page.
    pub(super) fn step(&self, path: &str) -> Response {
        self.step_by(path, &[])
    }

    /// Redirects the browser to a page about an account.
    pub(super) fn step_with(&self, path: &str, user_id: &str) -> Response {
        self.step_by(path, &[("account", user_id)])
    }

    /// Redirects the browser to a page with more parameters.
    pub(super) fn step_by(&self, path: &str, more: &[(&str, &str)]) -> Response {
        let pairs = [&[(REQUEST, self.request.as_str())], more].concat();
        let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
        self.with_cookie(see_other(&format!("{path}?{query}")))
    }

    /// Redirects the browser to another URL.
    pub(super) fn leave(&self, url: &str) -> Response {
        let mut response = see_other(url);
        no_store(&mut response);
        self.with_cookie(response)
    }

    /// Sets the cookie in an answer, where the browser has changed.
    fn with_cookie(&self, mut response: Response) -> Response {
        if self.before.as_ref() != Some(&self.browser) {
            let cookie: Option<HeaderValue> = self.browser.cookie(&self.keys, &self.tenant.id, &self.site);
            response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        }
        response
    }

    /// Returns the accounts with a live session, newest last. The cookie keeps others, which another tab may renew.
    ///
    /// # Errors
    /// When that cannot be determined.
    pub(super) async fn accounts(&self) -> Result<Vec<KnownAccount>, Error> {
        let mut known = vec![];
        for account in self.browser.accounts() {
            let Some(session) = session::session_by_token(&self.oidc, &self.tenant, &account.token).await? else {
                continue;
            };
            let checked_at = session.state.password_checked_at;
            let user = self.user(account).await?;
            known.extend(user.map(|user| KnownAccount { account: account.clone(), user, checked_at }));
        }
        Ok(known)
    }

    /// Whether people of a context may log in with passwords.
    pub(super) fn has_passwords(&self, context: &Owner) -> bool {
        *self.login_of(context).resolve(|it| it.allow_username_password.as_ref()).value
    }

    /// Whether a user has a password to log in with.
    pub(super) fn has_password(&self, user: &Principal) -> bool {
        user.user.password.is_some() && self.has_passwords(&user.owner)
    }

    /// Returns the login settings of a context.
    pub(super) fn login_of(&self, context: &Owner) -> Chain<Login> {
        self.oidc.edge.settings.effective::<Login>(&self.tenant.id, context).chain
    }

    /// Sends a command about a person to the writer, and returns the outcome.
    pub(super) async fn ask(&self, command: Command) -> Result<Checked, CommandFailure> {
        let asked = self.oidc.internal.send(&self.tenant.id, &trace_of(&self.headers), command).await;
        let asked = asked.inspect_err(|undone| tracing::warn!(error = %explain(undone), "a page has had nothing done"));
        asked?.checked.ok_or(CommandFailure::Unknown)
    }

    /// Returns the user of an account, as of the check or later.
    pub(super) async fn user(&self, Account { user_id, seen, .. }: &Account) -> Result<Option<Arc<Principal>>, Error> {
        catch_up::as_of(&self.oidc, *seen).await?;
        Ok(self.oidc.edge.directory.principal(&self.tenant.id, Name::Id(user_id.clone()), *seen).await?)
    }
}

impl Visit {
    async fn read(oidc: &Arc<Oidc>, request: Request) -> Result<Self, Instead> {
        let visitor = Visitor::read(oidc, request).await?;
        let words = visitor.in_general();
        let away = |_: Error| visitor.notice(Notice::AWAY, &words);
        let found = ending::waiting(oidc, &visitor.tenant, &visitor.request).await.map_err(away)?;
        // A request with login pages of somebody else ends there, where more may be checked than here.
        let is_ours = |app: &Client| app.app.config.oidc().is_some_and(|settings| settings.login_uri.is_empty());
        let found = found.filter(|(_, app)| is_ours(app));
        let (waiting, app) = found.ok_or_else(|| visitor.notice(Notice::EXPIRED, &words))?;
        let context = context(&visitor, &waiting).await.map_err(away)?;
        let hidden_domain = HiddenDomain::read(oidc, &visitor.tenant, &waiting).await.map_err(away)?;
        let words = visitor.words(&context, &waiting.request.ui_locales);
        let organization = organization(&visitor, &context).await.map_err(away)?;
        Ok(Self { visitor, waiting, app, context, organization, words, hidden_domain })
    }

    /// Returns a login name as it is shown: without the organization's domain, where its branding hides that.
    pub(super) fn shown_name<'a>(&self, login_name: &'a str) -> &'a str {
        self.hidden_domain.hidden_in(login_name)
    }

    /// Returns the login name of a user as it is shown; that of a user of another organization is shown in full.
    pub(super) fn shown_name_of<'a>(&self, user: &'a Principal) -> &'a str {
        let login_name = login_name(user);
        if user.owner == self.context { self.shown_name(login_name) } else { login_name }
    }

    /// Returns the login name as it is shown beside other accounts: in full where another account has the short name.
    pub(super) fn shown_name_among<'a>(&self, user: &'a Principal, known: &[KnownAccount]) -> &'a str {
        let shown = self.shown_name_of(user);
        let is_taken = known.iter().any(|other| other.user.id != user.id && fold(other.login_name()) == fold(shown));
        if is_taken { login_name(user) } else { shown }
    }

    /// Makes a message page for a person who cannot go on.
    pub(super) fn notice(&self, notice: Notice) -> Instead {
        self.visitor.notice(notice, &self.words)
    }

    /// Makes the message page for something that is unavailable.
    pub(super) fn away(&self) -> Instead {
        self.notice(Notice::AWAY)
    }

    /// Refuses the page where nobody may log in with a password.
    pub(super) fn require_passwords(&self) -> Result<(), Instead> {
        if self.visitor.has_passwords(&self.context) { Ok(()) } else { Err(self.notice(Notice::NO_PASSWORD)) }
    }

    /// Returns the kinds of contacts that people may enter instead of their login name.
    pub(super) fn contacts(&self) -> Vec<Kind> {
        let login = self.visitor.login_of(&self.context);
        let is_off = |set: fn(&Login) -> Option<&bool>| *login.resolve(set).value;
        let email = (!is_off(|it| it.disable_login_with_email.as_ref())).then_some(EMAIL);
        let phone = (!is_off(|it| it.disable_login_with_phone.as_ref())).then_some(PHONE);
        email.into_iter().chain(phone).collect()
    }

    /// Whether the app has requested a prompt.
    pub(super) fn asks(&self, prompt: &str) -> bool {
        self.waiting.request.prompts.iter().any(|asked| asked == prompt)
    }
}

/// Returns the context whose branding and texts pages have: the requested organization, or the one that owns the app's
/// project where its policy says so, or else the instance.
async fn context(visitor: &Visitor, waiting: &PendingRequest) -> Result<Owner, Error> {
    let Visitor { oidc, tenant, .. } = visitor;
    if let Some(id) = &waiting.request.organization_id {
        return Ok(Owner::organization(id));
    }
    let project = oidc.edge.directory.project(&tenant.id, &waiting.request.project_id, "", 0).await?;
    let labeled = project.filter(|it| it.project.policies.private_labeling != PrivateLabeling::Unspecified);
    Ok(labeled.map_or_else(|| Owner::instance(&tenant.id), |project| project.owner.clone()))
}

/// Returns the name of a context that is an organization.
async fn organization(visitor: &Visitor, context: &Owner) -> Result<Option<String>, Error> {
    if context.kind != OwnerType::Organization {
        return Ok(None);
    }
    let Visitor { oidc, tenant, .. } = visitor;
    let found = oidc.edge.directory.organization(&tenant.id, Locator::Id(context.id.clone()), 0).await?;
    Ok(found.map(|found| found.organization.name.clone()))
}

impl FromRequest<Arc<Oidc>> for Visit {
    type Rejection = Instead;

    async fn from_request(request: Request, oidc: &Arc<Oidc>) -> Result<Self, Instead> {
        Self::read(oidc, request).await
    }
}

impl FromRequest<Arc<Oidc>> for Posted {
    type Rejection = Instead;

    /// Redirects a form that this browser was not given, such as one from before a login, to the current page.
    async fn from_request(request: Request, oidc: &Arc<Oidc>) -> Result<Self, Instead> {
        let visit = Visit::read(oidc, request).await?;
        let visitor = &visit.visitor;
        if visitor.is_given() {
            return Ok(Self(visit));
        }
        if visitor.before.is_none() {
            return Err(visit.notice(Notice::NO_COOKIE));
        }
        // Somebody else may have logged in meanwhile, and must not go on unasked.
        let step = if visitor.browser.accounts().is_empty() { LOGIN } else { "/ui/login/accounts" };
        Err(visitor.step(step).into())
    }
}
