//! The fixture of tests of turns: a memory of the writer with some aggregates in it.

use std::{collections::BTreeMap, sync::Arc};

use base::secret;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::{LogClass, OfEach},
    resource::{
        instance::Instance,
        organization::Organization,
        session::{CheckedUser, Session},
        user::{Human, Password, User},
    },
    secret::{Hashed, Sealed},
    setting::features::{Features, FeaturesChange},
    settings::{Command as Asked, Set, Settings},
    standard::{self, Resource, Standard},
};
use eventlog::record::{AggregateKey, Event, Position};
use jiff::Timestamp;

use crate::{
    tail::Tail,
    turn::{Cause, ClaimKeys, Decided, Draft, Memory, Refusal, Turn},
};

/// The instance that everything is in.
pub(crate) const INSTANCE: &str = "1";
/// An organization with a person in it, and the person.
pub(crate) const ORGANIZATION: &str = "3";
pub(crate) const PERSON: &str = "5";
/// A session of the person, which has seen the log up to the sequence 7.
pub(crate) const SESSION: &str = "6";
/// The sequences as of which all sessions of the person were ended, and whether that session lives then.
pub(crate) const ENDS: [(Option<u64>, bool); 4] = [(None, true), (Some(6), true), (Some(7), false), (Some(8), false)];
/// How large a record may be.
const LIMIT: usize = 100_000;

/// The writer's memory, and the record that is filled.
pub(crate) struct Scene {
    pub(crate) memory: Memory,
    pub(crate) draft: Draft,
    pub(crate) now: Timestamp,
    pub(crate) keys: ClaimKeys,
}

impl Scene {
    /// Creates a scene with ten events in the log that do not matter.
    pub(crate) fn new() -> Self {
        let key = |byte| Arc::new(secret::SymmetricKey::new([byte; 32]));
        let end = Position { sequence: 10, ..Position::default() };
        Self {
            memory: Memory::new(OfEach { events: Tail::at(end), sessions: Tail::at(Position::default()) }),
            draft: Draft::default(),
            now: Timestamp::UNIX_EPOCH,
            keys: ClaimKeys { instance: key(1), system: key(2) },
        }
    }

    /// Creates a scene in which a person has logged in, all of whose sessions were ended as of a sequence. The record
    /// is for the log of sessions.
    pub(crate) fn logged_in(sessions_end: Option<u64>) -> Self {
        let mut scene = Self::new();
        let (instance, organization) = (Owner::instance(INSTANCE), Owner::organization(ORGANIZATION));
        scene.add(INSTANCE, &Owner::system(), Instance::new("Instance", "7")).expect("it is new");
        scene.add(ORGANIZATION, &instance, Organization::new("Acme")).expect("it is new");
        let user = User {
            human: Some(Human::default()),
            password: Some(password()),
            is_active: true,
            sessions_end,
            ..User::default()
        };
        scene.add(PERSON, &organization, user).expect("it is new");
        scene.draft.class = LogClass::Sessions;
        let (id, organization_id) = (PERSON.to_owned(), ORGANIZATION.to_owned());
        let session = Session {
            user: Some(CheckedUser { id, organization_id, checked_at: 0, seen: 7 }),
            password_checked_at: Some(0),
            metadata: BTreeMap::new(),
            user_agent: None,
            token: Hashed::new("token"),
            expires_at: 1_000_000,
        };
        scene.add(SESSION, &instance, session).expect("it is new");
        scene
    }

    /// Runs a turn of which nothing is retained.
    pub(crate) fn inspect<T>(&mut self, look: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        look(&mut Turn::new(&mut self.memory, &mut self.draft, self.now))
    }

    /// Runs a turn, and finishes it unless it was refused.
    pub(crate) fn turn<T>(
        &mut self,
        act: impl FnOnce(&mut Turn<'_>, &ClaimKeys) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut turn = Turn::new(&mut self.memory, &mut self.draft, self.now);
        let done = act(&mut turn, &self.keys)?;
        turn.finish(LIMIT)?;
        Ok(done)
    }

    /// Creates a resource.
    pub(crate) fn add<R: Resource>(&mut self, id: &str, owner: &Owner, resource: R) -> Result<Decided, Refusal> {
        self.turn(|turn, keys| {
            let current = turn.unborn::<Standard<R>>(&key::<R>(id), owner)?;
            turn.append(current, &[standard::Event::Added(resource.into())], keys, &cause())
        })
    }

    /// Changes an existing resource.
    pub(crate) fn change<R: Resource>(&mut self, id: &str, command: standard::Command<R>) -> Result<Decided, Refusal> {
        self.turn(|turn, keys| {
            let current = turn.get::<Standard<R>>(&key::<R>(id));
            let events = Standard::<R>::decide(&current.state, command)?;
            turn.append(current, &events, keys, &cause())
        })
    }

    /// Switches the API of resources on or off, in an instance or in the system.
    pub(crate) fn switch(&mut self, place: &str, on: bool) -> Result<Decided, Refusal> {
        self.turn(|turn, keys| {
            let key = AggregateKey::of::<Settings<Features>>(place, place);
            let current = turn.unborn::<Settings<Features>>(&key, &Owner::system())?;
            let change = FeaturesChange { multitenancy_resources_api: Some(Set::To(on)), ..FeaturesChange::default() };
            let asked = Asked::Change { change, above: vec![] };
            let events = Settings::<Features>::decide(&current.state, asked)?;
            turn.append(current, &events, keys, &cause())
        })
    }

    /// Returns the events of the record.
    pub(crate) fn events(&self) -> &[Event] {
        &self.draft.events
    }
}

/// Returns the password of the person.
pub(crate) fn password() -> Password {
    Password { hash: Sealed::new("hash"), changed_at: 0, is_change_required: false, expires_at: None }
}

/// Returns the key of the aggregate of a resource.
pub(crate) fn key<R: Resource>(id: &str) -> AggregateKey {
    AggregateKey::of::<Standard<R>>(INSTANCE, id)
}

/// Returns the cause of all events.
pub(crate) fn cause() -> Cause {
    Cause {
        actor: "somebody".into(),
        command_id: "command".into(),
        trace_context: "trace".into(),
        causation_id: "cause".into(),
    }
}
