//! Handlers that create, change and delete targets.

use std::sync::Arc;

use action::{client::may_call, signature};
use api::target as words;
use base::{clock, secret::random_text};
use domain::{
    address::Allowed,
    context::Owner,
    rejection::Rejection,
    resource::{
        execution::{TARGET, graph},
        target::{LONGEST_WAIT_MS, Rotation, SignatureKey, Target, TargetKind, TargetPatch, waited_for},
    },
    secret::Sealed,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::{
    Violation,
    action::{CreateTargetRequest, CreateTargetResponse, DeleteTargetRequest, PatchTargetRequest, PatchTargetResponse},
};
use url::Url;
use view::keyring::Purpose;

use crate::{
    execute::{Command, Commands, Deciding},
    executions,
    standard::{self, NewResource, details},
    turn::{Decided, Refusal, Turn},
};

/// The length of a key that signs calls, in characters.
const SIGNING_KEY_LENGTH: usize = 36;

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(patch).on(standard::delete::<Target, DeleteTargetRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateTargetRequest,
) -> Result<Answer<CreateTargetResponse>, Error> {
    let (signing_key, sealed) = new_key(&commands, &call).await?;
    let target = words::new(&request, vec![SignatureKey { sealed, valid_until: None }]);
    may_be_called(&commands.targets, target.kind, &target.url)?;
    let answer = move |details| CreateTargetResponse { details: Some(details), signing_key: signing_key.clone() };
    let owner = Owner::instance(&call.tenant.id);
    standard::create(&commands, &call, &request, NewResource { owner, resource: target }, answer).await
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchTargetRequest,
) -> Result<Answer<PatchTargetResponse>, Error> {
    let mut patch = words::patch(&request);
    if let (Some(kind), Some(url)) = (patch.kind, &patch.url) {
        may_be_called(&commands.targets, kind, url)?;
    }
    let mut signing_key = None;
    if let Some(validity) = words::previous_key_validity(&request) {
        let (key, sealed) = new_key(&commands, &call).await?;
        let now = clock::now().as_millisecond();
        signing_key = Some(key);
        patch.rotation = Some(Rotation { sealed, now, previous_until: now.saturating_add(validity) });
    }
    let answer = move |details| PatchTargetResponse { details: Some(details), signing_key: signing_key.clone() };
    let change = Change { key: standard::key::<Target>(&call, &request.id)?, patch };
    let id = request.id.clone();
    commands.execute(&call, &request, change, move |decided, ()| answer(details(&id, decided))).await
}

/// A change of a target, which executions may name.
struct Change {
    key: AggregateKey,
    patch: TargetPatch,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<Target>>(&self.key);
        if let Some(before) = current.resource() {
            let after = before.clone().patched(self.patch.clone());
            let longer = waited_for([&after]).saturating_sub(waited_for([before]));
            if longer > 0 {
                self.is_in_time(turn, longer)?;
            }
        }
        Ok((deciding.decide(turn, current, Asked::Patch(self.patch.clone()))?, ()))
    }
}

impl Change {
    /// Refuses a timeout that is longer by `longer` milliseconds, if a request would then wait for longer than it may
    /// in any execution that has the target.
    fn is_in_time(&self, turn: &mut Turn<'_>, longer: u64) -> Result<(), Refusal> {
        let naming = turn.referrers(&self.key, TARGET);
        if naming.has_more {
            let message = "too many executions name it to check how long their requests would wait: use another target";
            return Err(Rejection::Precondition(message).into());
        }
        let concerned = executions::including(turn, naming.keys.into_iter().collect())?;
        let all = executions::with_included(turn, concerned);
        let graph = executions::graph(&all);
        let mut is_too_long = false;
        for execution in graph.values().filter(|execution| execution.is_waited_for()) {
            let times = graph::targets(&graph, execution).iter().filter(|id| **id == self.key.id).count() as u64;
            let wait = executions::wait(turn, &self.key.instance_id, &graph, execution);
            is_too_long |= times > 0 && wait.saturating_add(longer.saturating_mul(times)) > LONGEST_WAIT_MS;
        }
        if is_too_long {
            let rule = "must not have a request wait longer than 50s in all for the targets of an execution that names \
                        this one: shorten it or the others, or make some asynchronous";
            return Err(Rejection::invalid("target.timeout", rule).into());
        }
        Ok(())
    }
}

/// Refuses a URL that is recognizably no address of the public internet. A host name is checked again when the target
/// is called.
fn may_be_called(allowed: &Allowed, kind: TargetKind, url: &str) -> Result<(), Error> {
    // Validation has refused what is no URL with a host.
    if Url::parse(url).is_ok_and(|url| may_call(allowed, &url)) {
        return Ok(());
    }
    let member = match kind {
        TargetKind::RestWebhook => "rest_webhook",
        TargetKind::RestRequestResponse => "rest_request_response",
    };
    let rule = "must not be an address of this machine or of a private network, except those that the operator allows";
    Err(Error::invalid(vec![Violation::new(format!("target.{member}.url"), rule)]))
}

/// Returns a new signing key, in clear and sealed.
async fn new_key(commands: &Commands, call: &Call) -> Result<(String, Sealed), Error> {
    let data_key = commands.keyring.key(&call.tenant.id, Purpose::Resource).await.map_err(unavailable)?;
    let key = random_text(SIGNING_KEY_LENGTH);
    let sealed = Sealed::new(data_key.seal(signature::SEALED, key.as_bytes()));
    Ok((key, sealed))
}
