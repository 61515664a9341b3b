//! The device that a person uses, as a session keeps it: sealed before the turn with the key of that person, who has to be known for that.

use domain::{
    context::Owner,
    log_class::LogClass,
    rejection::Rejection,
    resource::{
        session::Session,
        user::{Human, User},
    },
    secret::Sealed,
    standard::{Resource, Standard},
    user_agent::UserAgent,
};
use edge::{call::Call, error::Error};
use eventlog::record::AggregateKey;

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    existence,
    login::{Proven, Whose, named},
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// The field of a session.
const FIELD: &str = "session.user_agent";

/// A device that is said of a session.
pub(crate) struct Device {
    /// Of whom it is sealed, and what that comes to; nothing where that one is not found.
    sealed: Option<(String, Sealed)>,
}

impl Device {
    /// What a session keeps, which is of this user.
    pub(crate) fn decide(&self, user_id: Option<&str>) -> Result<Sealed, Refusal> {
        let user_id = user_id.ok_or_else(of_nobody)?;
        let sealed = self.sealed.as_ref().filter(|(of, _)| of == user_id).map(|(_, sealed)| sealed.clone());
        // Whoever a name is of can change between a look and the turn.
        sealed.ok_or_else(|| writer_unavailable("the user was changed meanwhile: send it again").into())
    }
}

/// What is sealed, and of what.
pub(crate) struct Said<'a> {
    pub(crate) agent: UserAgent,
    /// The session, which may be a new one.
    pub(crate) session: &'a AggregateKey,
    /// Whose it is.
    pub(crate) whose: Option<Whose>,
    pub(crate) proven: Option<&'a Proven>,
}

impl Commands {
    /// The device of a session. Where the session has the same one already, that stays.
    pub(crate) async fn device(
        &self,
        call: &Call,
        Said { agent, session, whose, proven }: Said<'_>,
    ) -> Result<Device, Error> {
        if let Some((field, rule)) = agent.fault() {
            return Err(Rejection::invalid(field, rule).into());
        }
        let seen = match (proven, whose) {
            (Some(proven), _) => {
                Some(Seen { user_id: proven.user_id.clone(), human: proven.human.clone(), before: None })
            }
            (None, Some(whose)) => self.seen_ahead(call, Look(whose)).await?.flatten(),
            (None, None) => None,
        };
        let Some(Seen { user_id, human, before }) = seen else { return Ok(Device { sealed: None }) };
        let (sealing, _) = self.key_of_person(&call.tenant.id, &user_id, &human).await?;
        let is_same =
            |sealed: &Sealed| sealing.open_user_agent(&session.id, sealed).is_ok_and(|before| before == agent);
        let sealed = before.filter(is_same).unwrap_or_else(|| sealing.seal_user_agent(&session.id, &agent));
        Ok(Device { sealed: Some((user_id, sealed)) })
    }
}

fn of_nobody() -> Refusal {
    let rule = "needs checks.user while the session is of nobody: it is encrypted with the key of the person";
    Rejection::invalid(FIELD, rule).into()
}

/// Looks who a person is.
struct Look(Whose);

/// A person, with the key of whom something is sealed.
struct Seen {
    user_id: String,
    human: Human,
    /// The device that the session has, where nothing else of it may change.
    before: Option<Sealed>,
}

impl Command for Look {
    /// Nothing where there is no such person.
    type Outcome = Option<Seen>;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Option<Seen>), Refusal> {
        let (key, before) = match &self.0 {
            Whose::Named(instance_id, search) => {
                deciding.permit(turn, &Owner::instance(instance_id), &Object::of_nobody(Session::NAME, false))?;
                (named(turn, &deciding.keys, (instance_id, search)), None)
            }
            Whose::OfSession(session) => {
                let current = turn.get::<Standard<Session>>(session);
                existence::insist(turn, &current)?;
                let found = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
                deciding.permit_on(turn, &current)?;
                let user = |id| AggregateKey::of::<Standard<User>>(&*session.instance_id, id);
                (found.user_id().map(user), found.user_agent.clone())
            }
        };
        let found = key.filter(|key| existence::is_there::<User>(turn, key)).and_then(|key| {
            let current = turn.get::<Standard<User>>(&key);
            let human = current.resource().and_then(|user| user.human.clone())?;
            Some(Seen { user_id: key.id.clone(), human, before })
        });
        Ok((turn.nothing_decided(Session::NAME), found))
    }
}
