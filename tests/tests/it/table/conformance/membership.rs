//! The rows of memberships.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    membership::{
        CreateMembershipRequest, DeleteMembershipRequest, GetMembershipRequest, ListAvailableRolesRequest, Membership,
        MembershipFieldName, MembershipSearchFilter, PatchMembership, PatchMembershipRequest, SearchMembershipsRequest,
        membership::Part, membership_search_filter::Filter,
    },
    object::{InIdsFilter, ListQuery, RequestContext, request_context::ResourceOwner},
    operation::{
        CREATE_MEMBERSHIP, DELETE_MEMBERSHIP, GET_MEMBERSHIP, LIST_AVAILABLE_ROLES, PATCH_MEMBERSHIP,
        SEARCH_MEMBERSHIPS,
    },
};
use serde_json::json;

use super::{
    context,
    grant::a_candidate,
    organization::a_readable_organization,
    posted,
    row::{Check, Subject, row},
    subject,
    user::created,
    wire::World,
};

const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        patch(),
        row(&DELETE_MEMBERSHIP, a_membership)
            .good("a membership", |it| DeleteMembershipRequest { id: it.id.clone() })
            .done(),
        row(&GET_MEMBERSHIP, a_membership).good("a membership", |it| GetMembershipRequest { id: it.id.clone() }).done(),
        search(),
        roles(),
    ]
}

/// Creates a membership of a new user in its organization.
fn a_membership(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let user = created(world).await;
        let organization = user.body["details"]["resourceOwner"]["id"].as_str().expect("it is of an organization");
        let body = json!({ "userId": user.id(), "roles": ["ORG_OWNER_VIEWER"] });
        subject(&posted(world, &format!("{MEMBERSHIPS}?ctx.orgId={organization}"), &body).await)
    }
    .boxed()
}

fn owned(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|&role| role.to_owned()).collect()
}

fn of_user(user_id: &str, roles: &[&str]) -> CreateMembershipRequest {
    let membership = Membership { user_id: user_id.into(), roles: owned(roles), ..Membership::default() };
    CreateMembershipRequest { ctx: None, membership: Some(membership) }
}

fn of_part(user_id: &str, role: &str, part: Part) -> CreateMembershipRequest {
    let membership = Membership { user_id: user_id.into(), roles: owned(&[role]), part: Some(part) };
    CreateMembershipRequest { ctx: None, membership: Some(membership) }
}

fn within(owner: ResourceOwner, request: CreateMembershipRequest) -> CreateMembershipRequest {
    CreateMembershipRequest { ctx: Some(context(owner)), ..request }
}

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_MEMBERSHIP, a_candidate)
        .good("a role", |it| of_user(&it.id, &["IAM_OWNER_VIEWER"]))
        .good("two roles", |it| of_user(&it.id, &["IAM_USER_MANAGER", "IAM_OWNER_VIEWER"]))
        .bad("nothing", "INVALID_REQUEST", |_| CreateMembershipRequest::default())
        .bad("no user and an empty role", "INVALID_REQUEST", |_| of_user("", &[""]))
        .bad("no roles", "INVALID_REQUEST", |it| of_user(&it.id, &[]))
        .bad("an unknown role", "INVALID_REQUEST", |it| of_user(&it.id, &["IAM_EMPEROR"]))
        .bad("a role of another level", "INVALID_REQUEST", |it| of_user(&it.id, &["ORG_OWNER"]))
        .bad("a role twice", "INVALID_REQUEST", |it| of_user(&it.id, &["IAM_OWNER_VIEWER", "IAM_OWNER_VIEWER"]))
        .bad("too many roles", "INVALID_REQUEST", |it| of_user(&it.id, &["IAM_OWNER"; 101]))
        .good("in a project", |it| of_part(&it.id, "PROJECT_OWNER", Part::ProjectId(it.others[0].clone())))
        .good("in a project grant", |it| {
            of_part(&it.id, "PROJECT_GRANT_OWNER", Part::ProjectGrantId(it.others[1].clone()))
        })
        .bad("in an unknown project", "RESOURCE_NOT_FOUND", |it| {
            of_part(&it.id, "PROJECT_OWNER", Part::ProjectId("1".into()))
        })
        .bad("a role of something else", "INVALID_REQUEST", |it| {
            of_part(&it.id, "PROJECT_OWNER", Part::ProjectGrantId(it.others[1].clone()))
        })
        .bad("an unknown user", "RESOURCE_NOT_FOUND", |_| of_user("1", &["IAM_OWNER_VIEWER"]))
        .bad("a user that cannot be", "RESOURCE_NOT_FOUND", |_| of_user("a\u{0}b", &["IAM_OWNER_VIEWER"]))
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |it| {
            within(ResourceOwner::OrgId("1".into()), of_user(&it.id, &["ORG_OWNER"]))
        })
        .bad("in the system", "PERMISSION_DENIED", |it| {
            within(ResourceOwner::System(true), of_user(&it.id, &["SYSTEM_OWNER"]))
        })
        .done()
}

