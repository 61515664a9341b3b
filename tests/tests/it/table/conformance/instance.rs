//! The rows of instances.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    instance::{
        BulkLimitRequest, CreateInstanceRequest, DeactivateInstanceRequest, DeleteInstanceRequest, FirstPerson,
        GetInstanceRequest, InstanceFieldName, InstanceSearchFilter, LimitRequest, NewInstance, PatchInstance,
        PatchInstanceRequest, ReactivateInstanceRequest, SearchInstancesRequest, SetLimits,
        instance_search_filter::Filter,
    },
    object::{InIdsFilter, ListQuery, NameFilter, State, StateFilter, TextFilterMethod},
    operation::{
        BULK_LIMIT, CREATE_INSTANCE, DEACTIVATE_INSTANCE, DELETE_INSTANCE, GET_INSTANCE, LIMIT, PATCH_INSTANCE,
        REACTIVATE_INSTANCE, SEARCH_INSTANCES,
    },
    wellknown::Duration,
};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{Answer, send};

use super::{
    new_name,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const INSTANCES: &str = "/resources/v3alpha/instances";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        limit(),
        bulk_limit(),
        search(),
        row(&GET_INSTANCE, an_instance).good("an instance", |it| GetInstanceRequest { id: it.id.clone() }).done(),
        row(&DELETE_INSTANCE, an_instance).good("an instance", |it| DeleteInstanceRequest { id: it.id.clone() }).done(),
        row(&DEACTIVATE_INSTANCE, an_instance)
            .good("one that is on", |it| DeactivateInstanceRequest { id: it.id.clone() })
            .done(),
        row(&REACTIVATE_INSTANCE, an_inactive_instance)
            .good("one that is off", |it| ReactivateInstanceRequest { id: it.id.clone() })
            .done(),
    ]
}

async fn posted(world: &World, path: &str, body: &Value) -> Answer {
    send(world.operator.request(Method::POST, path).json(body)).await
}

fn an_instance(world: &World) -> BoxFuture<'_, Subject> {
    let name = new_name("instance");
    let body = json!({ "name": name, "domain": format!("{}.example", name.replace(' ', "-")) });
    async move { subject(&posted(world, INSTANCES, &body).await) }.boxed()
}

fn an_inactive_instance(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = an_instance(world).await;
        subject(&posted(world, &format!("{INSTANCES}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn new(domain: &str) -> CreateInstanceRequest {
    let instance = NewInstance { name: "Acme".into(), domain: domain.into(), ..NewInstance::default() };
    CreateInstanceRequest { instance: Some(instance) }
}

fn first_person(username: &str) -> FirstPerson {
    let (given_name, family_name) = ("Ada".into(), "Lovelace".into());
    FirstPerson { username: username.into(), given_name, family_name, email: Some("ada@example.com".into()) }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_INSTANCE, an_instance)
        .good("a name and a host", |it| new(&format!("a{}.example", it.id)))
        .good("all fields", |it| {
            let instance = NewInstance {
                name: "\u{1f980}".into(),
                domain: format!("b{}.example", it.id),
                organization_name: "First".into(),
                service_username: "root".into(),
                person: Some(first_person("ada")),
            };
            CreateInstanceRequest { instance: Some(instance) }
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateInstanceRequest::default())
        .bad("a person without a name", "INVALID_REQUEST", |it| {
            let mut request = new(&format!("c{}.example", it.id));
            request.instance.as_mut().expect("it has one").person = Some(FirstPerson::default());
            request
        })
        .bad("a person with the name of the service user", "RESOURCE_EXISTS", |it| {
            let mut request = new(&format!("d{}.example", it.id));
            request.instance.as_mut().expect("it has one").person = Some(first_person("Platform-Admin"));
            request
        })
        .bad("no host", "INVALID_REQUEST", |_| new(""))
        .bad("a host with a port", "INVALID_REQUEST", |_| new("a.example:80"))
        .bad("a host in capitals", "INVALID_REQUEST", |_| new("A.example"))
        .bad("a host that is taken", "RESOURCE_EXISTS", |_| new("localhost"))
        .done()
}

fn renamed(it: &Subject, name: Option<&str>) -> PatchInstanceRequest {
    let instance = Some(PatchInstance { name: name.map(str::to_owned) });
    PatchInstanceRequest { id: it.id.clone(), instance }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_INSTANCE, an_instance)
        .good("a name", |it| renamed(it, Some("renamed")))
        .good("nothing", |it| renamed(it, None))
        .bad("an empty name", "INVALID_REQUEST", |it| renamed(it, Some("")))
        .bad("no instance", "INVALID_REQUEST", |it| PatchInstanceRequest { id: it.id.clone(), instance: None })
        .done()
}

fn limits(it: &Subject, audit_log_retention: Duration) -> LimitRequest {
    let limits = SetLimits { block: Some(true), audit_log_retention: Some(audit_log_retention) };
    LimitRequest { id: it.id.clone(), limits: Some(limits) }
}

fn limit() -> Box<dyn Check + Sync> {
    row(&LIMIT, an_instance)
        .good("all limits", |it| limits(it, Duration::from_seconds(60)))
        .good("none", |it| LimitRequest { id: it.id.clone(), limits: Some(SetLimits::default()) })
        .bad("a negative time", "INVALID_REQUEST", |it| limits(it, Duration::from_seconds(-1)))
        .bad("nothing", "INVALID_REQUEST", |it| LimitRequest { id: it.id.clone(), limits: None })
        .done()
}

fn bulk_limit() -> Box<dyn Check + Sync> {
    row(&BULK_LIMIT, an_instance)
        .good("one", |it| BulkLimitRequest { limits: vec![limits(it, Duration::from_seconds(60))] })
        .bad("none", "INVALID_REQUEST", |_| BulkLimitRequest { limits: vec![] })
        .bad("one twice", "INVALID_REQUEST", |it| {
            let one = limits(it, Duration::ZERO);
            BulkLimitRequest { limits: vec![one.clone(), one] }
        })
        .bad("one that there is not", "RESOURCE_NOT_FOUND", |it| {
            let unknown = LimitRequest { id: "1".into(), ..limits(it, Duration::ZERO) };
            BulkLimitRequest { limits: vec![limits(it, Duration::ZERO), unknown] }
        })
        .done()
}

fn search_request(filters: Vec<Filter>) -> SearchInstancesRequest {
    let filters = filters.into_iter().map(|filter| InstanceSearchFilter { filter: Some(filter) }).collect();
    SearchInstancesRequest { filters, ..SearchInstancesRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_INSTANCES, an_instance)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("what is on, in another order", |_| {
            let state = StateFilter { state: State::EffectiveStateActive.into() };
            let name = NameFilter { name: "INST".into(), method: TextFilterMethod::StartsWithIgnoreCase.into() };
            SearchInstancesRequest {
                query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
                sorting_column: InstanceFieldName::Name.into(),
                ..search_request(vec![Filter::State(state), Filter::Name(name)])
            }
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchInstancesRequest {
            filters: vec![InstanceSearchFilter { filter: None }],
            ..SearchInstancesRequest::default()
        })
        .done()
}
