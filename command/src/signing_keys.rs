//! The keys that an instance signs its tokens with: how they are made, and how one follows another.

use base::{
    secret,
    signing::{self, Generated},
};
use domain::{
    aggregate::Aggregate,
    log_class::LogClass,
    rejection::Rejection,
    resource::{
        instance::Instance,
        signing_key::{INSTANCE, SigningKey, SigningKeyPatch},
    },
    secret::Sealed,
    standard::{Command as Asked, Standard},
};
use edge::call::Call;
use eventlog::record::AggregateKey;
use view::directory::Tenant;

use crate::{
    execute::{Command, Deciding},
    turn::{Cause, ClaimKeys, Current, Decided, Refusal, Turn},
};

/// How long a key is published before it signs, in milliseconds: longer than anybody caches the key set.
pub(crate) const PUBLISHED_FOR: i64 = 10 * 60 * 1000;

/// From how many keys of an instance on no more are made on demand: all are published, and in the memory of every node.
const MOST_KEYS: usize = 30;

/// Seals a generated key as it is stored.
pub(crate) fn sealed(instance_id: &str, data_key: &secret::SymmetricKey, generated: Generated) -> SigningKey {
    SigningKey {
        instance_id: instance_id.to_owned(),
        algorithm: generated.algorithm.to_owned(),
        public: generated.public,
        sealed: Sealed::new(data_key.seal(signing::SEALED, &generated.private)),
        signs_from: None,
        signs_until: None,
    }
}

/// Whether an instance has so many keys that none can be made on demand.
pub(crate) fn are_enough(turn: &mut Turn<'_>, instance_id: &str) -> bool {
    all(turn, instance_id).len() >= MOST_KEYS
}

/// The succession of a key that shall sign instead of those that do.
pub(crate) struct Succession {
    /// The instance.
    pub(crate) instance_id: String,
    /// The algorithm.
    pub(crate) algorithm: String,
    /// The ids of the keys that the directory has: those of earlier builds do not name their instance.
    pub(crate) known: Vec<String>,
}

impl Succession {
    /// Returns the succession for an algorithm in a tenant's instance.
    fn of(tenant: &Tenant, algorithm: String) -> Self {
        let known = tenant.signing_keys.iter().map(|(id, _)| id.clone()).collect();
        Self { instance_id: tenant.id.clone(), algorithm, known }
    }

    /// Returns the keys of the algorithm that sign, or will, without an end. That is one; there may be more where an
    /// earlier build wrote some.
    pub(crate) fn last(&self, turn: &mut Turn<'_>) -> Vec<Current<Standard<SigningKey>>> {
        let mut keys = all(turn, &self.instance_id);
        let known = self.known.iter().map(|id| AggregateKey::of::<Standard<SigningKey>>(&self.instance_id, id));
        keys.extend(known.filter(|key| !keys.contains(key)).collect::<Vec<_>>());
        let found = keys.iter().map(|key| turn.get::<Standard<SigningKey>>(key)).collect::<Vec<_>>();
        let is_last = |key: &SigningKey| key.algorithm == self.algorithm && key.is_last();
        found.into_iter().filter(|current| current.resource().is_some_and(is_last)).collect()
    }

    /// Ends the keys of the algorithm that sign, or will, and returns when the next one begins to sign: at that moment.
    /// It is never earlier than the beginning of a key that was activated before, so that one signs at every time. If
    /// there is none, it is now.
    pub(crate) fn begin(
        &self,
        turn: &mut Turn<'_>,
        keys: &ClaimKeys,
        cause: &Cause,
    ) -> Result<SigningKeyPatch, Refusal> {
        let (last, now) = (self.last(turn), turn.now().as_millisecond());
        let since = last.iter().filter_map(|last| last.resource()?.signs_from).max();
        let from = since.map_or(now, |since| (now + PUBLISHED_FOR).max(since + 1));
        for last in last {
            let ends = SigningKeyPatch { signs_until: Some(from), ..SigningKeyPatch::default() };
            let events = Standard::<SigningKey>::decide(&last.state, Asked::Patch(ends))?;
            turn.append(last, &events, keys, cause)?;
        }
        Ok(SigningKeyPatch { signs_from: Some(from), ..SigningKeyPatch::default() })
    }
}

/// A command that chooses algorithms to sign tokens with, and for which a key must sign. Such a key always has
/// successors, so there is one from then on.
pub(crate) struct Choosing<C> {
    chosen: Vec<Succession>,
    command: C,
}

