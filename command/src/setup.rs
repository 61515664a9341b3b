//! Setup: one record that turns an empty log into a system with an instance that can be used.

use std::sync::Arc;

use base::{fault, id::Ids};
use domain::{
    context::Owner,
    resource::{
        data_key::DataKey,
        system::{self, System},
    },
    standard::{Resource, Standard},
};
use edge::error::{Error, Reason};
use eventlog::record::AggregateKey;
use tokio::task::spawn_blocking;
use view::{
    keyring::{Keyring, OF_SYSTEM, Purpose, SYSTEM},
    persons::Persons,
};

pub use crate::plan::{ADMIN, Additions, FirstPerson, Plan, PlanFailure, ServiceUser, WantedUser, all_features, check};
use crate::{
    founding::{Drawn, Founding},
    person_key::key_unavailable,
    turn::{Cause, Decided, Refusal, Turn},
    writer::{Decide, Handle, Origin, Verdict},
};

/// What happened to a plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plan is carried out, now or in an earlier run; what it created has this sequence or a lower one.
    Done(u64),
    /// The log was set up with another plan, for this instance.
    Other(String),
}

/// Carries the plan out, unless the log is set up already.
pub async fn setup(
    writer: &Handle,
    keyring: &Keyring,
    persons: &Persons,
    ids: Arc<Ids>,
    plan: &Plan,
) -> Result<Outcome, PlanFailure> {
    let (keyring, planned) = (keyring.clone(), plan.clone());
    let drawn = spawn_blocking(move || draw(&keyring, &ids, planned)).await;
    let (keys, drawn) = drawn.map_err(|failure| PlanFailure::Refused(Error::internal(&failure)))?;
    let founding = drawn.sealed(persons).await.map_err(|failure| PlanFailure::Refused(key_unavailable(failure)))?;
    let beginning = Beginning { keys, founding };
    let origin = Origin { operation: "setup", instance_id: SYSTEM.into(), bytes: 0 };
    match writer.submit(origin, beginning, None).await.map_err(PlanFailure::Refused)? {
        Verdict::Decided(decided, ()) if decided.owner.id == plan.instance_id => Ok(Outcome::Done(decided.sequence)),
        Verdict::Decided(decided, ()) => Ok(Outcome::Other(decided.owner.id)),
        Verdict::Replayed(_) => {
            Err(PlanFailure::Refused(Error::new(Reason::Internal, "a setup has no idempotency key")))
        }
    }
}

/// Everything random of a setup, made once, so that it can be decided more than once.
struct Beginning {
    keys: Vec<(String, DataKey)>,
    founding: Founding,
}

/// Generates the keys of the system, and its first instance.
fn draw(keyring: &Keyring, ids: &Ids, plan: Plan) -> (Vec<(String, DataKey)>, Drawn) {
    let created = OF_SYSTEM.map(|purpose| (purpose, keyring.create(SYSTEM, purpose)));
    let mut claims = None;
    let keys = created.map(|(purpose, (key, data_key))| {
        if purpose == Purpose::Claim {
            claims = Some(Arc::new(key));
        }
        (ids.next(), data_key)
    });
    let claims = claims.expect("the system has a key for claims");
    (keys.into(), Founding::draw(keyring, ids, plan, claims))
}

impl Decide for Beginning {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        let found = turn.get::<Standard<System>>(&AggregateKey::of::<Standard<System>>(SYSTEM, system::ID));
        if let Some(system) = found.resource() {
            let (sequence, changed_at) = (found.head.sequence, found.head.changed_at);
            let owner = Owner::instance(&system.first_instance_id);
            let (aggregate_type, place) = (System::NAME, Some(Owner::system().into()));
            return Ok((Decided { aggregate_type, sequence, changed_at, owner, place, is_new: false }, ()));
        }
        let (cause, system) = (Cause { actor: "setup".into(), ..Cause::default() }, Owner::system());
        let first_instance_id = self.founding.instance_id().to_owned();
        self.founding.write_all(turn, &cause)?;
        let mut new = self.founding.new_in(turn, &cause);
        for (id, data_key) in &self.keys {
            new.resource(SYSTEM, id, &system, data_key.clone())?;
        }
        let owner = Owner::instance(&first_instance_id);
        let [has_references, has_contacts] =
            [fault::is_before_references(), fault::is_before_contacts()].map(|is_before| !is_before);
        let noted = System { first_instance_id, has_references, has_contacts };
        let last = new.resource(SYSTEM, system::ID, &system, noted)?;
        Ok((Decided { owner, ..last }, ()))
    }
}
