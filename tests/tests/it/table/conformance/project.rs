//! The rows of projects.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{
        InIdsFilter, ListQuery, NameFilter, RequestContext, State, StateFilter, TextFilterMethod,
        request_context::ResourceOwner,
    },
    operation::{
        CREATE_PROJECT, DEACTIVATE_PROJECT, DELETE_PROJECT, GET_PROJECT, PATCH_PROJECT, REACTIVATE_PROJECT,
        SEARCH_PROJECTS,
    },
    project::{
        CreateProjectRequest, DeactivateProjectRequest, DeleteProjectRequest, GetProjectRequest, PatchProject,
        PatchProjectRequest, PrivateLabelingSetting, Project, ProjectFieldName, ProjectSearchFilter,
        ReactivateProjectRequest, SearchProjectsRequest, project_search_filter::Filter,
    },
};
use serde_json::json;

use super::{
    context,
    organization::a_readable_organization,
    posted,
    row::{Check, Subject, row},
    subject,
    wire::World,
};

const PROJECTS: &str = "/resources/v3alpha/projects";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_PROJECT, a_project).good("a project", |it| DeleteProjectRequest { id: it.id.clone() }).done(),
        row(&DEACTIVATE_PROJECT, a_project)
            .good("one that is on", |it| DeactivateProjectRequest { id: it.id.clone() })
            .done(),
        row(&REACTIVATE_PROJECT, an_inactive_project)
            .good("one that is off", |it| ReactivateProjectRequest { id: it.id.clone() })
            .done(),
        row(&GET_PROJECT, a_project).good("a project", |it| GetProjectRequest { id: it.id.clone() }).done(),
        search(),
    ]
}

pub(super) fn a_project(world: &World) -> BoxFuture<'_, Subject> {
    async move { subject(&posted(world, PROJECTS, &json!({ "name": "Conformance" })).await) }.boxed()
}

fn an_inactive_project(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = a_project(world).await;
        subject(&posted(world, &format!("{PROJECTS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn named(name: &str) -> CreateProjectRequest {
    CreateProjectRequest { ctx: None, project: Some(Project { name: name.into(), ..Project::default() }) }
}

fn within(owner: ResourceOwner, name: &str) -> CreateProjectRequest {
    CreateProjectRequest { ctx: Some(context(owner)), ..named(name) }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_PROJECT, a_readable_organization)
        .good("in the own organization", |_| named("Shop"))
        .good("in another organization", |it| within(ResourceOwner::OrgId(it.id.clone()), "Shop"))
        .good("all fields", |_| CreateProjectRequest {
            ctx: None,
            project: Some(Project {
                name: "\u{1f980} \"quoted\" \\ \u{202e}".into(),
                project_role_assertion: true,
                authorization_required: true,
                project_access_required: true,
                private_labeling_setting: PrivateLabelingSetting::AllowLoginUserResourceOwnerPolicy.into(),
            }),
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateProjectRequest::default())
        .bad("no name", "INVALID_REQUEST", |_| named(""))
        .bad("a long name", "INVALID_REQUEST", |_| named(&"é".repeat(201)))
        .bad("a name with a line break", "INVALID_REQUEST", |_| named("a\nb"))
        .bad("in the system", "PERMISSION_DENIED", |_| within(ResourceOwner::System(true), "never made"))
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            within(ResourceOwner::OrgId("1".into()), "never made")
        })
        .done()
}

fn patched(subject: &Subject, project: PatchProject) -> PatchProjectRequest {
    PatchProjectRequest { id: subject.id.clone(), project: Some(project) }
}

fn renamed(name: &str) -> PatchProject {
    PatchProject { name: Some(name.into()), ..PatchProject::default() }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_PROJECT, a_project)
        .good("a name", |it| patched(it, renamed("Renamed")))
        .good("all fields", |it| {
            let private_labeling_setting = PrivateLabelingSetting::EnforceProjectResourceOwnerPolicy;
            patched(
                it,
                PatchProject {
                    project_role_assertion: Some(true),
                    authorization_required: Some(true),
                    project_access_required: Some(true),
                    private_labeling_setting: Some(private_labeling_setting.into()),
                    ..renamed("Renamed")
                },
            )
        })
        .good("no change", |it| patched(it, renamed("Conformance")))
        .good("nothing", |it| patched(it, PatchProject::default()))
        .bad("no project", "INVALID_REQUEST", |it| PatchProjectRequest { id: it.id.clone(), project: None })
        .bad("an empty name", "INVALID_REQUEST", |it| patched(it, renamed("")))
        .done()
}

fn search_request(ctx: Option<RequestContext>, filters: Vec<Filter>) -> SearchProjectsRequest {
    let filters = filters.into_iter().map(|filter| ProjectSearchFilter { filter: Some(filter) }).collect();
    SearchProjectsRequest { ctx, filters, ..SearchProjectsRequest::default() }
}

fn text(name: &str, method: TextFilterMethod) -> Filter {
    Filter::Name(NameFilter { name: name.into(), method: method.into() })
}

fn in_state(state: State) -> Filter {
    Filter::State(StateFilter { state: state.into() })
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_PROJECTS, a_project)
        .good("by id", |it| search_request(None, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("everything", |_| search_request(None, vec![]))
        .good("by name, of what is on", |_| {
            search_request(
                None,
                vec![text("Conf", TextFilterMethod::StartsWith), in_state(State::EffectiveStateActive)],
            )
        })
        .good("nothing found", |_| search_request(None, vec![text("no such name", TextFilterMethod::Equals)]))
        .good("a page in another order", |_| SearchProjectsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: ProjectFieldName::Name.into(),
            ..search_request(None, vec![text("CONF", TextFilterMethod::StartsWithIgnoreCase)])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchProjectsRequest {
            filters: vec![ProjectSearchFilter { filter: None }],
            ..SearchProjectsRequest::default()
        })
        .bad("a long name and no state", "INVALID_REQUEST", |_| {
            let long = text(&"x".repeat(201), TextFilterMethod::Contains);
            search_request(None, vec![long, in_state(State::EffectiveStateUnspecified)])
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchProjectsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchProjectsRequest::default()
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            search_request(Some(context(ResourceOwner::OrgId("1".into()))), vec![])
        })
        .done()
}
