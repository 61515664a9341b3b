//! A person who is logged in changes the password.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::{Browser, Page},
    client::{Client, done, post, send},
    eventually,
};

use super::{
    super::flow::{API, Flow, PASSWORD, access_token, person},
    back, browser,
    home::{follow, logs_in, sends},
    id_token_claims, set, start, title,
};

const PAGE: &str = "/ui/login/change-password";
const NEW: &str = "a-hive-of-27-busy-bees";

/// Returns a browser in which the person of an app is logged in.
async fn logged_in(flow: &Flow) -> Browser {
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    browser
}

/// Fails unless the browser is sent to a login first, and back then.
fn assert_logs_in(shown: &Page) {
    let location = shown.location();
    let is_led = location.starts_with("/oauth/v2/authorize?") && location.contains("state=change-password");
    assert!(is_led, "{location} {}", shown.text);
}

/// Enters the current password, and a new one.
async fn submit(browser: &mut Browser, current: &str, new: &str) -> Page {
    let shown = browser.get(PAGE).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Change your password"), "{}", shown.text);
    browser.post(&shown.action(), &shown.form(&[("current", current), ("password", new)])).await
}

#[tokio::test]
async fn who_is_logged_in_changes_the_password_and_other_browsers_ask_for_the_new_one() {
    let flow = start().await;
    let (mut here, mut elsewhere) = (logged_in(&flow).await, logged_in(&flow).await);
    for (current, new, told) in [
        ("", NEW, "Enter your current password"),
        (PASSWORD, "", "Enter a new password"),
        (PASSWORD, "short", "Password must have 10 characters or more"),
        ("not-the-password", NEW, "The current password is wrong."),
        (PASSWORD, PASSWORD, "Password must differ from the current one"),
        (PASSWORD, "qwertyuiop123", "Password must not be common or easy to guess"),
        ("", "", "There is a problem"),
    ] {
        let shown = submit(&mut here, current, new).await;
        assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
        assert!(shown.text.contains(told) && title(&shown).starts_with("Error: "), "{told}: {}", shown.text);
        assert!(!shown.text.contains(NEW) && !shown.text.contains(PASSWORD), "no password comes back: {}", shown.text);
    }
    let before = here.cookies.clone();
    let shown = submit(&mut here, PASSWORD, NEW).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "Your password was changed"), "{}", shown.text);
    assert_ne!(here.cookies, before, "the session has another token");

    let code = back(&flow.sent_by(&mut here, &[("prompt", "none")]).await)["code"].clone();
    assert_eq!(id_token_claims(&flow.redeemed(&code).await)["sub"], json!(flow.person.0), "it is logged in here");
    let silent = back(&flow.sent_by(&mut elsewhere, &[("prompt", "none")]).await);
    assert_eq!(silent["error"], "login_required", "not elsewhere");
    assert_logs_in(&elsewhere.get(PAGE).await);
    let asked = flow.sent_by(&mut elsewhere, &[]).await;
    let old = flow.send(&mut elsewhere, &asked, &[("username", &flow.person.1), ("password", PASSWORD)]).await;
    assert!(old.text.contains("The login name or the password is wrong."), "{}", old.text);
    back(&flow.send(&mut elsewhere, &asked, &[("username", &flow.person.1), ("password", NEW)]).await);
}

#[tokio::test]
async fn only_whoever_is_logged_in_by_a_form_of_this_browser_changes_a_password() {
    let flow = start().await;
    let mut own = logged_in(&flow).await;
    let shown = own.get(PAGE).await;
    let fields = [("current", PASSWORD), ("password", NEW)];
    let form = shown.form(&fields);
    for (case, mut browser) in [("nobody", browser(&flow.tenant)), ("another browser", logged_in(&flow).await)] {
        let sent = browser.post(PAGE, &form).await;
        let is_led = [PAGE, "/oauth/v2/authorize?"].iter().any(|path| sent.location().starts_with(path));
        assert!(sent.status == StatusCode::SEE_OTHER && is_led, "{case}: {} {}", sent.status, sent.text);
    }
    let mut forger = own.clone();
    forger.sent_from = vec![("sec-fetch-site", "cross-site".to_owned()), ("origin", "https://evil.example".to_owned())];
    assert_eq!(forger.post(PAGE, &form).await.status, StatusCode::FORBIDDEN, "a page of another site");
    let without: Vec<_> = form.iter().filter(|(name, _)| name != "token").cloned().collect();
    assert!(own.clone().post(PAGE, &without).await.location().starts_with(PAGE), "no token");

    // Somebody whom the browser does not know is named.
    let (other, name) = person(&flow.admin).await;
    assert_eq!(own.get(&format!("{PAGE}?account={other}")).await.location(), "/ui/login");
    let of_other: Vec<_> = form.iter().filter(|(name, _)| name != "account").cloned().collect();
    let of_other = [of_other, vec![("account".to_owned(), other.clone())]].concat();
    assert_eq!(own.clone().post(PAGE, &of_other).await.location(), "/ui/login");
    // Of several accounts one is chosen where they are shown.
    let shown = flow.sent_by(&mut own, &[("prompt", "select_account")]).await;
    let shown = own.get(&format!("/ui/login/name?authRequest={}", shown.hidden()[0].1)).await;
    let shown = flow.send(&mut own, &shown, &[("username", &name)]).await;
    back(&flow.send(&mut own, &shown, &[("username", &name), ("password", PASSWORD)]).await);
    assert_eq!(own.get(PAGE).await.location(), "/ui/login");
    let home = own.get("/ui/login").await;
    let link = format!("href=\"{PAGE}?account={other}\"");
    assert!(home.text.contains(&link) && home.text.contains("Change password"), "{}", home.text);
    let shown = own.get(&format!("{PAGE}?account={other}")).await;
    assert!(shown.text.contains(&format!("<bdi>{name}</bdi>")), "{}", shown.text);
    let done = own.post(&shown.action(), &shown.form(&fields)).await;
    assert_eq!(title(&done), "Your password was changed", "{}", done.text);
    let still = flow.logs_in(&mut browser(&flow.tenant), &flow.person.1, &[]).await;
    assert!(back(&still).contains_key("code"), "nobody else has another password");
}

