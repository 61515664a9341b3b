//! The handler by which operators of the platform have data keys wrapped anew.

use std::{sync::Arc, time::Duration};

use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{
        data_key::{DataKey, Rewrapped},
        system::{self, System},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::system::{RewrapDataKeysRequest, RewrapDataKeysResponse};
use tokio::time::timeout;
use view::{
    keyring::{Outdated, SYSTEM},
    projection::ACCESS,
};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// How many data keys one command wraps anew.
const AT_ONCE: usize = 200;
/// How long the read model may take to have all data keys.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(rewrap_data_keys)
}

/// Wraps data keys anew with the newest master key. A data key that was changed meanwhile is left for the next time.
async fn rewrap_data_keys(
    commands: Arc<Commands>,
    call: Call,
    request: RewrapDataKeysRequest,
) -> Result<Answer<RewrapDataKeysResponse>, Error> {
    let master_key_id = commands.keyring.master_key_id();
    if ![String::new(), master_key_id.clone()].contains(&request.master_key_id) {
        let reason = "the master key is not the newest one of this node; a changed key file is read within seconds";
        return Err(Rejection::Precondition(reason).into());
    }
    let place = AggregateKey::of::<Standard<System>>(SYSTEM, system::ID);
    // All data keys that another master key wraps are in the log by now: a command that creates one checks in its turn
    // which master key is the newest.
    let (_, end) = commands.read::<System>(&call, &place).await?;
    let reached = async { commands.progress.of(&ACCESS).wait_for(|reached| reached.sequence >= end).await.is_ok() };
    let _ = timeout(CATCH_UP, reached).await;
    let outdated = commands.keyring.outdated(call.tenant.shard, end, AT_ONCE).await;
    let (outdated, more) = outdated.map_err(unavailable)?;
    let all = outdated.len() + more;
    let answer = move |decided: &Decided, rewrapped: &usize| RewrapDataKeysResponse {
        details: Some(details(system::ID, decided)),
        master_key_id: master_key_id.clone(),
        rewrapped: *rewrapped as u64,
        remaining: (all - rewrapped) as u64,
    };
    commands.execute(&call, &request, Rewrap { system: place, outdated }, answer).await
}

/// Data keys that are wrapped by another master key than the newest.
struct Rewrap {
    system: AggregateKey,
    outdated: Vec<Outdated>,
}

impl Command for Rewrap {
    /// How many of them were wrapped anew.
    type Outcome = usize;

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, usize), Refusal> {
        let system = turn.get::<Standard<System>>(&self.system).owned_by(&Owner::system());
        let key = |outdated: &Outdated| AggregateKey::of::<Standard<DataKey>>(&outdated.instance_id, &outdated.id);
        let all: Vec<_> = self.outdated.iter().map(|outdated| turn.get::<Standard<DataKey>>(&key(outdated))).collect();
        deciding.permit(turn, &Owner::system(), &Object::of_nobody(DataKey::NAME, true))?;
        let mut count = 0;
        let mut last = deciding.change_nothing(turn, system)?;
        for (current, outdated) in all.into_iter().zip(&self.outdated) {
            if current.resource().is_some_and(|now| now.wrapped == outdated.wrapped) {
                let wrapped = outdated.anew.clone();
                let decided = deciding.follow(turn, current, Asked::Patch(Rewrapped { wrapped }))?;
                count += 1;
                (last.sequence, last.changed_at) = (decided.sequence, decided.changed_at);
            }
        }
        Ok((last, count))
    }
}
