//! Several accounts in one browser, consent, people whom an app does not admit, and signing out.

use reqwest::StatusCode;
use serde_json::json;
use tests::{client::done, eventually, tenant::new_name};

use super::{
    super::flow::{API, App, CALLBACK, Flow, PASSWORD, person},
    back, browser, id_token_claims, on_pages, start, title,
};

const BYE: &str = "https://shop.example/bye";

#[tokio::test]
async fn of_several_accounts_one_is_chosen_and_one_is_removed() {
    let flow = start().await;
    let other = person(&flow.admin).await;
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    // 32
    let shown = flow.sent_by(&mut browser, &[("prompt", "select_account")]).await;
    assert_eq!(title(&shown), "Choose an account");
    assert!(shown.text.contains("Radia Perlman") && shown.text.contains(&flow.person.1), "{}", shown.text);
    let request = shown.hidden()[0].1.clone();
    let shown = browser.get(&format!("/ui/login/name?authRequest={request}")).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &other.1)]).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &other.1), ("password", PASSWORD)]).await;
    let second = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);
    assert_eq!(second["sub"], other.0);

    let shown = flow.sent_by(&mut browser, &[("prompt", "none")]).await;
    assert_eq!(back(&shown)["error"], "account_selection_required");
    let shown = flow.sent_by(&mut browser, &[]).await;
    assert_eq!(title(&shown), "Choose an account", "none is taken silently");
    for id in [&flow.person.0, &other.0] {
        let shown = flow.send(&mut browser.clone(), &shown, &[("account", id)]).await;
        assert!(shown.location().starts_with(CALLBACK) || shown.status == StatusCode::NOT_FOUND, "{}", shown.text);
        if shown.location().starts_with(CALLBACK) {
            assert_eq!(id_token_claims(&flow.redeemed(&back(&shown)["code"]).await)["sub"], *id);
        }
    }
    for (name, id) in [(&flow.person.1, &flow.person.0), (&other.1, &other.0)] {
        let shown = flow.sent_by(&mut browser, &[("login_hint", name), ("prompt", "none")]).await;
        assert_eq!(id_token_claims(&flow.redeemed(&back(&shown)["code"]).await)["sub"], *id, "a hint chooses");
    }
    let shown = flow.sent_by(&mut browser, &[]).await;
    let request = shown.hidden()[0].1.clone();
    let foreign = flow.send(&mut browser, &shown, &[("account", "117486514211913731")]).await;
    assert_eq!(title(&foreign), "Choose an account", "of nobody in this browser");
    let removal = browser.get(&format!("/ui/login/remove?authRequest={request}")).await;
    assert!(removal.text.contains(&format!("Remove {}", other.1)), "{}", removal.text);
    let shown = flow.send(&mut browser, &removal, &[("account", &other.0)]).await;
    assert!(shown.text.contains(&flow.person.1) && !shown.text.contains(&other.1), "{}", shown.text);
    let shown = flow.sent_by(&mut browser, &[("login_hint", &other.1), ("prompt", "none")]).await;
    assert_eq!(back(&shown)["error"], "login_required", "a hint at nobody here");
    let shown = flow.sent_by(&mut browser, &[("login_hint", &other.1)]).await;
    assert!(title(&shown) == "Sign in to Shop" && shown.text.contains(&other.1), "{}", shown.text);
    let shown = flow.sent_by(&mut browser, &[]).await;
    back(&shown);
}

#[tokio::test]
async fn an_app_of_another_organization_asks_first() {
    let flow = start().await;
    let organization = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let name = new_name();
    let user = json!({ "ctx": { "orgId": organization }, "username": name, "human": {
        "data": { "given_name": "Grace", "family_name": "Hopper" }, "email": { "address": "grace@example.com" },
        "password": { "password": PASSWORD },
    } });
    let path = format!("{API}/users?ctx.orgId={organization}");
    let mut user = user;
    user.as_object_mut().expect("it is one").remove("ctx");
    done(&flow.admin, &path, user).await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.logs_in(&mut browser, &name, &[]).await;
    assert_eq!(title(&shown), "Shop asks for access");
    for text in ["shop.example", "See your name and profile", "See your e-mail address"] {
        assert!(shown.text.contains(text), "{text}: {}", shown.text);
    }
    let none = flow.sent_by(&mut browser, &[("prompt", "none")]).await;
    assert_eq!(back(&none)["error"], "consent_required");
    let cancel: Vec<_> = shown.hidden();
    let denied = browser.post("/ui/login/cancel", &cancel).await;
    assert_eq!(back(&denied)["error"], "access_denied");
    let shown = flow.sent_by(&mut browser, &[]).await;
    assert_eq!(title(&shown), "Shop asks for access", "it was not allowed");
    let account = shown.text.split_once("name=\"account\" value=\"").map(|(_, rest)| rest.split('"').next().unwrap());
    let fields = [("account", account.expect("it is about one"))];
    let sent = browser.post("/ui/login/consent", &shown.form(&fields)).await;
    flow.redeemed(&back(&sent)["code"]).await;
    back(&flow.sent_by(&mut browser, &[("prompt", "none")]).await);
    let more = flow.sent_by(&mut browser, &[("scope", "openid profile email phone")]).await;
    assert_eq!(title(&more), "Shop asks for access", "it asks for more");
    let again = flow.sent_by(&mut browser, &[("prompt", "consent")]).await;
    assert_eq!(title(&again), "Shop asks for access", "the app wants it to be asked");
}

