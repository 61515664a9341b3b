//! The sequence of pages: name, password, a new password where one must be chosen, and back to the app.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{done, send},
    clock::Clock,
    eventually,
    platform::Platform,
    tenant::new_name,
};

use super::{
    super::flow::{API, App, CALLBACK, Flow, PASSWORD},
    COOKIE, back, browser, id_token_claims, on_pages, set, start, title,
};

#[tokio::test]
async fn a_person_logs_in_once_and_the_next_time_is_asked_nothing() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.sent_by(&mut browser, &[]).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Sign in to Shop"));
    let shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1)]).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Enter your password"));
    assert!(shown.text.contains(&flow.person.1), "managers of passwords know whose it is: {}", shown.text);
    let shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1), ("password", PASSWORD)]).await;
    let told = back(&shown);
    assert_eq!((&*told["state"], &*told["iss"]), ("a b&c", &*flow.tenant.bootstrap.issuer));
    let tokens = flow.redeemed(&told["code"]).await;
    let first = id_token_claims(&tokens);
    assert_eq!(
        (&first["sub"], &first["nonce"], &first["amr"]),
        (&json!(flow.person.0), &json!("n-0S6_WzA2Mj"), &json!(["pwd"]))
    );

    for prompt in ["", "none"] {
        let shown = flow.sent_by(&mut browser, &[("prompt", prompt)]).await;
        let again = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);
        assert_eq!((&again["sid"], &again["auth_time"]), (&first["sid"], &first["auth_time"]), "it is the same login");
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let shown = flow.sent_by(&mut browser, &[("prompt", "login")]).await;
    assert_eq!(title(&shown), "Enter your password", "its session is known, and it is checked again");
    let shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1), ("password", PASSWORD)]).await;
    let again = id_token_claims(&flow.redeemed(&back(&shown)["code"]).await);
    assert_eq!(again["sid"], first["sid"]);
    assert!(again["auth_time"].as_i64() > first["auth_time"].as_i64(), "{again} {first}");
    let shown = flow.sent_by(&mut browser, &[("max_age", "1000")]).await;
    back(&shown);
    for (age, error) in [("1000", None), ("0", Some("login_required"))] {
        let told = back(&flow.sent_by(&mut browser, &[("max_age", age), ("prompt", "none")]).await);
        assert_eq!(told.get("error").map(String::as_str), error, "34: {age}");
    }

    let mut other = super::browser(&flow.tenant);
    let shown = flow.sent_by(&mut other, &[("prompt", "none")]).await;
    assert_eq!(back(&shown)["error"], "login_required", "another browser");
}

#[tokio::test]
async fn a_wrong_password_and_a_name_that_nobody_has_are_told_alike() {
    let flow = start().await;
    let nobody = new_name();
    let mut told = vec![];
    for name in [&flow.person.1, &nobody] {
        let mut browser = browser(&flow.tenant);
        let shown = flow.sent_by(&mut browser, &[]).await;
        let shown = flow.send(&mut browser, &shown, &[("username", name)]).await;
        assert_eq!(title(&shown), "Enter your password", "36: whether somebody has the name is not told");
        let before = browser.cookies.clone();
        let password = "not-the-password-of-anybody";
        let wrong = flow.send(&mut browser, &shown, &[("username", name), ("password", password)]).await;
        assert_eq!((wrong.status, title(&wrong)), (StatusCode::UNPROCESSABLE_ENTITY, "Error: Enter your password"));
        assert!(!wrong.text.contains(password) && wrong.location().is_empty());
        assert_eq!(browser.cookies, before, "the browser has nothing more than before");
        let without = |text: &str| text.replace(name.as_str(), "").replace(&wrong.hidden()[1].1, "");
        told.push(without(&wrong.text).replace(&wrong.hidden()[0].1, ""));
        let empty = flow.send(&mut browser, &wrong, &[("username", name), ("password", "")]).await;
        assert!(empty.status == StatusCode::UNPROCESSABLE_ENTITY && empty.text.contains("Enter your password"));
    }
    assert_eq!(told[0], told[1]);
    let mut browser = browser(&flow.tenant);
    let shown = flow.sent_by(&mut browser, &[]).await;
    let shown = flow.send(&mut browser, &shown, &[("username", "  ")]).await;
    assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(shown.text.contains("Enter your login name") && shown.text.contains("aria-invalid"), "{}", shown.text);
}

#[tokio::test]
async fn too_many_tries_are_told_with_the_time_that_is_left() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.sent_by(&mut browser, &[]).await;
    let mut shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1)]).await;
    for _ in 0..30 {
        shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1), ("password", "wrong-one")]).await;
        if shown.status == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(shown.status, StatusCode::TOO_MANY_REQUESTS, "{}", shown.text);
    assert!(shown.text.contains("Too many attempts. Wait a moment and try again."), "{}", shown.text);
    let wait: u64 = shown.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
}

