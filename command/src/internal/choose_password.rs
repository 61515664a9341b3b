//! Changes the password of a person who must choose another one, or who gives the current one.

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
    CommandActor, fault_of_new, faulty,
    log_in::{VerifiedPerson, decided, log_in, refusal_of, shown_by},
    page_user_agent::SealableUserAgent,
};
use crate::{
    client_secret::hash_of,
    execute::Commands,
    existence::organization_of_live,
    login::{self, PasswordOwner, ProvenPassword, find},
    password::{self, Chosen, Terms, sealed_password},
    person_key::{self, key_unavailable},
    seat,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// The name of the command in metrics.
const NAME: &str = "ChangePassword";
/// How long after the check of the current password another one can be chosen, in milliseconds.
const LONGEST_WAIT_MS: i64 = 60 * 60 * 1000;

/// Changes a password, and returns the outcome.
pub(super) async fn choose(commands: &Commands, by: CommandActor, asked: ChangePassword) -> Result<Checked, Error> {
    chosen(commands, by, asked).await.or_else(refusal_of)
}

async fn chosen(commands: &Commands, by: CommandActor, asked: ChangePassword) -> Result<Checked, Error> {
    let fault = |fault| Ok(faulty(fault));
    let ChangePassword { session_token, new_password, user_agent, current_password } = asked;
    if !is_possible(&new_password) {
        return fault(Fault::Rules);
    }
    let Some(sent) = SESSION.parse(&session_token) else { return fault(Fault::Over) };
    let trial = by.trial(NAME);
    let session = AggregateKey::of::<Standard<Session>>(by.instance_id.as_str(), sent.id);
    let shown = hash_of(commands, &by.instance_id, sent.id, sent.secret).await?;
    let look = FindPerson { session, shown, keys: by.keys.clone(), says_current: current_password.is_some() };
    let Some(PermittedPerson { user, resource, owner, password, found }) =
        decided(commands, trial.origin(), look).await?
    else {
        return fault(Fault::Over);
    };
    if let Some(current) = current_password
        && login::count_and_compare(commands, &trial, &found, current.into()).await?.is_none()
    {
        return fault(Fault::Wrong);
    }
    let Some(human) = resource.human else { return fault(Fault::Over) };
    let (sealing, sealed) = person_key::key_of_person(commands, &by.instance_id, &user.id, &human).await?;
    let person = sealing.open(sealed).map_err(key_unavailable)?;
    let (kept, said) = (sealing.open_password(&password.hash).map_err(key_unavailable)?, prepared(&new_password));
    if seat::hash(commands, &by.instance_id, move || is_hash_of(&kept, &said)).await? {
        return fault(Fault::Same);
    }
    let choice = Chosen { password: new_password.into(), person: person.into_known(), field: "new_password" };
    let hash = match password::hash_of(commands, &by.instance_id, &owner, choice).await? {
        Ok(hash) => hash,
        Err(faults) => return fault(fault_of_new(&faults)),
    };
    let new = sealed_password(&sealing, &hash, Terms::default());
    let proven = ProvenPassword { user_id: user.id.clone(), human: human.clone(), password: new.clone() };
    if !decided(commands, trial.origin(), Set { by: by.clone(), user, before: password, new }).await? {
        return fault(Fault::Over);
    }
    let user_agent = SealableUserAgent::new(user_agent, sealing);
    // A person who has just chosen the password need not enter it again. It remains chosen even if the login fails.
    let logged_in =
        log_in(commands, &by, VerifiedPerson { trial: &trial, proven: &proven, user_agent }, &session_token).await;
    Ok(logged_in.unwrap_or_else(|error| {
        tracing::warn!(reason = error.reason().name(), "a person has another password, but could not be logged in");
        faulty(Fault::Made)
    }))
}

/// Looks up the person who may choose another password.
struct FindPerson {
    session: AggregateKey,
    shown: Hashed,
    keys: ClaimKeys,
    /// Whether the current password is given; otherwise only a person who must choose another one may do so.
    says_current: bool,
}

/// A person who may choose another password.
struct PermittedPerson {
    user: AggregateKey,
    resource: User,
    owner: Owner,
    password: Password,
    /// What the given current password is compared with.
    found: PasswordOwner,
}

impl Decide for FindPerson {
    type Outcome = Option<PermittedPerson>;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<PermittedPerson>), Refusal> {
        let nothing = turn.nothing_decided(Session::NAME);
        let session = turn.get::<Standard<Session>>(&self.session);
        let checked = shown_by(turn, &session, &self.shown);
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
        let Some(found) = find(turn, &self.keys, &user)? else { return Ok((nothing, None)) };
        Ok((nothing, Some(PermittedPerson { user, resource, owner, password, found })))
    }
}

/// Whether somebody must choose another password than this one, which was checked recently enough for that.
fn must_choose(password: &Password, checked_at: i64, now: i64) -> bool {
    let is_lately = now.saturating_sub(checked_at) <= LONGEST_WAIT_MS;
    is_lately && password.is_change_required && password.changed_at <= checked_at && !password.has_expired(now)
}

/// Sets the new password, if the person still has the previous one.
struct Set {
    by: CommandActor,
    user: AggregateKey,
    before: Password,
    new: Password,
}

impl Decide for Set {
    /// Whether the password was set.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Standard<User>>(&self.user);
        let is_live = organization_of_live(turn, &current)?.is_some();
        if !is_live || !current.resource().is_some_and(|user| user.password.as_ref() == Some(&self.before)) {
            return Ok((turn.nothing_decided(User::NAME), false));
        }
        let patch = UserPatch { password: Some(self.new.clone()), ..UserPatch::default() };
        let events = Standard::<User>::decide(&current.state, Command::Patch(patch))?;
        // The person is the actor.
        let cause = Cause { actor: self.user.id.clone(), ..self.by.cause.clone() };
        Ok((turn.append(current, &events, &self.by.keys, &cause)?, true))
    }
}
