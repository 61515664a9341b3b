//! Checks the password of a person who logs in on a page.

use std::collections::BTreeMap;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    resource::{
        session::{CheckedUser, LONGEST_LIFE_MS, Session, SessionPatch},
        user::{
            Human, User,
            contact::{EMAIL, Kind, PHONE},
        },
    },
    secret::Hashed,
    standard::{Command, Resource, Standard},
    user_agent::UserAgentPatch,
};
use edge::{
    error::{Error, Reason},
    secret_token::{SESSION, is_kept},
};
use eventlog::record::AggregateKey;
use proto::{
    bus::{CheckPassword, Checked, checked::Fault},
    session::check_user::Search,
};

use super::{CommandActor, page_user_agent::SealableUserAgent};
use crate::{
    checked_user::{checked_now, has_ended},
    client_secret::{draw, hash_of},
    execute::Commands,
    existence::organization_of_live,
    login::{self, PasswordOwner, ProvenPassword, find_by_name, wrong},
    named::{Contacts, PersonWithContact, named},
    person_key::{self, key_unavailable},
    trial::Trial,
    turn::{Cause, Current, Decided, Refusal, Turn},
    writer::{Decide, Origin, Verdict, writer_unavailable},
};

/// The name of a check in metrics.
const NAME: &str = "CheckPassword";

/// Checks a password, and returns the outcome.
pub(super) async fn check(commands: &Commands, by: CommandActor, asked: CheckPassword) -> Result<Checked, Error> {
    let CheckPassword { login_name, password, session_token, user_agent, .. } = asked;
    let trial = by.trial(NAME);
    let kinds = [(asked.by_email, EMAIL), (asked.by_phone, PHONE)];
    let kinds = kinds.into_iter().filter_map(|(counts, kind)| counts.then_some(kind)).collect();
    let organization_id = Some(asked.organization_id).filter(|id| !id.is_empty());
    let contacts = Contacts { kinds, organization_id };
    let checked = async {
        let (found, kind) = find_person(commands, &by, &trial, login_name, contacts).await?;
        let proven = login::prove_owner(commands, &trial, found, password.into()).await?;
        // Only now, so that it takes as long whether or not somebody has such an address.
        if let Some(kind) = kind
            && !is_verified(commands, &by.instance_id, &proven.user_id, &proven.human, kind).await?
        {
            return Err(wrong());
        }
        let user_agent = SealableUserAgent::of(commands, &by, &proven, user_agent).await;
        log_in(commands, &by, VerifiedPerson { trial: &trial, proven: &proven, user_agent }, &session_token).await
    };
    checked.await.or_else(refusal_of)
}

/// Finds the person, and the kind of address that led there. Of several, it is the one who has verified that address.
async fn find_person(
    commands: &Commands,
    by: &CommandActor,
    trial: &Trial,
    said: String,
    contacts: Contacts,
) -> Result<(PasswordOwner, Option<Kind>), Error> {
    let look = FindAccount { by: by.clone(), said: said.clone(), contacts };
    let several = match decided(commands, trial.origin(), look).await? {
        FoundPeople::Found(found, kind) => return Ok((*found, kind)),
        FoundPeople::Several(several) => several,
    };
    let mut verified = vec![];
    for PersonWithContact { user, human, kind } in several {
        if is_verified(commands, &by.instance_id, &user.id, &human, kind).await? {
            verified.push((user.id, kind));
        }
    }
    let (search, kind) = <[_; 1]>::try_from(verified)
        .map_or((Search::LoginName(said), None), |[(id, kind)]| (Search::UserId(id), Some(kind)));
    Ok((decided(commands, trial.origin(), LookAt { by: by.clone(), search }).await?, kind))
}

/// Whether a person has verified its address of a kind.
async fn is_verified(
    commands: &Commands,
    instance_id: &str,
    user_id: &str,
    human: &Human,
    kind: Kind,
) -> Result<bool, Error> {
    let (key, sealed) = match person_key::key_of_person(commands, instance_id, user_id, human).await {
        Ok(found) => found,
        Err(error) if error.reason() == Reason::PreconditionFailed => return Ok(false),
        Err(error) => return Err(error),
    };
    let person = key.open(sealed).map_err(key_unavailable)?;
    Ok(kind.of(&person).is_some_and(|contact| contact.is_verified))
}

/// Turns an error into the answer to a person who is not let in, or returns it if the outcome is not known.
pub(super) fn refusal_of(error: Error) -> Result<Checked, Error> {
    let wait_seconds = error.delay().map_or(0, |delay| delay.as_secs().max(1));
    let fault = match error.reason() {
        Reason::CredentialsInvalid => Fault::Wrong,
        Reason::RateLimited => Fault::Tries,
        Reason::WriterUnavailable => Fault::Busy,
        _ => return Err(error),
    };
    Ok(Checked { fault: fault.into(), wait_seconds, ..Checked::default() })
}