impl<C> Choosing<C> {
    /// Wraps a command that chooses algorithms by their JWA names.
    pub(crate) fn new(call: &Call, chosen: [Option<String>; 2], command: C) -> Self {
        let succession = |algorithm| Succession::of(&call.tenant, algorithm);
        Self { chosen: chosen.into_iter().flatten().map(succession).collect(), command }
    }
}

impl<C: Command> Command for Choosing<C> {
    type Outcome = C::Outcome;

    fn class(&self) -> LogClass {
        self.command.class()
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, C::Outcome), Refusal> {
        let decided = self.command.decide(turn, deciding)?;
        if self.chosen.iter().all(|algorithm| !algorithm.last(turn).is_empty()) {
            return Ok(decided);
        }
        let message = "no key of the instance signs with that algorithm: create a web key for it, and activate it";
        Err(Rejection::Precondition(message).into())
    }
}

/// Returns the keys that name an instance.
fn all(turn: &mut Turn<'_>, instance_id: &str) -> Vec<AggregateKey> {
    let instance = AggregateKey::of::<Standard<Instance>>(instance_id, instance_id);
    turn.referrers(&instance, INSTANCE).keys.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use base::signing::ES256;
    use domain::context::Owner;
    use jiff::Timestamp;

    use super::*;
    use crate::scene::{self, INSTANCE as THERE, Scene};

    fn begun() -> Scene {
        let mut scene = Scene::new();
        scene.add(THERE, &Owner::system(), Instance::new("Acme", "1")).expect("it is new");
        scene
    }

    fn add(scene: &mut Scene, id: &str, instance_id: &str, signs_from: Option<i64>) {
        let new = sealed(instance_id, &secret::SymmetricKey::new([7; 32]), signing::generate(ES256, id));
        scene.add(id, &Owner::instance(THERE), SigningKey { signs_from, ..new }).expect("it is new");
    }

    /// Begins a succession, and returns when the next key begins to sign.
    fn next(scene: &mut Scene, algorithm: &str, known: &[&str]) -> Option<i64> {
        let known = known.iter().map(|id| (*id).to_owned()).collect();
        let succession = Succession { instance_id: THERE.to_owned(), algorithm: algorithm.to_owned(), known };
        let begun = scene.turn(|turn, keys| succession.begin(turn, keys, &scene::cause()));
        begun.expect("nothing speaks against it").signs_from
    }

    fn end(scene: &mut Scene, id: &str) -> Option<i64> {
        let key = scene::key::<SigningKey>(id);
        scene.inspect(|turn| turn.get::<Standard<SigningKey>>(&key).resource().and_then(|key| key.signs_until))
    }

    #[test]
    fn one_key_signs_at_every_time_however_soon_others_follow() {
        let mut scene = begun();
        scene.now = Timestamp::from_millisecond(1000).unwrap();
        assert_eq!(next(&mut scene, "ES256", &[]), Some(1000), "the first one signs at once");
        add(&mut scene, "2", THERE, Some(1000));
        add(&mut scene, "3", THERE, None);
        assert_eq!(next(&mut scene, "RS256", &[]), Some(1000), "other algorithms are others");
        assert_eq!(end(&mut scene, "2"), None);
        let first = next(&mut scene, "ES256", &[]);
        assert_eq!((first, end(&mut scene, "2")), (Some(1000 + PUBLISHED_FOR), first));
        assert_eq!(end(&mut scene, "3"), None, "it never signed");
        add(&mut scene, "4", THERE, first);
        let second = next(&mut scene, "ES256", &[]);
        assert_eq!((second, end(&mut scene, "4")), (first.map(|first| first + 1), second));
        assert_eq!(end(&mut scene, "2"), first, "it stays as it was");
    }

    #[test]
    fn keys_of_earlier_builds_end_though_they_do_not_name_their_instance() {
        let mut scene = begun();
        add(&mut scene, "2", "", Some(0));
        assert_eq!(next(&mut scene, "ES256", &[]), Some(0));
        assert_eq!(end(&mut scene, "2"), None);
        let next = next(&mut scene, "ES256", &["2"]);
        assert_eq!((next, end(&mut scene, "2")), (Some(PUBLISHED_FOR), next));
    }

    #[test]
    fn the_keys_of_an_instance_are_counted() {
        let mut scene = begun();
        for id in 1..=MOST_KEYS {
            assert!(!scene.inspect(|turn| are_enough(turn, THERE)), "{id}");
            add(&mut scene, &(100 + id).to_string(), THERE, None);
        }
        assert!(scene.inspect(|turn| are_enough(turn, THERE)));
        scene.change::<SigningKey>("101", Asked::Delete).expect("it is there");
        assert!(!scene.inspect(|turn| are_enough(turn, THERE)));
    }
}
