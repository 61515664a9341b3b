//! The login pages in a real browser: checked by axe in light and dark, narrow and wide, with and without scripts.

mod endings;
mod hostile;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    chromium::{Chromium, appearance::long_names},
    client::{done, send},
    eventually,
    media::{png, text},
    tenant::{Tenant, new_name},
    tools,
};

use super::{
    super::flow::{API, App, Flow, PASSWORD, person},
    on_pages,
};

/// The button of a page.
const SUBMIT: &str = "main form .primary";

/// Starts an app that a browser can return to: a page of the instance itself, whose pages show a logo.
async fn flow() -> Flow {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let mut settings = on_pages(&App::public());
    settings["devMode"] = json!(true);
    settings["redirectUris"] =
        json!([super::super::flow::CALLBACK, format!("{}/openapi.json", tenant.bootstrap.issuer)]);
    let logo = json!({ "kind": "ASSET_KIND_LIGHT_LOGO", "content": text(&png(480, 48, 40)) });
    done(&admin, "/settings/v3alpha/branding/assets", logo).await;
    Flow::on(tenant, admin, settings).await
}

/// Returns the redirect URI of the app.
fn callback(flow: &Flow) -> String {
    format!("{}/openapi.json", flow.tenant.bootstrap.issuer)
}

/// Returns the URL that the app sends a browser to, with other parameters.
fn sent_to(flow: &Flow, others: &[(&str, &str)]) -> String {
    let callback = callback(flow);
    let all = [&[("redirect_uri", callback.as_str())], others].concat();
    format!("{}{}", flow.tenant.bootstrap.issuer, flow.sends(&all))
}

/// Enters the login name, and the password.
async fn logs_in(chromium: &Chromium, name: &str) {
    chromium.fill("#username", name).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Enter your password").await;
    chromium.fill("#password", PASSWORD).await;
    chromium.click(SUBMIT).await;
}

#[tokio::test]
async fn everybody_can_log_in_in_a_browser_with_and_without_scripts() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let flow = flow().await;
    let (issuer, callback) = (flow.tenant.bootstrap.issuer.clone(), callback(&flow));
    let at = |others: &[(&str, &str)]| sent_to(&flow, others);
    let name = flow.person.1.clone();

    first_login(&chromium, &axe, (&at(&[]), &callback), &name).await;

    // Another account, without scripts.
    let other = person(&flow.admin).await;
    chromium.runs_scripts(false).await;
    chromium.visit(&at(&[("prompt", "select_account")])).await;
    chromium.click("a[href^='/ui/login/name']").await;
    chromium.wait_for_text("Login name").await;
    logs_in(&chromium, &other.1).await;
    chromium.wait_for_text("API").await;
    assert!(chromium.url().await.starts_with(&format!("{callback}?code=")), "{}", chromium.url().await);
    chromium.runs_scripts(true).await;

    for locale in ["en", "ar", "de"] {
        chromium.visit(&at(&[("ui_locales", locale)])).await;
        chromium.assert_usable(&axe, &format!("login-accounts-{locale}")).await;
    }
    chromium.visit(&at(&[])).await;
    chromium.click("a[href^='/ui/login/remove']").await;
    chromium.wait_for_text("Remove an account").await;
    chromium.assert_usable(&axe, "login-remove").await;
    must_change(&flow, &chromium, &axe, &at(&[("prompt", "select_account")])).await;
    chromium.visit(&at(&[("prompt", "consent"), ("login_hint", &other.1)])).await;
    chromium.wait_for_text("asks for access").await;
    chromium.assert_usable(&axe, "login-consent").await;
    registers(&chromium, &axe, &at(&[("prompt", "create")])).await;
    chromium.visit(&issuer).await;
    chromium.wait_for_text("You are signed in").await;
    chromium.assert_usable(&axe, "login-home").await;
    changes_password(&chromium, &axe).await;
    chromium.visit(&format!("{issuer}/oidc/v1/end_session")).await;
    chromium.wait_for_text("Sign out?").await;
    chromium.assert_usable(&axe, "logout").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("You are signed out").await;
    chromium.assert_usable(&axe, "logout-done").await;
    chromium.visit(&format!("{issuer}/ui/login?authRequest=1-none")).await;
    chromium.wait_for_text("This sign-in has expired").await;
    chromium.assert_usable(&axe, "login-expired").await;
    let complaints = chromium.complaints().await;
    let is_of_rules = |line: &&String| line.contains("Content Security Policy") || line.contains("Trusted");
    assert!(!complaints.iter().any(|line| is_of_rules(&line)), "{complaints:#?}");
}

