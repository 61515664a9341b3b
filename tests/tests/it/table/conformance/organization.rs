//! The rows of organizations.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{
        InIdsFilter, ListQuery, NameFilter, RequestContext, State, StateFilter, TextFilterMethod,
        request_context::ResourceOwner,
    },
    operation::{
        CREATE_ORGANIZATION, DEACTIVATE_ORGANIZATION, DELETE_ORGANIZATION, GET_INSTANCE_DEFAULT, GET_ORGANIZATION,
        PATCH_ORGANIZATION, REACTIVATE_ORGANIZATION, SEARCH_ORGANIZATIONS, SET_AS_INSTANCE_DEFAULT,
    },
    organization::{
        CreateOrganizationRequest, DeactivateOrganizationRequest, DeleteOrganizationRequest, GetInstanceDefaultRequest,
        GetOrganizationRequest, Organization, OrganizationFieldName, OrganizationSearchFilter, PatchOrganization,
        PatchOrganizationRequest, ReactivateOrganizationRequest, SearchOrganizationsRequest,
        SetAsInstanceDefaultRequest, organization_search_filter::Filter,
    },
};
use reqwest::Method;
use serde_json::json;
use tests::client::send;

use super::{
    context, new_name, posted,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";

/// Returns all rows. What changes the default organization comes last.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_ORGANIZATION, an_organization)
            .good("an organization", |it| DeleteOrganizationRequest { id: it.id.clone() })
            .done(),
        row(&DEACTIVATE_ORGANIZATION, an_organization)
            .good("one that is on", |it| DeactivateOrganizationRequest { id: it.id.clone() })
            .done(),
        row(&REACTIVATE_ORGANIZATION, an_inactive_organization)
            .good("one that is off", |it| ReactivateOrganizationRequest { id: it.id.clone() })
            .done(),
        row(&GET_ORGANIZATION, an_organization)
            .good("an organization", |it| GetOrganizationRequest { id: it.id.clone() })
            .done(),
        search(),
        get_default(),
        row(&SET_AS_INSTANCE_DEFAULT, an_organization)
            .good("a new one", |it| SetAsInstanceDefaultRequest { id: it.id.clone() })
            .done(),
    ]
}

fn an_organization(world: &World) -> BoxFuture<'_, Subject> {
    async move { subject(&posted(world, ORGANIZATIONS, &json!({ "name": new_name("organization") })).await) }.boxed()
}

/// Creates an organization, and waits until requests can name it as their context, which is looked up in a read model.
pub(super) fn a_readable_organization(world: &World) -> BoxFuture<'_, Subject> {
    let request = world.owner.request(Method::POST, ORGANIZATIONS).json(&json!({ "name": new_name("organization") }));
    async move { subject(&send(request.header("prefer", "wait=10")).await) }.boxed()
}

fn an_inactive_organization(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = an_organization(world).await;
        subject(&posted(world, &format!("{ORGANIZATIONS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn named(name: &str) -> CreateOrganizationRequest {
    CreateOrganizationRequest { ctx: None, organization: Some(Organization { name: name.into() }) }
}

fn within(owner: ResourceOwner) -> CreateOrganizationRequest {
    CreateOrganizationRequest { ctx: Some(context(owner)), ..named("never made") }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_ORGANIZATION, a_readable_organization)
        .good("a name", |it| named(&format!("next to {}", it.id)))
        .good("any characters", |it| named(&format!("\u{1f980} \"quoted\" \\ \u{202e} {}", it.id)))
        .bad("nothing", "INVALID_REQUEST", |_| CreateOrganizationRequest::default())
        .bad("no name", "INVALID_REQUEST", |_| named(""))
        .bad("a long name", "INVALID_REQUEST", |_| named(&"é".repeat(201)))
        .bad("a name with a line break", "INVALID_REQUEST", |_| named("a\nb"))
        .bad("in an organization", "INVALID_REQUEST", |it| within(ResourceOwner::OrgId(it.id.clone())))
        .bad("in the system", "PERMISSION_DENIED", |_| within(ResourceOwner::System(true)))
        .bad("in an unknown instance", "RESOURCE_NOT_FOUND", |_| within(ResourceOwner::InstanceId("1".into())))
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| within(ResourceOwner::OrgId("1".into())))
        .done()
}

fn renamed(subject: &Subject, name: Option<String>) -> PatchOrganizationRequest {
    PatchOrganizationRequest { id: subject.id.clone(), organization: Some(PatchOrganization { name }) }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_ORGANIZATION, an_organization)
        .good("a name", |it| renamed(it, Some(format!("renamed {}", it.id))))
        .good("nothing", |it| renamed(it, None))
        .bad("no organization", "INVALID_REQUEST", |it| PatchOrganizationRequest {
            id: it.id.clone(),
            organization: None,
        })
        .bad("an empty name", "INVALID_REQUEST", |it| renamed(it, Some(String::new())))
        .bad("a long name", "INVALID_REQUEST", |it| renamed(it, Some("x".repeat(201))))
        .done()
}

fn search_request(ctx: Option<RequestContext>, filters: Vec<Filter>) -> SearchOrganizationsRequest {
    let filters = filters.into_iter().map(|filter| OrganizationSearchFilter { filter: Some(filter) }).collect();
    SearchOrganizationsRequest { ctx, filters, ..SearchOrganizationsRequest::default() }
}

fn by_name(name: &str, method: TextFilterMethod) -> Filter {
    Filter::Name(NameFilter { name: name.into(), method: method.into() })
}

fn in_state(state: State) -> Filter {
    Filter::State(StateFilter { state: state.into() })
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_ORGANIZATIONS, a_readable_organization)
        .good("by id", |it| search_request(None, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("everything", |_| search_request(None, vec![]))
        .good("what is off", |_| search_request(None, vec![in_state(State::EffectiveStateInactive)]))
        .good("nothing found", |_| search_request(None, vec![by_name("no such name", TextFilterMethod::Equals)]))
        .good("in an organization", |it| search_request(Some(context(ResourceOwner::OrgId(it.id.clone()))), vec![]))
        .good("a page in another order", |_| SearchOrganizationsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: OrganizationFieldName::Name.into(),
            ..search_request(None, vec![by_name("ORG", TextFilterMethod::StartsWithIgnoreCase)])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchOrganizationsRequest {
            filters: vec![OrganizationSearchFilter { filter: None }],
            ..SearchOrganizationsRequest::default()
        })
        .bad("a long name and no state", "INVALID_REQUEST", |_| {
            let name = by_name(&"x".repeat(201), TextFilterMethod::Contains);
            search_request(None, vec![name, in_state(State::EffectiveStateUnspecified)])
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchOrganizationsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchOrganizationsRequest::default()
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            search_request(Some(context(ResourceOwner::OrgId("1".into()))), vec![])
        })
        .done()
}

fn get_default() -> Box<dyn Check + Sync> {
    row(&GET_INSTANCE_DEFAULT, an_organization)
        .good("of the instance", |_| GetInstanceDefaultRequest { ctx: None })
        .bad("of an unknown instance", "RESOURCE_NOT_FOUND", |_| GetInstanceDefaultRequest {
            ctx: Some(context(ResourceOwner::InstanceId("1".into()))),
        })
        .bad("of an instance with a long id", "INVALID_REQUEST", |_| GetInstanceDefaultRequest {
            ctx: Some(context(ResourceOwner::InstanceId("1".repeat(201)))),
        })
        .done()
}
