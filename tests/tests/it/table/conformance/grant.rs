//! The rows of roles, project grants and user grants.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    grant::{
        CreateProjectGrantRequest, CreateRoleRequest, CreateUserGrantRequest, DeactivateProjectGrantRequest,
        DeactivateUserGrantRequest, DeleteProjectGrantRequest, DeleteRoleRequest, DeleteUserGrantRequest,
        GetProjectGrantRequest, GetRoleRequest, GetUserGrantRequest, PatchProjectGrant, PatchProjectGrantRequest,
        PatchRole, PatchRoleRequest, PatchUserGrant, PatchUserGrantRequest, ProjectGrant, ProjectGrantFieldName,
        ProjectGrantSearchFilter, ReactivateProjectGrantRequest, ReactivateUserGrantRequest, Role, RoleFieldName,
        RoleSearchFilter, SearchProjectGrantsRequest, SearchRolesRequest, SearchUserGrantsRequest, SetRoleKeys,
        UserGrant, UserGrantFieldName, UserGrantSearchFilter, project_grant_search_filter, role_search_filter,
        user_grant_search_filter,
    },
    object::{InIdsFilter, ListQuery, NameFilter, State, StateFilter, TextFilterMethod},
    operation::{
        CREATE_PROJECT_GRANT, CREATE_ROLE, CREATE_USER_GRANT, DEACTIVATE_PROJECT_GRANT, DEACTIVATE_USER_GRANT,
        DELETE_PROJECT_GRANT, DELETE_ROLE, DELETE_USER_GRANT, GET_PROJECT_GRANT, GET_ROLE, GET_USER_GRANT,
        PATCH_PROJECT_GRANT, PATCH_ROLE, PATCH_USER_GRANT, REACTIVATE_PROJECT_GRANT, REACTIVATE_USER_GRANT,
        SEARCH_PROJECT_GRANTS, SEARCH_ROLES, SEARCH_USER_GRANTS,
    },
};
use serde_json::json;

use super::{
    new_name, posted,
    project::a_project,
    row::{Check, Subject, row},
    subject, user,
    wire::World,
};

const GRANTS: &str = "/resources/v3alpha/project_grants";
const ROLES: &str = "/resources/v3alpha/roles";
const USER_GRANTS: &str = "/resources/v3alpha/user_grants";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    roles().into_iter().chain(project_grants()).chain(user_grants()).collect()
}

fn roles() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create_role(),
        row(&PATCH_ROLE, a_role)
            .good("all fields", |it| renamed(it, Some("Renamed"), Some("")))
            .good("a group", |it| renamed(it, None, Some("\u{1f980}")))
            .good("no change", |it| renamed(it, Some("Conformance"), None))
            .good("nothing", |it| renamed(it, None, None))
            .bad("no role", "INVALID_REQUEST", |it| PatchRoleRequest { id: it.id.clone(), role: None })
            .bad("no name and a long group", "INVALID_REQUEST", |it| renamed(it, Some(""), Some(&"x".repeat(201))))
            .done(),
        row(&DELETE_ROLE, a_role).good("a role", |it| DeleteRoleRequest { id: it.id.clone() }).done(),
        row(&GET_ROLE, a_role).good("a role", |it| GetRoleRequest { id: it.id.clone() }).done(),
        search_roles(),
    ]
}

fn project_grants() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create_project_grant(),
        row(&PATCH_PROJECT_GRANT, a_project_grant)
            .good("other roles", |it| granting(it, Some(&["b"])))
            .good("no roles", |it| granting(it, Some(&[])))
            .good("nothing", |it| granting(it, None))
            .bad("no project grant", "INVALID_REQUEST", |it| PatchProjectGrantRequest {
                id: it.id.clone(),
                project_grant: None,
            })
            .bad("a role twice", "INVALID_REQUEST", |it| granting(it, Some(&["a", "a"])))
            .bad("an unknown role", "RESOURCE_NOT_FOUND", |it| granting(it, Some(&["a", "x"])))
            .done(),
        row(&DELETE_PROJECT_GRANT, a_project_grant)
            .good("a project grant", |it| DeleteProjectGrantRequest { id: it.id.clone() })
            .done(),
        row(&DEACTIVATE_PROJECT_GRANT, a_project_grant)
            .good("one that is on", |it| DeactivateProjectGrantRequest { id: it.id.clone() })
            .done(),
        row(&REACTIVATE_PROJECT_GRANT, an_inactive_project_grant)
            .good("one that is off", |it| ReactivateProjectGrantRequest { id: it.id.clone() })
            .done(),
        row(&GET_PROJECT_GRANT, a_project_grant)
            .good("a project grant", |it| GetProjectGrantRequest { id: it.id.clone() })
            .done(),
        search_project_grants(),
    ]
}

