//! Registration: somebody without an account creates one on a page.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    browser::Page,
    client::{done, post, send},
    eventually,
    tenant::new_name,
};

use super::{
    super::flow::{API, Flow, PASSWORD},
    back, browser, id_token_claims, set, start, title,
};

/// Returns the fields of the form for registration.
fn fields<'a>(username: &'a str, password: &'a str) -> [(&'static str, &'a str); 5] {
    [
        ("given_name", "Grace"),
        ("family_name", "Hopper"),
        ("email", "grace@example.com"),
        ("username", username),
        ("password", password),
    ]
}

async fn open_page(flow: &Flow, browser: &mut tests::browser::Browser, others: &[(&str, &str)]) -> Page {
    let shown = flow.sent_by(browser, &[&[("prompt", "create")], others].concat()).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Create an account"), "{}", shown.text);
    shown
}

#[tokio::test]
async fn somebody_registers_and_is_logged_in() {
    let flow = start().await;
    // 33
    let mut browser = browser(&flow.tenant);
    let shown = open_page(&flow, &mut browser, &[]).await;
    let name = new_name();
    let shown = flow.send(&mut browser, &shown, &fields(&name, PASSWORD)).await;
    let first = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);
    let id = first["sub"].as_str().expect("it is somebody");
    assert_eq!(first["amr"], json!(["pwd"]));
    let read = send(flow.admin.request(Method::GET, &format!("{API}/users/{id}"))).await.body;
    let user = &read["user"]["user"];
    assert_eq!((&user["username"], &user["human"]["data"]["given_name"]), (&json!(name), &json!("Grace")), "{read}");
    assert_eq!(user["human"]["email"], json!({ "address": "grace@example.com" }), "nobody has shown that it is theirs");
    let organization = &flow.tenant.bootstrap.organization_id;
    assert_eq!(read["user"]["details"]["resourceOwner"]["id"], json!(organization), "the default organization");
    let events = json!([{ "aggregateId": id }]);
    let events = eventually("its event is found", async || {
        let found = post(&flow.admin, &format!("{API}/events/_search"), events.clone()).await.body;
        found["result"][0].is_object().then_some(found)
    })
    .await;
    assert_eq!(events["result"][0]["actorId"], json!(id), "the person did it: {events}");

    back(&flow.sent_by(&mut browser, &[("prompt", "none")]).await);
    let mut other = super::browser(&flow.tenant);
    let shown = flow.logs_in(&mut other, &name, &[]).await;
    assert_eq!(id_token_claims(&flow.redeemed(&back(&shown)["code"]).await)["sub"], first["sub"]);

    // From the page that asks for the name, too.
    let shown = flow.sent_by(&mut super::browser(&flow.tenant), &[]).await;
    assert!(shown.text.contains("href=\"/ui/login/register?authRequest="), "{}", shown.text);
}

#[tokio::test]
async fn what_is_wrong_with_a_registration_is_told_at_its_field_and_what_was_said_stays() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = open_page(&flow, &mut browser, &[]).await;
    let users = async || {
        // A search behind a write knows all before it.
        done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await;
        let found = post(&flow.admin, &format!("{API}/users/_search"), json!([])).await.body;
        found["details"]["totalResult"].clone()
    };
    let before = users().await;
    let name = new_name();
    for (field, value, told) in [
        ("given_name", "", "Enter your given name"),
        ("family_name", " ", "Enter your family name"),
        ("email", "grace", "Enter an e-mail address such as name@example.com"),
        ("username", "", "Enter your login name"),
        ("username", "1234", "A login name must have something other than digits"),
        ("username", &flow.person.1, "This login name is taken"),
        ("username", &flow.person.1.to_uppercase(), "This login name is taken"),
        ("given_name", &"a".repeat(201), "Enter 200 characters or fewer"),
        ("family_name", "Hop\u{1}per", "Enter it on one line, without control characters"),
        ("password", "", "Enter a new password"),
        ("password", "short", "Password must have 10 characters or more"),
        ("password", &"a".repeat(201), "Password must have 200 characters or fewer"),
        ("password", "password123", "Password must not be common or easy to guess"),
    ] {
        let mut all = fields(&name, PASSWORD);
        all.iter_mut().find(|(name, _)| *name == field).expect("it is a field").1 = value;
        let wrong = flow.send(&mut browser, &shown, &all).await;
        assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{field} {value}: {}", wrong.text);
        assert_eq!(title(&wrong), "Error: Create an account");
        let summary = format!("<a href=\"#{field}\">{told}</a>");
        assert!(wrong.text.contains(&summary), "{field} {value}: {}", wrong.text);
        assert!(wrong.text.contains("value=\"Hopper\"") || field == "family_name", "what was said stays");
        assert!(wrong.text.contains("value=\"grace@example.com\"") || field == "email", "what was said stays");
        let said = all.iter().find(|(name, _)| *name == "password").expect("it is a field").1;
        assert!(said.is_empty() || !wrong.text.contains(&format!("\"{said}\"")), "passwords go: {}", wrong.text);
    }
    let all = [("email", "x"), ("password", "short")];
    let wrong = flow.send(&mut browser, &shown, &all).await;
    assert_eq!(wrong.text.matches("<li><a href=\"#").count(), 5, "all is told at once: {}", wrong.text);
    assert_eq!(users().await, before);
}

