//! Retries and discards failed events, for operators, and for administrators those of their instance. Views read these
//! decisions from the log, also when they are built again.

use std::sync::{Arc, LazyLock};

use api::failed_event::FailedEventQuery;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{Command as Asked, Discarded, FailedEvent, Filter, Retried},
    log_class::OfEach,
    rejection::Rejection,
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
    refusal::{permission_denied, read_model, too_many_searches},
    seats::Seats,
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
        admits, given_up,
        search::{self, Page},
    },
    keyring::SYSTEM,
};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// Two searches run at a time, for instances in turns: others need connections of their pool.
static SEATS: LazyLock<Seats> = LazyLock::new(|| Seats::new(2));

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    let mounting = mounting.on(retry).on(retry_all).on(discard);
    mounting.on(retry_of_instance).on(retry_all_of_instance).on(discard_of_instance)
}

async fn retry(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventRequest,
) -> Result<Answer<RetryFailedEventResponse>, Error> {
    let (id, command) = Scope::system().retry(&commands, &call, &request.id).await?;
    let answer = move |decided: &Decided, (): &()| RetryFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RetryInstanceFailedEventRequest,
) -> Result<Answer<RetryInstanceFailedEventResponse>, Error> {
    let (id, command) = Scope::instance(&call).retry(&commands, &call, &request.id).await?;
    let answer =
        move |decided: &Decided, (): &()| RetryInstanceFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_all(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventsRequest,
) -> Result<Answer<RetryFailedEventsResponse>, Error> {
    let (many, command) = Scope::system().retry_all(&commands, &call, request.filters.clone()).await?;
    let answer = move |decided: &Decided, (): &()| RetryFailedEventsResponse {
        details: many.details(decided),
        count: many.count,
    };
    commands.execute(&call, &request, command, answer).await
}

async fn retry_all_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: RetryInstanceFailedEventsRequest,
) -> Result<Answer<RetryInstanceFailedEventsResponse>, Error> {
    let (many, command) = Scope::instance(&call).retry_all(&commands, &call, request.filters.clone()).await?;
    let answer = move |decided: &Decided, (): &()| RetryInstanceFailedEventsResponse {
        details: many.details(decided),
        count: many.count,
    };
    commands.execute(&call, &request, command, answer).await
}

