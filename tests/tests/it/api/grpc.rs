//! The same operations over gRPC: metadata, errors and reflection.

use proto::{
    action::{
        self, CreateTargetRequest, DeleteTargetRequest, GetTargetRequest, PatchTarget, PatchTargetRequest,
        SetRestWebhook, Target, target::ExecutionType, target::TargetType,
    },
    operation::{CREATE_TARGET, DELETE_TARGET, GET_TARGET, OPERATIONS, PATCH_TARGET},
    wellknown::Duration,
};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    grpc::{Grpc, reason, value},
    instance::Instance,
    tenant::{Shared, Tenant},
};
use tonic::{Code, Status};
use tonic_reflection::pb::{v1, v1alpha};
use tonic_types::StatusExt;

/// The services that are built.
const BUILT: [&str; 29] = [
    "platform.resources.action.v3alpha.PlatformActions",
    "platform.resources.app.v3alpha.PlatformApps",
    "platform.resources.auth_request.v3alpha.PlatformAuthRequests",
    "platform.settings.branding.v3alpha.PlatformBrandingSettings",
    "platform.resources.domain.v3alpha.PlatformDomains",
    "platform.settings.domain.v3alpha.PlatformDomainSettings",
    "platform.resources.event.v3alpha.PlatformEvents",
    "platform.system.v1.PlatformSystem",
    "platform.resources.failed_event.v3alpha.PlatformFailedEvents",
    "platform.settings.feature.v3alpha.PlatformFeatureSettings",
    "platform.resources.grant.v3alpha.PlatformGrants",
    "platform.settings.help.v3alpha.PlatformHelpSettings",
    "platform.resources.idp.v3alpha.PlatformIdentityProviders",
    "platform.resources.instance.v3alpha.PlatformInstances",
    "platform.resources.key.v3alpha.PlatformKeys",
    "platform.settings.language.v3alpha.PlatformLanguageSettings",
    "platform.settings.lockout.v3alpha.PlatformLockoutSettings",
    "platform.settings.login.v3alpha.PlatformLoginSettings",
    "platform.resources.membership.v3alpha.PlatformMemberships",
    "platform.resources.metadata.v3alpha.PlatformMetadata",
    "platform.settings.oidc.v3alpha.PlatformOidcSettings",
    "platform.resources.organization.v3alpha.PlatformOrganizations",
    "platform.settings.password.v3alpha.PlatformPasswordSettings",
    "platform.resources.project.v3alpha.PlatformProjects",
    "platform.resources.session.v3alpha.PlatformSessions",
    "platform.settings.text.v3alpha.PlatformTextSettings",
    "platform.resources.token.v3alpha.PlatformTokens",
    "platform.resources.user.v3alpha.PlatformUsers",
    "platform.resources.web_key.v3alpha.PlatformWebKeys",
];

async fn connect(instance: &Instance) -> Grpc {
    Grpc::connect(&instance.bootstrap.issuer, Some(&instance.client().await.token)).await
}

fn webhook(name: &str) -> Target {
    let target_type = Some(TargetType::RestWebhook(SetRestWebhook { url: "https://example.com/hook".into() }));
    Target { name: name.into(), target_type, ..Target::default() }
}

fn create(target: Target) -> CreateTargetRequest {
    CreateTargetRequest { target: Some(target) }
}

fn rename(id: &str, name: &str) -> PatchTargetRequest {
    let target = PatchTarget { name: Some(name.into()), ..PatchTarget::default() };
    PatchTargetRequest { id: id.into(), target: Some(target) }
}

#[tokio::test]
async fn a_target_lives_over_grpc_as_over_http() {
    let tenant = Tenant::start().await;
    let (grpc, http) = (connect(&tenant).await, tenant.client().await);

    let created = grpc.call_with(&CREATE_TARGET, create(webhook("first")), &[("x-request-id", "mine")]).await.unwrap();
    assert_eq!(value(created.metadata(), "x-request-id"), "mine");
    let token = value(created.metadata(), "consistency-token");
    let created = created.into_inner();
    let details = created.details.unwrap();
    assert_eq!(created.signing_key.len(), 36);

    let get = GetTargetRequest { id: details.id.clone() };
    let consistency = [("consistency-token", token.as_str()), ("consistency-wait", "10s")];
    let read = grpc.call_with(&GET_TARGET, get.clone(), &consistency).await.unwrap();
    assert!(!value(read.metadata(), "consistency-token").is_empty());
    let read = read.into_inner().target.unwrap();
    assert_eq!(read.details.as_ref(), Some(&details));
    let expected = Target { timeout: Some(Duration::from_seconds(10)), ..webhook("first") };
    assert_eq!(read.target, Some(expected));
    let over_http = http.get_target(&details.id, Some(&token)).await;
    assert_eq!(over_http.body, serde_json::to_value(action::GetTargetResponse { target: Some(read) }).unwrap());

    let sequence = details.sequence.to_string();
    let patched =
        grpc.call_with(&PATCH_TARGET, rename(&details.id, "second"), &[("if-match", &sequence)]).await.unwrap();
    let token = value(patched.metadata(), "consistency-token");
    assert_eq!(patched.into_inner().signing_key, None);
    let read = http.get_target(&details.id, Some(&token)).await;
    assert_eq!(read.body["target"]["target"]["name"], json!("second"));
    let stale =
        grpc.call_with(&PATCH_TARGET, rename(&details.id, "third"), &[("if-match", &sequence)]).await.unwrap_err();
    assert_eq!((stale.code(), reason(&stale).as_str()), (Code::FailedPrecondition, "SEQUENCE_MISMATCH"));

    let deleted = grpc.call(&DELETE_TARGET, DeleteTargetRequest { id: details.id.clone() }).await.unwrap();
    let token = value(deleted.metadata(), "consistency-token");
    let gone = grpc.call_with(&GET_TARGET, get, &[("consistency-token", &token)]).await.unwrap_err();
    assert_eq!((gone.code(), reason(&gone).as_str()), (Code::NotFound, "RESOURCE_NOT_FOUND"));
}

