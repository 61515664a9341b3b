//! Logins for no app: the first person of an instance, and the page that shows who is logged in.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::{Browser, Page},
    client::{Answer, post, send},
    eventually,
    tenant::{Tenant, new_host},
};

use super::{
    super::flow::{API, PASSWORD, VERIFIER, answered, challenge},
    id_token_claims, start, title,
};

const INSTANCES: &str = "/resources/v3alpha/instances";
const NEW: &str = "another-one-of-ten-cats-7";

/// Follows redirects of an instance until there is a page.
pub(super) async fn follow(issuer: &str, browser: &mut Browser, mut shown: Page) -> Page {
    for _ in 0..8 {
        let location = shown.location().to_owned();
        if location.is_empty() {
            return shown;
        }
        let path = location.strip_prefix(issuer).unwrap_or(&location);
        assert!(path.starts_with('/'), "it leads away: {location}");
        shown = browser.get(path).await;
    }
    panic!("it leads round and round: {}", shown.location());
}

/// Opens the login page of an instance, and enters a name and a password.
pub(crate) async fn logs_in(issuer: &str, browser: &mut Browser, (name, password): (&str, &str)) -> Page {
    let shown = browser.get("/ui/login").await;
    let shown = follow(issuer, browser, shown).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Sign in to Platform"), "{}", shown.text);
    let shown = sends(issuer, browser, &shown, &[("username", name)]).await;
    sends(issuer, browser, &shown, &[("username", name), ("password", password)]).await
}

pub(super) async fn sends(issuer: &str, browser: &mut Browser, shown: &Page, fields: &[(&str, &str)]) -> Page {
    let sent = browser.post(&shown.action(), &shown.form(fields)).await;
    follow(issuer, browser, sent).await
}

/// Creates an instance with a first person.
async fn founded(tenant: &Tenant, person: &Value) -> Answer {
    let operator = tenant.shared.operator().await;
    let wanted = json!({ "name": "Acme", "domain": new_host(), "person": person });
    let made = post(&operator, INSTANCES, wanted).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made
}

#[tokio::test]
async fn the_first_person_of_an_instance_logs_in_and_chooses_a_password() {
    let tenant = Tenant::start().await;
    let person = json!({ "username": "ada", "givenName": "Ada", "familyName": "Lovelace", "email": "ada@example.com" });
    let made = founded(&tenant, &person).await.body;
    let (issuer, login) = (made["issuer"].as_str().expect("it has one"), &made["firstLogin"]);
    assert_eq!((&login["username"], &login["loginUrl"]), (&json!("ada"), &json!(format!("{issuer}/ui/login"))));
    let password = login["oneTimePassword"].as_str().expect("it is shown");
    let mut browser = Browser::new(issuer);
    eventually("the instance is known", async || {
        (browser.clone().get("/ui/login").await.status == StatusCode::SEE_OTHER).then_some(())
    })
    .await;
    let wrong = logs_in(issuer, &mut browser.clone(), ("ada", "f3Kq-9TzB-x7Lm-2WcN")).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let shown = logs_in(issuer, &mut browser, ("ada", password)).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Choose a new password"), "{}", shown.text);
    let left = browser.clone().get("/ui/login").await;
    let left = follow(issuer, &mut browser.clone(), left).await;
    assert_eq!(title(&left), "Choose a new password", "whoever leaves that page is not signed in");
    let shown = sends(issuer, &mut browser, &shown, &[("password", NEW)]).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "You are signed in"), "{}", shown.text);
    assert!(shown.text.contains("Ada Lovelace") && shown.text.contains("href=\"/docs\""), "{}", shown.text);

    let mut again = Browser::new(issuer);
    let wrong = logs_in(issuer, &mut again, ("ada", password)).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "the one for the first login is good once");
    let shown = logs_in(issuer, &mut Browser::new(issuer), ("ada", NEW)).await;
    assert_eq!(title(&shown), "You are signed in");
}

