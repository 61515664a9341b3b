//! Token exchange (RFC 8693): an app gets a token for another one of the same user, with fewer scopes or audiences; or
//! a token by which an actor acts as a user. It ends with the tokens it was exchanged for, expires no later, and has no
//! refresh token.

mod acting;
mod party;
mod target;

use std::sync::Arc;

use base::clock;
use domain::resource::app::oidc::{GrantType, Oidc as Settings};
use edge::{
    admission::own_app,
    caller::{Actor, MOST_BASES},
};
use http::HeaderMap;
use view::directory::{Client, Tenant};

use self::{
    acting::DENIED,
    party::{Party, Reading, SubmittedToken},
};
use super::{Tokens, of_user::Issuance};
use crate::{
    Oidc, client,
    error::Error,
    form::Form,
    lifetime,
    recipient::{Exchange, Login, Recipient},
    scope,
    subject::Subject,
};

const NOT_SET_UP: Error = Error::UnauthorizedClient(
    "only an app in which people log in, and that is set up for the grant type, exchanges tokens",
);
/// Errors of the subject token and the actor token. What is wrong with a token is disclosed by introspection only.
const BAD_SUBJECT: Error = Error::InvalidRequest("the subject token is not valid for the client");
const BAD_ACTOR: Error = Error::InvalidRequest("the actor token is not valid for the client, or somebody acts by it");
const NO_ACTOR: Error = Error::InvalidRequest("a subject token of this type needs an actor_token");

/// The types of tokens (RFC 8693, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Access,
    Refresh,
    Id,
    Jwt,
    /// The id of a user, which is no token.
    UserId,
}

impl Type {
    const ALL: [Self; 5] = [Self::Access, Self::Refresh, Self::Id, Self::Jwt, Self::UserId];

    const fn name(self) -> &'static str {
        match self {
            Self::Access => "urn:ietf:params:oauth:token-type:access_token",
            Self::Refresh => "urn:ietf:params:oauth:token-type:refresh_token",
            Self::Id => "urn:ietf:params:oauth:token-type:id_token",
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
            Self::UserId => "urn:platform:params:oauth:token-type:user_id",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the token type that the client has requested.
    fn requested(form: &Form) -> Result<Self, Error> {
        match form.get("requested_token_type").map(Self::of) {
            None => Ok(Self::Access),
            Some(Some(kind @ (Self::Access | Self::Jwt | Self::Id))) => Ok(kind),
            Some(_) => Err(Error::InvalidRequest("a token of requested_token_type is not given here")),
        }
    }
}

/// The app that exchanges tokens.
struct App {
    client: Arc<Client>,
    settings: Settings,
}

/// The tokens that an app exchanges, and the requested type.
struct PresentedToken {
    kind: Type,
    /// The sequence of the log `SESSIONS` before anything was read: later revocations of the tokens' basis come after
    /// it.
    session_seq: u64,
    subject: Party,
    actor: Option<Party>,
}

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let app = App::authenticated(oidc, tenant, headers, form).await?;
    let kind = Type::requested(form)?;
    if form.get("resource").is_some() {
        return Err(Error::InvalidTarget("resource is not supported: name an audience"));
    }
    let session_seq = oidc.edge.ended.revoked().sequence();
    let reading = Reading { oidc, tenant, app: &app, headers, session_seq };
    let shown = PresentedToken::read(&reading, form, kind).await?;
    issue(&reading, &shown, form).await
}

/// Issues the tokens for those that an app exchanges.
async fn issue(reading: &Reading<'_>, shown: &PresentedToken, form: &Form) -> Result<Tokens, Error> {
    let Reading { oidc, tenant, app, headers, .. } = *reading;
    let scope = shown.scope(form.get("scope"))?;
    let (kind, login) = (shown.kind, shown.login(oidc, tenant, app)?);
    let for_whom = (kind == Type::Id).then_some(app.client.id.as_str());
    let asked = target::TokenRequest { audience: form.get("audience"), only: for_whom };
    let (subject, audience) = target::of(reading, &login, shown, &asked).await?;
    let recipient =
        Recipient { is_opaque: kind == Type::Access, ..Recipient::of_app(&app.client, &app.settings, login) };
    let known = scope::parse(Some(&scope))?;
    let issuance = Issuance { oidc, recipient: &recipient, headers };
    let (tokens, subject) = issuance.issued(subject, &known, audience).await?;
    answered(oidc, &subject, &recipient, kind, tokens)
}

/// Makes the answer to the app (section 2.2.1).
fn answered(
    oidc: &Oidc,
    subject: &Subject,
    recipient: &Recipient,
    kind: Type,
    tokens: Tokens,
) -> Result<Tokens, Error> {
    let issued_token_type = Some(kind.name());
    if kind != Type::Id {
        return Ok(Tokens { issued_token_type, ..tokens });
    }
    let access_token = tokens.id_token.ok_or(Error::InvalidScope("an ID token needs the scope openid"))?;
    let lifetime = lifetime::of(oidc, &subject.tenant.id, |settings| settings.id_token_lifetime.as_ref());
    let ends = recipient.login.as_ref().map_or(0, |login| login.ends);
    let left = u64::try_from(ends - clock::now().as_second()).unwrap_or_default();
    let expires_in = left.min(lifetime.whole_seconds());
    Ok(Tokens { access_token, issued_token_type, token_type: "N_A", expires_in, id_token: None, ..tokens })
}

