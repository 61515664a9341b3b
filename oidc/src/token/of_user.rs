//! Tokens for a user: of a service user in its own name, or of an app that a person has logged in to.

use std::sync::Arc;

use domain::resource::execution::Function;
use http::HeaderMap;
use serde_json::{Map, Value};
use view::directory::{Audience, Principal, Tenancy, Tenant};

use super::Tokens;
use crate::{
    Oidc, audience, claims,
    error::Error,
    function::{FunctionCall, TargetAnswers},
    issue::Content,
    lifetime, metadata,
    new_metadata::NewMetadata,
    owner,
    recipient::{Login, Recipient},
    role::RequestedScopes,
    scope::{self, Scope, Scopes},
    subject::Subject,
};

/// The recipient of tokens, and the request that it gets them by.
pub(super) struct Issuance<'a> {
    pub(super) oidc: &'a Oidc,
    pub(super) recipient: &'a Recipient,
    /// The headers of the request, for targets.
    pub(super) headers: &'a HeaderMap,
}

impl Issuance<'_> {
    /// Issues the tokens for a user, and returns them with their subject.
    pub(super) async fn tokens(
        &self,
        tenant: &Arc<Tenant>,
        user: Arc<Principal>,
        scope: Option<&str>,
    ) -> Result<(Tokens, Subject), Error> {
        let Self { oidc, recipient, .. } = self;
        let known = scope::parse(scope)?;
        let named = known.iter().filter_map(|(_, scope)| audience::of(tenant, scope));
        let named: Vec<&str> = named.chain(recipient.own_project()).collect();
        let mut subject = Subject::read(oidc, tenant.clone(), user, &named).await?;
        let platform = subject.tenant.instance.platform_project_id.clone();
        if let Some(login) = &recipient.login {
            let is_own = recipient.is_own();
            // Tokens of the platform's own pages are for the platform alone.
            subject.projects.retain(|id, project| if *id == platform { is_trusted(login, project) } else { !is_own });
        }
        let Subject { grants, projects, .. } = &subject;
        if projects.values().any(|project| !project.admits(grants)) {
            return Err(Error::InvalidScope("a project that is asked for does not admit the user"));
        }
        let mut audience = all_audience(&subject, recipient);
        if audience.is_empty() {
            // A token without another audience is for its issuer (RFC 9068, section 3).
            audience.push(oidc.edge.external.issuer(&subject.tenant));
        }
        self.issued(subject, &known, audience).await
    }

    /// Issues the tokens for a subject, with these scopes and this audience, and returns them with the subject.
    pub(super) async fn issued(
        &self,
        subject: Subject,
        known: Scopes<'_>,
        audience: Vec<String>,
    ) -> Result<(Tokens, Subject), Error> {
        let Self { oidc, recipient, .. } = self;
        let organization = asked_for(oidc, &subject, known).await?;
        if !owner::is_asked(organization.as_deref(), known) {
            return Err(Error::InvalidScope("the user is of another organization than the one that is asked for"));
        }
        let scope = granted(&subject.tenant, known, &subject, recipient);
        let has_id_token = recipient.may_have_id_token && is_openid(&scope);
        let of_id_token = if has_id_token { scope::parse(Some(&scope))? } else { vec![] };
        let by_targets = Box::pin(self.by_targets(&subject, known, &of_id_token)).await?;
        let making = Making {
            subject: &subject,
            recipient,
            known,
            of_id_token: &of_id_token,
            organization: organization.as_deref(),
            content: Content { audience, scope: scope.clone(), added: Map::new() },
        };
        let made = match Box::pin(making.tokens(oidc, &by_targets)).await {
            // Metadata that a target sets must not keep anybody from logging in.
            Err(Error::InvalidScope(why)) if making.includes(&by_targets.metadata) => {
                let without = ByTargets { metadata: NewMetadata::default(), ..by_targets };
                let made = Box::pin(making.tokens(oidc, &without)).await;
                if made.is_ok() {
                    let instance = &subject.tenant.id;
                    tracing::warn!(instance, why, "metadata that targets want to be set is left out");
                }
                made
            }
            made => made.map(|tokens| Tokens { metadata: by_targets.metadata, ..tokens }),
        };
        let tokens = made?;
        Ok((tokens, subject))
    }

    /// Calls the targets for tokens of these scopes; those for ID tokens only where there is an ID token.
    async fn by_targets(
        &self,
        subject: &Subject,
        known: Scopes<'_>,
        of_id_token: Scopes<'_>,
    ) -> Result<ByTargets, Error> {
        let call = |function, scopes| FunctionCall { function, scopes, subject, client_id: &self.recipient.client_id };
        let of_access_token = if self.recipient.has_access_token() {
            call(Function::PreAccessToken, known).answers(self.oidc, self.headers).await?
        } else {
            TargetAnswers::default()
        };
        let of_id_token = if of_id_token.is_empty() {
            TargetAnswers::default()
        } else {
            call(Function::PreUserinfo, of_id_token).answers(self.oidc, self.headers).await?
        };
        Ok(ByTargets {
            of_access_token: of_access_token.claims,
            of_id_token: of_id_token.claims,
            metadata: of_access_token.metadata.then(of_id_token.metadata),
        })
    }
}

