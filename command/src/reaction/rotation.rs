//! The rotation of signing keys, by the clock: a key that has signed long enough is followed by a new one, which is
//! published before it signs; a key whose last token has expired is removed. An instance that an earlier build made
//! gets the keys that others have from their beginning.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use base::{
    clock,
    explain::explain,
    fault,
    id::Ids,
    signing::{self, KeySpec},
};
use domain::{
    aggregate::Aggregate,
    context::Owner,
    resource::{
        instance::Instance,
        signing_key::{SigningKey, SigningKeyPatch},
    },
    setting::oidc::Oidc,
    standard::{Command as Asked, Resource, Standard},
};
use edge::error::Error;
use eventlog::record::AggregateKey;
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    keyring::{Purpose, SYSTEM},
    projection::ACCESS,
    read_model::Select,
    rows::{Stored, StoredResource},
    settings::SettingsIndex,
};

use super::steps::{self, Reaction, StepFailure, Steps};
use crate::{
    existence,
    signing_keys::{PUBLISHED_FOR, Succession, sealed},
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// How long a key is retained after it has ceased to sign, in milliseconds: the longest that a token lives, and a
/// little for clocks that differ.
const RETAINED_FOR: i64 = 25 * 60 * 60 * 1000;
/// How many instances have their keys checked together.
const PAGE: i64 = 50;
/// Selects the keys of the next instances.
static KEYS: Select<SigningKey> = Select::new(
    &ACCESS,
    SigningKey::NAME,
    "where instance_id in (select distinct instance_id from {signing_key} where instance_id > $1 order by instance_id \
     limit $2) order by instance_id, id",
);
/// The actor of the changes of keys.
const ACTOR: &str = "rotation";

/// How often the keys are checked.
fn every() -> Duration {
    fault::shortened(Duration::from_mins(10), Duration::from_secs(2))
}

/// What the rotation needs.
#[derive(Clone)]
pub struct Rotations {
    /// Decides which keys are created and removed.
    pub steps: Steps,
    /// The ids of new keys.
    pub ids: Arc<Ids>,
    /// The database of the read models.
    pub database: Database,
    /// The settings, by which a key signs for some time.
    pub settings: SettingsIndex,
}

/// Why the rotation is interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum RotationFailure {
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

impl Rotations {
    /// Rotates the keys of all instances whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }
}

impl Reaction for Rotations {
    const TROUBLE: &'static str = "signing keys are not rotated at the moment";
    type Failure = RotationFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, RotationFailure> {
        // There are no keys before setup.
        self.steps.keys(SYSTEM).await?;
        loop {
            let mut last = String::new();
            loop {
                let next = async { KEYS.rows(&*self.database.connection().await?, &[&last, &PAGE]).await };
                let found = self.database.within(next).await?;
                let Some(newest) = found.last() else { break };
                last.clone_from(&newest.instance_id);
                for keys in found.chunk_by(|one, next| one.instance_id == next.instance_id) {
                    // A failure for one instance does not hold up the others.
                    if let Err(failure) = self.look_after(keys).await {
                        let instance = &keys[0].instance_id;
                        tracing::warn!(instance, error = explain(&failure), "{}", Self::TROUBLE);
                    }
                }
            }
            sleep(every()).await;
        }
    }

    fn of_step(failure: &RotationFailure) -> Option<&StepFailure> {
        if let RotationFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

impl Rotations {
    /// Does what is due for the keys of one instance.
    async fn look_after(&self, keys: &[Stored<SigningKey>]) -> Result<(), StepFailure> {
        let instance_id = &keys[0].instance_id;
        let settings = self.settings.effective::<Oidc>(instance_id, &Owner::instance(instance_id));
        let lifetime = settings.chain.resolve(|settings| settings.signing_key_lifetime.as_ref()).value.whole_seconds();
        let keys: Vec<_> = keys.iter().map(|Stored { found, .. }| found).collect();
        let now = clock::now().as_millisecond();
        let lifetime = i64::try_from(lifetime).unwrap_or(i64::MAX / 2000) * 1000;
        for signs in due(&keys, now + PUBLISHED_FOR - lifetime) {
            self.replace(instance_id, signs, &keys).await?;
        }
        let is_over =
            |key: &&&StoredResource<SigningKey>| key.state.signs_until.is_some_and(|until| until + RETAINED_FOR <= now);
        for key in keys.iter().filter(is_over) {
            let key = AggregateKey::of::<Standard<SigningKey>>(instance_id, &key.id);
            let remove = Remove { key, keys: self.steps.keys(instance_id).await? };
            self.steps.submit("remove signing key", instance_id, remove).await?;
        }
        Ok(())
    }

    async fn replace(
        &self,
        instance_id: &str,
        signs: KeySpec,
        keys: &[&StoredResource<SigningKey>],
    ) -> Result<(), StepFailure> {
        let data_key = self.steps.keyring.key(instance_id, Purpose::SigningKey).await?;
        let id = self.ids.next();
        let kid = id.clone();
        let generated = spawn_blocking(move || signing::generate(signs, &kid)).await;
        let generated = generated.map_err(|failure| StepFailure::Refused(Error::internal(&failure)))?;
        let of_algorithm = keys.iter().filter(|key| key.state.algorithm == signs.algorithm && key.state.is_last());
        let replace = Replace {
            key: AggregateKey::of::<Standard<SigningKey>>(instance_id, &id),
            new: sealed(instance_id, &data_key, generated),
            last: of_algorithm.map(|key| key.id.clone()).collect(),
            succession: Succession {
                instance_id: instance_id.to_owned(),
                algorithm: signs.algorithm.to_owned(),
                known: keys.iter().map(|key| key.id.clone()).collect(),
            },
            keys: self.steps.keys(instance_id).await?,
        };
        if self.steps.submit("rotate signing key", instance_id, replace).await? {
            tracing::info!(instance = instance_id, algorithm = signs.algorithm, "a new key will sign tokens");
        }
        Ok(())
    }
}

/// Returns the keys that an instance needs: successors of last keys that have signed since before a time, and keys that
/// every instance has and this one has not.
fn due(keys: &[&StoredResource<SigningKey>], before: i64) -> Vec<KeySpec> {
    let last = |algorithm: &str| {
        let of_algorithm = keys.iter().map(|key| &key.state).filter(|key| key.algorithm == algorithm && key.is_last());
        of_algorithm.max_by_key(|key| key.signs_from)
    };
    let algorithms: BTreeSet<&str> = keys.iter().map(|key| key.state.algorithm.as_str()).collect();
    let old = algorithms.iter().filter_map(|algorithm| last(algorithm)).filter(|key| key.signs_from < Some(before));
    let old = old.filter_map(|key| signing::like(&key.algorithm, &key.public));
    let absent = signing::OF_INSTANCE.into_iter().filter(|signs| last(signs.algorithm).is_none());
    old.chain(absent).collect()
}

/// A new key that shall sign in place of the last ones of its algorithm.
struct Replace {
    key: AggregateKey,
    new: SigningKey,
    /// The ids of those keys. If others are the last ones now, another replacement was faster.
    last: BTreeSet<String>,
    succession: Succession,
    keys: ClaimKeys,
}

impl Decide for Replace {
    /// Whether the key is written.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let instance_id = &self.key.instance_id;
        let instance = AggregateKey::of::<Standard<Instance>>(instance_id, instance_id);
        let is_there = existence::is_there::<Instance>(turn, &instance);
        let last: BTreeSet<String> = self.succession.last(turn).into_iter().map(|last| last.key.id).collect();
        let is_due = is_there && last == self.last;
        if is_due {
            let cause = cause();
            let SigningKeyPatch { signs_from, .. } = self.succession.begin(turn, &self.keys, &cause)?;
            let current = turn.unborn::<Standard<SigningKey>>(&self.key, &Owner::instance(instance_id))?;
            let new = SigningKey { signs_from, ..self.new.clone() };
            let events = Standard::<SigningKey>::decide(&current.state, Asked::Create(new))?;
            turn.append(current, &events, &self.keys, &cause)?;
        }
        Ok((turn.nothing_decided(ACTOR), is_due))
    }
}

/// The removal of a key whose last token has expired.
struct Remove {
    key: AggregateKey,
    keys: ClaimKeys,
}

impl Decide for Remove {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<SigningKey>>(&self.key);
        if current.resource().is_some() {
            let events = Standard::<SigningKey>::decide(&current.state, Asked::Delete)?;
            turn.append(current, &events, &self.keys, &cause())?;
        }
        Ok((turn.nothing_decided(ACTOR), ()))
    }
}

fn cause() -> Cause {
    Cause { actor: ACTOR.into(), ..Cause::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, INSTANCE, Scene};

    fn key(id: &str, signs: KeySpec, signs_from: Option<i64>, signs_until: Option<i64>) -> StoredResource<SigningKey> {
        let new = sealed("1", &base::secret::SymmetricKey::new([7; 32]), signing::generate(signs, id));
        let state = SigningKey { signs_from, signs_until, ..new };
        let at = jiff::Timestamp::UNIX_EPOCH;
        StoredResource { id: id.to_owned(), owner: Owner::instance("1"), sequence: 1, changed_at: at, state }
    }

    #[test]
    fn what_has_signed_long_enough_or_is_not_there_is_due() {
        let rsa = KeySpec { key: base::key_pair::KeyType::Rsa3072, ..signing::RS256 };
        let es384 = KeySpec { algorithm: "ES384", key: base::key_pair::KeyType::P384 };
        let before = [
            key("1", signing::ES256, Some(1), Some(5)),
            key("2", signing::ES256, Some(5), None),
            key("3", rsa, Some(9), None),
            key("4", es384, None, None),
        ];
        let before: Vec<_> = before.iter().collect();
        assert_eq!(due(&before, 5), []);
        assert_eq!(due(&before, 6), [signing::ES256]);
        assert_eq!(due(&before, 10), [signing::ES256, rsa]);
        assert_eq!(due(&before[..2], 5), [signing::RS256]);
        assert_eq!(due(&before[..1], 100), signing::OF_INSTANCE);
    }

    #[test]
    fn a_key_is_replaced_only_while_it_is_the_last_one() {
        let mut scene = Scene::new();
        scene.add(INSTANCE, &Owner::system(), Instance::new("Acme", "1")).expect("it is new");
        let here = Owner::instance(INSTANCE);
        scene.add("2", &here, key("2", signing::ES256, Some(0), None).state).expect("it is new");
        let replace = |scene: &mut Scene, id: &str, last: &[&str]| {
            let replace = Replace {
                key: scene::key::<SigningKey>(id),
                new: key(id, signing::ES256, None, None).state,
                last: last.iter().map(|id| (*id).to_owned()).collect(),
                succession: Succession { instance_id: INSTANCE.into(), algorithm: "ES256".into(), known: vec![] },
                keys: scene.keys.clone(),
            };
            scene.turn(|turn, _| replace.decide(turn)).expect("nothing speaks against it").1
        };
        assert!(replace(&mut scene, "3", &["2"]));
        assert!(!replace(&mut scene, "4", &["2"]), "somebody was faster");
        assert!(!replace(&mut scene, "4", &[]));
        assert!(replace(&mut scene, "4", &["3"]));
        scene.change::<Instance>(INSTANCE, Asked::Delete).expect("it is there");
        assert!(!replace(&mut scene, "5", &["4"]), "the instance is gone");
    }
}
