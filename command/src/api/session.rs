//! Sessions as they are written. Checks are decided in the turn, with what they rest on.

use std::{collections::BTreeMap, sync::Arc};

use api::session::lifetime;
use base::secret::random_secret;
use domain::{
    context::{Owner, OwnerType},
    log_class::LogClass,
    rejection::Rejection,
    resource::{
        organization::Organization,
        session::{CheckedUser, LONGEST_LIFE_MS, Session, SessionPatch, with_entries},
        user::User,
    },
    secret::Hashed,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::session::{
    CheckUser, Checks, CreateSessionRequest, CreateSessionResponse, DeleteSessionRequest, PatchSessionRequest,
    PatchSessionResponse, check_user::Search,
};
use view::keyring::{Purpose, claim_hash, secret_hash};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    existence,
    standard::{self, details},
    turn::{Decided, Refusal, Turn},
};

/// What tokens of sessions begin with, so that they are told from others, also by who looks for secrets where none should be.
const PREFIX: &str = "sess-";

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(patch).on(standard::delete::<Session, DeleteSessionRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateSessionRequest,
) -> Result<Answer<CreateSessionResponse>, Error> {
    let (id, asked) = (commands.ids.next(), request.session.clone().unwrap_or_default());
    let NewToken { token, hash } = NewToken::draw(&commands, &call, &id).await?;
    let command = Create {
        key: standard::key::<Session>(&call, &id)?,
        owner: Owner::instance(&call.tenant.id),
        checks: asked.checks.unwrap_or_default(),
        metadata: asked.metadata,
        lifetime: asked.lifetime.map_or(LONGEST_LIFE_MS, lifetime),
        token: hash,
    };
    let answer = move |decided: &Decided, (): &()| CreateSessionResponse {
        details: Some(details(&id, decided)),
        session_token: token.clone(),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchSessionRequest,
) -> Result<Answer<PatchSessionResponse>, Error> {
    let (id, asked) = (request.id.clone(), request.session.clone().unwrap_or_default());
    let NewToken { token, hash } = NewToken::draw(&commands, &call, &id).await?;
    let command = Patch {
        key: standard::named::<Session>(&call, &request)?,
        checks: asked.checks.unwrap_or_default(),
        metadata: asked.metadata,
        lifetime: asked.lifetime.map(lifetime),
        token: hash,
    };
    let answer = move |decided: &Decided, has_changed: &bool| PatchSessionResponse {
        details: Some(details(&id, decided)),
        session_token: has_changed.then(|| token.clone()),
    };
    commands.execute(&call, &request, command, answer).await
}

/// Another token of a session.
struct NewToken {
    token: String,
    /// What is kept of it.
    hash: Hashed,
}

impl NewToken {
    async fn draw(commands: &Commands, call: &Call, id: &str) -> Result<Self, Error> {
        let key = commands.keyring.key(&call.tenant.id, Purpose::ClientSecret).await.map_err(unavailable)?;
        let secret = random_secret();
        Ok(Self { hash: secret_hash(&key, id, &secret), token: format!("{PREFIX}{id}-{secret}") })
    }
}

/// A session that is created.
struct Create {
    key: AggregateKey,
    owner: Owner,
    checks: Checks,
    metadata: BTreeMap<String, String>,
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
        // Who is there is told to those who may create sessions.
        deciding.permit(turn, &self.owner, &Object::of_nobody(Session::NAME, false))?;
        let session = Session {
            user: checked(turn, deciding, (&self.key.instance_id, &self.checks))?,
            metadata: with_entries(BTreeMap::new(), self.metadata.clone()),
            token: self.token.clone(),
            expires_at: turn.now().as_millisecond().saturating_add(self.lifetime),
        };
        Ok((deciding.decide(turn, current, Asked::Create(session))?, ()))
    }
}

/// What is asked of a session that there is.
struct Patch {
    key: AggregateKey,
    checks: Checks,
    metadata: BTreeMap<String, String>,
    /// How long it lives from now on, in milliseconds, where that changes.
    lifetime: Option<i64>,
    token: Hashed,
}

impl Command for Patch {
    /// Whether it has another token now.
    type Outcome = bool;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Standard<Session>>(&self.key);
        existence::insist(turn, &current)?;
        let session = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
        deciding.permit_on(turn, &current)?;
        let user = checked(turn, deciding, (&self.key.instance_id, &self.checks))?;
        if let (Some(user), Some(before)) = (&user, session.user_id())
            && user.id != before
        {
            return Err(Rejection::Precondition("the session is of another user: create a new one").into());
        }
        let expires_at = self.lifetime.map(|lifetime| turn.now().as_millisecond().saturating_add(lifetime));
        let latest = current.head.created_at.as_millisecond().saturating_add(LONGEST_LIFE_MS);
        if expires_at.is_some_and(|end| end > latest) {
            let rule = "must end within 90 days after the session was created";
            return Err(Rejection::invalid("session.lifetime", rule).into());
        }
        let (metadata, token, before) = (self.metadata.clone(), self.token.clone(), current.head.sequence);
        let patch = SessionPatch { user, metadata, expires_at, token };
        let decided = deciding.decide(turn, current, Asked::Patch(patch))?;
        let has_changed = decided.sequence != before;
        Ok((decided, has_changed))
    }
}

/// Who was checked, where that is asked for.
fn checked(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    (instance_id, checks): (&str, &Checks),
) -> Result<Option<CheckedUser>, Refusal> {
    let Some(CheckUser { search: Some(search) }) = &checks.user else { return Ok(None) };
    let key = match search {
        Search::UserId(id) => Some(AggregateKey::of::<Standard<User>>(instance_id, id.as_str())),
        Search::LoginName(name) => turn.holder(&claim_hash(&deciding.keys.instance, &User::username_claim(name))),
    };
    let nobody = || Refusal::from(Rejection::NotFound(User::NAME));
    let key = key.filter(|key| !key.id.contains('\0')).ok_or_else(nobody)?;
    let current = turn.get::<Standard<User>>(&key);
    existence::insist(turn, &current)?;
    let user = current.resource().ok_or_else(nobody)?;
    let owner = current.owner()?;
    let organization = AggregateKey::of::<Standard<Organization>>(instance_id, owner.id.as_str());
    let organization = turn.get::<Standard<Organization>>(&organization);
    if owner.kind != OwnerType::Organization || user.human.is_none() {
        return Err(Rejection::Precondition("the user is a service user; only people have sessions").into());
    }
    if !user.is_live() {
        return Err(Rejection::Precondition("the user is inactive or locked").into());
    }
    if !organization.resource().is_some_and(|organization| organization.is_active) {
        return Err(Rejection::Precondition("the organization of the user is inactive").into());
    }
    let (checked_at, seen) = (turn.now().as_millisecond(), turn.ends().events);
    Ok(Some(CheckedUser { id: key.id, organization_id: owner.id.clone(), checked_at, seen }))
}
