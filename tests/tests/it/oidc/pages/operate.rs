//! People log in to the pages of operators like to any app, and see as much as their roles permit.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    browser::{Browser, Page},
    client::{Client, TARGETS, done, post, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    tenant::{Tenant, instance_beside},
};

use super::{
    super::flow::{PASSWORD, person},
    home::{follow, sends},
    title,
};
use crate::operate::pages::{live::follows_the_instance, open};

const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const LOG_IN: &str = "/ui/operate/log-in";
const OF_SYSTEM: [&str; 4] = ["/ui/operate/nodes", "/ui/operate/projections", "/ui/operate/log", "/ui/operate/log/1"];

/// Logs a person in to the pages of operators, and returns the last page.
pub(crate) async fn log_in(issuer: &str, browser: &mut Browser, name: &str) -> Page {
    let callback = comes_back(issuer, browser, name).await;
    let shown = browser.get(&callback).await;
    assert_eq!((shown.status, shown.location()), (StatusCode::SEE_OTHER, "/ui/operate"), "{}", shown.text);
    follow(issuer, browser, shown).await
}

/// Logs a person in, and returns the path that the browser is sent back to.
async fn comes_back(issuer: &str, browser: &mut Browser, name: &str) -> String {
    let shown = browser.get(LOG_IN).await;
    let shown = follow(issuer, browser, shown).await;
    let shown = sends(issuer, browser, &shown, &[("username", name)]).await;
    let sent = browser.post(&shown.action(), &shown.form(&[("username", name), ("password", PASSWORD)])).await;
    let path = sent.location().strip_prefix(issuer).unwrap_or(sent.location()).to_owned();
    assert!(path.starts_with("/ui/login/operate?code="), "{} {path} {}", sent.status, sent.text);
    path
}

/// Gives somebody a role, and returns the id of the membership.
pub(crate) async fn gives(client: &Client, query: &str, user: &str, role: &str) -> String {
    done(client, &format!("{MEMBERSHIPS}{query}"), json!({ "userId": user, "roles": [role] })).await.id()
}

fn assert_refused(case: &str, shown: &Page, status: StatusCode, what: &str) {
    assert_eq!(shown.status, status, "{case}: {}", shown.text);
    assert!(shown.text.contains(what), "{case}: {}", shown.text);
}

#[tokio::test]
async fn a_person_sees_as_far_as_roles_reach_until_the_session_ends() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let (issuer, (user, name)) = (&tenant.bootstrap.issuer, person(&admin).await);
    let mut browser = Browser::new(issuer);
    let shown = browser.get("/ui/operate").await;
    assert_refused("nobody", &shown, StatusCode::FORBIDDEN, &format!("href=\"{LOG_IN}\""));
    let shown = log_in(issuer, &mut browser, &name).await;
    assert_refused("without a role", &shown, StatusCode::FORBIDDEN, "failed_event.read");
    assert!(
        shown.text.contains(&name) && shown.text.contains("href=\"/ui/operate/log-in?another=1\""),
        "{}",
        shown.text
    );
    let another = browser.get("/ui/operate/log-in?another=1").await;
    let another = follow(issuer, &mut browser, another).await;
    assert_eq!(title(&another), "Choose an account");

    gives(&admin, "", &user, "IAM_OWNER_VIEWER").await;
    let of_instance = async || {
        let shown = browser.clone().get("/ui/operate").await;
        (shown.location() == "/ui/operate/failed").then_some(())
    };
    eventually("the role counts", of_instance).await;
    let shown = open(&mut browser, "/ui/operate/failed").await;
    assert!(shown.text.contains("No failed events.") && shown.text.contains(&name), "{}", shown.text);
    looks_only_at_the_instance(&mut browser, &shown).await;

    let before = open(&mut browser.clone(), "/ui/operate/failed").await;
    let given = gives(&operator, "?ctx.system=true", &user, "SYSTEM_OWNER_VIEWER").await;
    eventually("the role in the system counts", async || {
        (browser.clone().get("/ui/operate/nodes").await.status == StatusCode::OK).then_some(())
    })
    .await;
    for path in OF_SYSTEM.iter().chain(&["/ui/operate", "/ui/operate/failed"]) {
        open(&mut browser, path).await;
    }
    let form = before.form(&[("all", "1")]);
    let shown = browser.post("/ui/operate/failed/retry", &form).await;
    assert_refused("a form of before", &shown, StatusCode::FORBIDDEN, "Nothing was done");
    let home = browser.get("/ui/login").await;
    assert!(home.text.contains(&format!("href=\"{LOG_IN}\"")), "{}", home.text);

    let taken = operator.request(Method::DELETE, &format!("{MEMBERSHIPS}/{given}"));
    assert_eq!(send(taken).await.status, StatusCode::OK);
    eventually("the role is gone", async || {
        (browser.clone().get("/ui/operate/nodes").await.status == StatusCode::FORBIDDEN).then_some(())
    })
    .await;
    let out = browser.get("/ui/logout").await;
    browser.post("/ui/logout", &out.hidden()).await;
    let shown = browser.get("/ui/operate").await;
    assert_refused("the session has ended", &shown, StatusCode::FORBIDDEN, "Your session has ended");
}