#[tokio::test]
async fn a_repeated_call_with_an_idempotency_key_is_answered_alike() {
    let tenant = Tenant::start().await;
    let grpc = connect(&tenant).await;
    let key = [("idempotency-key", "once")];
    let first = grpc.call_with(&CREATE_TARGET, create(webhook("first")), &key).await.unwrap();
    assert_eq!(value(first.metadata(), "idempotency-replayed"), "");
    let second = grpc.call_with(&CREATE_TARGET, create(webhook("first")), &key).await.unwrap();
    assert_eq!(value(second.metadata(), "idempotency-replayed"), "true");
    assert_eq!(first.into_inner(), second.into_inner());
    let other = grpc.call_with(&CREATE_TARGET, create(webhook("second")), &key).await.unwrap_err();
    assert_eq!((other.code(), reason(&other).as_str()), (Code::FailedPrecondition, "IDEMPOTENCY_KEY_REUSED"));
}

/// Checks that a refusal has a code, a reason, a message, and the id of its request.
fn assert_refused(case: &str, status: &Status, code: Code, expected: &str) {
    assert_eq!((status.code(), reason(status).as_str()), (code, expected), "{case}: {status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().map(|info| info.domain.as_str()), Some("platform"), "{case}");
    let named = details.request_info().map(|info| info.request_id.clone());
    assert_eq!(named, Some(value(status.metadata(), "x-request-id")), "{case}");
    assert!(!status.message().is_empty(), "{case}");
}

#[tokio::test]
async fn errors_over_grpc_have_the_details_of_google_rpc() {
    let tenant = Tenant::start().await;
    let grpc = connect(&tenant).await;
    let get = |id: &str| GetTargetRequest { id: id.to_owned() };

    let long = grpc.call(&GET_TARGET, get(&"x".repeat(201))).await.unwrap_err();
    assert_refused("an id of 201 characters", &long, Code::InvalidArgument, "INVALID_REQUEST");
    let unknown = grpc.call(&GET_TARGET, get(&"x".repeat(200))).await.unwrap_err();
    assert_refused("an id of 200 characters", &unknown, Code::NotFound, "RESOURCE_NOT_FOUND");

    let mut target = Target { name: "\u{0}".into(), timeout: Some(Duration::ZERO), ..Target::default() };
    target.execution_type = Some(ExecutionType::IsAsync(true));
    let invalid = grpc.call(&CREATE_TARGET, create(target)).await.unwrap_err();
    assert_refused("three bad fields", &invalid, Code::InvalidArgument, "INVALID_REQUEST");
    let details = invalid.get_error_details();
    let fields: Vec<_> = details.bad_request().unwrap().field_violations.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(fields, ["target.name", "target.timeout", "target.target_type"]);

    let missing = grpc.with_token(None).call(&GET_TARGET, get("1")).await.unwrap_err();
    assert_refused("no token", &missing, Code::Unauthenticated, "TOKEN_MISSING");
    let garbage = grpc.with_token(Some("garbage")).call(&GET_TARGET, get("1")).await.unwrap_err();
    assert_refused("a garbage token", &garbage, Code::Unauthenticated, "TOKEN_INVALID");
    let forged = grpc.call_with(&GET_TARGET, get("1"), &[("consistency-token", "abc")]).await.unwrap_err();
    assert_refused("a forged token", &forged, Code::InvalidArgument, "CONSISTENCY_TOKEN_INVALID");
    let wait = grpc.call_with(&GET_TARGET, get("1"), &[("consistency-wait", "11s")]).await.unwrap_err();
    assert_refused("a long wait", &wait, Code::InvalidArgument, "INVALID_REQUEST");

    let huge = grpc.call(&CREATE_TARGET, create(webhook(&"x".repeat(5 << 20)))).await.unwrap_err();
    assert_refused("5 MiB", &huge, Code::ResourceExhausted, "BODY_TOO_LARGE");
    // Field 1 must be a message, and is a text here that is none.
    let wrong = SetRestWebhook { url: "\u{f}".into() };
    let wrong = grpc.call_path::<_, ()>(CREATE_TARGET.facts.grpc, wrong, &[]).await.unwrap_err();
    assert_refused("another message", &wrong, Code::InvalidArgument, "INVALID_REQUEST");
    let nowhere = grpc.call_path::<(), ()>("/platform.Nothing/Here", (), &[]).await.unwrap_err();
    assert_refused("an unknown method", &nowhere, Code::Unimplemented, "NOT_IMPLEMENTED");
}

#[tokio::test]
async fn a_browser_calls_over_http_1() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let message = prost::Message::encode_to_vec(&create(webhook("web")));
    let frame = [vec![0], u32::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat();
    let request = client.request(Method::POST, CREATE_TARGET.facts.grpc);
    let request = request.header("content-type", "application/grpc-web+proto").body(frame);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers().contains_key("consistency-token"));
    let body = response.bytes().await.unwrap();
    assert!(body.ends_with(b"\x80\x00\x00\x00\x0fgrpc-status:0\r\n"), "{body:?}");
}

