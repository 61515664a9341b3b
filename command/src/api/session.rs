//! Handlers that create, change and end sessions. Checks are decided in the turn, together with the state that they
//! depend on.

use std::{collections::BTreeMap, sync::Arc};

use api::session::lifetime;
use domain::{
    context::Owner,
    log_class::LogClass,
    rejection::Rejection,
    resource::{
        session::{CheckedUser, LONGEST_LIFE_MS, Session, SessionPatch, with_entries},
        user::User,
    },
    secret::Hashed,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    error::Error,
    handler::Mounting,
    secret_token::{SESSION, is_kept},
};
use eventlog::record::AggregateKey;
use proto::session::{
    CheckPassword, Checks, CreateSessionRequest, CreateSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    PatchSessionRequest, PatchSessionResponse, check_user::Search,
};

use crate::{
    authority::Object,
    checked_user::{checked_now, has_ended},
    client_secret::{draw, hash_of},
    execute::{Command, Commands, Deciding},
    existence::{self, organization_of_live},
    login::{self, PasswordSubject, ProvenPassword, wrong},
    named::named,
    standard::{self, details},
    turn::{Decided, Refusal, Turn},
    user_agent::{self, NewUserAgent, OfSession},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(patch).on(delete)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateSessionRequest,
) -> Result<Answer<CreateSessionResponse>, Error> {
    let (id, asked) = (commands.ids.next(), request.session.clone().unwrap_or_default());
    let checks = asked.checks.unwrap_or_default();
    let (secret, token) = draw(&commands, &call.tenant.id, &id).await?;
    let key = standard::key::<Session>(&call, &id)?;
    let user_agent = user_agent::checked(asked.user_agent)?;
    let proven = check_password(&commands, &call, &checks, None).await?;
    let whose = person_of(&call, &checks);
    let of = OfSession { user_agent, session: &key, whose, proven: proven.as_ref() };
    let user_agent = user_agent::new_user_agent(&commands, &call, of).await?;
    let command = Create {
        key,
        owner: Owner::instance(&call.tenant.id),
        proven,
        checks,
        metadata: asked.metadata,
        user_agent,
        lifetime: asked.lifetime.map_or(LONGEST_LIFE_MS, lifetime),
        token,
    };
    let answer = move |decided: &Decided, (): &()| CreateSessionResponse {
        details: Some(details(&id, decided)),
        session_token: SESSION.token(&id, &secret),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchSessionRequest,
) -> Result<Answer<PatchSessionResponse>, Error> {
    let (id, asked) = (request.id.clone(), request.session.clone().unwrap_or_default());
    let (checks, key) = (asked.checks.unwrap_or_default(), standard::named::<Session>(&call, &request)?);
    let (secret, token) = draw(&commands, &call.tenant.id, &id).await?;
    let user_agent = user_agent::checked(asked.user_agent)?;
    let proven = check_password(&commands, &call, &checks, Some(&key)).await?;
    let whose = Some(person_of(&call, &checks).unwrap_or_else(|| PasswordSubject::OfSession(key.clone())));
    let of = OfSession { user_agent, session: &key, whose, proven: proven.as_ref() };
    let user_agent = user_agent::new_user_agent(&commands, &call, of).await?;
    let command = Patch {
        proven,
        key,
        checks,
        metadata: asked.metadata,
        user_agent,
        lifetime: asked.lifetime.map(lifetime),
        shown: PresentedHash::of(&commands, &call, &id, &asked.session_token).await?,
        token,
    };
    let answer = move |decided: &Decided, has_changed: &bool| PatchSessionResponse {
        details: Some(details(&id, decided)),
        session_token: has_changed.then(|| SESSION.token(&id, &secret)),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteSessionRequest,
) -> Result<Answer<DeleteSessionResponse>, Error> {
    let id = request.id.clone();
    let shown = PresentedHash::of(&commands, &call, &id, &request.session_token).await?;
    let command = Delete { key: standard::named::<Session>(&call, &request)?, shown };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// The hash of the token that a caller shows instead of a permission, if it is a token of the requested session.
struct PresentedHash(Option<Hashed>);

impl PresentedHash {
    async fn of(commands: &Commands, call: &Call, id: &str, token: &str) -> Result<Self, Error> {
        let Some(sent) = SESSION.parse(token).filter(|sent| sent.id == id) else { return Ok(Self(None)) };
        Ok(Self(Some(hash_of(commands, &call.tenant.id, id, sent.secret).await?)))
    }

    /// Permits what the caller requests, if the token is the newest one of the session.
    fn stand_in(&self, deciding: &Deciding, key: &AggregateKey, session: &Session) {
        if self.0.as_ref().is_some_and(|shown| is_kept(shown, &session.token)) {
            deciding.shows_token(key);
        }
    }

    /// Returns what identifies a repeated request with the same `Idempotency-Key`, besides its content.
    fn digest(&self) -> &[u8] {
        self.0.as_ref().and_then(Hashed::expose).unwrap_or_default().as_bytes()
    }
}

/// A session that is created.
struct Create {
    key: AggregateKey,
    owner: Owner,
    checks: Checks,
    proven: Option<ProvenPassword>,
    metadata: BTreeMap<String, String>,
    user_agent: NewUserAgent,
    /// How long it lives, in milliseconds.
    lifetime: i64,
    token: Hashed,
}

impl Command for Create {
    type Outcome = ();

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.unborn::<Standard<Session>>(&self.key, &self.owner)?;
        // Only callers who may create sessions learn which users exist.
        deciding.permit(turn, &self.owner, &Object::of_nobody(Session::NAME, false))?;
        let instance_id = &*self.key.instance_id;
        let user = checked(turn, deciding, instance_id, &self.checks)?;
        let session = Session {
            password_checked_at: password_checked(turn, instance_id, user.as_ref(), self.proven.as_ref())?,
            user_agent: self.user_agent.decide(user.as_ref().map(|user| &*user.id))?.applied(None),
            user,
            metadata: with_entries(BTreeMap::new(), self.metadata.clone()),
            token: self.token.clone(),
            expires_at: turn.now().as_millisecond().saturating_add(self.lifetime),
        };
        Ok((deciding.decide(turn, current, Asked::Create(session))?, ()))
    }
}

/// A change of an existing session.
struct Patch {
    key: AggregateKey,
    checks: Checks,
    proven: Option<ProvenPassword>,
    metadata: BTreeMap<String, String>,
    user_agent: NewUserAgent,
    /// How long it lives from now on, in milliseconds, where that changes.
    lifetime: Option<i64>,
    shown: PresentedHash,
    token: Hashed,
}

impl Command for Patch {
    /// Whether the session got a new token.
    type Outcome = bool;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn presented_token_hash(&self) -> &[u8] {
        self.shown.digest()
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Standard<Session>>(&self.key);
        existence::require_existing(turn, &current)?;
        let session = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
        // With its token alone nobody can look up users, or extend what the session was given.
        if self.checks == Checks::default() && self.lifetime.is_none() && !self.user_agent.is_named() {
            self.shown.stand_in(deciding, &self.key, session);
        }
        deciding.permit_on(turn, &current)?;
        let mut user = checked(turn, deciding, &self.key.instance_id, &self.checks)?;
        if let Some(before) = &session.user {
            if user.as_ref().is_some_and(|user| user.id != before.id) {
                return Err(Rejection::Precondition("the session belongs to another user: create a new one").into());
            }
            let key = AggregateKey::of::<Standard<User>>(&*self.key.instance_id, before.id.as_str());
            let current = turn.get::<Standard<User>>(&key);
            let has_ended = has_ended(turn, &self.key.instance_id, before);
            let is_live = !has_ended && organization_of_live(turn, &current)?.is_some();
            match self.proven {
                Some(_) if !is_live => return Err(wrong().into()),
                None if !is_live => return Err(Rejection::NotFound(Session::NAME).into()),
                _ => {}
            }
            // Checking the same user again does not revive a session that was to end meanwhile.
            user = user.map(|user| CheckedUser { seen: before.seen, ..user });
        }
        let expires_at = self.lifetime.map(|lifetime| turn.now().as_millisecond().saturating_add(lifetime));
        let latest = current.head.created_at.as_millisecond().saturating_add(LONGEST_LIFE_MS);
        if expires_at.is_some_and(|end| end > latest) {
            let rule = "must end within 90 days after the session was created";
            return Err(Rejection::invalid("session.lifetime", rule).into());
        }
        let checked = user.as_ref().or(session.user.as_ref());
        let password_checked_at = password_checked(turn, &self.key.instance_id, checked, self.proven.as_ref())?;
        let user_agent = self.user_agent.decide(checked.map(|user| &*user.id))?;
        let (metadata, token, before) = (self.metadata.clone(), self.token.clone(), current.head.sequence);
        let patch = SessionPatch { user, password_checked_at, metadata, user_agent, expires_at, token };
        let decided = deciding.decide(turn, current, Asked::Patch(patch))?;
        let has_changed = decided.sequence != before;
        Ok((decided, has_changed))
    }
}

/// A session that ends.
struct Delete {
    key: AggregateKey,
    shown: PresentedHash,
}

impl Command for Delete {
    type Outcome = ();

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn presented_token_hash(&self) -> &[u8] {
        self.shown.digest()
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<Session>>(&self.key);
        existence::require_existing(turn, &current)?;
        let session = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
        self.shown.stand_in(deciding, &self.key, session);
        Ok((deciding.decide(turn, current, Asked::Delete)?, ()))
    }
}

/// Returns the checked user, if the check of a user is requested.
fn checked(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    instance_id: &str,
    checks: &Checks,
) -> Result<Option<CheckedUser>, Refusal> {
    let Some(search) = searched(checks) else { return Ok(None) };
    // With a password no other reason is given, so that nobody who tries many learns that one was right.
    let or_wrong = |refusal: Rejection| match checks.password {
        Some(_) => Refusal::from(wrong()),
        None => refusal.into(),
    };
    let nobody = || or_wrong(Rejection::NotFound(User::NAME));
    let key = named(turn, &deciding.keys, instance_id, search).ok_or_else(nobody)?;
    let current = turn.get::<Standard<User>>(&key);
    if !existence::is_there::<User>(turn, &key) {
        return Err(nobody());
    }
    if current.resource().ok_or_else(nobody)?.human.is_none() {
        return Err(Rejection::Precondition("the user is a service user; only people have sessions").into());
    }
    let inactive =
        Rejection::Precondition("the user is inactive or locked, or the organization of the user is inactive");
    let organization_id = organization_of_live(turn, &current)?.ok_or_else(|| or_wrong(inactive))?;
    Ok(Some(checked_now(turn, &key.id, organization_id)))
}

/// Returns the search by which a check names a user.
fn searched(checks: &Checks) -> Option<&Search> {
    checks.user.as_ref()?.search.as_ref()
}

/// Verifies the password, if one is to be checked, and returns the person whose it is.
async fn check_password(
    commands: &Commands,
    call: &Call,
    checks: &Checks,
    session: Option<&AggregateKey>,
) -> Result<Option<ProvenPassword>, Error> {
    let Some(CheckPassword { password }) = &checks.password else { return Ok(None) };
    let whose = match (searched(checks), session) {
        (Some(search), _) => PasswordSubject::Named(call.tenant.id.clone(), search.clone()),
        (None, Some(session)) => PasswordSubject::OfSession(session.clone()),
        (None, None) => {
            return Err(Rejection::invalid("session.checks.user", "is required where a password is checked").into());
        }
    };
    login::prove(commands, call, whose, password).await.map(Some)
}

/// Returns the person that the checks name.
fn person_of(call: &Call, checks: &Checks) -> Option<PasswordSubject> {
    searched(checks).map(|search| PasswordSubject::Named(call.tenant.id.clone(), search.clone()))
}

/// Returns when the password was checked, if it was.
fn password_checked(
    turn: &mut Turn<'_>,
    instance_id: &str,
    user: Option<&CheckedUser>,
    proven: Option<&ProvenPassword>,
) -> Result<Option<i64>, Refusal> {
    let (Some(user), Some(proven)) = (user, proven) else { return Ok(None) };
    let key = AggregateKey::of::<Standard<User>>(instance_id, user.id.as_str());
    proven.decide(turn, &key).map(Some)
}

#[cfg(test)]
mod tests {
    use edge::error::Reason;
    use proto::operation::PATCH_SESSION;

    use super::*;
    use crate::{
        authority,
        scene::{self, ENDS, Scene, cause, key},
    };

    #[test]
    fn a_session_that_was_ended_with_all_others_is_not_patched() {
        for (end, lives) in ENDS {
            let mut scene = Scene::logged_in(end);
            let patch = Patch {
                key: key::<Session>(scene::SESSION),
                checks: Checks::default(),
                proven: None,
                metadata: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
                user_agent: NewUserAgent::Unnamed,
                lifetime: None,
                shown: PresentedHash(None),
                token: Hashed::new("next"),
            };
            let operator = authority::tests::operator(&scene, &PATCH_SESSION.facts);
            let deciding = Deciding::of(operator, scene.keys.clone(), cause());
            let patched = scene.turn(|turn, _| patch.decide(turn, &deciding));
            let patched = patched.map(|_| ()).map_err(|refusal| Box::<Error>::from(refusal).reason());
            assert_eq!(patched, if lives { Ok(()) } else { Err(Reason::ResourceNotFound) }, "{end:?}");
        }
    }
}
