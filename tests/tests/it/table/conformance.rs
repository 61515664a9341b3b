//! Every operation that is built, over every transport: the same requests, valid and invalid, must have the same
//! outcomes.
//!
//! The table has a row for each operation. Checks that follow from its facts (callers, ids, idempotency keys,
//! consistency tokens, `If-Match`) are derived; a row adds requests of its own.

mod app;
mod auth_request;
mod domain;
mod event;
mod execution;
mod failed_event;
mod grant;
mod idp;
mod instance;
mod key;
mod membership;
mod organization;
mod outcome;
mod project;
mod property;
mod read_back;
pub(super) mod row;
mod session;
mod settings;
mod token;
mod user;
mod user_metadata;
mod view;
mod web_key;
pub(super) mod wire;

use std::collections::BTreeSet;

use futures::{FutureExt, future::BoxFuture};
use proto::{
    action::{
        CreateTargetRequest, DeleteTargetRequest, GetTargetRequest, InTargetIdsFilter, ListTargetDeliveriesRequest,
        PatchTarget, PatchTargetRequest, SearchTargetsRequest, SetRestRequestResponse, SetRestWebhook, Target,
        TargetFieldName, TargetNameFilter, TargetSearchFilter, patch_target, target, target_search_filter::Filter,
    },
    object::{ListQuery, RequestContext, TextFilterMethod, request_context::ResourceOwner},
    operation::{
        CREATE_TARGET, DELETE_TARGET, GET_TARGET, LIST_TARGET_DELIVERIES, OPERATIONS, PATCH_TARGET, SEARCH_TARGETS,
    },
    wellknown::Duration,
};
use reqwest::Method;
use serde_json::Value;
use tests::{
    client::{Answer, TARGETS, send},
    tenant::{Shared, new_name as new_word},
};

use self::{
    row::{Check, Subject, row},
    wire::{Transport, World},
};

type Rows = Vec<Box<dyn Check + Sync>>;

/// Returns a row for each operation that is built.
pub(super) fn table() -> Rows {
    [actions(), users(), tenants(), projects(), grant::rows(), idp::rows(), others()].into_iter().flatten().collect()
}

fn actions() -> Rows {
    let targets =
        vec![create_target(), patch_target(), delete_target(), get_target(), search_targets(), list_deliveries()];
    targets.into_iter().chain(execution::rows()).collect()
}

fn users() -> Rows {
    user::rows()
        .into_iter()
        .chain(membership::rows())
        .chain(key::rows())
        .chain(token::rows())
        .chain(user_metadata::rows())
        .chain(session::rows())
        .chain(auth_request::rows())
        .collect()
}

fn tenants() -> Rows {
    instance::rows().into_iter().chain(organization::rows()).collect()
}

fn projects() -> Rows {
    project::rows().into_iter().chain(app::rows()).collect()
}

fn others() -> Rows {
    domain::rows()
        .into_iter()
        .chain(event::rows())
        .chain(failed_event::rows())
        .chain(settings::rows())
        .chain(view::rows())
        .chain(web_key::rows())
        .collect()
}

/// Checks that each operation has the same outcomes over every transport.
async fn check(rows: Rows) {
    let world = World::start().await;
    for row in &rows {
        row.check(&world).await;
    }
    println!("{} messages of {} operations, over {} transports", world.sent(), rows.len(), Transport::ALL.len());
}

#[tokio::test]
async fn every_operation_that_is_built_has_a_row() {
    let shared = Shared::find().await;
    let (world, mut built) = (World::of(&shared.instance().await).await, BTreeSet::new());
    for facts in OPERATIONS {
        if world.is_built(facts).await {
            built.insert(facts.method);
        }
    }
    let rows: Vec<_> = table().iter().map(|row| row.facts().method).collect();
    assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), built, "the table (left), and what is built (right)");
    assert_eq!(rows.len(), built.len(), "one row for each");
}

#[tokio::test]
async fn operations_on_targets_and_executions_come_to_the_same_over_every_transport() {
    check(actions()).await;
}

#[tokio::test]
async fn operations_on_users_memberships_and_keys_come_to_the_same_over_every_transport() {
    check(users()).await;
}