/// Checks that a person who may see the failed events of an instance sees nothing of the system, and changes nothing.
async fn looks_only_at_the_instance(browser: &mut Browser, shown: &Page) {
    for path in OF_SYSTEM {
        assert!(!shown.text.contains(&format!("href=\"{path}\"")), "{path}: {}", shown.text);
        assert_refused(path, &browser.get(path).await, StatusCode::FORBIDDEN, "system.debug.read");
    }
    follows_the_instance(browser, shown).await;
    let form =
        shown.form(&[("all", "1"), ("confirmed", "1"), ("reason", "none"), ("until", "9999"), ("what", "replay")]);
    let changed = browser.post("/ui/operate/projections/targets", &form).await;
    assert_eq!(changed.status, StatusCode::FORBIDDEN, "{}", changed.text);
    for what in ["retry", "discard"] {
        let refused = browser.get(&format!("/ui/operate/failed/{what}?all=1")).await;
        assert_refused(what, &refused, StatusCode::FORBIDDEN, "failed_event.write");
    }
    let refused = browser.post("/ui/operate/failed/retry", &form).await;
    assert_refused("sends it anyway", &refused, StatusCode::FORBIDDEN, "failed_event.write");
}

#[tokio::test]
async fn only_the_browser_that_was_sent_comes_in_and_once() {
    let (tenant, other) = tokio::join!(Tenant::start(), Tenant::start());
    let (admin, issuer) = (tenant.client().await, &tenant.bootstrap.issuer);
    let (user, name) = person(&admin).await;
    gives(&admin, "", &user, "IAM_OWNER").await;
    let mut browser = Browser::new(issuer);
    let callback = comes_back(issuer, &mut browser, &name).await;
    let (code, rest) = callback.split_once('&').expect("there is more");
    let stays_out = |case: &str, shown: &Page| {
        let location = if case.contains("code") { "" } else { "/ui/operate" };
        assert_eq!(shown.location(), location, "{case}: {} {}", shown.status, shown.text);
        let is_in = shown.headers.get_all("set-cookie").iter().any(|line| line.as_bytes().starts_with(b"operate-"));
        assert!(!is_in, "{case}: no session begins");
    };
    stays_out("another browser", &Browser::new(issuer).get(&callback).await);
    for (case, path) in [
        ("nothing else", code.to_owned()),
        ("another state", callback.replace("state=", "state=x")),
        ("another issuer", callback.replace("iss=", "iss=x")),
        ("no issuer", format!("{code}&state={}", state(rest))),
        ("an error", format!("/ui/login/operate?error=access_denied&{rest}")),
        ("another code", callback.replace("code=", "code=x")),
    ] {
        stays_out(case, &browser.clone().get(&path).await);
    }
    let of_login = browser.cookies.clone().into_iter().find(|(name, _)| name.starts_with("operate-login"));
    let (cookie, of_login) = of_login.expect("it was sent to log in");
    let mut posing = browser.clone();
    posing.cookies.insert(cookie.replace("operate-login", "operate"), of_login.clone());
    assert_refused("a login for a session", &posing.get("/ui/operate").await, StatusCode::FORBIDDEN, "has ended");
    let mut elsewhere = Browser::new(&other.bootstrap.issuer);
    elsewhere.cookies.clone_from(&browser.cookies);
    let encoded = |issuer: &str| issuer.replace(':', "%3A").replace('/', "%2F");
    assert!(callback.contains(&encoded(issuer)), "{callback}");
    let there = callback.replace(&encoded(issuer), &encoded(&other.bootstrap.issuer));
    stays_out("another instance", &elsewhere.get(&there).await);
    let away = browser.clone().get(&format!("/ui/login/operate?error=server_error&{rest}")).await;
    assert_eq!(away.status, StatusCode::SERVICE_UNAVAILABLE, "{}", away.text);

    let mut twice = browser.clone();
    let shown = browser.get(&callback).await;
    assert_eq!((shown.status, shown.location()), (StatusCode::SEE_OTHER, "/ui/operate"), "{}", shown.text);
    stays_out("its cookie is gone", &browser.clone().get(&callback).await);
    stays_out("the code was used", &twice.get(&callback).await);
    let mut led = browser.clone();
    led.sent_from = vec![("sec-fetch-site", "cross-site".to_owned())];
    assert_refused("led by another site", &led.get(LOG_IN).await, StatusCode::FORBIDDEN, "another site");
    let shown = browser.get("/ui/operate/failed").await;
    assert_refused("what a code gave ends when it is used twice", &shown, StatusCode::FORBIDDEN, "has ended");
    assert_eq!(twice.cookies.get(&cookie), Some(&of_login), "a refused answer leaves the login as it was");
}

fn state(query: &str) -> &str {
    let state = query.split('&').find_map(|pair| pair.strip_prefix("state="));
    state.expect("it has one")
}