#[tokio::test]
async fn people_make_an_account_and_sign_out_without_scripts() {
    let Some(chromium) = Chromium::open().await else { return tools::skip_unless_root("Chromium") };
    let flow = flow().await;
    chromium.runs_scripts(false).await;
    chromium.visit(&sent_to(&flow, &[("prompt", "create")])).await;
    chromium.wait_for_text("Create an account").await;
    chromium.fill("#given_name", "Grace").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("There is a problem").await;
    let name = new_name();
    fills_in(&chromium, &name).await;
    assert!(chromium.url().await.starts_with(&format!("{}?code=", callback(&flow))), "{}", chromium.url().await);

    let issuer = &flow.tenant.bootstrap.issuer;
    chromium.visit(issuer).await;
    chromium.wait_for_text(&name).await;
    chromium.visit(&format!("{issuer}/oidc/v1/end_session")).await;
    chromium.wait_for_text("Sign out?").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("You are signed out").await;
    // No account of this browser is signed in any more, so the next login asks who it is.
    chromium.visit(&sent_to(&flow, &[])).await;
    chromium.wait_for_text("Login name").await;
}

#[tokio::test]
async fn the_description_of_the_api_has_somebody_log_in_and_sends_the_token() {
    let Some(chromium) = Chromium::open().await else { return tools::skip_unless_root("Chromium") };
    let flow = flow().await;
    let role = json!({ "userId": flow.person.0, "roles": ["IAM_OWNER"] });
    done(&flow.admin, &format!("{API}/memberships"), role).await;
    let issuer = flow.tenant.bootstrap.issuer.clone();
    let docs = format!("{issuer}/docs");
    chromium.visit(&format!("{docs}?code=1&state=2&iss={issuer}")).await;
    chromium.wait_for_text("Not authorized: this page has not asked for it").await;
    assert_eq!(chromium.url().await, docs, "nothing stays in the address");
    chromium.visit(&format!("{docs}#errors")).await;
    chromium.click("#log-in").await;
    chromium.wait_for_text("Sign in to Platform").await;
    logs_in(&chromium, &flow.person.1).await;
    chromium.wait_for_text("Authorized: requests have your token now").await;
    assert_eq!(chromium.url().await, format!("{docs}#errors"));
    assert_eq!(chromium.run("return sessionStorage.length").await, 0);
    let asks = format!(
        "const done = arguments[arguments.length - 1];
        const headers = {{ Authorization: `Bearer ${{document.getElementById('bearer').value}}` }};
        Promise.all(['/oidc/v1/userinfo', '/resources/v3alpha/users/{}'].map((path) => fetch(path, {{ headers }})))
            .then((answers) => done(answers.map((answer) => answer.status)));",
        flow.person.0
    );
    assert_eq!(chromium.run_long(&asks).await, json!([200, 200]), "the token is for userinfo and the API");
    // Whoever is logged in already is led back at once.
    chromium.visit(&docs).await;
    chromium.click("#log-in").await;
    chromium.wait_for_text("Authorized: requests have your token now").await;
    let complaints = chromium.complaints().await;
    assert!(!complaints.iter().any(|line| line.contains("Content Security Policy")), "{complaints:#?}");
}

/// Registers an account, after errors.
async fn registers(chromium: &Chromium, axe: &str, url: &str) {
    chromium.visit(url).await;
    chromium.wait_for_text("Create an account").await;
    chromium.assert_usable(axe, "login-register").await;
    chromium.fill("#given_name", "Grace").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("There is a problem").await;
    chromium.assert_usable(axe, "login-register-wrong").await;
    let focus = chromium.run("return document.activeElement.className").await;
    assert_eq!(focus, "summary", "what is wrong is read first");
    fills_in(chromium, &new_name()).await;
}

/// Enters what an account needs in addition to the given name.
async fn fills_in(chromium: &Chromium, name: &str) {
    for (field, text) in
        [("family_name", "Hopper"), ("email", "grace@example.com"), ("username", name), ("password", PASSWORD)]
    {
        chromium.fill(&format!("#{field}"), text).await;
    }
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("API").await;
}

/// Changes the password of one of several accounts, after errors.
async fn changes_password(chromium: &Chromium, axe: &str) {
    chromium.click("a[href^='/ui/login/change-password']").await;
    chromium.wait_for_text("Change your password").await;
    chromium.assert_usable(axe, "own-password").await;
    let focus = "return document.activeElement.id || document.activeElement.className";
    assert_eq!(chromium.run(focus).await, "current");
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("There is a problem").await;
    chromium.assert_usable(axe, "own-password-wrong").await;
    assert_eq!(chromium.run(focus).await, "summary", "what is wrong is read first");
    chromium.fill("#current", PASSWORD).await;
    chromium.fill("#password", "short").await;
    chromium.click(SUBMIT).await;
    // The page before says the same as a hint.
    let is_focused = async || (chromium.run(focus).await == "password").then_some(());
    eventually("what is wrong is the new one alone", is_focused).await;
    chromium.fill("#current", PASSWORD).await;
    chromium.fill("#password", "a-hive-of-27-busy-bees").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Your password was changed").await;
    chromium.assert_usable(axe, "own-password-done").await;
}

