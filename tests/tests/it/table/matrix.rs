//! Every operation, for every kind of caller, over HTTP with JSON and over gRPC: who is admitted and who is not.
//!
//! A caller who is admitted succeeds with the request of the operation's row in `conformance`. A caller who is refused
//! sends an empty request, or one for an object that does not exist: nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    rights,
    role::{IAM_OWNER, IAM_OWNER_VIEWER, ORG_OWNER, PROJECT_GRANT_OWNER, PROJECT_OWNER, Role},
};
use prost::Message;
use proto::{
    branding_settings::{AssetKind, NewBrandingAsset, UploadBrandingAssetRequest},
    domain::DomainValidationType,
    key::GetUserKeyRequest,
    operation::{Body, Facts, OPERATIONS, Verb, Waived},
    user::{SetPassword, SetPasswordRequest},
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, EXECUTIONS, TARGETS, done, put, send, target},
    eventually,
    instance::Instance,
    media::{png, text},
    tenant::Tenant,
};

use super::{
    conformance::{row::Check, table, wire::World},
    described::{kind, under},
};

/// The operations that need more than an id.
const VALIDATE: &str = "Validate";
const SET_PASSWORD: &str = "SetPassword";
const UPLOAD: &str = "UploadBrandingAsset";
const PASSWORD: &str = "seven-owls-under-a-bridge";

/// A kind of caller.
struct Caller {
    case: &'static str,
    client: Client,
    expects: Expects,
}