/// The inputs of tokens.
struct Making<'a> {
    subject: &'a Subject,
    recipient: &'a Recipient,
    known: Scopes<'a>,
    /// The scopes of the ID token; empty where there is no ID token.
    of_id_token: Scopes<'a>,
    organization: Option<&'a Tenancy>,
    content: Content,
}

/// The claims that targets add to tokens, and the metadata that they set.
struct ByTargets {
    of_access_token: Map<String, Value>,
    of_id_token: Map<String, Value>,
    metadata: NewMetadata,
}

impl Making<'_> {
    /// Whether the tokens contain new metadata.
    fn includes(&self, new: &NewMetadata) -> bool {
        !new.is_empty() && self.known.iter().any(|(_, scope)| *scope == Scope::Metadata)
    }

    async fn tokens(&self, oidc: &Oidc, by_targets: &ByTargets) -> Result<Tokens, Error> {
        let Self { subject, recipient, of_id_token, content, .. } = self;
        let added = self.added(oidc, by_targets).await?;
        // The platform's own pages need no such claims, and their token has to fit a cookie.
        let added = if recipient.is_own() { Map::new() } else { added };
        let lifetime = lifetime::of(oidc, &subject.tenant.id, |settings| settings.access_token_lifetime.as_ref());
        let content = Content { added, ..content.clone() };
        let scope = content.scope.clone();
        let (access_token, expires_in) = if recipient.has_access_token() {
            oidc.issuer.access_token(subject, recipient, content, lifetime).await?
        } else {
            Default::default()
        };
        let id_token =
            if of_id_token.is_empty() { None } else { self.id_token(oidc, by_targets, &access_token).await? };
        let (token_type, is_opaque, issued_token_type, refresh_token) = ("Bearer", recipient.is_opaque, None, None);
        let metadata = NewMetadata::default();
        Ok(Tokens {
            access_token,
            issued_token_type,
            token_type,
            expires_in,
            scope,
            id_token,
            refresh_token,
            is_opaque,
            metadata,
        })
    }

    /// Returns the claims of an access token that follow from its scopes, from the settings of the project and the app,
    /// and from targets.
    async fn added(&self, oidc: &Oidc, by_targets: &ByTargets) -> Result<Map<String, Value>, Error> {
        let Self { subject, recipient, known, organization, .. } = self;
        let Subject { tenant, user, grants, projects, .. } = subject;
        let asserted = recipient.asserts_roles().then_some(Scope::Roles);
        let asked = RequestedScopes::of(known.iter().map(|(_, scope)| scope.clone()).chain(asserted));
        let mut added = asked.claims(tenant, projects.values().map(|project| &**project), grants);
        if let Some(own) = recipient.own_project().and_then(|id| projects.get(id)) {
            added.extend(asked.claims_for(tenant, own, grants));
        }
        added.extend(owner::repeated(*organization, known));
        if known.iter().any(|(_, scope)| *scope == Scope::ResourceOwner) {
            added.extend(organization.map(owner::claims).unwrap_or_default());
        }
        if known.iter().any(|(_, scope)| *scope == Scope::Metadata) {
            let found = metadata::of(oidc, tenant, user, subject.sequence).await?;
            added.insert(metadata::CLAIM.to_owned(), metadata::claim(&by_targets.metadata.over(&found))?);
        }
        added.extend(by_targets.of_access_token.clone());
        let may_act = recipient.exchange().and_then(|exchange| exchange.may_act.clone());
        added.extend(may_act.map(|may_act| ("may_act".to_owned(), may_act)));
        Ok(added)
    }

    /// Issues the ID token that accompanies an access token, with the claims that targets add.
    async fn id_token(&self, oidc: &Oidc, by_targets: &ByTargets, access_token: &str) -> Result<Option<String>, Error> {
        let Self { subject, recipient, of_id_token: known, .. } = self;
        let mut added = by_targets.of_id_token.clone();
        if let Some(login) = &recipient.login {
            let Subject { tenant, user, grants, projects, .. } = subject;
            added.extend(owner::repeated(asked_for(oidc, subject, known).await?.as_deref(), known));
            // Without an access token the app cannot request userinfo (OpenID Connect Core 1.0, section 5.4).
            if login.assertions.id_token_userinfo || !login.has_access_token {
                added.extend(claims::of(user, known.iter().map(|(_, scope)| scope)));
            }
            if login.assertions.id_token_roles
                && let Some(own) = projects.get(&login.project_id)
            {
                added.extend(RequestedScopes::of([Scope::Roles]).claims_for(tenant, own, grants));
            }
        }
        let lifetime = lifetime::of(oidc, &subject.tenant.id, |settings| settings.id_token_lifetime.as_ref());
        let beside = recipient.has_access_token().then_some(access_token);
        oidc.issuer.id_token(subject, recipient, beside, added, lifetime).await
    }
}