/// Implements the part that both versions of reflection share: a stream of one request and its answer.
macro_rules! ask {
    ($version:ident, $channel:expr, $question:expr) => {{
        let mut client = $version::server_reflection_client::ServerReflectionClient::new($channel);
        let question = $version::server_reflection_request::MessageRequest::from($question);
        let request = $version::ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let answers = client.server_reflection_info(futures::stream::once(std::future::ready(request))).await;
        answers.unwrap().into_inner().message().await.unwrap().unwrap().message_response.unwrap()
    }};
}

#[tokio::test]
async fn reflection_lists_what_is_built_and_nothing_else() {
    use v1::server_reflection_request::MessageRequest as Question;
    use v1::server_reflection_response::MessageResponse as Answer;
    use v1alpha::server_reflection_request::MessageRequest as OldQuestion;
    use v1alpha::server_reflection_response::MessageResponse as OldAnswer;

    let shared = Shared::find().await;
    let channel = Grpc::connect(&shared.bootstrap.issuer, None).await.channel;
    let (actions, own) = (CREATE_TARGET.facts.service, "grpc.");

    let Answer::ListServicesResponse(list) = ask!(v1, channel.clone(), Question::ListServices(String::new())) else {
        panic!("services are listed");
    };
    let services: Vec<_> = list.service.into_iter().map(|it| it.name).filter(|name| !name.starts_with(own)).collect();
    assert_eq!(services, BUILT);
    let symbol = Question::FileContainingSymbol(actions.to_owned());
    let Answer::FileDescriptorResponse(files) = ask!(v1, channel.clone(), symbol) else { panic!("there is a file") };
    let mut found = methods(&files.file_descriptor_proto);

    let question = OldQuestion::ListServices(String::new());
    let OldAnswer::ListServicesResponse(list) = ask!(v1alpha, channel.clone(), question) else {
        panic!("services are listed");
    };
    let services: Vec<_> = list.service.into_iter().map(|it| it.name).filter(|name| !name.starts_with(own)).collect();
    assert_eq!(services, BUILT);
    let symbol = OldQuestion::FileContainingSymbol(actions.to_owned());
    let OldAnswer::FileDescriptorResponse(files) = ask!(v1alpha, channel.clone(), symbol) else {
        panic!("there is a file");
    };
    assert_eq!(methods(&files.file_descriptor_proto), found);
    found.sort_unstable();
    let of_actions = OPERATIONS.iter().filter(|facts| facts.service == actions);
    let mut built: Vec<_> = of_actions.map(|facts| format!("{actions}.{}", facts.method)).collect();
    built.sort_unstable();
    assert_eq!(found, built);
    for import in ["google/api/annotations.proto", "platform/object.proto", "google/protobuf/duration.proto"] {
        let answer = ask!(v1, channel.clone(), Question::FileByFilename(import.to_owned()));
        assert!(matches!(answer, Answer::FileDescriptorResponse(_)), "{import}: {answer:?}");
    }
}

/// Returns the full names of all methods in the files.
fn methods(files: &[Vec<u8>]) -> Vec<String> {
    let mut names = vec![];
    for file in files {
        let file: prost_types::FileDescriptorProto =
            prost::Message::decode(file.as_slice()).expect("it is a descriptor");
        for service in &file.service {
            let service_name = format!("{}.{}", file.package(), service.name());
            names.extend(service.method.iter().map(|method| format!("{service_name}.{}", method.name())));
        }
    }
    names
}