/// The expected outcome for a caller.
#[derive(Clone, Copy)]
enum Expects {
    /// This HTTP status and gRPC code, for any request.
    Refusal(u16, u16),
    /// Admission where a role gives the permission, or where none is needed.
    Role(&'static Role),
    /// Admission as by a role, but nothing is found: the role is in another organization than the requested one.
    Elsewhere(&'static Role),
    /// Admission where no permission is needed.
    NoRole,
    /// Admission.
    Entry,
}

const DENIED: (u16, u16) = (403, 7);
const ABSENT: (u16, u16) = (404, 5);

impl Expects {
    /// Whether an admitted caller also succeeds. The operator has no organization, which some operations need; it
    /// succeeds with its own operations.
    fn succeeds(self, facts: &Facts) -> bool {
        match self {
            Self::Role(_) | Self::NoRole => true,
            Self::Entry => facts.permission.is_some_and(|permission| permission.starts_with("system.")),
            Self::Refusal(..) | Self::Elsewhere(_) => false,
        }
    }

    fn of(self, facts: &Facts) -> Option<(u16, u16)> {
        // Whether a token is that of an object, or whose it is, is said of one that is there only.
        let denied = if facts.waived == Waived::Never { DENIED } else { ABSENT };
        match (self, facts.permission) {
            (Self::Refusal(status, code), _) => Some((status, code)),
            (Self::Entry, _) | (_, None) => None,
            _ if facts.is_self() && is_of_settings(facts) => None,
            // What is asked for where they have none is the instance's.
            (Self::Elsewhere(_), Some(_)) if is_of_settings(facts) => Some(DENIED),
            (Self::NoRole, Some(_)) => Some(denied),
            (Self::Role(role) | Self::Elsewhere(role), Some(permission)) => {
                (!rights::of(role).contains(permission)).then_some(denied)
            }
        }
    }
}

/// Whether an operation is about settings, which have no id: an empty change is a valid request.
fn is_of_settings(facts: &Facts) -> bool {
    facts.path.starts_with("/settings/")
}

/// Whether a context has several of these settings, one for each language.
fn has_language(facts: &Facts) -> bool {
    facts.parameters.iter().any(|parameter| parameter.path == "language")
}

/// Returns an empty request, or one with only an id, over HTTP.
fn over_http(caller: &Caller, facts: &Facts, id: &str) -> RequestBuilder {
    let method = facts.verb.method().parse().expect("it is a method");
    let (holder, id) = parted(id);
    let request = asking(caller, method, &under(facts.path, holder.as_ref()).replace("{id}", &id));
    let request = if has_language(facts) { request.query(&[("language", "en")]) } else { request };
    match facts.body {
        Body::None if facts.method == VALIDATE => request.query(&[("validationType", "DOMAIN_VALIDATION_TYPE_DNS")]),
        Body::None => request,
        Body::Field { .. } if facts.method == SET_PASSWORD => request.json(&json!({ "newPassword": PASSWORD })),
        Body::Field { .. } if facts.method == UPLOAD => {
            request.json(&json!({ "kind": AssetKind::LightLogo.as_str_name(), "content": text(&png(1, 1, 0)) }))
        }
        Body::Field { repeated: true, .. } => request.json(&json!([])),
        Body::Field { .. } => request.json(&json!({})),
    }
}

/// Splits an id into that of the holder, where the path has one, and that of the object.
fn parted(id: &str) -> (Option<String>, String) {
    id.split_once('/').map_or((None, id.to_owned()), |(holder, id)| (Some(holder.to_owned()), id.to_owned()))
}

/// Returns the request over gRPC-web: an empty message, or one with an id only, and that of the holder.
fn over_grpc(caller: &Caller, facts: &Facts, id: &str) -> RequestBuilder {
    let request = asking(caller, Method::POST, facts.grpc);
    let (holder, id) = parted(id);
    let user_id = holder.unwrap_or_default();
    let mut message = GetUserKeyRequest { id: id.clone(), user_id }.encode_to_vec();
    if facts.method == SET_PASSWORD {
        let password = Some(SetPassword { new_password: PASSWORD.to_owned(), ..SetPassword::default() });
        message.extend(SetPasswordRequest { id: String::new(), password }.encode_to_vec());
    }
    if facts.method == UPLOAD {
        let asset = Some(NewBrandingAsset { kind: AssetKind::LightLogo.into(), content: png(1, 1, 0) });
        message.extend(UploadBrandingAssetRequest { ctx: None, asset }.encode_to_vec());
    }
    if !id.is_empty() || is_of_settings(facts) {
        // The second field of a patch is what is patched, a message; the third of what is put below something.
        message.extend(match (facts.method, facts.verb) {
            (VALIDATE, _) => &[2 << 3, DomainValidationType::Dns as u8][..],
            (_, Verb::Patch) => &[2 << 3 | 2, 0],
            (_, Verb::Put) => &[3 << 3 | 2, 0],
            _ => &[],
        });
        if has_language(facts) {
            let field = if facts.only_reads() { 2 } else { 3 };
            message.extend([field << 3 | 2, 2, b'e', b'n']);
        }
    }
    let length = u32::try_from(message.len()).expect("ids are short").to_be_bytes();
    request.header("content-type", "application/grpc-web+proto").body([&[0], &length[..], &message].concat())
}

fn asking(caller: &Caller, method: Method, path: &str) -> RequestBuilder {
    match caller.client.token.as_str() {
        "" => caller.client.anonymous(method, path),
        _ => caller.client.request(method, path),
    }
}

/// Returns the gRPC code of an answer; 0 where it is in the trailers, after a message.
fn code(answer: &Answer) -> u16 {
    let code = answer.headers.get("grpc-status").and_then(|code| code.to_str().ok());
    code.and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// Checks the expected outcome of a caller, and returns whether the caller succeeded.
async fn check(caller: &Caller, row: &(dyn Check + Sync), world: &World) -> bool {
    let facts = row.facts();
    let is_let_in = caller.expects.of(facts).is_none();
    if is_let_in && caller.expects.succeeds(facts) {
        row.permits(world, caller.case, &caller.client.token).await;
        return true;
    }
    let what = format!("{}, {}", facts.method, caller.case);
    // Where the edge lets everybody in, a request that names nothing would be refused for that.
    let id = if facts.is_for_any_caller() && !is_of_settings(facts) { "1" } else { "" };
    let (http, grpc) = (send(over_http(caller, facts, "1")).await, send(over_grpc(caller, facts, id)).await);
    match caller.expects.of(facts) {
        Some((status, wanted)) => {
            assert_eq!(http.status.as_u16(), status, "{what}: {}", http.body);
            assert_eq!(code(&grpc), wanted, "{what}, over gRPC: {:?}", grpc.headers);
        }
        None => {
            let status = http.status.as_u16();
            assert!(![401, 403, 429].contains(&status) && status < 500, "{what}: {}", http.body);
            assert!(![7, 8, 13, 14, 16].contains(&code(&grpc)), "{what}, over gRPC: {:?}", grpc.headers);
        }
    }
    false
}

/// Returns the path of the resources of a kind.
fn of(kind: &str) -> String {
    format!("/resources/v3alpha/{kind}")
}

/// Creates a user of an organization with these roles there, and returns its id and a client.
async fn user(instance: &Instance, admin: &Client, organization: &str, name: &str, roles: &[&str]) -> (String, Client) {
    let made = async |kind: &str, body| done(admin, &of(&format!("{kind}?ctx.orgId={organization}")), body).await;
    let id = made("users", json!({ "username": name, "service": {} })).await.id();
    if !roles.is_empty() {
        made("memberships", json!({ "userId": id, "roles": roles })).await;
    }
    let client = instance.log_in(admin, &id, name).await;
    (id, client)
}

/// Returns all kinds of callers.
async fn callers(instance: &Tenant) -> Vec<Caller> {
    let (admin, operator) = (instance.client().await, instance.operator().await);
    let other = done(&admin, &of("organizations"), json!({ "name": "Other" })).await.id();
    let ending = done(&admin, &of("organizations"), json!({ "name": "Ending" })).await.id();
    let (_, owner) = user(instance, &admin, &other, "owner-of-other", &["ORG_OWNER"]).await;
    let (ended, ended_user) = user(instance, &admin, &other, "ended", &["ORG_OWNER"]).await;
    let (_, homeless) = user(instance, &admin, &ending, "homeless", &["ORG_OWNER"]).await;
    let part = async |name, (part, id): (&str, &str), role: &Role| {
        let (id_of_user, client) = user(instance, &admin, &other, name, &[]).await;
        let given = json!({ "userId": id_of_user, "roles": [role.name], part: id });
        done(&admin, &of("memberships"), given).await;
        client
    };
    let project = done(&admin, &of(&format!("projects?ctx.orgId={other}")), json!({ "name": "Other" })).await.id();
    let of_project = part("owner-of-project", ("projectId", &project), &PROJECT_OWNER).await;
    let granted = done(&admin, &of("projects"), json!({ "name": "Granted" })).await.id();
    let grant = done(&admin, &of("project_grants"), json!({ "projectId": granted, "orgId": other })).await.id();
    let of_grant = part("owner-of-grant", ("projectGrantId", &grant), &PROJECT_GRANT_OWNER).await;
    let blocked = instance.shared.instance().await;
    let foreign = blocked.client().await;
    done(&admin, &of(&format!("users/{ended}/_deactivate")), json!({})).await;
    done(&admin, &of(&format!("organizations/{ending}/_deactivate")), json!({})).await;
    let limit = of(&format!("instances/{}/_limit", blocked.bootstrap.instance_id));
    done(&operator, &limit, json!({ "block": true })).await;
    let unknown = Expects::Refusal(401, 16);
    let caller = |case, client: &Client, expects| Caller { case, client: client.clone(), expects };
    let callers = vec![
        caller("no token", &admin.with(String::new()), unknown),
        caller("garbage", &admin.with("garbage".to_owned()), unknown),
        caller("of another instance", &admin.with(foreign.token.clone()), unknown),
        caller("of another organization", &owner, Expects::Elsewhere(&ORG_OWNER)),
        caller("of a project of another organization", &of_project, Expects::Elsewhere(&PROJECT_OWNER)),
        caller("of a project that was granted", &of_grant, Expects::Elsewhere(&PROJECT_GRANT_OWNER)),
        caller("no role", &instance.client_named("nobody").await, Expects::NoRole),
        caller("read-only", &instance.client_named("viewer").await, Expects::Role(&IAM_OWNER_VIEWER)),
        caller("all rights on the instance", &admin, Expects::Role(&IAM_OWNER)),
        caller("all rights", &operator, Expects::Entry),
        caller("ended", &ended_user, unknown),
        caller("of an ended organization", &homeless, unknown),
        caller("of a blocked instance", &foreign, Expects::Refusal(429, 8)),
    ];
    for caller in callers.iter().filter(|caller| matches!(caller.expects, Expects::Refusal(..))) {
        eventually(caller.case, async || {
            let search = asking(caller, Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
            matches!(send(search).await.status.as_u16(), 401 | 429).then_some(())
        })
        .await;
    }
    callers
}

#[tokio::test]
async fn every_operation_lets_in_whom_it_shall() {
    let tenant = Tenant::start().await;
    let (world, callers, table) = (World::of(&tenant).await, callers(&tenant).await, table());
    let (mut permitted, mut succeeded) = (0, vec![0; callers.len()]);
    for row in &table {
        for (caller, succeeded) in callers.iter().zip(&mut succeeded) {
            *succeeded += usize::from(check(caller, row.as_ref(), &world).await);
            permitted += usize::from(caller.expects.of(row.facts()).is_none());
        }
    }
    let (all, most) = (table.len() * callers.len(), succeeded.iter().max().copied().unwrap_or_default());
    assert!(most > table.len() / 2, "somebody succeeds with most operations, not {most} of {}", table.len());
    let succeeded: usize = succeeded.iter().sum();
    println!("{all} kinds of callers of operations, on two transports; {permitted} are permitted, {succeeded} succeed");
}

/// One object of each kind, by the part of a path that names the kind.
type Objects = BTreeMap<&'static str, String>;

/// Creates objects of an organization.
async fn of_organization(client: &Client, organization: &str) -> Objects {
    let make =
        async |kind: &str, body: Value| done(client, &of(&format!("{kind}?ctx.orgId={organization}")), body).await.id();
    let user = make("users", json!({ "username": "theirs", "service": {} })).await;
    let membership = make("memberships", json!({ "userId": user, "roles": ["ORG_OWNER"] })).await;
    let domain = make("domains", json!({ "domain": "theirs.example" })).await;
    let project = make("projects", json!({ "name": "theirs" })).await;
    let within = async |kind: &str, body: Value| done(client, &of(kind), body).await.id();
    let role = within("roles", json!({ "projectId": project, "key": "a", "displayName": "a" })).await;
    let app = within("apps", json!({ "projectId": project, "name": "theirs", "api": {} })).await;
    let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": "2099-01-01T00:00:00Z" });
    let user_key = within(&format!("users/{user}/keys"), key.clone()).await;
    let end = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
    let token = within(&format!("users/{user}/tokens"), end).await;
    let entry = put(client, &of(&format!("users/{user}/metadata/plan")), json!({ "value": "gold" })).await.id();
    let app_key = within(&format!("apps/{app}/keys"), key).await;
    let other = within("organizations", json!({ "name": "Grantee" })).await;
    let project_grant = within("project_grants", json!({ "projectId": project, "orgId": other })).await;
    let user_grant = within("user_grants", json!({ "projectId": project, "userId": user })).await;
    Objects::from([
        ("organizations", organization.to_owned()),
        ("apps/keys", format!("{app}/{app_key}")),
        ("users/keys", format!("{user}/{user_key}")),
        ("users/tokens", format!("{user}/{token}")),
        ("users/metadata", format!("{user}/{entry}")),
        ("apps", app),
        ("roles", role),
        ("project_grants", project_grant),
        ("user_grants", user_grant),
        ("projects", project),
        ("users", user),
        ("memberships", membership),
        ("domains", domain),
    ])
}

/// Reads objects as their owner.
async fn read(owner: &Client, objects: &Objects) -> Vec<Value> {
    let mut read = vec![];
    // An execution has no read of its own.
    for (kind, id) in objects.iter().filter(|(kind, _)| **kind != "executions") {
        let (holder, id) = parted(id);
        let path = holder
            .map_or(format!("{kind}/{id}"), |holder| format!("{}/{id}", kind.replace('/', &format!("/{holder}/"))));
        let answer = send(owner.request(Method::GET, &of(&path))).await;
        assert_eq!(answer.status, 200, "{kind}: {}", answer.body);
        read.push(answer.body);
    }
    read
}

/// Checks that objects of another organization are not found by any operation, and returns how many operations were
/// tried.
async fn are_not_there(caller: &Caller, objects: &Objects) -> usize {
    let (mut asked, mut kinds) = (0, BTreeSet::new());
    for facts in OPERATIONS.iter().filter(|facts| facts.path.contains("{id}")) {
        let kind = kind(facts);
        let Some((kind, id)) = objects.get_key_value(kind.as_str()) else { continue };
        let what = format!("{}, {}", facts.method, caller.case);
        let (http, grpc) = (send(over_http(caller, facts, id)).await, send(over_grpc(caller, facts, id)).await);
        let (status, wanted) = caller.expects.of(facts).unwrap_or(ABSENT);
        assert_eq!(http.status.as_u16(), status, "{what}: {}", http.body);
        assert_eq!(code(&grpc), wanted, "{what}, over gRPC: {:?}", grpc.headers);
        asked += 1;
        kinds.insert(*kind);
    }
    assert!(kinds.iter().eq(objects.keys()), "{}: {kinds:?} were asked for", caller.case);
    asked
}

#[tokio::test]
async fn whatever_is_asked_of_what_is_of_others_it_is_not_there() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let organization =
        async |client: &Client, name: &str| done(client, &of("organizations"), json!({ "name": name })).await.id();
    let (one, other) = (organization(&admin, "One").await, organization(&admin, "Other").await);
    let (_, owner) = user(&tenant, &admin, &one, "owner-of-one", &["ORG_OWNER"]).await;
    let elsewhere = tenant.shared.instance().await;
    let foreign = elsewhere.client().await;

    let of_other = of_organization(&admin, &other).await;
    let mut of_foreign = of_organization(&foreign, &organization(&foreign, "One").await).await;
    let theirs = done(&foreign, TARGETS, target("theirs")).await.id();
    let execution = json!({ "condition": { "function": "preaccesstoken" }, "targets": [theirs] });
    let execution = done(&foreign, EXECUTIONS, execution).await.id();
    let session = done(&foreign, &of("sessions"), json!({ "metadata": { "whose": "theirs" } })).await.id();
    of_foreign.extend([("targets", theirs), ("executions", execution), ("sessions", session)]);

    let before = (read(&admin, &of_other).await, read(&foreign, &of_foreign).await);
    let caller = |case, client: &Client, role| Caller { case, client: client.clone(), expects: Expects::Role(role) };
    let of_one = caller("who owns another organization", &owner, &ORG_OWNER);
    let of_instance = caller("who owns another instance", &admin, &IAM_OWNER);
    let mut asked = are_not_there(&of_one, &of_other).await + are_not_there(&of_one, &of_foreign).await;
    asked += are_not_there(&of_instance, &of_foreign).await;
    asked +=
        are_not_there(&of_instance, &Objects::from([("instances", elsewhere.bootstrap.instance_id.clone())])).await;
    println!("{asked} operations on what is of others, on two transports");
    let after = (read(&admin, &of_other).await, read(&foreign, &of_foreign).await);
    assert_eq!(before, after, "nothing was changed");
}
