//! Events of the first versions do not record which others an aggregate names. Until these references are noted for all
//! aggregates, commands that depend on them are refused. The addresses by which people are found were added later:
//! until they are noted for all people, some are not found.

use std::sync::LazyLock;

use base::fault;
use domain::{
    aggregate::Aggregate,
    catalog::{self, Visitor},
    context::OwnerType,
    reference::Reference,
    resource::{
        instance::Instance,
        membership::{Membership, MembershipPatch},
        organization::Organization,
        system::{self, System, SystemPatch},
        user::User,
    },
    settings::Properties,
    standard::{Command as Asked, Event, Resource, Standard},
};
use eventlog::record::AggregateKey;
use view::keyring::SYSTEM;

use crate::{
    turn::{Cause, ClaimKeys, Current, Decided, PART_OF_RECORD, Refusal, Turn, key_of},
    writer::{Decide, writer_unavailable},
};

/// Refuses a command that depends on references, while these are not noted for all aggregates yet.
pub(crate) fn are_complete(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let system = turn.get::<Standard<System>>(&the_system());
    if system.resource().is_none_or(|system| system.has_references) || fault::is_before_references() {
        return Ok(());
    }
    let message = "data of an earlier version is still being updated: send the command again in a moment";
    Err(writer_unavailable(message).into())
}

fn the_system() -> AggregateKey {
    AggregateKey::of::<Standard<System>>(SYSTEM, system::ID)
}

/// The aggregates of which an earlier version has not noted all references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unnoted {
    All,
    /// People, who are found by the addresses that they refer to.
    People,
}

impl Unnoted {
    /// Whether an aggregate is one of them.
    pub(crate) fn has(self, key: &AggregateKey) -> bool {
        self == Self::All || key.aggregate_type == User::NAME
    }
}

/// Determines the aggregates whose references are not noted, and notes that there are none if `is_done`.
pub(crate) struct Complete {
    pub(crate) is_done: bool,
    pub(crate) keys: ClaimKeys,
}

impl Decide for Complete {
    type Outcome = Option<Unnoted>;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<Unnoted>), Refusal> {
        let current = turn.get::<Standard<System>>(&the_system());
        let unnoted = match current.resource() {
            Some(system) if !system.has_references => Some(Unnoted::All),
            Some(system) if !system.has_contacts => Some(Unnoted::People),
            _ => None,
        };
        if self.is_done && unnoted.is_some() {
            let events = Standard::decide(&current.state, Asked::Patch(SystemPatch))?;
            turn.append(current, &events, &self.keys, &cause())?;
        }
        Ok((turn.nothing_decided(System::NAME), unnoted))
    }
}

/// Notes the references of some aggregates of one instance, of as many as fit a record.
pub(crate) struct Note {
    pub(crate) unnoted: Unnoted,
    pub(crate) aggregates: Vec<AggregateKey>,
    pub(crate) keys: ClaimKeys,
}

impl Decide for Note {
    /// The number of aggregates whose references were noted.
    type Outcome = usize;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, usize), Refusal> {
        let mut noted = 0;
        for key in &self.aggregates {
            let before = turn.pending();
            if self.unnoted == Unnoted::People {
                note_contacts(turn, key, &self.keys)?;
            } else if key.aggregate_type == Membership::NAME {
                note_membership(turn, key, &self.keys)?;
            } else if let Some((_, note)) = notes().iter().find(|(name, _)| *name == key.aggregate_type) {
                note(turn, key, &self.keys)?;
            }
            if noted > 0 && turn.bytes_after(0) > PART_OF_RECORD {
                turn.undo_after(before);
                break;
            }
            noted += 1;
        }
        Ok((turn.nothing_decided(System::NAME), noted))
    }
}

fn cause() -> Cause {
    Cause { actor: "upgrade".into(), ..Cause::default() }
}