#[tokio::test]
async fn wrong_current_passwords_count_as_tries() {
    let flow = start().await;
    set(&flow.admin, "/settings/v3alpha/lockout", json!({ "maxPasswordAttempts": { "set": 2 } })).await;
    let mut browser = logged_in(&flow).await;
    let mut last = None;
    let locked = async || {
        let answer = send(flow.admin.request(Method::GET, &format!("{API}/users/{}", flow.person.0))).await;
        answer.body["user"]["userState"] == "USER_STATE_LOCKED"
    };
    for _ in 0..10 {
        if !browser.get(PAGE).await.location().is_empty() {
            break;
        }
        last = Some(submit(&mut browser, "not-the-password", NEW).await);
    }
    let last = last.expect("it is asked for");
    assert_eq!(last.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", last.text);
    eventually("the person is locked", async || locked().await.then_some(())).await;
    assert_logs_in(&browser.get(PAGE).await);
}

#[tokio::test]
async fn an_access_token_changes_the_password_of_its_person_only_with_the_current_one() {
    let flow = start().await;
    let scope = "openid urn:platform:iam:org:project:id:platform:aud";
    let code = back(&flow.logs_in(&mut browser(&flow.tenant), &flow.person.1, &[("scope", scope)]).await);
    let own = flow.admin.with(access_token(&flow.redeemed(&code["code"]).await).to_owned());
    let (other, _) = person(&flow.admin).await;
    let sets = async |client: &Client, id: &str, password: Value| {
        post(client, &format!("{API}/users/{id}/password"), password).await
    };
    let without = sets(&own, &flow.person.0, json!({ "newPassword": NEW })).await;
    without.assert_refused("without the current one", 400, "INVALID_REQUEST");
    assert!(without.body.to_string().contains("password.currentPassword"), "{}", without.body);
    let with = |current: &str| json!({ "newPassword": NEW, "currentPassword": current });
    sets(&own, &flow.person.0, with("not-the-password")).await.assert_refused("a wrong one", 400, "INVALID_REQUEST");
    for password in [json!({ "newPassword": NEW }), with(PASSWORD)] {
        sets(&own, &other, password).await.assert_refused("somebody else", 404, "RESOURCE_NOT_FOUND");
    }
    let changed = sets(&own, &flow.person.0, with(PASSWORD)).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    let (issuer, said) = (&flow.tenant.bootstrap.issuer, (flow.person.1.as_str(), NEW));
    assert_eq!(title(&logs_in(issuer, &mut browser(&flow.tenant), said).await), "You are signed in");

    // Whoever may set the passwords of others needs the current one of its own, too.
    let role = json!({ "userId": flow.person.0, "roles": ["IAM_OWNER"] });
    done(&flow.admin, &format!("{API}/memberships"), role).await;
    eventually("it may set those of others", async || {
        let set = sets(&own, &other, json!({ "newPassword": "a-hive-of-28-busy-bees" })).await;
        (set.status == StatusCode::OK).then_some(())
    })
    .await;
    let without = sets(&own, &flow.person.0, json!({ "newPassword": "a-hive-of-29-busy-bees" })).await;
    without.assert_refused("its own", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn managers_of_passwords_find_the_page_and_nobody_changes_what_nobody_may_log_in_with() {
    let flow = start().await;
    let mut browser = logged_in(&flow).await;
    // Also who is not logged in arrives there, wherever others are led after the login.
    let elsewhere = json!({ "defaultRedirectUri": { "set": "https://portal.example/start" } });
    set(&flow.admin, "/settings/v3alpha/login", elsewhere).await;
    let mut new = super::browser(&flow.tenant);
    let known = new.get("/.well-known/change-password").await;
    assert_eq!((known.status, known.location()), (StatusCode::SEE_OTHER, PAGE));
    let issuer = &flow.tenant.bootstrap.issuer;
    let asked = follow(issuer, &mut new, known).await;
    let asked = sends(issuer, &mut new, &asked, &[("username", &flow.person.1)]).await;
    let fields = [("username", flow.person.1.as_str()), ("password", PASSWORD)];
    assert_eq!(title(&sends(issuer, &mut new, &asked, &fields).await), "Change your password");

    let shown = browser.get(PAGE).await;
    shown.assert_guarded();
    for hint in
        ["autocomplete=\"current-password\"", "autocomplete=\"new-password\"", "passwordrules=\"minlength: 10;\""]
    {
        assert!(shown.text.contains(hint), "{hint}: {}", shown.text);
    }
    assert!(shown.text.contains(&format!("value=\"{}\" autocomplete=\"username\"", flow.person.1)), "{}", shown.text);
    set(&flow.admin, "/settings/v3alpha/login", json!({ "allowUsernamePassword": { "set": false } })).await;
    eventually("nobody logs in with a password", async || {
        let shown = browser.clone().get(PAGE).await;
        shown.text.contains("Signing in with a password is switched off here").then_some(())
    })
    .await;
    let home = browser.get("/ui/login").await;
    assert!(!home.text.contains(PAGE), "{}", home.text);
    assert_eq!(browser.post(PAGE, &shown.form(&[("current", PASSWORD), ("password", NEW)])).await.status, 400);
}