#[tokio::test]
async fn whoever_must_choose_another_password_does_so_on_the_way() {
    let flow = start().await;
    let name = new_name();
    let user = json!({ "username": name, "human": {
        "data": { "given_name": "Ada", "family_name": "Lovelace" }, "email": { "address": "ada@example.com" },
        "password": { "password": PASSWORD, "changeRequired": true },
    } });
    done(&flow.admin, &format!("{API}/users"), user).await;
    set(&flow.admin, "/settings/v3alpha/password", json!({ "requiresNumber": { "set": true } })).await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.logs_in(&mut browser, &name, &[]).await;
    assert_eq!(title(&shown), "Choose a new password");
    let shown = eventually("the rules are known", async || {
        let mut browser = browser.clone();
        let shown = flow.sent_by(&mut browser, &[]).await;
        shown.text.contains("Password must have a digit").then_some(shown)
    })
    .await;
    for (new, told) in [
        ("", "Enter a new password"),
        ("short1", "Password must have 10 characters or more"),
        ("without-any-digit", "Password must have a digit"),
        ("password123456", "Password must not be common or easy to guess"),
    ] {
        let wrong = flow.send(&mut browser, &shown, &[("username", &name), ("password", new)]).await;
        assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{new}");
        let errors = wrong.text.split_once("id=\"password-error\"").map_or("", |(_, rest)| rest);
        assert!(errors.contains(told), "{new}: {}", wrong.text);
    }
    set(&flow.admin, "/settings/v3alpha/password", json!({ "requiresNumber": { "set": false } })).await;
    let same = eventually("the rule is gone", async || {
        let same = flow.send(&mut browser.clone(), &shown, &[("username", &name), ("password", PASSWORD)]).await;
        same.text.contains("must differ").then_some(same)
    })
    .await;
    assert_eq!(same.status, StatusCode::UNPROCESSABLE_ENTITY);
    let new = "another-one-of-ten-cats-7";
    let shown = flow.send(&mut browser, &shown, &[("username", &name), ("password", new)]).await;
    flow.redeemed(&back(&shown)["code"]).await;
    back(&flow.sent_by(&mut browser, &[("prompt", "none")]).await);
    let mut other = super::browser(&flow.tenant);
    let shown = flow.sent_by(&mut other, &[]).await;
    let shown = flow.send(&mut other, &shown, &[("username", &name)]).await;
    let wrong = flow.send(&mut other, &shown, &[("username", &name), ("password", PASSWORD)]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "the one before is good no more");
    let shown = flow.send(&mut other, &wrong, &[("username", &name), ("password", new)]).await;
    back(&shown);
}

#[tokio::test]
async fn what_is_switched_off_or_over_says_so() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    // 47: a request that nobody waits for, whether it expired or never was.
    for path in ["/ui/login?authRequest=1-none", "/ui/login/name?authRequest=1-none", "/ui/login/password?authRequest="]
    {
        let shown = browser.get(path).await;
        assert_eq!((shown.status, title(&shown)), (StatusCode::NOT_FOUND, "This sign-in has expired"), "{path}");
    }
    let shown = flow.sent_by(&mut browser, &[]).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &flow.person.1)]).await;
    let fields = [("username", flow.person.1.as_str()), ("password", PASSWORD)];
    let (form, action) = (shown.form(&fields), shown.action());
    let first = browser.post(&action, &form).await;
    assert!(first.location().starts_with(CALLBACK), "{}", first.text);
    // 46: a form is sent twice, as by going back.
    let second = browser.post(&action, &form).await;
    assert_eq!((second.status, title(&second)), (StatusCode::NOT_FOUND, "This sign-in has expired"), "sent twice");

    let lock = format!("{API}/users/{}/_lock", flow.person.0);
    done(&flow.admin, &lock, json!({})).await;
    let shown = flow.sent_by(&mut browser, &[("prompt", "none")]).await;
    assert_eq!(back(&shown)["error"], "login_required");
    let shown = flow.sent_by(&mut browser, &[]).await;
    assert_eq!(title(&shown), "Sign in to Shop", "its session has ended with it");

    let asked = flow.sent_by(&mut browser, &[]).await;
    let asked = flow.send(&mut browser, &asked, &[("username", "somebody")]).await;
    set(&flow.admin, "/settings/v3alpha/login", json!({ "allowUsernamePassword": { "set": false } })).await;
    eventually("nobody logs in with a password", async || {
        let shown = flow.sent_by(&mut browser.clone(), &[]).await;
        shown.text.contains("Signing in with a password is switched off").then_some(())
    })
    .await;
    let late = flow.send(&mut browser, &asked, &[("username", "somebody"), ("password", PASSWORD)]).await;
    assert!(late.text.contains("Signing in with a password is switched off"), "{}", late.text);
    let other = send(flow.admin.anonymous(Method::POST, "/ui/login")).await;
    assert_eq!(other.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(browser.cookies.keys().all(|name| name.starts_with(COOKIE)), "{:?}", browser.cookies);
}

#[tokio::test]
async fn a_password_counts_as_long_as_the_settings_say() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let flow = Flow::on(platform, admin, on_pages(&App::public())).await;
    set(&flow.admin, "/settings/v3alpha/login", json!({ "passwordCheckLifetime": { "set": "60s" } })).await;
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    let silently = async || {
        let shown = flow.sent_by(&mut browser.clone(), &[("prompt", "none")]).await;
        back(&shown).get("error").cloned()
    };
    clock.set_ahead(Duration::from_secs(30));
    assert_eq!(silently().await, None);
    clock.set_ahead(Duration::from_secs(61));
    eventually("the password counts no more", async || {
        (silently().await.as_deref() == Some("login_required")).then_some(())
    })
    .await;
    let shown = flow.sent_by(&mut browser, &[]).await;
    assert_eq!(title(&shown), "Enter your password");
}