/// A person whose password was right.
pub(super) struct VerifiedPerson<'a> {
    pub(super) trial: &'a Trial,
    pub(super) proven: &'a ProvenPassword,
    pub(super) user_agent: Option<SealableUserAgent>,
}

/// Adds the check of a password to the session that is shown, if it is one of that person, or to a new one.
pub(super) async fn log_in(
    commands: &Commands,
    by: &CommandActor,
    person: VerifiedPerson<'_>,
    session_token: &str,
) -> Result<Checked, Error> {
    if let Some(sent) = SESSION.parse(session_token) {
        let shown = hash_of(commands, &by.instance_id, sent.id, sent.secret).await?;
        if let Some(checked) = logged_in(commands, by, &person, sent.id.to_owned(), Some(shown)).await? {
            return Ok(checked);
        }
    }
    let checked = logged_in(commands, by, &person, commands.ids.next(), None).await?;
    checked.ok_or_else(|| writer_unavailable("the id of the new session is already in use"))
}

/// Logs a person in; `None` if the session that was shown has ended or belongs to another person.
async fn logged_in(
    commands: &Commands,
    by: &CommandActor,
    VerifiedPerson { trial, proven, user_agent }: &VerifiedPerson<'_>,
    id: String,
    shown: Option<Hashed>,
) -> Result<Option<Checked>, Error> {
    let (secret, token) = draw(commands, &by.instance_id, &id).await?;
    let session = AggregateKey::of::<Standard<Session>>(by.instance_id.as_str(), id.as_str());
    let user_id = proven.user_id.clone();
    let user_agent = user_agent.as_ref().map(|user_agent| user_agent.patch(&id)).unwrap_or_default();
    let log_in = LogIn { by: by.clone(), session, proven: (*proven).clone(), user_agent, shown, token };
    let seen = decided(commands, trial.origin(), log_in).await?;
    let session_token = SESSION.token(&id, &secret);
    Ok(seen.map(|seen| Checked { session_token, user_id, seen, ..Checked::default() }))
}

/// Submits a command and returns its outcome.
pub(super) async fn decided<C: Decide>(commands: &Commands, origin: Origin, command: C) -> Result<C::Outcome, Error> {
    match commands.writer.submit(origin, command, None).await? {
        Verdict::Decided(_, outcome) => Ok(outcome),
        Verdict::Replayed(_) => Err(writer_unavailable("the login was executed before")),
    }
}

/// Looks up the person whose password is given, by a login name or an address.
struct FindAccount {
    by: CommandActor,
    said: String,
    contacts: Contacts,
}

/// The people who were found.
enum FoundPeople {
    /// One person or nobody, and the kind of address that found it.
    Found(Box<PasswordOwner>, Option<Kind>),
    /// Several people who have the same address.
    Several(Vec<PersonWithContact>),
}

impl Decide for FindAccount {
    type Outcome = FoundPeople;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, FoundPeople), Refusal> {
        let Self { by: CommandActor { instance_id, keys, .. }, said, contacts } = self;
        // Both are looked up, whatever is found of the other, so that everything is loaded at once.
        turn.load_found_aggregates();
        let by_name = Search::LoginName(said.clone());
        let having = contacts.having(turn, keys, instance_id, said)?;
        let is_named = named(turn, keys, instance_id, &by_name).is_some();
        let (search, kind) = match having.as_slice() {
            [_, _, ..] if !is_named => {
                return Ok((turn.nothing_decided(Session::NAME), FoundPeople::Several(having)));
            }
            [one] if !is_named => (Search::UserId(one.user.id.clone()), Some(one.kind)),
            _ => (by_name, None),
        };
        let found = find_by_name(turn, keys, instance_id, &search)?;
        Ok((turn.nothing_decided(Session::NAME), FoundPeople::Found(found.into(), kind)))
    }
}

/// Looks up the password of a person who was found.
struct LookAt {
    by: CommandActor,
    search: Search,
}

impl Decide for LookAt {
    type Outcome = PasswordOwner;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, PasswordOwner), Refusal> {
        let found = find_by_name(turn, &self.by.keys, &self.by.instance_id, &self.search)?;
        Ok((turn.nothing_decided(Session::NAME), found))
    }
}

/// Records the check of a password in a session.
struct LogIn {
    by: CommandActor,
    session: AggregateKey,
    proven: ProvenPassword,
    user_agent: UserAgentPatch,
    /// The hash of the token of an existing session; `None` for a new one.
    shown: Option<Hashed>,
    token: Hashed,
}

