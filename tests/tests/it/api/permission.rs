//! Permissions: of a user with all rights, of one that may read, and of one without any.

use proto::{
    action::{
        CreateTargetRequest, DeleteTargetRequest, GetTargetRequest, PatchTargetRequest, SearchTargetsRequest,
        SearchTargetsResponse,
    },
    operation::{CREATE_TARGET, DELETE_TARGET, GET_TARGET, PATCH_TARGET, SEARCH_TARGETS},
};
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{TARGETS, send, target},
    grpc::Grpc,
    tenant::Tenant,
};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

#[tokio::test]
async fn roles_give_what_they_say_and_nothing_else() {
    let tenant = Tenant::start().await;
    let owner = tenant.client().await;
    let id = owner.create_target("first").await.expect("the owner may");
    let path = format!("{TARGETS}/{id}");
    let search = format!("{TARGETS}/_search");
    for (name, may_read) in [("viewer", true), ("nobody", false)] {
        let client = tenant.client_named(name).await;
        for (method, path, permission) in [
            (Method::GET, &path, "action.target.read"),
            (Method::POST, &search, "action.target.read"),
            (Method::POST, &TARGETS.to_owned(), "action.target.write"),
            (Method::PATCH, &path, "action.target.write"),
            (Method::DELETE, &path, "action.target.delete"),
        ] {
            let case = format!("{name} {method} {path}");
            let request = client.request(method.clone(), path);
            let request = match method {
                Method::POST if path == TARGETS => request.json(&target("mine")),
                Method::PATCH => request.json(&json!({ "name": "mine" })),
                _ => request,
            };
            let answer = send(request).await;
            if may_read && permission == "action.target.read" {
                assert_eq!(answer.status, 200, "{case}: {}", answer.body);
            } else {
                answer.assert_refused(&case, 403, "PERMISSION_DENIED");
                assert_eq!(answer.body["details"][0]["metadata"]["permission"], permission, "{case}");
            }
        }
    }
    assert_eq!(owner.get_target(&id, None).await.body["target"]["target"]["name"], "first", "nothing was changed");
}

/// Fails unless the permission was missing.
fn assert_denied<O: std::fmt::Debug>(case: &str, outcome: Result<Response<O>, Status>, permission: &str) {
    let status = outcome.expect_err(case);
    assert_eq!(status.code(), Code::PermissionDenied, "{case}: {status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect(case);
    assert_eq!(
        (info.reason.as_str(), info.metadata["permission"].as_str()),
        ("PERMISSION_DENIED", permission),
        "{case}"
    );
}

#[tokio::test]
async fn roles_give_the_same_over_grpc() {
    let tenant = Tenant::start().await;
    let owner = tenant.client().await;
    let id = owner.create_target("first").await.expect("the owner may");
    let anonymous = Grpc::connect(&tenant.bootstrap.issuer, None).await;
    for name in ["viewer", "nobody"] {
        let client = tenant.client_named(name).await;
        let grpc = anonymous.with_token(Some(&client.token));
        // The permission comes first: neither what is asked nor whether it is there tells anything.
        let created = grpc.call(&CREATE_TARGET, CreateTargetRequest::default()).await;
        assert_denied(name, created, "action.target.write");
        for id in [&id, "1"] {
            let patched = grpc.call(&PATCH_TARGET, PatchTargetRequest { id: id.into(), target: None }).await;
            assert_denied(name, patched, "action.target.write");
            let deleted = grpc.call(&DELETE_TARGET, DeleteTargetRequest { id: id.into() }).await;
            assert_denied(name, deleted, "action.target.delete");
        }
        let read = grpc.call(&GET_TARGET, GetTargetRequest { id: id.clone() }).await;
        let found: Result<Response<SearchTargetsResponse>, _> =
            grpc.call(&SEARCH_TARGETS, SearchTargetsRequest::default()).await;
        if name == "viewer" {
            assert!(read.is_ok() && found.is_ok(), "{read:?} {found:?}");
        } else {
            assert_denied(name, read, "action.target.read");
            assert_denied(name, found, "action.target.read");
        }
    }
    let status = anonymous.call(&GET_TARGET, GetTargetRequest { id }).await.expect_err("nobody is there");
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn who_may_not_learns_nothing_of_what_is_there() {
    let tenant = Tenant::start().await;
    let owner = tenant.client().await;
    let id = owner.create_target("first").await.expect("the owner may");
    let (nobody, end) = (tenant.client_named("nobody").await, tenant.log_end().await);
    for id in [id.as_str(), "1"] {
        for method in [Method::GET, Method::PATCH, Method::DELETE] {
            let path = format!("{TARGETS}/{id}?unknown=1");
            let (known, unknown) = (nobody.request(method.clone(), &path), nobody.anonymous(method.clone(), &path));
            let case = format!("{method} {path}");
            send(known.body("{")).await.assert_refused(&case, 403, "PERMISSION_DENIED");
            send(unknown.body("{")).await.assert_refused(&case, 401, "TOKEN_MISSING");
        }
    }
    let forged = nobody.request(Method::GET, &format!("{TARGETS}/{id}")).header("x-platform-orgid", "1");
    send(forged).await.assert_refused("another context", 403, "PERMISSION_DENIED");
    assert_eq!(tenant.log_end().await, end, "nothing was changed");
}
