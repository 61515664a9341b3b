//! What operators decide about failed events, and administrators about those of their instance. Views meet it in the log, as
//! whoever builds them again does.

use std::sync::Arc;

use api::failed_event::Wanted;
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
use tokio::sync::Semaphore;
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

/// How many look at a time: they have their connections from those of the writer.
static SEATS: Semaphore = Semaphore::const_new(2);

/// Mounts what is written here.
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
    let (id, command) = Scope::system().discard(&commands, &call, (&request.id, &request.discard)).await?;
    let answer = move |decided: &Decided, (): &()| DiscardFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

async fn discard_of_instance(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardInstanceFailedEventRequest,
) -> Result<Answer<DiscardInstanceFailedEventResponse>, Error> {
    let (id, command) = Scope::instance(&call).discard(&commands, &call, (&request.id, &request.discard)).await?;
    let answer =
        move |decided: &Decided, (): &()| DiscardInstanceFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

/// Of which failed events a call decides.
pub(super) struct Scope {
    /// Where roles have to permit it, and the decision belongs.
    pub(super) owner: Owner,
    /// The instance in which it is.
    pub(super) instance_id: String,
    /// The instance to which it is bound.
    pub(super) within: Option<String>,
}

/// A retry of many.
struct Many {
    id: String,
    /// How many there are.
    count: u64,
}

impl Many {
    fn details(&self, decided: &Decided) -> Option<Details> {
        (self.count > 0).then(|| details(&self.id, decided))
    }
}

impl Scope {
    /// Of all that there are.
    pub(super) fn system() -> Self {
        Self { owner: Owner::system(), instance_id: SYSTEM.to_owned(), within: None }
    }

    /// Of those of the call's instance.
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

    /// However many the filters find, the log has one event of it, under an id of its own.
    async fn retry_all(
        self,
        commands: &Commands,
        call: &Call,
        filters: Vec<FailedEventSearchFilter>,
    ) -> Result<(Many, Mend), Error> {
        let Wanted { filters, state } = api::failed_event::to_retry(filters);
        let page = Page { filters: filters.clone(), state, ..Page::default() };
        let (_, count) = self.search(commands, call, page).await?;
        let id = commands.ids.next();
        let what = match count {
            0 => What::Nothing,
            _ => self.retrying(filters, last_place(commands, call).await?),
        };
        Ok((Many { id: id.clone(), count }, self.mend(id, what)))
    }

    async fn discard(
        self,
        commands: &Commands,
        call: &Call,
        (id, discard): (&str, &Option<Discard>),
    ) -> Result<(String, Mend), Error> {
        let search::FailedEvent { id, view, parked, target_id, failure_count, first_failed, .. } =
            self.find(commands, call, id).await?;
        if self.within.is_some() && admits(view.name()) {
            let message = "requests are admitted by what this view says, so that only operators of the system have an event left out of it: \
                           retry it, or ask them";
            return Err(Error::new(Reason::PermissionDenied, message));
        }
        let discarded = Discarded {
            view: view.name().to_owned(),
            log: view.class().name().to_owned(),
            sequence: parked.sequence,
            reason: discard.clone().unwrap_or_default().reason,
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
        Ok((id.clone(), self.mend(id, What::Discard(discarded))))
    }

    /// The failed event of an id.
    pub(super) async fn find(&self, commands: &Commands, call: &Call, id: &str) -> Result<search::FailedEvent, Error> {
        let page = Page { filters: vec![Filter::Id(api::failed_event::id(id))], limit: 1, ..Page::default() };
        let (found, _) = self.search(commands, call, page).await?;
        Ok(found.into_iter().next().ok_or(Rejection::NotFound(FailedEvent::NAME))?)
    }

    /// What is tried again of what the call decides about.
    fn retrying(&self, filters: Vec<Filter>, until_place: u64) -> What {
        What::Retry(filters.into_iter().chain(self.within.clone().map(Filter::InstanceId)).collect(), until_place)
    }

    /// The turn insists on the right once more.
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
        let _seat = SEATS.acquire().await.map_err(|closed| Error::internal(&closed))?;
        let found = search::search(&commands.database, call.tenant.shard, &page).await;
        Ok(found.map_err(|failure| read_model(Arc::new(failure)))?.answer)
    }

    fn mend(self, id: String, what: What) -> Mend {
        let key = AggregateKey { instance_id: self.instance_id, aggregate_type: FailedEvent::NAME.to_owned(), id };
        Mend { key, owner: self.owner, what }
    }
}

/// The last place of deliveries that were given up: what is given up later is not meant.
async fn last_place(commands: &Commands, call: &Call) -> Result<u64, Error> {
    let found = given_up::last_place(&commands.database, call.tenant.shard).await;
    found.map_err(|failure| read_model(Arc::new(failure)))
}

/// What is asked for.
enum What {
    /// All filters hold of what is meant; of deliveries only up to this place.
    Retry(Vec<Filter>, u64),
    Discard(Discarded),
    /// There is nothing to retry.
    Nothing,
}

struct Mend {
    key: AggregateKey,
    owner: Owner,
    what: What,
}

impl Command for Mend {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<FailedEvent>(&self.key).owned_by(&self.owner);
        let asked = match &self.what {
            What::Retry(filters, until_place) => {
                let OfEach { events: until, sessions: until_of_sessions } = turn.ends();
                let until_place = *until_place;
                Asked::Retry(Retried { until, until_of_sessions, until_place, ..Retried::of(filters.clone()) })
            }
            What::Discard(discarded) => Asked::Discard(discarded.clone()),
            What::Nothing => {
                deciding.permit(turn, &self.owner, &Object::of_nobody(FailedEvent::NAME, true))?;
                return Ok((turn.nothing_decided(FailedEvent::NAME), ()));
            }
        };
        Ok((deciding.decide(turn, current, asked)?, ()))
    }
}
