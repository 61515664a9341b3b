//! Lets a user act as another one (RFC 8693, section 1.1), if the current state permits it, and records that.

use domain::{
    aggregate::Aggregate,
    context::{Owner, RolePlace},
    log_class::LogClass,
    resource::{instance::Instance, user::User},
    role::{IMPERSONATE, IMPERSONATE_ADMINS},
    setting::oidc::Oidc,
    settings::{Chain, Settings},
    standard::{Command, Resource, Standard},
};
use eventlog::record::AggregateKey;
use proto::bus::{self, InternalOutcome};
use view::keyring::SYSTEM;

use super::{Ask, CommandActor, is_id};
use crate::{
    authority::{above, has_in_all},
    escalation::{places_of, retain_existing},
    existence::organization_of_live,
    turn::{Cause, Current, Decided, Refusal, Turn},
    writer::Decide,
};

/// Lets a user act as another one.
pub(super) struct Impersonate {
    pub(super) by: CommandActor,
    pub(super) asked: bus::Impersonate,
}

impl Ask for Impersonate {
    const NAME: &'static str = "Impersonate";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let bus::Impersonate { user_id, actor_id, client_id } = &self.asked;
        [user_id, actor_id, client_id].into_iter().all(|id| is_id(id))
    }
}

impl Decide for Impersonate {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        Standard::<User>::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let CommandActor { instance_id, keys, cause } = &self.by;
        let bus::Impersonate { user_id, actor_id, client_id } = &self.asked;
        let key = AggregateKey::of::<Standard<User>>(instance_id.as_str(), user_id.as_str());
        let current = turn.get::<Standard<User>>(&key);
        if !self.may(turn, &current)? {
            let denied = InternalOutcome { denied: true, ..InternalOutcome::default() };
            return Ok((turn.nothing_decided(User::NAME), denied));
        }
        let events = Standard::<User>::decide(&current.state, Command::Impersonate(client_id.clone()))?;
        let cause = Cause { actor: actor_id.clone(), ..cause.clone() };
        Ok((turn.append(current, &events, keys, &cause)?, InternalOutcome::default()))
    }
}

impl Impersonate {
    /// Whether the actor may act as the user. Everything that must be loaded for that is requested before anything is
    /// refused.
    fn may(&self, turn: &mut Turn<'_>, user: &Current<Standard<User>>) -> Result<bool, Refusal> {
        let CommandActor { instance_id, keys, .. } = &self.by;
        let actor = AggregateKey::of::<Standard<User>>(instance_id.as_str(), self.asked.actor_id.as_str());
        let actor = turn.get::<Standard<User>>(&actor);
        let is_enabled = self.is_enabled(turn);
        let are_live = [user, &actor].map(|user| organization_of_live(turn, user));
        let [user_lives, actor_lives] = are_live;
        if user_lives?.is_none() || actor_lives?.is_none() || !is_enabled {
            return Ok(false);
        }
        let home = user.owner()?.clone();
        let (claims, actor_id) = (&*keys.instance, actor.key.id.as_str());
        let chains = |places: &[RolePlace]| places.iter().map(|place| above(place, instance_id)).collect::<Vec<_>>();
        let places = places_of(turn, claims, &user.key, &home)?;
        let places = retain_existing(turn, instance_id, places);
        let may_act = has_in_all(turn, claims, actor_id, IMPERSONATE, &chains(&[home.into()]));
        Ok(has_in_all(turn, claims, actor_id, IMPERSONATE_ADMINS, &chains(&places)) && may_act)
    }

    /// Whether impersonation is enabled in the instance, which exists and is switched on.
    fn is_enabled(&self, turn: &mut Turn<'_>) -> bool {
        let instance_id = self.by.instance_id.as_str();
        let instance =
            turn.get::<Standard<Instance>>(&AggregateKey::of::<Standard<Instance>>(instance_id, instance_id));
        let settings = [(instance_id, instance_id), (SYSTEM, SYSTEM)]
            .map(|(instance_id, id)| turn.get::<Settings<Oidc>>(&AggregateKey::of::<Settings<Oidc>>(instance_id, id)));
        let [own, system] = settings.map(|found| found.set());
        let settings = Chain { own, above: vec![(Owner::system(), system)] };
        let is_on = |instance: &Instance| instance.is_active && !instance.limits.block;
        instance.resource().is_some_and(is_on) && *settings.resolve(|it| it.enable_impersonation.as_ref()).value
    }
}
