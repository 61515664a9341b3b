//! What operators decide about failed events, and owners of an instance about those of it. Views meet it in the log, as whoever
//! builds them again does.

use std::sync::Arc;

use api::failed_event::State;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{Command as Asked, Discarded, FailedEvent, Filter, LOG, Retried},
    rejection::Rejection,
};
use edge::{
    answer::Answer,
    call::Call,
    error::Error,
    handler::Mounting,
    refusal::{permission_denied, read_model},
};
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use proto::{
    failed_event::{
        DiscardInstanceFailedEventRequest, DiscardInstanceFailedEventResponse, RetryInstanceFailedEventRequest,
        RetryInstanceFailedEventResponse, RetryInstanceFailedEventsRequest, RetryInstanceFailedEventsResponse,
    },
    object::Details,
    system::{
        Discard, DiscardFailedEventRequest, DiscardFailedEventResponse, FailedEventSearchFilter,
        RetryFailedEventRequest, RetryFailedEventResponse, RetryFailedEventsRequest, RetryFailedEventsResponse,
    },
};
use view::{
    failed_event::{
        Parking,
        search::{self, Page},
        stopped,
    },
    keyring::SYSTEM,
};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// What only operators of the platform have left out of what admits requests.
const OF_OPERATORS: &str = "system.debug.delete";

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    let mounting = mounting.on(retry).on(retry_all).on(discard);
    mounting.on(retry_of_instance).on(retry_all_of_instance).on(discard_of_instance)
}

/// Of what its caller decides.
struct Scope {
    /// Where the caller's roles must permit it.
    owner: Owner,
    /// What bounds it.
    within: Option<Filter>,
}

impl Scope {
    fn system() -> Self {
        Self { owner: Owner::system(), within: None }
    }

    fn instance(call: &Call) -> Self {
        let id = &call.tenant.id;
        Self { owner: Owner::instance(id), within: Some(Filter::InstanceId(id.clone())) }
    }

    /// It names the view, so that others need not look, and the instance: that is where deliveries are looked for.
    fn retry(self, found: search::FailedEvent) -> Mend {
        let filters =
            vec![Filter::Id(found.id), Filter::View(found.view), Filter::InstanceId(found.parked.key.instance_id)];
        Mend { key: key(found.id.to_string()), owner: self.owner, what: What::Retry(filters) }
    }
}

