//! Apps: their secrets, their redirect URIs, and warnings about unsafe configurations.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, post, send},
    tenant::Tenant,
};

const APPS: &str = "/resources/v3alpha/apps";
const EVENTS: &str = "/resources/v3alpha/events/_search";
const PROJECTS: &str = "/resources/v3alpha/projects";

async fn project(client: &Client) -> String {
    created(client, PROJECTS, json!({ "name": "Shop" })).await.id()
}

/// Requests an app with these redirect URIs, and further members of its configuration.
async fn create_app(client: &Client, project: &str, uris: Value, more: Value) -> Answer {
    let mut oidc = json!({ "redirectUris": uris });
    oidc.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
    post(client, APPS, json!({ "projectId": project, "name": "Web", "oidc": oidc })).await
}

async fn patch(client: &Client, path: &str, body: Value) -> Answer {
    send(client.request(Method::PATCH, path).json(&body)).await
}

/// Returns what a read after a write returns.
async fn read(written: &Answer, client: &Client, path: &str) -> Value {
    let answer = after(written, client.request(Method::GET, path)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body["app"].clone()
}

#[tokio::test]
async fn a_secret_is_shown_once_and_only_where_the_method_has_one() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let project = project(&admin).await;
    let uris = json!(["https://shop.example/callback"]);
    let mut shown = vec![];
    for (method, has_secret) in [("BASIC", true), ("POST", true), ("NONE", false), ("PRIVATE_KEY_JWT", false)] {
        let more = json!({ "authMethodType": format!("OIDC_AUTH_METHOD_TYPE_{method}") });
        let made = create_app(&admin, &project, uris.clone(), more).await;
        assert_eq!((made.status.as_u16(), &made.body["clientId"]), (201, &json!(made.id())), "{method}: {}", made.body);
        let (secret, path) = (made.body["clientSecret"].as_str(), format!("{APPS}/{}", made.id()));
        assert_eq!(secret.is_some(), has_secret, "{method}: {}", made.body);
        shown.extend(secret.map(str::to_owned));
        let seen = read(&made, &admin, &path).await;
        assert_eq!((seen["hasSecret"] == true, &seen["clientId"]), (has_secret, &json!(made.id())), "{method}");

        let again = post(&admin, &format!("{path}/_generate_secret?previousExpiration=60s"), json!({})).await;
        if has_secret {
            assert!(again.body["previousValidUntil"].is_string(), "{method}: {}", again.body);
            shown.extend(again.body["clientSecret"].as_str().map(str::to_owned));
        } else {
            again.assert_refused(method, 400, "PRECONDITION_FAILED");
        }
        // What it is switched to has none, and getting back gives none.
        let by_key = json!({ "oidc": { "authMethodType": "OIDC_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" } });
        patch(&admin, &path, by_key).await;
        let back = patch(&admin, &path, json!({ "oidc": { "authMethodType": "OIDC_AUTH_METHOD_TYPE_BASIC" } })).await;
        assert_eq!(read(&back, &admin, &path).await.get("hasSecret"), None, "{method}");
    }
    let api = created(&admin, APPS, json!({ "projectId": project, "name": "API", "api": {} })).await;
    shown.extend(api.body["clientSecret"].as_str().map(str::to_owned));
    assert_eq!(shown.len(), 5, "{shown:?}");
    let events = after(&api, admin.request(Method::POST, EVENTS).json(&json!([{ "aggregateType": "app" }]))).await;
    let told = events.body.to_string();
    assert!(told.contains("app.added") && !told.contains("\"secret\""), "{told}");
    assert!(shown.iter().all(|secret| secret.len() >= 32 && !told.contains(secret.as_str())), "none is in the log");
}