impl Decide for LogIn {
    /// The sequence of the events as of which the person is checked in that session; `None` if the session is not used.
    type Outcome = Option<u64>;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<u64>), Refusal> {
        let Self { by, proven, token, .. } = self;
        let user = AggregateKey::of::<Standard<User>>(by.instance_id.as_str(), proven.user_id.as_str());
        let at = proven.decide(turn, &user)?;
        // The person is the actor.
        let cause = Cause { actor: proven.user_id.clone(), ..by.cause.clone() };
        let user = turn.get::<Standard<User>>(&user);
        // The last event of the user may be committed together with this one.
        let seen = user.head.sequence.max(turn.ends().events);
        let organization_id = organization_of_live(turn, &user)?.ok_or_else(wrong)?;
        let checked = checked_now(turn, &proven.user_id, organization_id);
        let owner = Owner::instance(&by.instance_id);
        let (current, command) = match &self.shown {
            None => {
                let session = Session {
                    user: Some(checked),
                    password_checked_at: Some(at),
                    metadata: BTreeMap::new(),
                    user_agent: self.user_agent.clone().applied(None),
                    token: token.clone(),
                    expires_at: turn.now().as_millisecond().saturating_add(LONGEST_LIFE_MS),
                };
                (turn.unborn::<Standard<Session>>(&self.session, &owner)?, Command::Create(session))
            }
            Some(shown) => {
                let current = turn.get::<Standard<Session>>(&self.session).owned_by(&owner);
                let Some(before) = shown_by(turn, &current, shown).filter(|before| before.id == checked.id) else {
                    return Ok((turn.nothing_decided(Session::NAME), None));
                };
                let patch = SessionPatch {
                    // Checking the same user again does not revive a session that was to end meanwhile.
                    user: Some(CheckedUser { seen: before.seen, ..checked }),
                    password_checked_at: Some(at),
                    metadata: BTreeMap::new(),
                    user_agent: self.user_agent.clone(),
                    expires_at: None,
                    token: token.clone(),
                };
                (current, Command::Patch(patch))
            }
        };
        let events = Standard::<Session>::decide(&current.state, command)?;
        Ok((turn.append(current, &events, &by.keys, &cause)?, Some(seen)))
    }
}

/// Returns the person of a session that is alive and whose newest token was shown.
pub(super) fn shown_by(
    turn: &mut Turn<'_>,
    session: &Current<Standard<Session>>,
    shown: &Hashed,
) -> Option<CheckedUser> {
    let now = turn.now().as_millisecond();
    let found = session.resource().filter(|session| session.expires_at > now && is_kept(shown, &session.token))?;
    let checked = found.user.clone()?;
    (!has_ended(turn, &session.key.instance_id, &checked)).then_some(checked)
}

#[cfg(test)]
mod tests {
    use domain::{resource::user::Human, secret::Sealed, user_agent::PersonalUserAgent};

    use super::*;
    use crate::scene::{self, ENDS, INSTANCE, PERSON, Scene, cause, key};

    fn again(scene: &Scene, user_agent: UserAgentPatch, shown: &str) -> LogIn {
        LogIn {
            by: CommandActor { instance_id: INSTANCE.into(), keys: scene.keys.clone(), cause: cause() },
            session: key::<Session>(scene::SESSION),
            proven: ProvenPassword { user_id: PERSON.into(), human: Human::default(), password: scene::password() },
            user_agent,
            shown: Some(Hashed::new(shown)),
            token: Hashed::new("next"),
        }
    }

    #[test]
    fn a_session_keeps_its_user_agent_where_none_comes_with_a_check() {
        let mut scene = Scene::logged_in(None);
        let sealed = Sealed::new("browser");
        let first = again(&scene, UserAgentPatch::Set(sealed.clone()), "token");
        scene.turn(|turn, _| first.decide(turn)).expect("it is not refused");
        let second = again(&scene, UserAgentPatch::Keep, "next");
        let (_, seen) = scene.turn(|turn, _| second.decide(turn)).expect("it is not refused");
        assert!(seen.is_some(), "the check is added");
        let user_agent = scene.inspect(|turn| {
            let current = turn.get::<Standard<Session>>(&key::<Session>(scene::SESSION));
            current.resource().and_then(|session| session.user_agent.clone())
        });
        assert_eq!(user_agent, Some(PersonalUserAgent::Sealed(sealed)));
    }

    #[test]
    fn a_check_is_added_to_a_session_that_was_not_ended_with_all_others() {
        for (end, lives) in ENDS {
            let mut scene = Scene::logged_in(end);
            let log_in = again(&scene, UserAgentPatch::Set(Sealed::new("browser")), "token");
            let (_, seen) = scene.turn(|turn, _| log_in.decide(turn)).expect("it is not refused");
            assert_eq!(seen.is_some(), lives, "{end:?}");
        }
    }
}
