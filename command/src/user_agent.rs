//! The user agent that a session is to have. It is sealed before the turn with the key of the person, who has to be
//! known for that.

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
    user_agent::{PersonalUserAgent, UserAgent, UserAgentPatch},
};
use edge::{call::Call, error::Error};
use eventlog::record::AggregateKey;

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    existence,
    login::{PasswordSubject, ProvenPassword},
    named::named,
    person_key,
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// The field of a session.
const FIELD: &str = "session.user_agent";

/// What a request does to the user agent of a session.
pub(crate) enum NewUserAgent {
    /// The request does not name it.
    Unnamed,
    /// The request empties it, which needs no key.
    Empty,
    /// The user agent, sealed for a user; `None` if the user was not found, or the session belongs to nobody.
    Of(Option<(String, Sealed)>),
}

impl NewUserAgent {
    /// Whether the request names it.
    pub(crate) const fn is_named(&self) -> bool {
        !matches!(self, Self::Unnamed)
    }

    /// Returns the change of the user agent in a session of a user.
    pub(crate) fn decide(&self, user_id: Option<&str>) -> Result<UserAgentPatch, Refusal> {
        let sealed = match self {
            Self::Unnamed => return Ok(UserAgentPatch::Keep),
            Self::Empty => return Ok(UserAgentPatch::Clear),
            Self::Of(sealed) => sealed,
        };
        let user_id = user_id.ok_or_else(of_nobody)?;
        let sealed = sealed.as_ref().filter(|(of, _)| of == user_id).map(|(_, sealed)| sealed.clone());
        // The user of a name can change between the lookup and the turn.
        let changed = || writer_unavailable("the user was changed meanwhile: send the request again").into();
        sealed.map(UserAgentPatch::Set).ok_or_else(changed)
    }
}

/// A user agent and the session that it is for.
pub(crate) struct OfSession<'a> {
    /// The user agent as returned by [`checked`].
    pub(crate) user_agent: Option<UserAgent>,
    /// The session, which may be a new one.
    pub(crate) session: &'a AggregateKey,
    /// The person that the session belongs to.
    pub(crate) whose: Option<PasswordSubject>,
    /// The person whose password was right, where one was checked.
    pub(crate) proven: Option<&'a ProvenPassword>,
}

/// Returns the user agent that a request names, if it breaks no rule. It is checked before a password is compared, so
/// that a request that is refused anyway reveals nothing about the password.
pub(crate) fn checked(named: Option<proto::session::UserAgent>) -> Result<Option<UserAgent>, Error> {
    let Some(user_agent) = named.map(api::session::user_agent) else { return Ok(None) };
    match user_agent.fault() {
        Some((field, rule)) => Err(Rejection::invalid(field, rule).into()),
        None => Ok(Some(user_agent)),
    }
}

/// Seals the user agent of a session. Where the session has the same one already, that stays.
pub(crate) async fn new_user_agent(commands: &Commands, call: &Call, of: OfSession<'_>) -> Result<NewUserAgent, Error> {
    let OfSession { user_agent, session, whose, proven } = of;
    let Some(user_agent) = user_agent else { return Ok(NewUserAgent::Unnamed) };
    if user_agent == UserAgent::default() {
        return Ok(NewUserAgent::Empty);
    }
    let found = match (proven, whose) {
        (Some(proven), _) => {
            Some(Person { user_id: proven.user_id.clone(), human: proven.human.clone(), before: None })
        }
        (None, Some(whose)) => commands.seen_ahead(call, IdentifyPerson(whose)).await?.flatten(),
        (None, None) => None,
    };
    let Some(Person { user_id, human, before }) = found else { return Ok(NewUserAgent::Of(None)) };
    let (sealing, _) = person_key::key_of_person(commands, &call.tenant.id, &user_id, &human).await?;
    let is_same =
        |sealed: &Sealed| sealing.open_user_agent(&session.id, sealed).is_ok_and(|before| before == user_agent);
    let sealed = before.filter(is_same).unwrap_or_else(|| sealing.seal_user_agent(&session.id, &user_agent));
    Ok(NewUserAgent::Of(Some((user_id, sealed))))
}

fn of_nobody() -> Refusal {
    let rule = "needs checks.user while the session has no user: it is encrypted with the key of the person";
    Rejection::invalid(FIELD, rule).into()
}

/// Looks up a person.
struct IdentifyPerson(PasswordSubject);

/// The person with whose key a user agent is sealed.
struct Person {
    user_id: String,
    human: Human,
    /// The user agent that the session has, if its person is not changed.
    before: Option<Sealed>,
}

impl Command for IdentifyPerson {
    /// `None` if there is no such person.
    type Outcome = Option<Person>;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Option<Person>), Refusal> {
        let (key, before) = match &self.0 {
            PasswordSubject::Named(instance_id, search) => {
                deciding.permit(turn, &Owner::instance(instance_id), &Object::of_nobody(Session::NAME, false))?;
                (named(turn, &deciding.keys, instance_id, search), None)
            }
            PasswordSubject::OfSession(session) => {
                let current = turn.get::<Standard<Session>>(session);
                existence::require_existing(turn, &current)?;
                let found = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
                deciding.permit_on(turn, &current)?;
                let user = |id| AggregateKey::of::<Standard<User>>(&*session.instance_id, id);
                let before = found.user_agent.as_ref().and_then(PersonalUserAgent::sealed).cloned();
                (found.user_id().map(user), before)
            }
        };
        let found = key.filter(|key| existence::is_there::<User>(turn, key)).and_then(|key| {
            let current = turn.get::<Standard<User>>(&key);
            let human = current.resource().and_then(|user| user.human.clone())?;
            Some(Person { user_id: key.id.clone(), human, before })
        });
        Ok((turn.nothing_decided(Session::NAME), found))
    }
}

#[cfg(test)]
mod tests {
    use edge::error::Reason;

    use super::*;

    fn decided(new: &NewUserAgent, user_id: Option<&str>) -> Result<UserAgentPatch, Reason> {
        new.decide(user_id).map_err(|refusal| Box::<Error>::from(refusal).reason())
    }

    #[test]
    fn a_user_agent_is_only_for_the_person_for_whom_it_was_sealed() {
        let sealed = NewUserAgent::Of(Some(("8".to_owned(), Sealed::new("x"))));
        assert_eq!(decided(&sealed, Some("8")), Ok(UserAgentPatch::Set(Sealed::new("x"))));
        assert_eq!(decided(&sealed, Some("7")), Err(Reason::WriterUnavailable), "the name went to somebody else");
        assert_eq!(decided(&NewUserAgent::Of(None), Some("7")), Err(Reason::WriterUnavailable), "the name is new");
    }

    #[test]
    fn a_session_of_nobody_has_none() {
        for sealed in [None, Some(("8".to_owned(), Sealed::new("x")))] {
            assert_eq!(decided(&NewUserAgent::Of(sealed), None), Err(Reason::InvalidRequest));
        }
    }

    #[test]
    fn what_needs_no_key_needs_no_person() {
        for user_id in [None, Some("8")] {
            assert_eq!(decided(&NewUserAgent::Empty, user_id), Ok(UserAgentPatch::Clear));
            assert_eq!(decided(&NewUserAgent::Unnamed, user_id), Ok(UserAgentPatch::Keep));
        }
    }
}