#[tokio::test]
async fn whom_a_project_does_not_admit_is_told_and_led_back() {
    let flow = start().await;
    let project = json!({ "authorizationRequired": true });
    let path = format!("{API}/projects/{}", flow.project);
    super::set(&flow.admin, &path, project).await;
    let mut browser = browser(&flow.tenant);
    let shown = eventually("nobody was granted anything", async || {
        let mut browser = browser.clone();
        let shown = flow.logs_in(&mut browser, &flow.person.1, &[]).await;
        (title(&shown) == "This account cannot use Shop").then_some((shown, browser))
    })
    .await;
    let (shown, mut in_browser) = shown;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    assert!(shown.text.contains("The account has no access to the app."), "{}", shown.text);
    let none = flow.sent_by(&mut in_browser, &[("prompt", "none")]).await;
    assert_eq!(back(&none)["error"], "interaction_required");
    let led = in_browser.post("/ui/login/cancel", &shown.hidden()).await;
    assert_eq!(back(&led)["error"], "access_denied");
    browser.cookies.clear();
}

#[tokio::test]
async fn a_person_signs_out_of_all_accounts_of_the_browser() {
    let mut settings = on_pages(&App::public());
    settings["postLogoutRedirectUris"] = json!([BYE]);
    let flow = Flow::with(settings).await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.logs_in(&mut browser, &flow.person.1, &[]).await;
    let tokens = flow.redeemed(&back(&shown)["code"]).await;
    let access = super::super::flow::access_token(&tokens).to_owned();
    let leave = |uri: &str| {
        let pairs = [("client_id", flow.app.id.as_str()), ("post_logout_redirect_uri", uri), ("state", "x y")];
        format!("/oidc/v1/end_session?{}", serde_urlencoded::to_string(pairs).unwrap())
    };
    let wrong = browser.get(&leave("https://evil.example/bye")).await;
    assert_eq!((wrong.status, title(&wrong)), (StatusCode::BAD_REQUEST, "Nobody was signed out"));
    let shown = browser.get(&leave(BYE)).await;
    let shown = flow.follow(&mut browser, shown).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Sign out?"));
    assert!(shown.text.contains(&flow.person.1), "{}", shown.text);
    assert_eq!(flow.userinfo(&access).await.status, StatusCode::OK, "asking ends nothing");
    let mut forged = shown.hidden();
    forged[0].1 = "x".to_owned();
    let asked = browser.post("/ui/logout", &forged).await;
    assert!(asked.location().starts_with("/ui/logout?client_id="), "it is asked again: {}", asked.location());
    assert_eq!(flow.userinfo(&access).await.status, StatusCode::OK);
    let mut before = browser.clone();
    let out = browser.post("/ui/logout", &shown.hidden()).await;
    assert_eq!(out.location(), format!("{BYE}?state=x+y"), "{}", out.text);
    assert_eq!(flow.userinfo(&access).await.status, StatusCode::UNAUTHORIZED, "the session has ended");
    assert_ne!(browser.cookies, before.cookies, "146: it is replaced");
    for browser in [&mut browser, &mut before] {
        let none = flow.sent_by(browser, &[("prompt", "none")]).await;
        assert_eq!(back(&none)["error"], "login_required", "146: the cookie is worth nothing any more");
    }
    let again = browser.get("/oidc/v1/end_session").await;
    let again = flow.follow(&mut browser, again).await;
    assert_eq!((again.status, title(&again)), (StatusCode::OK, "You are signed out"), "nobody is there to be asked");
}