/// Waits until the list has a number of entries, and returns it.
async fn listed(browser: &Browser, count: usize) -> Page {
    let has = async || {
        let shown = browser.clone().get("/ui/operate/failed").await;
        (shown.text.matches("name=\"id\"").count() == count).then_some(shown)
    };
    eventually(&format!("{count} are listed"), has).await
}

#[tokio::test]
async fn an_administrator_mends_deliveries_of_the_instance_on_the_page() {
    let flags = ["--delivery-tries", "1", "--delivery-pause", "20"].map(str::to_owned);
    let platform = Platform::start_with(&flags, &[]).await;
    let foreign = foreign_failure(&platform).await;
    let (admin, issuer) = (platform.client().await, &platform.bootstrap.issuer);
    let (user, name) = person(&admin).await;
    gives(&admin, "", &user, "IAM_OWNER").await;
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (hook, _) = endpoint.target(&admin, "restWebhook", &json!({})).await;
    execute(&admin, json!({ "event": { "event": "target.changed" } }), &[&hook]).await;
    let targets = [admin.create_target("one").await, admin.create_target("other").await];
    for target in targets.map(|target| target.expect("it is created")) {
        let patch = admin.request(Method::PATCH, &format!("{TARGETS}/{target}")).json(&json!({ "name": "changed" }));
        assert_eq!(send(patch).await.status, StatusCode::OK);
    }
    let mut browser = Browser::new(issuer);
    log_in(issuer, &mut browser, &name).await;
    let list = listed(&browser, 2).await;
    assert!(!list.text.contains("name=\"instance\""), "there is one instance: {}", list.text);
    let none = open(&mut browser, "/ui/operate/failed?error=404").await;
    assert!(none.text.contains("None matches"), "{}", none.text);

    let of_foreign = format!("/ui/operate/failed/{foreign}");
    for path in [of_foreign.clone(), format!("{of_foreign}/payload")] {
        assert_eq!(browser.get(&path).await.status, StatusCode::NOT_FOUND, "{path}: it is of another instance");
    }
    let retried = browser.post("/ui/operate/failed/retry", &list.form(&[("id", &foreign)])).await;
    assert!(retried.location().contains("done=0&gone=1"), "{} {}", retried.status, retried.text);

    let first = list.text.split_once("name=\"id\" value=\"").expect("there is one").1;
    let first = first.split('"').next().unwrap_or_default().to_owned();
    let one = open(&mut browser, &format!("/ui/operate/failed/{first}")).await;
    assert!(one.text.contains("was not delivered") && one.text.contains("target.changed"), "{}", one.text);
    assert!(!one.text.contains("/ui/operate/log"), "the log is of all instances: {}", one.text);
    let confirm = open(&mut browser, &format!("/ui/operate/failed/discard?id={first}")).await;
    let done = confirm.form(&[("reason", "nobody needs it")]);
    let done = browser.post("/ui/operate/failed/discard", &done).await;
    assert!(done.location().contains("done=1"), "{} {}", done.status, done.text);
    listed(&browser, 1).await;

    endpoint.reply(Reply::status(204));
    endpoint.take();
    let confirm = open(&mut browser, "/ui/operate/failed/retry?all=1").await;
    let done = browser.post("/ui/operate/failed/retry", &confirm.hidden()).await;
    assert!(done.location().contains("done=1"), "{} {}", done.status, done.text);
    endpoint.called(1).await;
    listed(&browser, 0).await;
    let audited =
        post(&admin, "/resources/v3alpha/events/_search", json!([{ "type": "failed_event.discarded" }])).await;
    assert_eq!(audited.body["result"][0]["actorId"], json!(user), "{}", audited.body);
    let out = open(&mut browser, "/ui/operate/failed").await;
    let out = browser.post("/ui/operate/sign-out", &sign_out(&out)).await;
    assert!(out.text.contains("href=\"/ui/logout\""), "{}", out.text);
    assert_eq!(browser.get("/ui/operate").await.status, StatusCode::FORBIDDEN);
}

/// Creates a delivery that was given up in another instance.
async fn foreign_failure(platform: &Platform) -> String {
    let (other, operator) = (instance_beside(platform).await.client().await, platform.operator().await);
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (hook, _) = endpoint.target(&other, "restWebhook", &json!({})).await;
    execute(&other, json!({ "event": { "event": "target.added" } }), &[&hook]).await;
    other.create_target("told").await.expect("it is created");
    let given_up = async || {
        let found = post(&operator, "/system/v1/failedevents/_search", json!({})).await;
        found.body["result"][0]["id"].as_str().map(str::to_owned)
    };
    eventually("it is given up", given_up).await
}

/// Returns the fields of the form in the header of a page.
fn sign_out(shown: &Page) -> Vec<(String, String)> {
    let token = shown.text.split_once("action=\"/ui/operate/sign-out\"").expect("there is one").1;
    let token = token.split_once("value=\"").expect("it has a token").1.split('"').next().unwrap_or_default();
    vec![("token".to_owned(), token.to_owned())]
}
