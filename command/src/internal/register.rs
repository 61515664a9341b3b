//! Registers people on a page: creates an account in an organization that allows it, and the first session of the
//! person.

use domain::{
    aggregate::Aggregate,
    context::Owner,
    newcomer::Newcomer,
    resource::{organization::Organization, user::User},
    setting::{login::Login, password::is_possible},
    standard::{Command, Resource, Standard},
};
use edge::error::{Error, Reason};
use eventlog::record::AggregateKey;
use proto::{
    bus::{Checked, Register, checked::Fault},
    session::check_user::Search,
};
use view::settings::instance_of;
use zeroize::Zeroizing;

use super::{
    CommandActor, fault_of_new, faulty,
    log_in::{VerifiedPerson, decided, log_in, refusal_of},
    page_user_agent::SealableUserAgent,
};
use crate::{
    execute::Commands,
    existence,
    login::ProvenPassword,
    named::named,
    new_user::unused,
    password::{self, Chosen, Terms, sealed_password},
    person,
    person_key::key_unavailable,
    turn::{Cause, Decided, Refusal, Turn},
    writer::Decide,
};

/// The name of a registration in metrics.
const NAME: &str = "Register";

/// Creates an account, and returns the outcome.
pub(super) async fn register(commands: &Commands, by: CommandActor, asked: Register) -> Result<Checked, Error> {
    registered(commands, by, asked).await.or_else(|error| match error.reason() {
        Reason::ResourceExists | Reason::NameBeingReleased => Ok(faulty(Fault::Taken)),
        Reason::ObjectLimit => Ok(faulty(Fault::Closed)),
        _ => refusal_of(error),
    })
}

async fn registered(commands: &Commands, by: CommandActor, asked: Register) -> Result<Checked, Error> {
    let Register { organization_id, username, given_name, family_name, email, password, origin, user_agent } = asked;
    let password = Zeroizing::new(password);
    let fault = |fault| Ok(faulty(fault));
    let newcomer = Newcomer { username, given_name, family_name, email: Some(email) };
    let owner = Owner::organization(&organization_id);
    if !newcomer.flaws().is_empty() || !lets_register(commands, &by.instance_id, &owner) {
        return fault(Fault::Closed);
    }
    if !is_possible(&password) {
        return fault(Fault::Rules);
    }
    if let Err(wait) = commands.registrations.count(&by.instance_id, &origin) {
        return Ok(Checked { wait_seconds: wait.as_secs() + 1, ..faulty(Fault::Tries) });
    }
    let (trial, id, person) = (by.trial(NAME), commands.ids.next(), newcomer.clone().person());
    // Before anything is revealed about a name, so that each answer takes a hash.
    let chosen = Chosen { password, person: person.clone(), field: "password" };
    let hash = match password::hash_of(commands, &by.instance_id, &owner, chosen).await? {
        Ok(hash) => hash,
        Err(faults) => return fault(fault_of_new(&faults)),
    };
    // Before a key is created that nobody would have.
    let look = CheckLoginName { by: by.clone(), owner: owner.clone(), username: newcomer.username };
    match decided(commands, trial.origin(), look).await? {
        Availability::Free => {}
        Availability::Taken => return fault(Fault::Taken),
        Availability::Closed => return fault(Fault::Closed),
    }
    let sealing = commands.persons.create(&by.instance_id, &id).await.map_err(key_unavailable)?;
    let human = person::seal(commands, &by.instance_id, &sealing, &person.into()).await?;
    let password = sealed_password(&sealing, &hash, Terms::default());
    let user =
        User { human: Some(human.clone()), password: Some(password.clone()), is_active: true, ..User::default() };
    match decided(commands, trial.origin(), CreateAccount { by: by.clone(), id: id.clone(), owner, user }).await {
        Ok(true) => {}
        Ok(false) => return fault(Fault::Closed),
        // Sent again, it would find the name taken, by its own sender.
        Err(error) if error.reason() == Reason::OutcomeUnknown => return fault(Fault::Made),
        Err(error) => return Err(error),
    }
    let proven = ProvenPassword { user_id: id, human, password };
    let user_agent = SealableUserAgent::new(user_agent, sealing);
    let logged_in = log_in(commands, &by, VerifiedPerson { trial: &trial, proven: &proven, user_agent }, "").await;
    logged_in.or_else(|error| {
        tracing::warn!(reason = error.reason().name(), "a person has registered, but could not be logged in");
        fault(Fault::Made)
    })
}

/// Whether people may create accounts for themselves in an organization, and log in there with a password.
fn lets_register(commands: &Commands, instance_id: &str, owner: &Owner) -> bool {
    let chain = commands.settings.effective::<Login>(instance_of(instance_id, owner), owner).chain;
    *chain.resolve(|it| it.allow_register.as_ref()).value
        && *chain.resolve(|it| it.allow_username_password.as_ref()).value
}

/// Whether an organization is there and switched on.
fn is_open(turn: &mut Turn<'_>, instance_id: &str, owner: &Owner) -> bool {
    let key = AggregateKey::of::<Standard<Organization>>(instance_id, owner.id.as_str());
    let is_there = existence::is_there::<Organization>(turn, &key);
    let is_active = turn.get::<Standard<Organization>>(&key).resource().is_some_and(|it| it.is_active);
    is_there && is_active
}

/// Looks up whether a login name is available.
struct CheckLoginName {
    by: CommandActor,
    owner: Owner,
    username: String,
}

/// The availability of a login name.
enum Availability {
    Free,
    Taken,
    Closed,
}

impl Decide for CheckLoginName {
    type Outcome = Availability;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Availability), Refusal> {
        let Self { by, owner, username } = self;
        let search = Search::LoginName(username.clone());
        let holder = named(turn, &by.keys, &by.instance_id, &search);
        // A user who was removed with its organization releases its name.
        let is_taken = holder.is_some_and(|key| existence::is_there::<User>(turn, &key));
        let availability = match is_open(turn, &by.instance_id, owner) {
            false => Availability::Closed,
            true if is_taken => Availability::Taken,
            true => Availability::Free,
        };
        turn.permit_one_more::<Standard<User>>(&by.instance_id, owner)?;
        Ok((turn.nothing_decided(User::NAME), availability))
    }
}

/// Creates the account.
struct CreateAccount {
    by: CommandActor,
    id: String,
    owner: Owner,
    user: User,
}

impl Decide for CreateAccount {
    /// Whether the account was created.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let Self { by, id, owner, user } = self;
        let key = AggregateKey::of::<Standard<User>>(by.instance_id.as_str(), id.as_str());
        if !is_open(turn, &by.instance_id, owner) {
            return Ok((turn.nothing_decided(User::NAME), false));
        }
        let current = unused::<User>(turn, &key, owner)?;
        let events = Standard::<User>::decide(&current.state, Command::Create(user.clone()))?;
        // The person is the actor.
        let cause = Cause { actor: id.clone(), ..by.cause.clone() };
        Ok((turn.append(current, &events, &by.keys, &cause)?, true))
    }
}