impl App {
    /// Returns the app that has authenticated in its own way, if it may exchange tokens.
    async fn authenticated(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<Self, Error> {
        let id = client::any(oidc, tenant, headers, form).await?;
        let client = own_app::find_app(&oidc.edge, tenant, &id, 0).await?.ok_or(NOT_SET_UP)?;
        let settings = client.app.config.oidc().filter(|settings| settings.allows_grant(GrantType::TokenExchange));
        let settings = settings.ok_or(NOT_SET_UP)?.clone();
        Ok(Self { client, settings })
    }
}

impl PresentedToken {
    /// Reads the tokens, if all of them are valid, and the actor may act as the subject.
    async fn read(reading: &Reading<'_>, form: &Form, kind: Type) -> Result<Self, Error> {
        let subject = SubmittedToken::subject(form)?;
        let actor = SubmittedToken::actor(form)?;
        if subject.needs_actor() && actor.is_none() {
            return Err(NO_ACTOR);
        }
        let actor = match actor {
            Some(given) => Some(reading.party(&given, true).await?.ok_or(BAD_ACTOR)?),
            None => None,
        };
        let subject = match &actor {
            Some(actor) if subject.needs_actor() => {
                let named = reading.named(&subject).await?.ok_or(DENIED)?;
                acting::permit(reading, actor, &named.id, named.may_act.as_ref()).await?;
                reading.user(named).await?.ok_or(DENIED)?
            }
            _ => {
                let subject = reading.party(&subject, false).await?.ok_or(BAD_SUBJECT)?;
                if let Some(actor) = &actor {
                    acting::permit(reading, actor, &subject.user.id, subject.may_act.as_ref()).await?;
                }
                subject
            }
        };
        Ok(Self { kind, session_seq: reading.session_seq, subject, actor })
    }

    /// Returns the granted scope: the requested one, which must not exceed those of the tokens, or else that of the
    /// first token that has one.
    fn scope(&self, asked: Option<&str>) -> Result<String, Error> {
        let of_subject = self.subject.scope.as_deref();
        let of_actor = self.actor.as_ref().and_then(|actor| actor.scope.as_deref());
        let has = |scope: Option<&str>, word: &str| scope.is_some_and(|scope| words_of(scope).any(|it| it == word));
        let may = |word: &str| {
            // A refresh token is for the person only, not for an actor.
            let is_more = word != scope::OFFLINE;
            let is_of_person = of_subject.is_none() && scope::STANDARD.contains(&word);
            has(of_subject, word) || is_more && (is_of_person || has(of_actor, word))
        };
        if asked.is_some_and(|asked| !words_of(asked).all(may)) {
            return Err(Error::InvalidScope("more is asked for than what the tokens were given for"));
        }
        let given = asked.or(of_subject).or(of_actor).unwrap_or("openid");
        // The new token ends with those it was exchanged for, so there is nothing to refresh.
        let given: Vec<_> = words_of(given).filter(|word| *word != scope::OFFLINE).collect();
        Ok(given.join(" "))
    }

    /// Makes the login that the tokens are issued by, as if somebody had logged in.
    fn login(&self, oidc: &Oidc, tenant: &Tenant, app: &App) -> Result<Login, Error> {
        let Self { kind, session_seq, subject, actor } = self;
        let act = match actor {
            Some(actor) => {
                let (iss, sub) = (oidc.edge.external.issuer(tenant), actor.user.id.clone());
                Some(Actor { iss, sub, act: subject.act.clone().map(Box::new) })
            }
            None => subject.act.clone(),
        };
        let mut bases = subject.bases.clone();
        bases.extend(actor.iter().flat_map(|actor| actor.bases.iter().cloned()));
        if bases.len() > MOST_BASES {
            return Err(Error::InvalidRequest("the tokens were exchanged too often; exchange those of a login"));
        }
        let ends = actor.as_ref().map_or(i64::MAX, |actor| actor.expires).min(subject.expires);
        Ok(Login {
            project_id: app.client.app.project_id.clone(),
            owner: app.client.owner.clone(),
            session_seq: *session_seq,
            assertions: app.settings.assertions,
            session_id: None,
            grant_id: None,
            is_refreshable: false,
            has_access_token: *kind != Type::Id,
            auth_time: subject.auth_time.filter(|_| act.is_none()),
            ends,
            nonce: None,
            exchange: Some(Exchange { act, may_act: subject.may_act.clone(), bases }),
        })
    }
}

fn words_of(scope: &str) -> impl Iterator<Item = &str> {
    scope.split(' ').filter(|word| !word.is_empty())
}
