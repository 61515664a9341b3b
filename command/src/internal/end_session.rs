//! Ends a session that an ID token names, or all sessions of a person.

use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    resource::{session::Session, user::User},
    standard::{Command, Resource, Standard},
};
use eventlog::record::AggregateKey;
use proto::bus::{EndAllSessions, EndSession, InternalOutcome};

use super::{Ask, CommandActor, is_id};
use crate::{
    existence,
    turn::{Cause, Decided, Refusal, Turn},
    writer::Decide,
};

/// Ends a session.
pub(super) struct End {
    pub(super) by: CommandActor,
    pub(super) asked: EndSession,
}

impl Ask for End {
    const NAME: &'static str = "EndSession";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let EndSession { session_id, user_id, client_id } = &self.asked;
        [session_id, user_id, client_id].into_iter().all(|id| is_id(id))
    }
}

impl Decide for End {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let CommandActor { instance_id, keys, cause } = &self.by;
        let cause = Cause { actor: self.asked.client_id.clone(), ..cause.clone() };
        let key = AggregateKey::of::<Standard<Session>>(instance_id.as_str(), self.asked.session_id.as_str());
        let current = turn.get::<Standard<Session>>(&key).owned_by(&Owner::instance(instance_id));
        let is_it = current.resource().is_some_and(|session| session.user_id() == Some(self.asked.user_id.as_str()));
        let events = if is_it { Standard::<Session>::decide(&current.state, Command::Delete)? } else { vec![] };
        Ok((turn.append(current, &events, keys, &cause)?, InternalOutcome::default()))
    }
}

/// Ends all sessions of a person.
pub(super) struct EndAll {
    pub(super) by: CommandActor,
    pub(super) asked: EndAllSessions,
}

impl Ask for EndAll {
    const NAME: &'static str = "EndAllSessions";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        is_id(&self.asked.user_id)
    }
}

impl Decide for EndAll {
    type Outcome = InternalOutcome;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let CommandActor { instance_id, keys, cause } = &self.by;
        // The person is the actor.
        let cause = Cause { actor: self.asked.user_id.clone(), ..cause.clone() };
        let key = AggregateKey::of::<Standard<User>>(instance_id.as_str(), self.asked.user_id.as_str());
        let current = turn.get::<Standard<User>>(&key);
        if !existence::is_there::<User>(turn, &key) {
            // All sessions have ended with the person.
            return Ok((turn.nothing_decided(User::NAME), InternalOutcome::default()));
        }
        let events = Standard::<User>::decide(&current.state, Command::EndSessions(turn.ends().events))?;
        Ok((turn.append(current, &events, keys, &cause)?, InternalOutcome::default()))
    }
}

#[cfg(test)]
mod tests {
    use domain::resource::organization::Organization;

    use super::*;
    use crate::scene::{INSTANCE, ORGANIZATION, PERSON, Scene, cause, key};

    #[test]
    fn a_person_who_is_gone_has_no_sessions_to_end() {
        let mut scene = Scene::logged_in(None);
        scene.draft.class = LogClass::Events;
        let by = CommandActor { instance_id: INSTANCE.into(), keys: scene.keys.clone(), cause: cause() };
        let end = EndAll { by, asked: EndAllSessions { user_id: PERSON.into() } };
        let ended = |scene: &mut Scene| {
            scene.turn(|turn, _| end.decide(turn)).expect("it is not refused");
            scene.inspect(|turn| {
                turn.get::<Standard<User>>(&key::<User>(PERSON)).resource().map(|user| user.sessions_end)
            })
        };
        assert_eq!(ended(&mut scene), Some(Some(10)));
        let ends = scene.events().iter().filter(|event| event.r#type == "user.sessions_ended").count();
        scene.change::<Organization>(ORGANIZATION, Command::Delete).expect("it is there");
        ended(&mut scene);
        scene.change::<User>(PERSON, Command::Delete).expect("it is there");
        assert_eq!(ended(&mut scene), None);
        let after = scene.events().iter().filter(|event| event.r#type == "user.sessions_ended").count();
        assert_eq!((ends, after), (1, 1));
    }
}
