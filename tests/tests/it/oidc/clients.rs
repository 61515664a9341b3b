//! Unmodified third-party clients get, introspect and revoke tokens. `deploy/setup` installs them.

mod apache;
mod web_app;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tests::{
    client::{Client, created, done},
    tenant::{Shared, new_name},
    tools,
};

use super::{
    flow::{App, CALLBACK, Flow},
    shop::API,
    signer::FAR,
};

const OPENID_CLIENT: &str = include_str!("clients/openid-client.mts");
const OPENID_CLIENT_LOGIN: &str = include_str!("clients/openid-client-login.mts");
const OAUTH4WEBAPI: &str = include_str!("clients/oauth4webapi.mts");
const OAUTH4WEBAPI_LOGIN: &str = include_str!("clients/oauth4webapi-login.mts");
const AUTH_CORE: &str = include_str!("clients/auth-core.mts");
const AUTHLIB: &str = include_str!("clients/authlib_client.py");
const AUTHLIB_LOGIN: &str = include_str!("clients/authlib_login.py");
/// The login page of programs.
const LOGIN: &str = include_str!("clients/login.mts");

/// The authentication methods that a program tries; it prints a line for each.
const WITH_SECRETS: [&str; 3] = ["private_key_jwt", "client_secret_basic", "client_secret_post"];

/// Creates a key of the holder at a path of the API, and returns its private half.
async fn jwk(admin: &Client, path: &str) -> String {
    let key = json!({ "keyType": "KEY_TYPE_EC", "expirationDate": FAR });
    let made = done(admin, &format!("{API}/{path}/keys"), key).await;
    made.body["privateKey"]["jwk"].as_str().expect("it is shown").to_owned()
}

/// Returns the environment of a program: a user with a secret and a key, and an app with a key. They belong to the
/// first instance, whose host every resolver knows.
async fn environment(shared: &Shared) -> Vec<(&'static str, String)> {
    let admin = shared.client().await;
    let made = async |kind: &str, body| created(&admin, &format!("{API}/{kind}"), body).await.id();
    let name = new_name();
    let user = json!({ "username": name, "service": { "allowTokenEndpointAudience": true } });
    let user = made("users", user).await;
    let secret = done(&admin, &format!("{API}/users/{user}/_generate_secret"), json!({})).await;
    let project = made("projects", json!({ "name": name })).await;
    let by_key = json!({ "authMethodType": "API_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" });
    let app = json!({ "projectId": project, "name": name, "api": by_key, "allowTokenEndpointAudience": true });
    let app = made("apps", app).await;
    vec![
        ("ISSUER", shared.bootstrap.issuer.clone()),
        ("SCOPE", format!("openid urn:platform:iam:org:project:id:{project}:aud")),
        ("USER_JWK", jwk(&admin, &format!("users/{user}")).await),
        ("USER_ID", user),
        ("CLIENT_ID", name),
        ("CLIENT_SECRET", secret.body["clientSecret"].as_str().expect("it is shown").to_owned()),
        ("APP_JWK", jwk(&admin, &format!("apps/{app}")).await),
        ("APP_ID", app),
    ]
}

/// A program, and the tool of the generators that runs it.
struct Program {
    tool: &'static str,
    file: &'static str,
    text: &'static str,
}

impl Program {
    const fn node(text: &'static str) -> Self {
        Self { tool: "node", file: "client.mts", text }
    }

    const fn python(text: &'static str) -> Self {
        Self { tool: "python", file: "client.py", text }
    }
}

/// Runs a program for service users, and checks its lines.
async fn assert_works(program: Program, expected: &[&str]) {
    let Some(tools) = tools::installed("generators") else { return tools::skip(program.file) };
    let environment = environment(&Shared::find().await).await;
    let expected: String = expected.iter().map(|way| format!("{way} true true false\n")).collect();
    assert_tells(&tools, program, environment, &expected);
}

