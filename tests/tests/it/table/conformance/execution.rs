//! The rows of executions.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    action::{
        Condition, DeleteExecutionRequest, EventExecution, Execution, ExecutionSearchFilter, ExecutionType,
        ExecutionTypeFilter, InConditionsFilter, ListAvailableExecutionFunctionsRequest,
        ListAvailableExecutionMethodsRequest, ListAvailableExecutionServicesRequest, PutExecutionRequest,
        SearchExecutionsRequest, TargetFilter, condition::ConditionType, event_execution,
        execution_search_filter::Filter,
    },
    object::ListQuery,
    operation::{
        DELETE_EXECUTION, LIST_AVAILABLE_EXECUTION_FUNCTIONS, LIST_AVAILABLE_EXECUTION_METHODS,
        LIST_AVAILABLE_EXECUTION_SERVICES, PUT_EXECUTION, SEARCH_EXECUTIONS,
    },
};
use reqwest::Method;
use serde_json::json;
use tests::client::{EXECUTIONS, send};

use super::{
    a_target,
    row::{Check, Subject, row},
    wire::World,
};

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        put(),
        delete(),
        search(),
        row(&LIST_AVAILABLE_EXECUTION_FUNCTIONS, a_target)
            .good("all", |_| ListAvailableExecutionFunctionsRequest {})
            .done(),
        row(&LIST_AVAILABLE_EXECUTION_METHODS, a_target)
            .good("all", |_| ListAvailableExecutionMethodsRequest {})
            .done(),
        row(&LIST_AVAILABLE_EXECUTION_SERVICES, a_target)
            .good("all", |_| ListAvailableExecutionServicesRequest {})
            .done(),
    ]
}

/// Creates an execution without targets, with a condition that is used nowhere else.
fn an_execution(world: &World) -> BoxFuture<'_, Subject> {
    let body = json!({ "condition": { "event": { "event": "project.added" } } });
    let (gone, request) = (world.owner.clone(), world.owner.request(Method::POST, EXECUTIONS).json(&body));
    async move {
        let mut put = send(request.try_clone().expect("it has a body")).await;
        if put.status != 201 {
            // It is made anew, so that its sequence is new.
            send(gone.request(Method::DELETE, &format!("{EXECUTIONS}/{}", put.id()))).await;
            put = send(request).await;
        }
        let sequence = put.body["details"]["sequence"].as_str().and_then(|sequence| sequence.parse().ok());
        let sequence = sequence.expect("an answer names the sequence");
        Subject { id: put.id(), others: vec![], token: put.consistency(), sequence }
    }
    .boxed()
}

fn event(condition: event_execution::Condition) -> Condition {
    let event = EventExecution { condition: Some(condition) };
    Condition { condition_type: Some(ConditionType::Event(event)) }
}

fn added() -> Condition {
    event(event_execution::Condition::Event("user.added".into()))
}

fn execution(condition: Condition, targets: &[&str], includes: &[&str]) -> PutExecutionRequest {
    let owned = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
    let execution = Execution { condition: Some(condition), targets: owned(targets), includes: owned(includes) };
    PutExecutionRequest { execution: Some(execution) }
}

fn put() -> Box<dyn Check + Sync> {
    row(&PUT_EXECUTION, a_target)
        .good("a target", |it| execution(added(), &[&it.id], &[]))
        .good("the same again", |_| execution(added(), &[], &[]))
        .bad("nothing", "INVALID_REQUEST", |_| PutExecutionRequest::default())
        .bad("no condition", "INVALID_REQUEST", |_| execution(Condition::default(), &[], &[]))
        .bad("an empty id", "INVALID_REQUEST", |_| execution(added(), &[""], &[]))
        .bad("an unknown event", "RESOURCE_NOT_FOUND", |_| {
            execution(event(event_execution::Condition::Event("user.vanished".into())), &[], &[])
        })
        .bad("an unknown target", "RESOURCE_NOT_FOUND", |_| execution(added(), &["1"], &[]))
        .bad("an unknown include", "RESOURCE_NOT_FOUND", |_| execution(added(), &[], &["a\u{0}b"]))
        .done()
}

fn delete() -> Box<dyn Check + Sync> {
    row(&DELETE_EXECUTION, an_execution).good("an execution", |it| DeleteExecutionRequest { id: it.id.clone() }).done()
}

fn search_request(filters: Vec<Filter>) -> SearchExecutionsRequest {
    let filters = filters.into_iter().map(|filter| ExecutionSearchFilter { filter: Some(filter) }).collect();
    SearchExecutionsRequest { query: None, filters }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_EXECUTIONS, an_execution)
        .good("everything", |_| search_request(vec![]))
        .good("by condition and type", |_| {
            let conditions = vec![added(), event(event_execution::Condition::All(true))];
            let kind = ExecutionTypeFilter { r#type: ExecutionType::Event.into() };
            search_request(vec![Filter::InConditions(InConditionsFilter { conditions }), Filter::ExecutionType(kind)])
        })
        .good("by a target that is none", |_| search_request(vec![Filter::Target(TargetFilter { id: "1 2".into() })]))
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchExecutionsRequest {
            filters: vec![ExecutionSearchFilter { filter: None }],
            query: None,
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchExecutionsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchExecutionsRequest::default()
        })
        .done()
}
