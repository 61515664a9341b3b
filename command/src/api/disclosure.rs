//! What is personal in failed events is shown to whoever says why. That it was shown is in the log before anything is answered.

use std::sync::Arc;

use api::failed_event::personal;
use domain::{
    aggregate::Aggregate,
    catalog::is_event_type,
    context::Owner,
    disclosure::{Disclosed, Disclosure},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting, refusal::read_model};
use eventlog::record::AggregateKey;
use proto::{
    event::Event,
    failed_event::{RevealInstanceFailedEventRequest, RevealInstanceFailedEventResponse},
    system::{PersonalMember, Reveal, RevealFailedEventRequest, RevealFailedEventResponse},
};
use view::failed_event::{decided, search::FailedEvent};

use super::failed_event::Scope;
use crate::{
    execute::{Command, Commands, Deciding},
    person_key::away,
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(reveal).on(reveal_of_instance)
}

async fn reveal(
    commands: Arc<Commands>,
    call: Call,
    request: RevealFailedEventRequest,
) -> Result<Answer<RevealFailedEventResponse>, Error> {
    let (shown, command) = shown(&commands, &call, Scope::system(), (&request.id, &request.reveal)).await?;
    let id = request.id.clone();
    let answer = move |decided: &Decided, (): &()| RevealFailedEventResponse {
        details: Some(details(&id, decided)),
        ..RevealFailedEventResponse::default()
    };
    let mut answer = commands.execute(&call, &request, command, answer).await?;
    (answer.message.event, answer.message.personal) = (shown.event, shown.personal);
    Ok(answer)
}

async fn reveal_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RevealInstanceFailedEventRequest,
) -> Result<Answer<RevealInstanceFailedEventResponse>, Error> {
    let (shown, command) = shown(&commands, &call, Scope::instance(&call), (&request.id, &request.reveal)).await?;
    let id = request.id.clone();
    let answer = move |decided: &Decided, (): &()| RevealInstanceFailedEventResponse {
        details: Some(details(&id, decided)),
        ..RevealInstanceFailedEventResponse::default()
    };
    let mut answer = commands.execute(&call, &request, command, answer).await?;
    (answer.message.event, answer.message.personal) = (shown.event, shown.personal);
    Ok(answer)
}

/// What is shown. It is put into the answer once the command is committed, and never becomes part of a stored answer: that would
/// outlive the erasure of the person.
struct Shown {
    event: Option<Event>,
    personal: Vec<PersonalMember>,
}

/// What is shown of a failed event, once the command was done that says so in the log.
async fn shown(
    commands: &Commands,
    call: &Call,
    scope: Scope,
    (id, reveal): (&str, &Option<Reveal>),
) -> Result<(Shown, Disclose), Error> {
    let found = scope.find(commands, call, id).await?;
    let shown = opened(commands, &scope, &found).await?;
    let FailedEvent { id, view, parked, .. } = found;
    let disclosed = Disclosed {
        reason: reveal.clone().unwrap_or_default().reason,
        view: view.name().to_owned(),
        log: view.class().name().to_owned(),
        sequence: parked.sequence,
        instance_id: parked.key.instance_id,
        aggregate_type: parked.key.aggregate_type,
        aggregate_id: parked.key.id,
    };
    let aggregate_type = Disclosure::NAME.to_owned();
    let key = AggregateKey { instance_id: scope.instance_id, aggregate_type, id: id.to_string() };
    Ok((shown, Disclose { key, owner: scope.owner, disclosed }))
}

/// The event that failed, with what is personal in clear.
async fn opened(commands: &Commands, scope: &Scope, found: &FailedEvent) -> Result<Shown, Error> {
    let (key, sequence) = (&found.parked.key, found.parked.sequence);
    let event = decided::event(&commands.database, key, sequence).await;
    let event = event.map_err(|failure| read_model(Arc::new(failure)))?;
    // As in the search of events.
    let Some(event) = event.filter(|event| scope.within.is_none() || event.is_for_instance()) else {
        return Ok(Shown { event: None, personal: vec![] });
    };
    let payload = api::event::payload(&event);
    if !is_event_type(&event.event.r#type) {
        return Ok(Shown { event: Some(api::event::opened(event, payload)), personal: vec![] });
    }
    let (payload, members) = commands.persons.shown((key, sequence), payload).await.map_err(away)?;
    Ok(Shown { event: Some(api::event::opened(event, payload)), personal: personal(members) })
}

/// Says in the log that somebody is shown what is personal.
struct Disclose {
    key: AggregateKey,
    owner: Owner,
    disclosed: Disclosed,
}

impl Command for Disclose {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Disclosure>(&self.key).owned_by(&self.owner);
        Ok((deciding.decide(turn, current, self.disclosed.clone())?, ()))
    }
}