/// Logs somebody in who must choose another password, after errors.
async fn must_change(flow: &Flow, chromium: &Chromium, axe: &str, url: &str) {
    let name = new_name();
    let user = json!({ "username": name, "human": {
        "data": { "given_name": "Ada", "family_name": "Lovelace" }, "email": { "address": "ada@example.com" },
        "password": { "password": PASSWORD, "changeRequired": true },
    } });
    done(&flow.admin, &format!("{API}/users"), user).await;
    chromium.visit(url).await;
    chromium.click("a[href^='/ui/login/name']").await;
    chromium.wait_for_text("Login name").await;
    logs_in(chromium, &name).await;
    chromium.wait_for_text("Choose a new password").await;
    chromium.fill("#password", "short").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Error: ").await;
    chromium.assert_usable(axe, "login-change-wrong").await;
    chromium.fill("#password", "another-one-of-ten-cats-7").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("API").await;
}

/// Logs in with no name, a wrong password and the right one.
async fn first_login(chromium: &Chromium, axe: &str, (url, callback): (&str, &str), name: &str) {
    chromium.visit(url).await;
    chromium.wait_for_text("Sign in to Shop").await;
    chromium.assert_usable(axe, "login-name").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Enter your login name").await;
    chromium.assert_usable(axe, "login-name-empty").await;
    chromium.fill("#username", name).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("Enter your password").await;
    chromium.assert_usable(axe, "login-password").await;
    let focus = chromium.run("return document.activeElement.id").await;
    assert_eq!(focus, "password");
    chromium.fill("#password", "not-the-password").await;
    chromium.click("button[data-reveal]").await;
    assert_eq!(chromium.run("return document.getElementById('password').type").await, "text", "it can be shown");
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("is wrong").await;
    chromium.assert_usable(axe, "login-password-wrong").await;
    chromium.fill("#password", PASSWORD).await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("API").await;
    assert!(chromium.url().await.starts_with(&format!("{callback}?code=")), "{}", chromium.url().await);
}

#[tokio::test]
async fn somebody_without_a_role_logs_in_to_the_pages_of_operators_and_is_told_what_it_takes() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let tenant = Tenant::start().await;
    let (issuer, (_, name)) = (&tenant.bootstrap.issuer, person(&tenant.client().await).await);
    chromium.visit(&format!("{issuer}/ui/operate")).await;
    chromium.wait_for_text("Or run this").await;
    chromium.click("main a.primary").await;
    chromium.wait_for_text("Sign in to Platform").await;
    logs_in(&chromium, &name).await;
    chromium.wait_for_text("You may not look at this").await;
    chromium.assert_usable(&axe, "operate-without-a-role").await;
    chromium.click("main a.primary").await;
    chromium.wait_for_text("Choose an account").await;
}

#[tokio::test]
async fn long_names_fit_into_narrow_windows() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let flow = flow().await;
    let at = |others: &[(&str, &str)]| sent_to(&flow, others);
    let names = long_names();
    let renamed = flow.admin.request(Method::PATCH, &format!("{API}/apps/{}", flow.app.id));
    let renamed = send(renamed.json(&json!({ "name": names[0] }))).await;
    assert_eq!(renamed.status, StatusCode::OK, "{}", renamed.body);
    for name in &names {
        let user = json!({ "username": name, "human": {
            "data": { "given_name": name, "family_name": name }, "email": { "address": "ada@example.com" },
            "password": { "password": PASSWORD },
        } });
        done(&flow.admin, &format!("{API}/users"), user).await;
        chromium.visit(&at(&[("prompt", "select_account")])).await;
        if *name != names[0] {
            chromium.click("a[href^='/ui/login/name']").await;
        }
        chromium.wait_for_text("Login name").await;
        assert!(chromium.text().await.contains(&names[0]), "the app is named");
        logs_in(&chromium, name).await;
        chromium.wait_for_text("API").await;
    }
    for (others, says, name) in [
        (&[("prompt", "select_account")][..], &*names[1], "long-accounts"),
        (&[("prompt", "consent"), ("login_hint", &names[0])], "asks for access", "long-consent"),
    ] {
        chromium.visit(&at(others)).await;
        chromium.wait_for_text(says).await;
        chromium.assert_usable(&axe, name).await;
    }
    for (path, name) in [("/", "long-home"), ("/ui/logout", "long-logout")] {
        chromium.visit(&format!("{}{path}", flow.tenant.bootstrap.issuer)).await;
        chromium.wait_for_text(&names[2]).await;
        chromium.assert_usable(&axe, name).await;
    }
}