async fn retry(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventRequest,
) -> Result<Answer<RetryFailedEventResponse>, Error> {
    let scope = Scope::system();
    let found = find(&commands, &call, &scope, &request.id).await?;
    let id = found.id.to_string();
    let command = scope.retry(found);
    let answer = move |decided: &Decided, (): &()| RetryFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RetryInstanceFailedEventRequest,
) -> Result<Answer<RetryInstanceFailedEventResponse>, Error> {
    let scope = Scope::instance(&call);
    let found = find(&commands, &call, &scope, &request.id).await?;
    let id = found.id.to_string();
    let command = scope.retry(found);
    let answer =
        move |decided: &Decided, (): &()| RetryInstanceFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_all(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventsRequest,
) -> Result<Answer<RetryFailedEventsResponse>, Error> {
    let Many { command, count, resumed, id } = many(&commands, &call, Scope::system(), request.filters.clone()).await?;
    let answer = move |decided: &Decided, (): &()| {
        let details = detailed(&id, (count, resumed), decided);
        RetryFailedEventsResponse { details, count, resumed_views: resumed }
    };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_all_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RetryInstanceFailedEventsRequest,
) -> Result<Answer<RetryInstanceFailedEventsResponse>, Error> {
    let scope = Scope::instance(&call);
    let Many { command, count, resumed, id } = many(&commands, &call, scope, request.filters.clone()).await?;
    let answer = move |decided: &Decided, (): &()| RetryInstanceFailedEventsResponse {
        details: detailed(&id, (count, resumed), decided),
        count,
    };
    commands.execute(&call, &request, command, answer).await
}

fn detailed(id: &str, (count, resumed): (u64, u64), decided: &Decided) -> Option<Details> {
    (count + resumed > 0).then(|| details(id, decided))
}

/// A retry of many.
struct Many {
    command: Mend,
    /// How many there are.
    count: u64,
    /// How many views stand still that go on.
    resumed: u64,
    id: String,
}

/// However many the filters find, the log has one event of it, under an id of its own.
async fn many(
    commands: &Commands,
    call: &Call,
    scope: Scope,
    filters: Vec<FailedEventSearchFilter>,
) -> Result<Many, Error> {
    let wanted = api::failed_event::wanted(filters);
    let filters: Vec<_> = wanted.filters.into_iter().chain(scope.within.clone()).collect();
    let id = commands.ids.next();
    let retried = Retried { filters, until: 0 };
    // What is being tried again, and what is left out, need not be.
    let (count, resumed) = if matches!(wanted.state, None | Some(State::Failed)) {
        let page = Page { filters: retried.filters.clone(), ..Page::default() };
        let (_, count) = search(commands, call, &scope, page).await?;
        // Who asks for what is in a state does not mean views.
        let resumed = if wanted.state.is_none() { resumed(commands, call, &retried).await? } else { 0 };
        (count, resumed)
    } else {
        insist(call, &scope)?;
        (0, 0)
    };
    let what = if count + resumed == 0 { What::Nothing } else { What::Retry(retried.filters) };
    let command = Mend { key: key(id.clone()), owner: scope.owner, what };
    Ok(Many { command, count, resumed, id })
}

/// How many views stand still that a retry means.
async fn resumed(commands: &Commands, call: &Call, retried: &Retried) -> Result<u64, Error> {
    let database = &commands.database;
    let read = async { stopped::all(&database.connection().await?, call.tenant.shard).await };
    let found = database.within(read).await.map_err(|failure| read_model(Arc::new(failure)))?;
    let is_known = |name: &str, version: i32| search::projection(name).is_some_and(|known| known.version == version);
    let meant = found.keys().filter(|(name, version)| is_known(name, *version) && retried.resumes(name));
    Ok(meant.count() as u64)
}

async fn discard(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardFailedEventRequest,
) -> Result<Answer<DiscardFailedEventResponse>, Error> {
    let scope = Scope::system();
    let found = find(&commands, &call, &scope, &request.id).await?;
    let id = found.id.to_string();
    let command = discarding(found, scope, request.discard.clone());
    let answer = move |decided: &Decided, (): &()| DiscardFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn discard_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardInstanceFailedEventRequest,
) -> Result<Answer<DiscardInstanceFailedEventResponse>, Error> {
    let scope = Scope::instance(&call);
    let found = find(&commands, &call, &scope, &request.id).await?;
    let admits = search::projection(&found.view).and_then(|known| Parking::of_admission(known, call.tenant.shard));
    if admits.is_some() {
        return Err(permission_denied(OF_OPERATORS));
    }
    let id = found.id.to_string();
    let command = discarding(found, scope, request.discard.clone());
    let answer =
        move |decided: &Decided, (): &()| DiscardInstanceFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

fn discarding(found: search::FailedEvent, scope: Scope, asked: Option<Discard>) -> Mend {
    let parked = found.parked;
    let discarded = Discarded {
        view: found.view,
        log: LOG.to_owned(),
        sequence: parked.sequence,
        reason: asked.unwrap_or_default().reason,
        instance_id: parked.key.instance_id,
        aggregate_type: parked.key.aggregate_type,
        aggregate_id: parked.key.id,
        error: parked.error,
        last_failed: parked.last_failed.map(Timestamp::as_microsecond).unwrap_or_default(),
        tries: found.failure_count,
        target: found.target_id,
    };
    Mend { key: key(found.id.to_string()), owner: scope.owner, what: What::Discard(discarded) }
}

fn key(id: String) -> AggregateKey {
    AggregateKey { instance_id: SYSTEM.to_owned(), aggregate_type: FailedEvent::NAME.to_owned(), id }
}

/// The failed event of an id.
async fn find(commands: &Commands, call: &Call, scope: &Scope, id: &str) -> Result<search::FailedEvent, Error> {
    let filters = std::iter::once(Filter::Id(api::failed_event::id(id))).chain(scope.within.clone()).collect();
    let (found, _) = search(commands, call, scope, Page { filters, limit: 1, ..Page::default() }).await?;
    found.into_iter().next().ok_or(Rejection::NotFound(FailedEvent::NAME).into())
}

async fn search(
    commands: &Commands,
    call: &Call,
    scope: &Scope,
    page: Page,
) -> Result<(Vec<search::FailedEvent>, u64), Error> {
    insist(call, scope)?;
    let found = search::search(&commands.database, (call.tenant.shard, &vec![]), &page).await;
    Ok(found.map_err(|failure| read_model(Arc::new(failure)))?.answer)
}

/// Only roles there permit it. The turn insists on that.
fn insist(call: &Call, scope: &Scope) -> Result<(), Error> {
    if call.may(&scope.owner) {
        return Ok(());
    }
    Err(permission_denied(call.operation.permission.unwrap_or_default()))
}

/// What is asked for.
enum What {
    Retry(Vec<Filter>),
    Discard(Discarded),
    /// There is nothing to retry.
    Nothing,
}

struct Mend {
    key: AggregateKey,
    /// Where the caller may do it. The event itself is the system's, whoever asks for it.
    owner: Owner,
    what: What,
}

impl Command for Mend {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        deciding.permit(turn, &self.owner, &Object::of_nobody(FailedEvent::NAME, true))?;
        let current = turn.get::<FailedEvent>(&self.key).owned_by(&Owner::system());
        // Of what is left out already it is told that it is not there.
        if !*current.state && !matches!(self.what, What::Nothing) {
            deciding.compare(&current)?;
        }
        let asked = match &self.what {
            What::Retry(filters) => Asked::Retry(Retried { filters: filters.clone(), until: turn.end() }),
            What::Discard(discarded) => Asked::Discard(discarded.clone()),
            What::Nothing => return Ok((turn.nothing_decided(FailedEvent::NAME), ())),
        };
        Ok((deciding.follow(turn, current, asked)?, ()))
    }
}
