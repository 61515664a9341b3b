//! Reveals the personal data in failed events to callers who give a reason. Nothing is decrypted before the log records
//! the disclosure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use api::failed_event::personal;
use domain::{
    aggregate::Aggregate,
    catalog::is_event_type,
    context::Owner,
    disclosure::{Disclosed, Disclosure},
    rejection::Rejection,
    resource::user::User,
    standard::Standard,
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting, refusal::read_model};
use eventlog::record::{AggregateKey, Recorded};
use prost::Message;
use proto::{
    failed_event::{RevealInstanceFailedEventRequest, RevealInstanceFailedEventResponse},
    system::{Reveal, RevealFailedEventRequest, RevealFailedEventResponse},
};
use view::{
    failed_event::{decided, search::FailedEvent},
    persons::{REMOVED, user_in},
};

use super::failed_event::Scope;
use crate::{
    execute::{Command, Commands, Deciding, REPLAYED},
    existence,
    person_key::key_unavailable,
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(reveal).on(reveal_of_instance)
}

async fn reveal(
    commands: Arc<Commands>,
    call: Call,
    request: RevealFailedEventRequest,
) -> Result<Answer<RevealFailedEventResponse>, Error> {
    let requested = Requested { id: &request.id, reveal: request.reveal.as_ref() };
    revealed(&commands, &call, Scope::system(), &request, requested).await
}

async fn reveal_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RevealInstanceFailedEventRequest,
) -> Result<Answer<RevealInstanceFailedEventResponse>, Error> {
    let requested = Requested { id: &request.id, reveal: request.reveal.as_ref() };
    let Answer { message, status, metadata } =
        revealed(&commands, &call, Scope::instance(&call), &request, requested).await?;
    let RevealFailedEventResponse { details, event, personal } = message;
    Ok(Answer { message: RevealInstanceFailedEventResponse { details, event, personal }, status, metadata })
}

/// What a request wants to see.
struct Requested<'a> {
    /// The id of the failed event.
    id: &'a str,
    reveal: Option<&'a Reveal>,
}

/// Records the disclosure of a failed event in the log, and then reveals the event. Its content never becomes part of a
/// stored answer, which would outlive the erasure of the person; a replayed answer is returned without it, since
/// showing it again would be a disclosure that the log lacks.
async fn revealed<I: Message>(
    commands: &Commands,
    call: &Call,
    scope: Scope,
    request: &I,
    Requested { id, reveal }: Requested<'_>,
) -> Result<Answer<RevealFailedEventResponse>, Error> {
    let found = scope.find(commands, call, id).await?;
    let event = event(commands, &scope, &found).await?;
    let (key, sequence) = (found.parked.key.clone(), found.parked.sequence);
    let mut payload = api::event::payload(&event);
    let user = user_in(&key, sequence, &mut payload);
    let (id, command) = (found.id.to_string(), Disclose::of(scope, found, reveal, user));
    // Whether the person exists, as the last of possibly several decisions found.
    let told = Arc::new(AtomicBool::new(false));
    let is_there = told.clone();
    let answer = move |decided: &Decided, is_there: &bool| {
        told.store(*is_there, Ordering::Relaxed);
        RevealFailedEventResponse { details: Some(details(&id, decided)), ..RevealFailedEventResponse::default() }
    };
    let mut answer = commands.execute(call, request, command, answer).await?;
    if answer.metadata.iter().any(|(name, _)| *name == REPLAYED) {
        return Ok(answer);
    }
    let is_there = is_there.load(Ordering::Relaxed);
    let shown = commands.persons.open_for_inspection(&key, sequence, payload, is_there).await;
    let (payload, members) = shown.map_err(key_unavailable)?;
    answer.message.event = Some(api::event::opened(event, payload));
    answer.message.personal = personal(members);
    Ok(answer)
}

/// Returns the event that failed, if it can be shown: the log must not record a disclosure that did not happen.
async fn event(commands: &Commands, scope: &Scope, found: &FailedEvent) -> Result<Recorded, Error> {
    let event = decided::event(&commands.audit, &found.parked.key, found.parked.sequence).await;
    let event = event.map_err(|failure| read_model(Arc::new(failure)))?;
    // The same filter as in the search of events.
    let event = event.filter(|event| scope.within.is_none() || event.is_for_instance());
    let event = event.ok_or(Rejection::Precondition("the event that failed cannot be found in history"))?;
    if !is_event_type(&event.event.r#type) {
        let newer = "a newer build wrote the event, and this one does not know which of its data is personal";
        return Err(Rejection::Precondition(newer).into());
    }
    Ok(event)
}

/// Records in the log that personal data is disclosed to the caller.
struct Disclose {
    key: AggregateKey,
    owner: Owner,
    disclosed: Disclosed,
    /// The user whose data it is, if some of it is sealed.
    user: Option<AggregateKey>,
}

impl Disclose {
    fn of(
        scope: Scope,
        FailedEvent { id, view, parked, .. }: FailedEvent,
        reveal: Option<&Reveal>,
        user: Option<AggregateKey>,
    ) -> Self {
        let disclosed = Disclosed {
            reason: reveal.map(|reveal| reveal.reason.clone()).unwrap_or_default(),
            view: view.name().to_owned(),
            log: view.class().name().to_owned(),
            sequence: parked.sequence,
            instance_id: parked.key.instance_id,
            aggregate_type: parked.key.aggregate_type,
            aggregate_id: parked.key.id,
        };
        let aggregate_type = Disclosure::NAME.to_owned();
        let key = AggregateKey { instance_id: scope.instance_id, aggregate_type, id: id.to_string() };
        Self { key, owner: scope.owner, disclosed, user }
    }
}

impl Command for Disclose {
    /// Whether the person still exists. The turn knows of a removal before history and the erasure of keys do.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Disclosure>(&self.key).owned_by(&self.owner);
        let is_there = self.user.as_ref().is_some_and(|user| is_there(turn, user));
        Ok((deciding.decide(turn, current, self.disclosed.clone())?, is_there))
    }
}

/// Whether a user exists. Damaged events are a reason for failed events, so they must not prevent the disclosure.
fn is_there(turn: &mut Turn<'_>, user: &AggregateKey) -> bool {
    match turn.end_of_damaged::<Standard<User>>(user) {
        Some(last) => last != REMOVED,
        None => existence::is_there::<User>(turn, user),
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        log_class::LogClass,
        resource::{instance::Instance, organization::Organization},
        standard::Command as Asked,
    };

    use super::*;
    use crate::scene::{INSTANCE, ORGANIZATION, PERSON, Scene, key};

    #[test]
    fn a_person_is_there_until_it_is_removed_alone_or_with_all_around_it() {
        let scene = || {
            let mut scene = Scene::logged_in(None);
            scene.draft.class = LogClass::Events;
            scene
        };
        let is_there = |scene: &mut Scene, id| scene.inspect(|turn| is_there(turn, &key::<User>(id)));
        assert!(is_there(&mut scene(), PERSON) && !is_there(&mut scene(), "17"));
        let [mut alone, mut with_organization, mut with_instance] = [scene(), scene(), scene()];
        alone.change::<User>(PERSON, Asked::Delete).expect("it is there");
        with_organization.change::<Organization>(ORGANIZATION, Asked::Delete).expect("it is there");
        with_instance.change::<Instance>(INSTANCE, Asked::Delete).expect("it is there");
        for mut scene in [alone, with_organization, with_instance] {
            assert!(!is_there(&mut scene, PERSON));
        }
    }
}