#[tokio::test]
async fn nobody_is_sent_where_nobody_can_be_sent() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let project = project(&admin).await;
    for uri in [
        "/callback",
        "shop.example/callback",
        "https://shop.example/callback#part",
        "https://user:password@shop.example/",
        "http://localhost:80@evil.example/",
        "https://shop.example/a b",
        "https://shop.example/\u{1}",
        "https://shop.example\\@evil.example",
        "https://bücher.example/",
        "https://*.shop.example/",
        "https:///callback",
        "javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "data:text/html,a",
        "vbscript:a",
        "file:///etc/passwd",
        "https://shop.example/?code=1",
        "https://shop.example/?a=b&state=",
    ] {
        for member in ["redirectUris", "postLogoutRedirectUris"] {
            let fine = json!(["https://shop.example/"]);
            let (uris, more) =
                if member == "redirectUris" { (json!([uri]), json!({})) } else { (fine, json!({ member: [uri] })) };
            let refused = create_app(&admin, &project, uris, more).await;
            refused.assert_refused(uri, 400, "INVALID_REQUEST");
            let told = refused.body.to_string();
            assert!(told.contains(&format!("app.oidc.{member}")), "{uri}: {told}");
        }
    }
    let wildcard = json!(["https://*.shop.example/"]);
    let made = create_app(&admin, &project, wildcard, json!({ "devMode": true })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let done = patch(&admin, &format!("{APPS}/{}", made.id()), json!({ "oidc": { "devMode": false } })).await;
    done.assert_refused("development is over", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn what_is_unwise_is_named_and_not_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let project = project(&admin).await;
    let wise = create_app(&admin, &project, json!(["https://shop.example/"]), json!({})).await;
    let path = format!("{APPS}/{}", wise.id());
    let seen = read(&wise, &admin, &path).await;
    assert_eq!((seen.get("complianceProblems"), seen.get("nonCompliant")), (None, None), "{seen}");
    assert_eq!(seen["allowedOrigins"], json!(["https://shop.example"]), "{seen}");
    let oidc = &seen["app"]["oidc"];
    assert_eq!(oidc["responseTypes"], json!(["OIDC_RESPONSE_TYPE_CODE"]), "by default");
    assert_eq!(oidc["grantTypes"], json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE"]), "by default");
    let unwise = json!({ "oidc": {
        "appType": "OIDC_APP_TYPE_USER_AGENT", "redirectUris": { "values": ["http://shop.example/", "shop:/a"] },
    } });
    let changed = patch(&admin, &path, unwise).await;
    let seen = read(&changed, &admin, &path).await;
    let problems = ["PUBLIC_APP_AUTHENTICATES", "USER_AGENT_HTTP_REDIRECT_URI", "CUSTOM_SCHEME_REDIRECT_URI"];
    let problems = problems.map(|problem| format!("OIDC_COMPLIANCE_PROBLEM_{problem}"));
    assert_eq!((&seen["complianceProblems"], &seen["nonCompliant"]), (&json!(problems), &json!(true)), "{seen}");
    assert_eq!(seen["allowedOrigins"], json!(["http://shop.example"]), "{seen}");
}

#[tokio::test]
async fn an_app_stays_what_it_is_and_goes_with_its_project() {
    let tenant = Tenant::start().await;
    let (admin, elsewhere) = (tenant.client().await, tenant.shared.instance().await);
    let (own, theirs) = (project(&admin).await, project(&elsewhere.client().await).await);
    let wanted = |project: &str| json!({ "projectId": project, "name": "API", "api": {} });
    post(&admin, APPS, wanted(&theirs)).await.assert_refused("another instance's project", 404, "RESOURCE_NOT_FOUND");
    let made = created(&admin, APPS, wanted(&own)).await;
    let path = format!("{APPS}/{}", made.id());
    let other = patch(&admin, &path, json!({ "oidc": { "devMode": true } })).await;
    other.assert_refused("another type", 400, "INVALID_REQUEST");
    assert_eq!(
        read(&made, &admin, &path).await["details"]["resourceOwner"]["id"],
        tenant.bootstrap.organization_id.as_str()
    );

    let removed = send(admin.request(Method::DELETE, &format!("{PROJECTS}/{own}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let gone = after(&removed, admin.request(Method::GET, &path)).await;
    gone.assert_refused("with its project", 404, "RESOURCE_NOT_FOUND");
    let gone = patch(&admin, &path, json!({ "name": "a" })).await;
    gone.assert_refused("with its project, when it is written", 404, "RESOURCE_NOT_FOUND");
}