/// Runs a program in an empty folder with its imports, and fails unless it prints what is expected.
fn assert_tells(tools: &Path, Program { tool, file, text }: Program, environment: Vec<(&str, String)>, expected: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    symlink(tools.join("node_modules"), folder.path().join("node_modules")).expect("the folder can be written");
    for (file, text) in [(file, text), ("login.mts", LOGIN)] {
        fs::write(folder.path().join(file), text).expect("the folder can be written");
    }
    let mut command = Command::new(tools.join("bin").join(tool));
    command.arg(file).current_dir(folder.path()).envs(environment);
    command.env("NO_PROXY", "*").env("no_proxy", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("it runs");
    let (told, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{faults}");
    assert_eq!(told, expected, "{faults}");
}

/// Creates an app with refresh tokens, and returns the environment of a program that logs people in to it.
async fn app(name: &str, mut settings: Value) -> Option<(PathBuf, Flow<Shared>, Vec<(&'static str, String)>)> {
    let Some(tools) = tools::installed("generators") else {
        tools::skip(name);
        return None;
    };
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE"]);
    settings["grantTypes"] = json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"]);
    let callback = settings["redirectUris"][0].as_str().unwrap_or(CALLBACK).to_owned();
    let shared = Shared::find().await;
    let (admin, issuer) = (shared.client().await, shared.bootstrap.issuer.clone());
    let flow = Flow::on(shared, admin, settings).await;
    let (_, session_token) = flow.session().await;
    let environment = vec![
        ("ISSUER", issuer),
        ("APP_ID", flow.app.id.clone()),
        ("APP_SECRET", flow.app.secret.clone().unwrap_or_default()),
        ("USER_ID", flow.person.0.clone()),
        ("CALLBACK", callback),
        ("SESSION_TOKEN", session_token),
        ("TOKEN", flow.admin.token.clone()),
    ];
    Some((tools, flow, environment))
}

#[tokio::test]
async fn openid_client_works_unmodified() {
    assert_works(Program::node(OPENID_CLIENT), &[&WITH_SECRETS[..], &["jwt-bearer"]].concat()).await;
}

#[tokio::test]
async fn openid_client_logs_people_in_unmodified() {
    let bye = "https://shop.example/bye";
    let settings = json!({
        "authMethodType": "OIDC_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT", "postLogoutRedirectUris": [bye],
    });
    let Some((tools, flow, mut environment)) = app("openid-client", settings).await else { return };
    environment.push(("APP_JWK", jwk(&flow.admin, &format!("apps/{}", flow.app.id)).await));
    environment.push(("BYE", bye.to_owned()));
    let expected = format!(
        "buildAuthorizationUrl true Perlman Radia true\nrevoked ended\n\
         buildAuthorizationUrlWithJAR true Perlman Radia true\nrevoked ended\nsigned out {bye}?state=a+b\n"
    );
    assert_tells(&tools, Program::node(OPENID_CLIENT_LOGIN), environment, &expected);
}

#[tokio::test]
async fn oauth4webapi_works_unmodified() {
    assert_works(Program::node(OAUTH4WEBAPI), &[&WITH_SECRETS[..], &["jwt-bearer"]].concat()).await;
}

#[tokio::test]
async fn oauth4webapi_logs_people_in_unmodified() {
    let Some((tools, _, environment)) = app("oauth4webapi", App::public()).await else { return };
    let expected = "true Perlman bearer true\ntwice: invalid_grant\n";
    assert_tells(&tools, Program::node(OAUTH4WEBAPI_LOGIN), environment, expected);
}

#[tokio::test]
async fn auth_js_logs_people_in_unmodified() {
    let callback = "https://shop.example/auth/callback/platform";
    let settings = json!({ "authMethodType": "OIDC_AUTH_METHOD_TYPE_BASIC", "redirectUris": [callback], "idTokenUserinfoAssertion": true });
    let Some((tools, flow, environment)) = app("Auth.js", settings).await else { return };
    let expected = format!("true Radia Perlman {}@example.com true\n", flow.person.1);
    assert_tells(&tools, Program::node(AUTH_CORE), environment, &expected);
}

#[tokio::test]
async fn authlib_logs_people_in_unmodified() {
    let settings = json!({ "authMethodType": "OIDC_AUTH_METHOD_TYPE_POST" });
    let Some((tools, _, mut environment)) = app("Authlib", settings).await else { return };
    environment.push(("AUTH_METHOD", "client_secret_post".to_owned()));
    assert_tells(&tools, Program::python(AUTHLIB_LOGIN), environment, "True Perlman Bearer True\n");
}

#[tokio::test]
async fn authlib_works_unmodified() {
    assert_works(Program::python(AUTHLIB), &[&WITH_SECRETS[..], &["jwt-bearer"]].concat()).await;
}
