//! Setup: one record that turns an empty log into a system with an instance that can be used.

use std::sync::Arc;

use base::id::Ids;
use domain::{
    context::Owner,
    resource::{
        data_key::DataKey,
        system::{self, System},
    },
    setting::features::FeaturesChange,
    standard::Standard,
};
use edge::error::{Error, Reason};
use eventlog::record::Key;
use view::keyring::{Keyring, OF_SYSTEM, Purpose, SYSTEM};

pub use crate::plan::{ADMIN, Failure, Plan, ServiceUser, Wanted, check};
use crate::{
    founding::Founding,
    turn::{Cause, Decided, Stop, Turn},
    writer::{Handle, Verdict},
};

/// What happened to a plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is carried out, now or in an earlier run; what it created has this sequence or a lower one.
    Done(u64),
    /// The log was set up with another plan, for this instance.
    Other(String),
}

/// Carries the plan out, unless the log is set up already.
pub async fn setup(writer: &Handle, keyring: &Keyring, ids: Arc<Ids>, plan: &Plan) -> Result<Outcome, Failure> {
    let beginning = Beginning::new(keyring, &ids, plan.clone());
    let decide = move |turn: &mut Turn<'_>| beginning.decide(turn);
    let verdict = writer.submit(Box::new(|_: &mut Turn<'_>| Ok(())), Box::new(decide), None).await;
    match verdict.map_err(Failure::Refused)? {
        Verdict::Decided(decided) if decided.owner.id == plan.instance_id => Ok(Outcome::Done(decided.sequence)),
        Verdict::Decided(decided) => Ok(Outcome::Other(decided.owner.id)),
        Verdict::Replayed(_) => Err(Failure::Refused(Error::new(Reason::Internal, "a setup has no idempotency key"))),
    }
}

/// Everything random of a setup, so that it can be decided more than once.
struct Beginning {
    keys: Vec<(String, DataKey)>,
    founding: Founding,
}

impl Beginning {
    fn new(keyring: &Keyring, ids: &Ids, plan: Plan) -> Self {
        let created = OF_SYSTEM.map(|purpose| (purpose, keyring.create(SYSTEM, purpose)));
        let mut claims = None;
        let keys = created.map(|(purpose, (key, data_key))| {
            if purpose == Purpose::Claim {
                claims = Some(Arc::new(key));
            }
            (ids.next(), data_key)
        });
        let claims = claims.expect("the system has a key for claims");
        Self { keys: keys.into(), founding: Founding::new(keyring, ids, (plan, FeaturesChange::all_on()), claims) }
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<Decided, Stop> {
        let key = Key::of::<Standard<System>>(SYSTEM, system::ID);
        let system = turn.get::<Standard<System>>(&key)?;
        turn.complete()?;
        if let Some(found) = system.as_ref().and_then(|system| system.state.as_ref().as_ref()) {
            let place = system.as_ref().map(|system| system.place.clone());
            let owner = Owner::instance(&found.first_instance_id);
            let (sequence, changed_at) = place.map(|place| (place.sequence, place.changed_at)).unwrap_or_default();
            return Ok(Decided { sequence, changed_at, owner, context: Owner::system(), is_new: false });
        }
        let (cause, system) = (Cause { actor: "setup".into(), ..Cause::default() }, Owner::system());
        let instance_id = self.founding.instance_id();
        self.founding.found(turn, &cause)?;
        for (id, data_key) in &self.keys {
            self.founding.create(turn, (SYSTEM, id), &system, data_key.clone(), &cause)?;
        }
        let found = System { first_instance_id: instance_id.to_owned() };
        let last = self.founding.create(turn, (SYSTEM, system::ID), &system, found, &cause)?;
        Ok(Decided { owner: Owner::instance(instance_id), ..last })
    }
}