/// Whether there is an ID token for a scope (OpenID Connect Core 1.0, section 3.1.2.1).
fn is_openid(scope: &str) -> bool {
    scope.split(' ').any(|word| Scope::parse(word) == Some(Scope::OpenId))
}

/// Whether an app may get tokens for the platform's own project. Such a token permits all that the person may do, so
/// only apps of the same organization get one.
pub(super) fn is_trusted(login: &Login, platform: &Audience) -> bool {
    platform.owner == login.owner
}

/// Returns the organization of the user, where scopes concern it.
async fn asked_for(
    oidc: &Oidc,
    Subject { tenant, user, .. }: &Subject,
    known: Scopes<'_>,
) -> Result<Option<Arc<Tenancy>>, Error> {
    let is_about_it =
        |scope: &Scope<'_>| matches!(scope, Scope::Organization(_) | Scope::OrganizationOf(_) | Scope::ResourceOwner);
    if known.iter().any(|(_, scope)| is_about_it(scope)) { owner::of(oidc, tenant, user).await } else { Ok(None) }
}

/// Returns the audience of an access token: the app, the other apps of its project, each by its id, and the projects.
fn all_audience(Subject { projects, .. }: &Subject, recipient: &Recipient) -> Vec<String> {
    let client = recipient.login.as_ref().map(|_| &recipient.client_id);
    let others = recipient.own_project().and_then(|id| projects.get(id)).map_or(&[][..], |own| &own.apps);
    let others = others.iter().filter(|id| !recipient.is_own() && Some(*id) != client);
    client.into_iter().chain(others).chain(projects.keys()).cloned().collect()
}

/// Returns the granted scopes of those that a client has requested.
fn granted(tenant: &Tenant, known: Scopes<'_>, subject: &Subject, recipient: &Recipient) -> String {
    let is_granted = |scope: &Scope<'_>| match scope {
        Scope::Offline => recipient.login.as_ref().is_some_and(|login| login.is_refreshable),
        scope => audience::of(tenant, scope).is_none_or(|id| subject.projects.contains_key(id)),
    };
    let granted = known.iter().filter(|(_, scope)| is_granted(scope)).map(|(word, _)| *word);
    granted.collect::<Vec<_>>().join(" ")
}