type NoteOne = fn(&mut Turn<'_>, &AggregateKey, &ClaimKeys) -> Result<(), Refusal>;

fn notes() -> &'static [(&'static str, NoteOne)] {
    static ALL: LazyLock<Vec<(&str, NoteOne)>> = LazyLock::new(|| {
        let mut found = Notes(vec![]);
        catalog::visit(&mut found);
        found.0
    });
    &ALL
}

struct Notes(Vec<(&'static str, NoteOne)>);

impl Visitor for Notes {
    fn resource<R: Resource>(&mut self) {
        self.0.push((R::NAME, note::<R>));
    }

    fn settings<P: Properties>(&mut self) {}
}

/// Notes the references of an aggregate. One in a removed instance or organization is removed; all others change in
/// nothing but what their events record.
fn note<R: Resource>(turn: &mut Turn<'_>, key: &AggregateKey, keys: &ClaimKeys) -> Result<(), Refusal> {
    let current = turn.get::<Standard<R>>(key);
    let Some(state) = current.state.as_ref().clone() else { return Ok(()) };
    if Standard::<R>::references(&current.state, current.owner()?).is_empty() {
        return Ok(());
    }
    let event =
        if is_orphaned(turn, &current)? { Event::Removed } else { Event::Changed { to: state, fields: vec![] } };
    turn.append(current.noting_all(), &[event], keys, &cause())?;
    Ok(())
}

/// Notes the addresses by which a person is found, unless they are noted already: an upgrade that begins anew after a
/// failure writes nothing twice.
fn note_contacts(turn: &mut Turn<'_>, key: &AggregateKey, keys: &ClaimKeys) -> Result<(), Refusal> {
    let current = turn.get::<Standard<User>>(key);
    let contacts = current.resource().map(User::references).unwrap_or_default();
    let mut is_noted = |contact: &Reference| {
        let referrers = turn.referrers(&key_of(&key.instance_id, contact), contact.link);
        referrers.has_more || referrers.keys.contains(key)
    };
    // All of them are requested, so that all are loaded at once.
    let noted: Vec<bool> = contacts.iter().map(&mut is_noted).collect();
    if noted.into_iter().all(|is_noted| is_noted) { Ok(()) } else { note::<User>(turn, key, keys) }
}

/// Records in a membership the organization that its user belongs to.
fn note_membership(turn: &mut Turn<'_>, key: &AggregateKey, keys: &ClaimKeys) -> Result<(), Refusal> {
    let current = turn.get::<Standard<Membership>>(key);
    let Some(held) = current.resource() else { return Ok(()) };
    let user = turn.get::<Standard<User>>(&AggregateKey::of::<Standard<User>>(&key.instance_id, &held.user_id));
    if user.resource().is_none() || is_orphaned(turn, &current)? {
        turn.append(current.noting_all(), &[Event::Removed], keys, &cause())?;
        return Ok(());
    }
    let named = Membership::new(&held.user_id, user.owner()?, held.context.clone(), held.roles.clone());
    let Some(home) = named.user_organization_id else { return note::<Membership>(turn, key, keys) };
    let patch = MembershipPatch { user_organization_id: Some(home), ..MembershipPatch::default() };
    let events = Standard::decide(&current.state, Asked::Patch(patch))?;
    turn.append(current.noting_all(), &events, keys, &cause())?;
    Ok(())
}

/// Whether the instance or the organization of an object was removed.
fn is_orphaned<R: Resource>(turn: &mut Turn<'_>, current: &Current<Standard<R>>) -> Result<bool, Refusal> {
    let (owner, instance_id) = (current.owner()?, &current.key.instance_id);
    let instance = AggregateKey::of::<Standard<Instance>>(instance_id, instance_id);
    if owner.kind != OwnerType::System && turn.get::<Standard<Instance>>(&instance).resource().is_none() {
        return Ok(true);
    }
    if owner.kind != OwnerType::Organization {
        return Ok(false);
    }
    let organization = AggregateKey::of::<Standard<Organization>>(instance_id, &owner.id);
    Ok(turn.get::<Standard<Organization>>(&organization).resource().is_none())
}