async fn discard(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardFailedEventRequest,
) -> Result<Answer<DiscardFailedEventResponse>, Error> {
    let (id, command) = Scope::system().discard(&commands, &call, &request.id, request.discard.as_ref()).await?;
    let answer = move |decided: &Decided, (): &()| DiscardFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn discard_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardInstanceFailedEventRequest,
) -> Result<Answer<DiscardInstanceFailedEventResponse>, Error> {
    let (id, command) = Scope::instance(&call).discard(&commands, &call, &request.id, request.discard.as_ref()).await?;
    let answer =
        move |decided: &Decided, (): &()| DiscardInstanceFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

/// The failed events that a call may decide about.
pub(super) struct Scope {
    /// The context in which roles must permit the decision, and which owns it.
    pub(super) owner: Owner,
    /// The instance that the decision belongs to.
    pub(super) instance_id: String,
    /// The only instance whose failed events are in scope; `None` for those of all instances.
    pub(super) within: Option<String>,
}

/// A retry of all failed events that filters find.
struct Many {
    id: String,
    /// How many were found.
    count: u64,
}

impl Many {
    fn details(&self, decided: &Decided) -> Option<Details> {
        (self.count > 0).then(|| details(&self.id, decided))
    }
}

impl Scope {
    /// Returns the scope of all failed events.
    pub(super) fn system() -> Self {
        Self { owner: Owner::system(), instance_id: SYSTEM.to_owned(), within: None }
    }

    /// Returns the scope of the failed events of the call's instance.
    pub(super) fn instance(call: &Call) -> Self {
        let id = &call.tenant.id;
        Self { owner: Owner::instance(id), instance_id: id.clone(), within: Some(id.clone()) }
    }

    async fn retry(self, commands: &Commands, call: &Call, id: &str) -> Result<(String, Mend), Error> {
        let found = self.find(commands, call, id).await?;
        let (id, until_place) = (found.id.to_string(), last_place(commands, call).await?);
        let what = self.retrying(vec![Filter::Id(found.id)], until_place);
        Ok((id.clone(), self.mend(id, what)))
    }

    /// Retries all failed events that the filters find, with a single event in the log under an id of its own.
    async fn retry_all(
        self,
        commands: &Commands,
        call: &Call,
        filters: Vec<FailedEventSearchFilter>,
    ) -> Result<(Many, Mend), Error> {
        let FailedEventQuery { filters, state } = api::failed_event::to_retry(filters);
        let page = Page { filters: filters.clone(), state, ..Page::default() };
        let (_, count) = self.search(commands, call, page).await?;
        let id = commands.ids.next();
        let what = match count {
            0 => RequestedDecision::Nothing,
            _ => self.retrying(filters, last_place(commands, call).await?),
        };
        Ok((Many { id: id.clone(), count }, self.mend(id, what)))
    }

    async fn discard(
        self,
        commands: &Commands,
        call: &Call,
        id: &str,
        discard: Option<&Discard>,
    ) -> Result<(String, Mend), Error> {
        let search::FailedEvent { id, view, parked, target_id, failure_count, first_failed, .. } =
            self.find(commands, call, id).await?;
        if self.within.is_some() && admits(view.name()) {
            let message = "this view controls admission, so only system operators may discard its events: \
                           retry it, or ask them";
            return Err(Error::new(Reason::PermissionDenied, message));
        }
        let discarded = Discarded {
            view: view.name().to_owned(),
            log: view.class().name().to_owned(),
            sequence: parked.sequence,
            reason: discard.cloned().unwrap_or_default().reason,
            instance_id: parked.key.instance_id,
            aggregate_type: parked.key.aggregate_type,
            aggregate_id: parked.key.id,
            target_id,
            error: parked.error,
            first_failed: Some(first_failed.as_microsecond()),
            last_failed: parked.last_failed.map_or(0, Timestamp::as_microsecond),
            tries: failure_count,
        };
        let id = id.to_string();
        Ok((id.clone(), self.mend(id, RequestedDecision::Discard(discarded))))
    }

    /// Returns the failed event with an id.
    pub(super) async fn find(&self, commands: &Commands, call: &Call, id: &str) -> Result<search::FailedEvent, Error> {
        let page = Page { filters: vec![Filter::Id(api::failed_event::id(id))], limit: 1, ..Page::default() };
        let (found, _) = self.search(commands, call, page).await?;
        Ok(found.into_iter().next().ok_or(Rejection::NotFound(FailedEvent::NAME))?)
    }

    /// Returns the retry of what the filters find within the scope.
    fn retrying(&self, filters: Vec<Filter>, until_place: u64) -> RequestedDecision {
        RequestedDecision::Retry(
            filters.into_iter().chain(self.within.clone().map(Filter::InstanceId)).collect(),
            until_place,
        )
    }

    /// Searches failed events, after an early check of the permission that the turn checks once more.
    async fn search(
        &self,
        commands: &Commands,
        call: &Call,
        mut page: Page,
    ) -> Result<(Vec<search::FailedEvent>, u64), Error> {
        if !call.may(&self.owner) {
            return Err(permission_denied(call.operation.permission.unwrap_or_default()));
        }
        page.within = self.within.clone();
        let _seat = SEATS.take(&call.tenant.id).await.ok_or_else(too_many_searches)?;
        let found = search::search(&commands.audit, call.tenant.shard, &page).await;
        Ok(found.map_err(|failure| read_model(Arc::new(failure)))?.answer)
    }

    fn mend(self, id: String, what: RequestedDecision) -> Mend {
        let key = AggregateKey { instance_id: self.instance_id, aggregate_type: FailedEvent::NAME.to_owned(), id };
        Mend { key, owner: self.owner, what }
    }
}

/// Returns the last place of the deliveries that were given up: those given up later are not part of the retry.
async fn last_place(commands: &Commands, call: &Call) -> Result<u64, Error> {
    let found = given_up::last_place(&commands.audit, call.tenant.shard).await;
    found.map_err(|failure| read_model(Arc::new(failure)))
}

/// The requested decision.
enum RequestedDecision {
    /// A retry of what all filters match; of deliveries only those up to this place.
    Retry(Vec<Filter>, u64),
    Discard(Discarded),
    /// There is nothing to retry.
    Nothing,
}

struct Mend {
    key: AggregateKey,
    owner: Owner,
    what: RequestedDecision,
}

impl Command for Mend {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<FailedEvent>(&self.key).owned_by(&self.owner);
        let asked = match &self.what {
            RequestedDecision::Retry(filters, until_place) => {
                let OfEach { events: until, sessions: until_of_sessions } = turn.ends();
                let until_place = *until_place;
                Asked::Retry(Retried { until, until_of_sessions, until_place, ..Retried::of(filters.clone()) })
            }
            RequestedDecision::Discard(discarded) => Asked::Discard(discarded.clone()),
            RequestedDecision::Nothing => {
                deciding.permit(turn, &self.owner, &Object::of_nobody(FailedEvent::NAME, true))?;
                return Ok((turn.nothing_decided(FailedEvent::NAME), ()));
            }
        };
        Ok((deciding.decide(turn, current, asked)?, ()))
    }
}