#[tokio::test]
async fn operations_on_instances_and_organizations_come_to_the_same_over_every_transport() {
    check(tenants()).await;
}

#[tokio::test]
async fn operations_on_projects_and_apps_come_to_the_same_over_every_transport() {
    check(projects()).await;
}

#[tokio::test]
async fn operations_on_roles_and_grants_come_to_the_same_over_every_transport() {
    check(grant::rows()).await;
}

#[tokio::test]
async fn operations_on_identity_providers_come_to_the_same_over_every_transport() {
    check(idp::rows()).await;
}

#[tokio::test]
async fn operations_on_domains_events_and_settings_come_to_the_same_over_every_transport() {
    check(others()).await;
}

#[tokio::test]
async fn every_property_of_settings_is_set_read_back_and_reset_over_every_transport() {
    let shared = Shared::find().await;
    let world = World::of(&shared.instance().await).await;
    Box::pin(property::check(&world)).await;
    println!("{} messages, over {} transports", world.sent(), Transport::ALL.len());
}

fn a_target(world: &World) -> BoxFuture<'_, Subject> {
    let body = serde_json::to_value(webhook("conformance")).expect("messages have a JSON form");
    let request = world.owner.request(Method::POST, TARGETS).json(&body);
    async move { subject(&send(request).await) }.boxed()
}

/// Returns the object of a write's answer.
fn subject(answer: &Answer) -> Subject {
    Subject { id: answer.id(), others: vec![], token: answer.consistency(), sequence: answer.sequence() }
}

/// Sends a body as the caller with all rights.
async fn posted(world: &World, path: &str, body: &Value) -> Answer {
    send(world.owner.request(Method::POST, path).json(body)).await
}

/// Returns a name that is unique on the platform.
fn new_name(of: &str) -> String {
    format!("{of} {}", new_word())
}

fn context(owner: ResourceOwner) -> RequestContext {
    RequestContext { resource_owner: Some(owner) }
}

fn webhook(name: &str) -> Target {
    let target_type = Some(target::TargetType::RestWebhook(SetRestWebhook { url: "https://example.com/hook".into() }));
    Target { name: name.into(), target_type, ..Target::default() }
}

fn create(target: Target) -> CreateTargetRequest {
    CreateTargetRequest { target: Some(target) }
}