fn user_grants() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create_user_grant(),
        row(&PATCH_USER_GRANT, a_user_grant)
            .good("other roles", |it| having(it, Some(&["b"])))
            .good("no roles", |it| having(it, Some(&[])))
            .good("nothing", |it| having(it, None))
            .bad("no user grant", "INVALID_REQUEST", |it| PatchUserGrantRequest { id: it.id.clone(), user_grant: None })
            .bad("a role twice", "INVALID_REQUEST", |it| having(it, Some(&["a", "a"])))
            .bad("an unknown role", "RESOURCE_NOT_FOUND", |it| having(it, Some(&["a", "x"])))
            .done(),
        row(&DELETE_USER_GRANT, a_user_grant)
            .good("a user grant", |it| DeleteUserGrantRequest { id: it.id.clone() })
            .done(),
        row(&DEACTIVATE_USER_GRANT, a_user_grant)
            .good("one that is on", |it| DeactivateUserGrantRequest { id: it.id.clone() })
            .done(),
        row(&REACTIVATE_USER_GRANT, an_inactive_user_grant)
            .good("one that is off", |it| ReactivateUserGrantRequest { id: it.id.clone() })
            .done(),
        row(&GET_USER_GRANT, a_user_grant).good("a user grant", |it| GetUserGrantRequest { id: it.id.clone() }).done(),
        search_user_grants(),
    ]
}

fn a_role(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let project = a_project(world).await.id;
        let role = json!({ "projectId": project, "key": "a", "displayName": "Conformance", "group": "Staff" });
        subject(&posted(world, ROLES, &role).await).naming([project])
    }
    .boxed()
}

/// Creates a project with the roles `a` and `b`, and returns its id.
async fn a_project_with_roles(world: &World) -> String {
    let project = a_project(world).await.id;
    for key in ["a", "b"] {
        posted(world, ROLES, &json!({ "projectId": project, "key": key, "displayName": key })).await.id();
    }
    project
}

/// Creates an organization, and names a project that can be granted to it.
fn a_grantee(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let project = a_project_with_roles(world).await;
        let organization = json!({ "name": new_name("grantee") });
        subject(&posted(world, "/resources/v3alpha/organizations", &organization).await).naming([project])
    }
    .boxed()
}

fn a_project_grant(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id: organization, others, .. } = a_grantee(world).await;
        let grant = json!({ "projectId": others[0], "orgId": organization, "roleKeys": ["a"] });
        subject(&posted(world, GRANTS, &grant).await).naming([others[0].clone(), organization])
    }
    .boxed()
}

fn an_inactive_project_grant(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = a_project_grant(world).await;
        subject(&posted(world, &format!("{GRANTS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

/// Creates a user, and names a project and a project grant whose roles the user can be given.
pub(super) fn a_candidate(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id: grant, others, .. } = a_project_grant(world).await;
        subject(&user::created(world).await).naming([others[0].clone(), grant])
    }
    .boxed()
}

fn a_user_grant(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let (project, user) = (a_project_with_roles(world).await, user::created(world).await.id());
        let grant = json!({ "userId": user, "projectId": project, "roleKeys": ["a"] });
        subject(&posted(world, USER_GRANTS, &grant).await).naming([project, user])
    }
    .boxed()
}

fn an_inactive_user_grant(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let Subject { id, .. } = a_user_grant(world).await;
        subject(&posted(world, &format!("{USER_GRANTS}/{id}/_deactivate"), &json!({})).await)
    }
    .boxed()
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|&key| key.to_owned()).collect()
}

fn role(project_id: &str, key: &str, display_name: &str) -> CreateRoleRequest {
    let (project_id, key, display_name) = (project_id.to_owned(), key.to_owned(), display_name.to_owned());
    CreateRoleRequest { role: Some(Role { project_id, key, display_name, group: String::new() }) }
}

fn create_role() -> Box<dyn Check + Sync> {
    row(&CREATE_ROLE, a_role)
        .good("a key", |it| role(&it.others[0], "b", "B"))
        .good("all fields", |it| CreateRoleRequest {
            role: Some(Role {
                project_id: it.others[0].clone(),
                key: "!#[]~".into(),
                display_name: "\u{1f980} \"quoted\" \\".into(),
                group: "\u{202e}".into(),
            }),
        })
        .bad("nothing", "INVALID_REQUEST", |_| CreateRoleRequest::default())
        .bad("an empty role", "INVALID_REQUEST", |_| CreateRoleRequest { role: Some(Role::default()) })
        .bad("a key that no scope has", "INVALID_REQUEST", |it| role(&it.others[0], "a b", "B"))
        .bad("a key with a quote", "INVALID_REQUEST", |it| role(&it.others[0], "\"", "B"))
        .bad("a taken key", "RESOURCE_EXISTS", |it| role(&it.others[0], "a", "Another"))
        .bad("an unknown project", "RESOURCE_NOT_FOUND", |_| role("1", "b", "B"))
        .bad("a project that cannot be", "RESOURCE_NOT_FOUND", |_| role("a\u{0}b", "b", "B"))
        .done()
}