#[tokio::test]
async fn wrong_first_persons_are_refused_by_their_fields() {
    let tenant = Tenant::start().await;
    let operator = tenant.shared.operator().await;
    let right = json!({ "username": "ada", "givenName": "Ada", "familyName": "Lovelace" });
    for (field, value) in [
        ("username", json!("")),
        ("username", json!("123")),
        ("givenName", json!("")),
        ("familyName", json!("a".repeat(201))),
        ("email", json!("nobody")),
    ] {
        let mut person = right.clone();
        person[field] = value;
        let refused =
            post(&operator, INSTANCES, json!({ "name": "Acme", "domain": new_host(), "person": person })).await;
        assert_eq!(refused.status, 400, "{field}: {}", refused.body);
        assert!(refused.body.to_string().contains(&format!("instance.person.{field}")), "{field}: {}", refused.body);
    }
}

#[tokio::test]
async fn a_browser_is_shown_who_is_logged_in_and_how_to_go_on() {
    let flow = start().await;
    let (issuer, name) = (flow.tenant.bootstrap.issuer.clone(), flow.person.1.clone());
    let mut browser = super::browser(&flow.tenant);
    assert_eq!(browser.get("/").await.location(), "/ui/login", "the way in");
    let shown = logs_in(&issuer, &mut browser, (&name, PASSWORD)).await;
    assert_eq!(title(&shown), "You are signed in");
    assert!(shown.text.contains(&name) && shown.text.contains("href=\"/ui/logout\""), "{}", shown.text);
    super::back(&flow.sent_by(&mut browser, &[("prompt", "none")]).await);

    let another = shown.text.split_once("href=\"/oauth/v2/authorize").map_or("", |(_, rest)| rest);
    let another = format!("/oauth/v2/authorize{}", another.split('"').next().unwrap_or_default().replace("&#38;", "&"));
    let shown = browser.get(&another).await;
    let shown = follow(&issuer, &mut browser, shown).await;
    assert_eq!(title(&shown), "Choose an account");

    for (answered, status) in
        [("error=access_denied", StatusCode::SEE_OTHER), ("error=server_error", StatusCode::SERVICE_UNAVAILABLE)]
    {
        let shown = browser.get(&format!("/ui/login/done?{answered}")).await;
        assert_eq!(shown.status, status, "{answered}: it does not lead round and round");
    }
    let uri = "https://portal.example/start";
    super::set(&flow.admin, "/settings/v3alpha/login", json!({ "defaultRedirectUri": { "set": uri } })).await;
    eventually("whoever has logged in is led elsewhere", async || {
        (browser.clone().get("/ui/login/done?code=1").await.location() == uri).then_some(())
    })
    .await;
    let out = browser.get("/ui/logout").await;
    browser.post("/ui/logout", &out.hidden()).await;
    let shown = browser.get("/ui/login").await;
    assert!(shown.location().starts_with("/oauth/v2/authorize?client_id="), "{}", shown.location());
}

#[tokio::test]
async fn the_platforms_own_app_asks_nobody_for_consent_and_leads_to_own_pages_only() {
    let flow = start().await;
    let organization =
        tests::client::done(&flow.admin, &format!("{API}/organizations"), json!({ "name": "Other" })).await.id();
    let name = tests::tenant::new_name();
    let user = json!({ "username": name, "human": {
        "data": { "given_name": "Grace", "family_name": "Hopper" }, "password": { "password": PASSWORD },
    } });
    tests::client::done(&flow.admin, &format!("{API}/users?ctx.orgId={organization}"), user).await;
    let issuer = flow.tenant.bootstrap.issuer.clone();
    let shown = logs_in(&issuer, &mut super::browser(&flow.tenant), (&name, PASSWORD)).await;
    assert_eq!(title(&shown), "You are signed in", "of another organization than the platform's");

    let asked = |redirect_uri: &str| {
        let pairs = [
            ("client_id", "urn:platform:app:pages"),
            ("response_type", "code"),
            ("scope", "openid"),
            ("redirect_uri", redirect_uri),
            ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
            ("code_challenge_method", "S256"),
        ];
        format!("/oauth/v2/authorize?{}", serde_urlencoded::to_string(pairs).expect("it is a query"))
    };
    for foreign in ["https://evil.example/docs", &format!("{issuer}/docs/x"), &format!("{issuer}.evil.example/docs")] {
        let shown = super::browser(&flow.tenant).get(&asked(foreign)).await;
        assert_eq!((shown.status, shown.location()), (StatusCode::BAD_REQUEST, ""), "{foreign}");
    }
    let shown = super::browser(&flow.tenant).get(&asked(&format!("{issuer}/docs"))).await;
    assert_eq!(shown.status, StatusCode::FOUND, "{}", shown.text);
}