fn create_target() -> Box<dyn Check + Sync> {
    row(&CREATE_TARGET, a_target)
        .good("a webhook", |_| create(webhook("hook")))
        .good("all fields", |_| {
            let call = SetRestRequestResponse { url: "https://example.com/ä?b=%20#c".replace('ä', "%C3%A4") };
            create(Target {
                name: "\u{1f980} \"quoted\" \\ \u{202e}".into(),
                target_type: Some(target::TargetType::RestRequestResponse(call)),
                timeout: Duration::try_from(std::time::Duration::from_millis(1500)).ok(),
                execution_type: Some(target::ExecutionType::InterruptOnError(false)),
            })
        })
        .good("nobody waits for it", |_| {
            create(Target { execution_type: Some(target::ExecutionType::IsAsync(true)), ..webhook("hook") })
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateTargetRequest::default())
        .bad("an empty target", "INVALID_REQUEST", |_| create(Target::default()))
        .bad("every field wrong", "INVALID_REQUEST", |_| {
            create(Target {
                name: "\u{0}".into(),
                target_type: Some(target::TargetType::RestWebhook(SetRestWebhook { url: "no uri".into() })),
                timeout: Some(Duration::ZERO),
                execution_type: Some(target::ExecutionType::IsAsync(true)),
            })
        })
        .bad("a long name", "INVALID_REQUEST", |_| create(webhook(&"é".repeat(201))))
        .done()
}

fn patch(subject: &Subject, target: PatchTarget) -> PatchTargetRequest {
    PatchTargetRequest { id: subject.id.clone(), target: Some(target) }
}

fn patch_target() -> Box<dyn Check + Sync> {
    row(&PATCH_TARGET, a_target)
        .good("a name", |it| patch(it, PatchTarget { name: Some("renamed".into()), ..PatchTarget::default() }))
        .good("no change", |it| patch(it, PatchTarget { name: Some("conformance".into()), ..PatchTarget::default() }))
        .good("nothing", |it| patch(it, PatchTarget::default()))
        .good("a new key and another mode", |it| {
            patch(
                it,
                PatchTarget {
                    expiration_signing_key: Some(Duration::ZERO),
                    execution_type: Some(patch_target::ExecutionType::IsAsync(true)),
                    ..PatchTarget::default()
                },
            )
        })
        .good("another kind", |it| {
            let call = SetRestRequestResponse { url: "https://example.com/call".into() };
            patch(
                it,
                PatchTarget {
                    target_type: Some(patch_target::TargetType::RestRequestResponse(call)),
                    timeout: Some(Duration::from_seconds(3)),
                    execution_type: Some(patch_target::ExecutionType::InterruptOnError(true)),
                    ..PatchTarget::default()
                },
            )
        })
        .good("another address", |it| {
            let hook = SetRestWebhook { url: "https://example.com/other".into() };
            let target_type = Some(patch_target::TargetType::RestWebhook(hook));
            patch(it, PatchTarget { target_type, ..PatchTarget::default() })
        })
        .bad("no target", "INVALID_REQUEST", |it| PatchTargetRequest { id: it.id.clone(), target: None })
        .bad("an empty name", "INVALID_REQUEST", |it| {
            patch(it, PatchTarget { name: Some(String::new()), ..PatchTarget::default() })
        })
        .bad("durations out of bounds", "INVALID_REQUEST", |it| {
            patch(
                it,
                PatchTarget {
                    timeout: Some(Duration::from_seconds(271)),
                    expiration_signing_key: Some(Duration::from_seconds(-1)),
                    ..PatchTarget::default()
                },
            )
        })
        .done()
}

fn delete_target() -> Box<dyn Check + Sync> {
    row(&DELETE_TARGET, a_target).good("a target", |it| DeleteTargetRequest { id: it.id.clone() }).done()
}

fn get_target() -> Box<dyn Check + Sync> {
    row(&GET_TARGET, a_target).good("a target", |it| GetTargetRequest { id: it.id.clone() }).done()
}

fn list_deliveries() -> Box<dyn Check + Sync> {
    row(&LIST_TARGET_DELIVERIES, a_target)
        .good("of a target", |it| ListTargetDeliveriesRequest { id: it.id.clone() })
        .bad("no target", "RESOURCE_NOT_FOUND", |_| ListTargetDeliveriesRequest { id: "1".into() })
        .done()
}

fn search(filters: Vec<Filter>) -> SearchTargetsRequest {
    let filters = filters.into_iter().map(|filter| TargetSearchFilter { filter: Some(filter) }).collect();
    SearchTargetsRequest { filters, ..SearchTargetsRequest::default() }
}

fn named(name: &str, method: TextFilterMethod) -> Filter {
    Filter::Name(TargetNameFilter { name: name.into(), method: method.into() })
}

fn search_targets() -> Box<dyn Check + Sync> {
    row(&SEARCH_TARGETS, a_target)
        .good("by id", |it| search(vec![Filter::InIds(InTargetIdsFilter { ids: vec![it.id.clone()] })]))
        .good("everything", |_| search(vec![]))
        .good("nothing found", |_| search(vec![named("no such name", TextFilterMethod::Equals)]))
        .good("a page in another order", |_| SearchTargetsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: TargetFieldName::Name.into(),
            ..search(vec![named("CONF", TextFilterMethod::StartsWithIgnoreCase)])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchTargetsRequest {
            filters: vec![TargetSearchFilter { filter: None }],
            ..SearchTargetsRequest::default()
        })
        .bad("a long name and an empty id", "INVALID_REQUEST", |_| {
            let ids = InTargetIdsFilter { ids: vec!["1".into(), String::new()] };
            search(vec![named(&"x".repeat(201), TextFilterMethod::Contains), Filter::InIds(ids)])
        })
        .bad("too many filters", "INVALID_REQUEST", |_| {
            search((0..101).map(|_| named("x", TextFilterMethod::Equals)).collect())
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchTargetsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchTargetsRequest::default()
        })
        .done()
}
