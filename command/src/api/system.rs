//! What operators of the platform write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{
        data_key::{DataKey, Rewrapped},
        system::{self, System},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error};
use eventlog::record::Key;
use proto::system::{RewrapDataKeysRequest, RewrapDataKeysResponse};
use tokio::time::timeout;
use view::{keyring::SYSTEM, projection::ACCESS};

use crate::{
    authority::Object,
    execute::{Commands, Deciding},
    standard::details,
    turn::{Decided, Stop, Turn},
};

/// How many data keys one command wraps anew.
const AT_ONCE: usize = 200;
/// How long the read model may take to have all data keys.
const CATCH_UP: Duration = Duration::from_secs(5);

/// A data key that was changed meanwhile is left for the next time.
pub(super) async fn rewrap_data_keys(
    commands: Arc<Commands>,
    call: Call,
    request: RewrapDataKeysRequest,
) -> Result<Answer<RewrapDataKeysResponse>, Error> {
    let master_key_id = commands.keyring.master_key_id();
    if ![String::new(), master_key_id.clone()].contains(&request.master_key_id) {
        let reason = "the master key is not the newest one of this node; a changed key file is read within seconds";
        return Err(Rejection::Precondition(reason).into());
    }
    let place = Key::of::<Standard<System>>(SYSTEM, system::ID);
    // What is wrapped by another master key is in the log by now: whoever wraps a new one looks which is the newest in its
    // turn.
    let (_, end) = commands.look::<System>(&call, &place).await?;
    let reached = async { commands.progress.of(&ACCESS).wait_for(|reached| reached.sequence >= end).await.is_ok() };
    let _ = timeout(CATCH_UP, reached).await;
    let outdated = commands.keyring.outdated(call.tenant.shard, end, AT_ONCE).await;
    let (outdated, more) = outdated.map_err(unavailable)?;
    let all = outdated.len() + more;
    let rewrapped = Arc::new(AtomicUsize::new(0));
    let counted = rewrapped.clone();
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let system = turn.get::<Standard<System>>(&place)?;
        let keys: Vec<_> = outdated.iter().map(|key| Key::of::<Standard<DataKey>>(&key.instance_id, &key.id)).collect();
        let found = keys.iter().map(|key| turn.get::<Standard<DataKey>>(key)).collect::<Result<Vec<_>, _>>()?;
        turn.complete()?;
        let Some(system) = system else { return Err(Stop::Missing) };
        deciding.permit(turn, &Owner::system(), &Object { name: DataKey::NAME, exists: true })?;
        let mut count = 0;
        let mut last = deciding.nothing(turn, (&place, &Owner::system()), system)?;
        for ((known, key), outdated) in found.into_iter().flatten().zip(&keys).zip(&outdated) {
            if known.state.as_ref().as_ref().is_some_and(|now| now.wrapped == outdated.wrapped) {
                let wrapped = outdated.anew.clone();
                let decided =
                    deciding.follow(turn, (key, &Owner::system()), known, Asked::Patch(Rewrapped { wrapped }))?;
                count += 1;
                (last.sequence, last.changed_at) = (decided.sequence, decided.changed_at);
            }
        }
        rewrapped.store(count, Ordering::Relaxed);
        Ok(last)
    };
    let answer = move |decided: &Decided| {
        let rewrapped = counted.load(Ordering::Relaxed);
        RewrapDataKeysResponse {
            details: Some(details(system::ID, decided)),
            master_key_id: master_key_id.clone(),
            rewrapped: rewrapped as u64,
            remaining: (all - rewrapped) as u64,
        }
    };
    commands.execute_with(&call, &request, decide, answer).await
}