#[tokio::test]
async fn a_token_of_the_platforms_own_app_is_for_the_platform_alone() {
    let flow = start().await;
    let issuer = flow.tenant.bootstrap.issuer.clone();
    let redirect_uri = format!("{issuer}/docs");
    let (scope, challenge) = (
        format!(
            "openid urn:platform:iam:org:project:id:platform:aud urn:platform:iam:org:project:id:{}:aud",
            flow.project
        ),
        challenge(VERIFIER),
    );
    let asked = [
        ("client_id", "urn:platform:app:pages"),
        ("response_type", "code"),
        ("scope", &scope),
        ("redirect_uri", &redirect_uri),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let mut browser = super::browser(&flow.tenant);
    logs_in(&issuer, &mut browser, (&flow.person.1, PASSWORD)).await;
    let query = serde_urlencoded::to_string(asked).expect("it is a query");
    let mut shown = browser.get(&format!("/oauth/v2/authorize?{query}")).await;
    while !shown.location().starts_with(&redirect_uri) {
        let path = shown.location().strip_prefix(&issuer).unwrap_or(shown.location()).to_owned();
        assert!(path.starts_with('/'), "{} {}", shown.status, shown.text);
        shown = browser.get(&path).await;
    }
    let code = answered(shown.location()).remove("code").expect("there is one");
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", "urn:platform:app:pages"),
        ("redirect_uri", &redirect_uri),
        ("code_verifier", VERIFIER),
        ("code", &code),
    ];
    let tokens = send(flow.admin.anonymous(Method::POST, "/oauth/v2/token").form(&form)).await.body;
    let said = id_token_claims(&json!({ "id_token": tokens["access_token"] }));
    assert_eq!(said["aud"], json!(["urn:platform:app:pages", flow.tenant.bootstrap.project_id]), "{said}");
    assert!(!tokens["scope"].as_str().unwrap_or_default().contains(&flow.project), "{tokens}");
}

#[tokio::test]
async fn a_password_lets_in_until_it_expires() {
    let flow = start().await;
    let path = format!("{API}/users/{}", flow.person.0);
    let set = |date: &str| json!({ "newPassword": NEW, "expirationDate": date });
    let refused = post(&flow.admin, &format!("{path}/password"), set("2020-01-01T00:00:00Z")).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.to_string().contains("password.expirationDate"), "{}", refused.body);
    let soon = base::clock::now() + std::time::Duration::from_secs(4);
    tests::client::done(&flow.admin, &format!("{path}/password"), set(&soon.to_string())).await;
    let read = eventually("it is read", async || {
        let read = send(flow.admin.request(Method::GET, &path)).await.body;
        let until = read["user"]["password"]["expirationDate"].as_str()?.parse::<jiff::Timestamp>().ok()?;
        Some(until)
    })
    .await;
    assert_eq!(read.as_millisecond(), soon.as_millisecond());
    let (issuer, name) = (flow.tenant.bootstrap.issuer.clone(), flow.person.1.clone());
    let shown = logs_in(&issuer, &mut super::browser(&flow.tenant), (&name, NEW)).await;
    assert_eq!(title(&shown), "You are signed in");
    eventually("it lets nobody in any more", async || {
        let shown = logs_in(&issuer, &mut super::browser(&flow.tenant), (&name, NEW)).await;
        (shown.status == StatusCode::UNPROCESSABLE_ENTITY).then_some(())
    })
    .await;
}