#[tokio::test]
async fn people_register_where_an_organization_lets_them_and_nowhere_else() {
    let flow = start().await;
    let other = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let in_other = format!("openid urn:platform:iam:org:id:{other}");
    let mut browser = browser(&flow.tenant);
    let shown = open_page(&flow, &mut browser, &[("scope", &in_other)]).await;
    let name = new_name();
    let shown = flow.send(&mut browser, &shown, &fields(&name, PASSWORD)).await;
    assert_eq!(title(&shown), "Shop asks for access", "the app is of another organization: {}", shown.text);
    let found = eventually("it is found", async || {
        let wanted = json!([{ "username": { "name": name } }]);
        let found = post(&flow.admin, &format!("{API}/users/_search"), wanted).await.body;
        found["result"][0].is_object().then_some(found)
    })
    .await;
    assert_eq!(found["result"][0]["details"]["resourceOwner"]["id"], json!(other));

    // 33. One that is on the page when it is switched off is told so, and nobody is made.
    let page = open_page(&flow, &mut browser, &[]).await;
    let path = format!("/settings/v3alpha/login?ctx.orgId={}", flow.tenant.bootstrap.organization_id);
    set(&flow.admin, &path, json!({ "allowRegister": { "set": false } })).await;
    let shown = eventually("nobody may register any more", async || {
        let shown = flow.sent_by(&mut super::browser(&flow.tenant), &[("prompt", "create")]).await;
        (title(&shown) == "Sign in to Shop").then_some(shown)
    })
    .await;
    assert!(!shown.text.contains("/ui/login/register"), "{}", shown.text);
    let refused = flow.send(&mut browser, &page, &fields(&new_name(), PASSWORD)).await;
    assert_eq!((refused.status, title(&refused)), (StatusCode::BAD_REQUEST, "This sign-in cannot go on"));
    let none = flow.sent_by(&mut browser, &[("prompt", "create")]).await;
    assert_eq!(title(&none), "Choose an account", "nobody is logged in unasked who wanted to be somebody new");
    open_page(&flow, &mut browser, &[("scope", &in_other)]).await;
    done(&flow.admin, &format!("{API}/organizations/{other}/_deactivate"), json!({})).await;
    eventually("it is known to be switched off", async || {
        let asked = [("prompt", "create"), ("scope", in_other.as_str())];
        let shown = flow.sent_by(&mut super::browser(&flow.tenant), &asked).await;
        (title(&shown) == "Sign in to Shop").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_app_that_asks_for_somebody_in_particular_gets_nobody_new() {
    let flow = start().await;
    let shown = flow.logs_in(&mut browser(&flow.tenant), &flow.person.1, &[]).await;
    let tokens = flow.redeemed(&back(&shown)["code"]).await;
    let hint = tokens["id_token"].as_str().expect("there is one");
    let shown = flow.sent_by(&mut browser(&flow.tenant), &[("prompt", "create"), ("id_token_hint", hint)]).await;
    assert_eq!(title(&shown), "Sign in to Shop");
    assert!(!shown.text.contains("/ui/login/register"), "{}", shown.text);
}

#[tokio::test]
async fn who_registers_often_has_to_wait() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = open_page(&flow, &mut browser, &[]).await;
    let mut statuses = vec![];
    for _ in 0..40 {
        let sent = browser.post(&shown.action(), &shown.form(&fields(&new_name(), "password123"))).await;
        statuses.push(sent.status);
        if sent.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(sent.headers.contains_key("retry-after"));
            assert!(sent.text.contains("Too many attempts") && sent.text.contains("value=\"Hopper\""), "{}", sent.text);
            break;
        }
    }
    assert_eq!(statuses.pop(), Some(StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    assert!(statuses.len() >= 10 && statuses.iter().all(|it| *it == StatusCode::UNPROCESSABLE_ENTITY), "{statuses:?}");
}

#[tokio::test]
async fn of_two_who_want_one_name_at_once_one_gets_it() {
    let flow = start().await;
    let name = new_name();
    let mut browsers = [browser(&flow.tenant), browser(&flow.tenant)];
    let mut forms = vec![];
    for browser in &mut browsers {
        let shown = open_page(&flow, browser, &[]).await;
        forms.push((shown.action(), shown.form(&fields(&name, PASSWORD))));
    }
    let [first, second] = &mut browsers;
    let (first, second) = tokio::join!(first.post(&forms[0].0, &forms[0].1), second.post(&forms[1].0, &forms[1].1));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [StatusCode::SEE_OTHER, StatusCode::UNPROCESSABLE_ENTITY], "{}", first.text);
}