fn renamed(subject: &Subject, display_name: Option<&str>, group: Option<&str>) -> PatchRoleRequest {
    let role = PatchRole { display_name: display_name.map(Into::into), group: group.map(Into::into) };
    PatchRoleRequest { id: subject.id.clone(), role: Some(role) }
}

fn text(name: &str, method: TextFilterMethod) -> NameFilter {
    NameFilter { name: name.into(), method: method.into() }
}

fn search_roles() -> Box<dyn Check + Sync> {
    use role_search_filter::Filter;

    fn search_request(filters: Vec<Filter>) -> SearchRolesRequest {
        let filters = filters.into_iter().map(|filter| RoleSearchFilter { filter: Some(filter) }).collect();
        SearchRolesRequest { filters, ..SearchRolesRequest::default() }
    }
    row(&SEARCH_ROLES, a_role)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("of a project, by key", |it| {
            search_request(vec![
                Filter::ProjectId(it.others[0].clone()),
                Filter::Key(text("a", TextFilterMethod::Equals)),
            ])
        })
        .good("by name and group", |_| {
            let name = Filter::DisplayName(text("conf", TextFilterMethod::StartsWithIgnoreCase));
            search_request(vec![name, Filter::Group(text("Staff", TextFilterMethod::Equals))])
        })
        .good("a page in another order", |_| SearchRolesRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: RoleFieldName::DisplayName.into(),
            ..search_request(vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchRolesRequest {
            filters: vec![RoleSearchFilter { filter: None }],
            ..SearchRolesRequest::default()
        })
        .bad("no project and a long key", "INVALID_REQUEST", |_| {
            let key = Filter::Key(text(&"x".repeat(201), TextFilterMethod::Equals));
            search_request(vec![Filter::ProjectId(String::new()), key])
        })
        .done()
}

fn project_grant(project_id: &str, org_id: &str, keys: &[&str]) -> CreateProjectGrantRequest {
    let (project_id, org_id, role_keys) = (project_id.to_owned(), org_id.to_owned(), owned(keys));
    CreateProjectGrantRequest { project_grant: Some(ProjectGrant { project_id, org_id, role_keys }) }
}

fn create_project_grant() -> Box<dyn Check + Sync> {
    row(&CREATE_PROJECT_GRANT, a_grantee)
        .good("with roles", |it| project_grant(&it.others[0], &it.id, &["b", "a"]))
        .good("without roles", |it| project_grant(&it.others[0], &it.id, &[]))
        .bad("nothing", "INVALID_REQUEST", |_| CreateProjectGrantRequest::default())
        .bad("an empty one", "INVALID_REQUEST", |_| project_grant("", "", &[""]))
        .bad("a role twice", "INVALID_REQUEST", |it| project_grant(&it.others[0], &it.id, &["a", "a"]))
        .bad("too many roles", "INVALID_REQUEST", |it| project_grant(&it.others[0], &it.id, &["a"; 201]))
        .bad("an unknown role", "RESOURCE_NOT_FOUND", |it| project_grant(&it.others[0], &it.id, &["a", "x"]))
        .bad("an unknown project", "RESOURCE_NOT_FOUND", |it| project_grant("1", &it.id, &[]))
        .bad("an unknown organization", "RESOURCE_NOT_FOUND", |it| project_grant(&it.others[0], "1", &[]))
        .done()
}

fn set(keys: Option<&[&str]>) -> Option<SetRoleKeys> {
    keys.map(|keys| SetRoleKeys { values: owned(keys) })
}

fn granting(subject: &Subject, keys: Option<&[&str]>) -> PatchProjectGrantRequest {
    let project_grant = Some(PatchProjectGrant { role_keys: set(keys) });
    PatchProjectGrantRequest { id: subject.id.clone(), project_grant }
}

fn on() -> StateFilter {
    StateFilter { state: State::EffectiveStateActive.into() }
}

fn search_project_grants() -> Box<dyn Check + Sync> {
    use project_grant_search_filter::Filter;

    fn search_request(filters: Vec<Filter>) -> SearchProjectGrantsRequest {
        let filters = filters.into_iter().map(|filter| ProjectGrantSearchFilter { filter: Some(filter) }).collect();
        SearchProjectGrantsRequest { filters, ..SearchProjectGrantsRequest::default() }
    }
    row(&SEARCH_PROJECT_GRANTS, a_project_grant)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("of a project, to an organization", |it| {
            search_request(vec![Filter::ProjectId(it.others[0].clone()), Filter::OrgId(it.others[1].clone())])
        })
        .good("by role, of what is on", |_| search_request(vec![Filter::RoleKey("a".into()), Filter::State(on())]))
        .good("by a role that is none", |_| search_request(vec![Filter::RoleKey("a b".into())]))
        .good("a page in another order", |_| SearchProjectGrantsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: ProjectGrantFieldName::OrgId.into(),
            ..search_request(vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchProjectGrantsRequest {
            filters: vec![ProjectGrantSearchFilter { filter: None }],
            ..SearchProjectGrantsRequest::default()
        })
        .bad("no project and a long key", "INVALID_REQUEST", |_| {
            search_request(vec![Filter::ProjectId(String::new()), Filter::RoleKey("x".repeat(201))])
        })
        .done()
}

fn user_grant(user_id: &str, project_id: &str, by: &str, keys: &[&str]) -> CreateUserGrantRequest {
    let (user_id, project_id, project_grant_id) = (user_id.to_owned(), project_id.to_owned(), by.to_owned());
    let user_grant = UserGrant { user_id, project_id, project_grant_id, role_keys: owned(keys) };
    CreateUserGrantRequest { user_grant: Some(user_grant) }
}

fn create_user_grant() -> Box<dyn Check + Sync> {
    row(&CREATE_USER_GRANT, a_candidate)
        .good("with roles", |it| user_grant(&it.id, &it.others[0], "", &["b", "a"]))
        .good("without roles", |it| user_grant(&it.id, &it.others[0], "", &[]))
        .good("by a project grant", |it| user_grant(&it.id, &it.others[0], &it.others[1], &["a"]))
        .bad("nothing", "INVALID_REQUEST", |_| CreateUserGrantRequest::default())
        .bad("an empty one", "INVALID_REQUEST", |_| user_grant("", "", "", &[""]))
        .bad("a role twice", "INVALID_REQUEST", |it| user_grant(&it.id, &it.others[0], "", &["a", "a"]))
        .bad("too many roles", "INVALID_REQUEST", |it| user_grant(&it.id, &it.others[0], "", &["a"; 201]))
        .bad("an unknown role", "RESOURCE_NOT_FOUND", |it| user_grant(&it.id, &it.others[0], "", &["a", "x"]))
        .bad("a role that is not granted", "INVALID_REQUEST", |it| {
            user_grant(&it.id, &it.others[0], &it.others[1], &["a", "b"])
        })
        .bad("an unknown user", "RESOURCE_NOT_FOUND", |it| user_grant("1", &it.others[0], "", &[]))
        .bad("an unknown project", "RESOURCE_NOT_FOUND", |it| user_grant(&it.id, "1", "", &[]))
        .bad("an unknown project grant", "RESOURCE_NOT_FOUND", |it| user_grant(&it.id, &it.others[0], "1", &[]))
        .bad("another project than granted", "INVALID_REQUEST", |it| {
            user_grant(&it.id, &it.others[1], &it.others[1], &[])
        })
        .done()
}

fn having(subject: &Subject, keys: Option<&[&str]>) -> PatchUserGrantRequest {
    PatchUserGrantRequest { id: subject.id.clone(), user_grant: Some(PatchUserGrant { role_keys: set(keys) }) }
}

fn search_user_grants() -> Box<dyn Check + Sync> {
    use user_grant_search_filter::Filter;

    fn search_request(filters: Vec<Filter>) -> SearchUserGrantsRequest {
        let filters = filters.into_iter().map(|filter| UserGrantSearchFilter { filter: Some(filter) }).collect();
        SearchUserGrantsRequest { filters, ..SearchUserGrantsRequest::default() }
    }
    row(&SEARCH_USER_GRANTS, a_user_grant)
        .good("by id", |it| search_request(vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("of a user in a project", |it| {
            search_request(vec![Filter::ProjectId(it.others[0].clone()), Filter::UserId(it.others[1].clone())])
        })
        .good("by role, of what is on", |_| search_request(vec![Filter::RoleKey("a".into()), Filter::State(on())]))
        .good("by no such project grant", |_| search_request(vec![Filter::ProjectGrantId("1".into())]))
        .good("a page in another order", |_| SearchUserGrantsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: UserGrantFieldName::UserId.into(),
            ..search_request(vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchUserGrantsRequest {
            filters: vec![UserGrantSearchFilter { filter: None }],
            ..SearchUserGrantsRequest::default()
        })
        .bad("no user and a long key", "INVALID_REQUEST", |_| {
            search_request(vec![Filter::UserId(String::new()), Filter::RoleKey("x".repeat(201))])
        })
        .done()
}