fn patched(subject: &Subject, roles: &[&str]) -> PatchMembershipRequest {
    PatchMembershipRequest { id: subject.id.clone(), membership: Some(PatchMembership { roles: owned(roles) }) }
}

fn patch() -> Box<dyn Check + Sync> {
    row(&PATCH_MEMBERSHIP, a_membership)
        .good("other roles", |it| patched(it, &["ORG_OWNER", "ORG_USER_MANAGER"]))
        .good("no change", |it| patched(it, &["ORG_OWNER_VIEWER"]))
        .bad("no membership", "INVALID_REQUEST", |it| PatchMembershipRequest { id: it.id.clone(), membership: None })
        .good("nothing", |it| patched(it, &[]))
        .bad("an unknown role", "INVALID_REQUEST", |it| patched(it, &["ORG_EMPEROR"]))
        .bad("a role of another level", "INVALID_REQUEST", |it| patched(it, &["IAM_OWNER"]))
        .bad("a role twice", "INVALID_REQUEST", |it| patched(it, &["ORG_OWNER", "ORG_OWNER"]))
        .done()
}

fn search_request(ctx: Option<RequestContext>, filters: Vec<Filter>) -> SearchMembershipsRequest {
    let filters = filters.into_iter().map(|filter| MembershipSearchFilter { filter: Some(filter) }).collect();
    SearchMembershipsRequest { ctx, filters, ..SearchMembershipsRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_MEMBERSHIPS, a_membership)
        .good("by id", |it| search_request(None, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("everything", |_| search_request(None, vec![]))
        .good("by role", |_| search_request(None, vec![Filter::Role("ORG_OWNER_VIEWER".into())]))
        .good("by a role that is none", |_| {
            search_request(None, vec![Filter::Role("ORG_OWNER ORG_OWNER_VIEWER".into())])
        })
        .good("by a project and a project grant", |_| {
            search_request(None, vec![Filter::ProjectId("1".into()), Filter::ProjectGrantId("1".into())])
        })
        .good("by a user that is none", |_| search_request(None, vec![Filter::UserId("1".into())]))
        .good("a page in another order", |_| SearchMembershipsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            sorting_column: MembershipFieldName::UserId.into(),
            ..search_request(None, vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchMembershipsRequest {
            filters: vec![MembershipSearchFilter { filter: None }],
            ..SearchMembershipsRequest::default()
        })
        .bad("no user and a long role", "INVALID_REQUEST", |_| {
            search_request(None, vec![Filter::UserId(String::new()), Filter::Role("x".repeat(201))])
        })
        .bad("a large page", "INVALID_REQUEST", |_| SearchMembershipsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchMembershipsRequest::default()
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |_| {
            search_request(Some(context(ResourceOwner::OrgId("1".into()))), vec![])
        })
        .done()
}

fn roles() -> Box<dyn Check + Sync> {
    row(&LIST_AVAILABLE_ROLES, a_readable_organization)
        .good("of the instance", |_| ListAvailableRolesRequest { ctx: None })
        .good("of an organization", |it| ListAvailableRolesRequest {
            ctx: Some(context(ResourceOwner::OrgId(it.id.clone()))),
        })
        .bad("of an unknown organization", "RESOURCE_NOT_FOUND", |_| ListAvailableRolesRequest {
            ctx: Some(context(ResourceOwner::OrgId("1".into()))),
        })
        .done()
}
