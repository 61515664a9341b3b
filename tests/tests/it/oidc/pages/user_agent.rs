//! Sessions of logins on pages have the user agent of the browser.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    browser::Browser,
    client::{post, send},
    eventually,
    platform::Platform,
    tenant::new_name,
};

use super::{
    super::flow::{API, Flow, PASSWORD, person},
    back, browser, home, id_token_claims, start,
};

/// Waits until the session has a user agent with this header, and returns it.
async fn user_agent(flow: &Flow, session: &str, header: &str) -> Value {
    eventually("the session has the user agent", async || {
        let read = send(flow.admin.request(Method::GET, &format!("{API}/sessions/{session}"))).await.body;
        let agent = read["session"]["userAgent"].clone();
        (agent["header"]["user-agent"]["values"] == json!([header])).then_some(agent)
    })
    .await
}

/// Returns the session of the answer to the app.
async fn session(flow: &Flow, shown: &tests::browser::Page) -> String {
    let id_token = id_token_claims(&flow.redeemed(&back(shown)["code"]).await);
    id_token["sid"].as_str().expect("it is of a session").to_owned()
}

fn set_user_agent(browser: &mut Browser, header: &str) {
    browser.sent_from.retain(|(name, _)| *name != "user-agent");
    browser.sent_from.push(("user-agent", header.to_owned()));
}

#[tokio::test]
async fn the_session_of_a_login_says_by_which_browser_and_from_where() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    set_user_agent(&mut browser, "Mozilla/5.0 (first)");
    let shown = flow.logs_in(&mut browser, &flow.person.1, &[]).await;
    let id = session(&flow, &shown).await;
    let first = user_agent(&flow, &id, "Mozilla/5.0 (first)").await;
    assert_eq!(first["ip"], json!("127.0.0.1"), "{first}");
    let filter = json!([{ "userId": flow.person.0 }]);
    eventually("it is found with that", async || {
        let found = post(&flow.admin, &format!("{API}/sessions/_search"), filter.clone()).await.body;
        (found["result"][0]["userAgent"] == first).then_some(())
    })
    .await;

    // The same session, when the password is asked for once more.
    let long = "x".repeat(900);
    set_user_agent(&mut browser, &long);
    let shown = flow.sent_by(&mut browser, &[("prompt", "login")]).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1), ("password", PASSWORD)]).await;
    assert_eq!(session(&flow, &shown).await, id);
    user_agent(&flow, &id, &long[..500]).await;
}

#[tokio::test]
async fn so_does_the_session_of_somebody_who_registers() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    set_user_agent(&mut browser, "Mozilla/5.0 (new)");
    let shown = flow.sent_by(&mut browser, &[("prompt", "create")]).await;
    let name = new_name();
    let fields = [("given_name", "Grace"), ("family_name", "Hopper"), ("email", "grace@example.com")];
    let fields = [&fields[..], &[("username", name.as_str()), ("password", PASSWORD)]].concat();
    let shown = flow.send(&mut browser, &shown, &fields).await;
    let id = session(&flow, &shown).await;
    assert_eq!(user_agent(&flow, &id, "Mozilla/5.0 (new)").await["ip"], json!("127.0.0.1"));
}

#[tokio::test]
async fn the_address_is_that_which_a_trusted_proxy_says() {
    for (trusted, address) in [("127.0.0.0/8", "203.0.113.9"), ("192.0.2.0/24", "127.0.0.1")] {
        let platform = Platform::start_with(&["--trusted-proxies".to_owned(), trusted.to_owned()], &[]).await;
        let admin = platform.client().await;
        let (user, name) = person(&admin).await;
        let issuer = &platform.bootstrap.issuer;
        let mut browser = Browser::new(issuer);
        browser.sent_from.push(("x-forwarded-for", "203.0.113.9".to_owned()));
        let shown = home::logs_in(issuer, &mut browser, (&name, PASSWORD)).await;
        assert_eq!(shown.status, 200, "{trusted}: {}", shown.text);
        let found = eventually("the session is found", async || {
            let found = post(&admin, &format!("{API}/sessions/_search"), json!([{ "userId": user }])).await.body;
            found["result"].get(0).cloned()
        });
        assert_eq!(found.await["userAgent"]["ip"], json!(address), "{trusted}");
    }
}
