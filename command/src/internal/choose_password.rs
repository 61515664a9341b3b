//! Gives another password to a person who must choose one, or who says the one before.

use base::password::{is_hash_of, prepared};
use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    resource::{
        session::Session,
        user::{Password, User, UserPatch},
    },
    secret::Hashed,
    setting::password::is_possible,
    standard::{Command, Resource, Standard},
};
use edge::{error::Error, secret_token::SESSION};
use eventlog::record::AggregateKey;
use proto::bus::{ChangePassword, Checked, checked::Fault};

use super::{
    By, fault_of_new, faulty,
    log_in::{SealableUserAgent, decided, log_in, shown_by, told},
};
use crate::{
    client_secret::hash_of,
    execute::Commands,
    existence::organization_of_live,
    login::{Found, Proven, found},
    password::{Chosen, Terms, sealed_password},
    person_key::away,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// What it is called in metrics.
const NAME: &str = "ChangePassword";
/// How long after the check of the password before it another one can be chosen, in milliseconds.
const LONGEST_WAIT_MS: i64 = 60 * 60 * 1000;

/// Changes a password, and says what became of it.
pub(super) async fn choose(commands: &Commands, by: By, asked: ChangePassword) -> Result<Checked, Error> {
    chosen(commands, by, asked).await.or_else(told)
}

async fn chosen(commands: &Commands, by: By, asked: ChangePassword) -> Result<Checked, Error> {
    let fault = |fault| Ok(faulty(fault));
    let ChangePassword { session_token, new_password, user_agent, current_password } = asked;
    if !is_possible(&new_password) {
        return fault(Fault::Rules);
    }
    let Some(sent) = SESSION.parse(&session_token) else { return fault(Fault::Over) };
    let trial = by.trial(NAME);
    let session = AggregateKey::of::<Standard<Session>>(by.instance_id.as_str(), sent.id);
    let shown = hash_of(commands, &by.instance_id, (sent.id, sent.secret)).await?;
    let look = Look { session, shown, keys: by.keys.clone(), says_current: current_password.is_some() };
    let Some(Seen { user, resource, owner, password, found }) = decided(commands, trial.origin(), look).await? else {
        return fault(Fault::Over);
    };
    if let Some(current) = current_password
        && commands.tried(&trial, &found, current.into()).await?.is_none()
    {
        return fault(Fault::Wrong);
    }
    let Some(human) = resource.human else { return fault(Fault::Over) };
    let (sealing, sealed) = commands.key_of_person(&by.instance_id, &user.id, &human).await?;
    let person = sealing.open(sealed).map_err(away)?;
    let (kept, said) = (sealing.open_password(&password.hash).map_err(away)?, prepared(&new_password));
    if commands.hashed(&by.instance_id, move || is_hash_of(&kept, &said)).await? {
        return fault(Fault::Same);
    }
    let choice = Chosen { password: new_password.into(), person, field: "new_password" };
    let hash = match commands.hash_of(&by.instance_id, &owner, choice).await? {
        Ok(hash) => hash,
        Err(faults) => return fault(fault_of_new(&faults)),
    };
    let new = sealed_password(&sealing, &hash, Terms::default());
    let proven = Proven { user_id: user.id.clone(), human: human.clone(), password: new.clone() };
    if !decided(commands, trial.origin(), Set { by: by.clone(), user, before: password, new }).await? {
        return fault(Fault::Over);
    }
    let user_agent = SealableUserAgent::new(user_agent, sealing);
    // Whoever has just chosen it need not say it again. It is chosen also where that fails.
    let logged_in = log_in(commands, &by, (&trial, proven), (&session_token, user_agent)).await;
    Ok(logged_in.unwrap_or_else(|error| {
        tracing::warn!(reason = error.reason().name(), "a person has another password and is not logged in with it");
        faulty(Fault::Made)
    }))
}

/// Looks who may choose another password.
struct Look {
    session: AggregateKey,
    shown: Hashed,
    keys: ClaimKeys,
    /// Whether the one before is said; otherwise only who must may choose one.
    says_current: bool,
}

/// A person who may.
struct Seen {
    user: AggregateKey,
    resource: User,
    owner: Owner,
    password: Password,
    /// What the password that is said is compared with.
    found: Found,
}

impl Decide for Look {
    type Outcome = Option<Seen>;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<Seen>), Refusal> {
        let nothing = turn.nothing_decided(Session::NAME);
        let session = turn.get::<Standard<Session>>(&self.session);
        let checked = shown_by(turn, (&session, &self.shown));
        let checked_at = session.resource().and_then(|session| session.password_checked_at);
        let Some(checked) = checked else { return Ok((nothing, None)) };
        let user = AggregateKey::of::<Standard<User>>(&*self.session.instance_id, checked.id.as_str());
        let current = turn.get::<Standard<User>>(&user);
        let is_live = organization_of_live(turn, &current)?.is_some();
        let now = turn.now().as_millisecond();
        let Some(resource) = current.resource().filter(|_| is_live) else { return Ok((nothing, None)) };
        let may = |password: &&Password| {
            self.says_current || checked_at.is_some_and(|checked_at| must_choose(password, checked_at, now))
        };
        let Some(password) = resource.password.as_ref().filter(may).cloned() else { return Ok((nothing, None)) };
        let (resource, owner) = (resource.clone(), current.owner()?.clone());
        let Some(found) = found(turn, &self.keys, &user)? else { return Ok((nothing, None)) };
        Ok((nothing, Some(Seen { user, resource, owner, password, found })))
    }
}

/// Whether somebody must choose another password than this one, which was checked lately enough for that.
fn must_choose(password: &Password, checked_at: i64, now: i64) -> bool {
    let is_lately = now.saturating_sub(checked_at) <= LONGEST_WAIT_MS;
    is_lately && password.is_change_required && password.changed_at <= checked_at && !password.has_expired(now)
}

/// Sets it, where the person has the one before still.
struct Set {
    by: By,
    user: AggregateKey,
    before: Password,
    new: Password,
}

impl Decide for Set {
    /// Whether it is set.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Standard<User>>(&self.user);
        let is_live = organization_of_live(turn, &current)?.is_some();
        if !is_live || !current.resource().is_some_and(|user| user.password.as_ref() == Some(&self.before)) {
            return Ok((turn.nothing_decided(User::NAME), false));
        }
        let patch = UserPatch { password: Some(self.new.clone()), ..UserPatch::default() };
        let events = Standard::<User>::decide(&current.state, Command::Patch(patch))?;
        // It is the person who does it.
        let cause = Cause { actor: self.user.id.clone(), ..self.by.cause.clone() };
        Ok((turn.append(current, &events, &self.by.keys, &cause)?, true))
    }
}
