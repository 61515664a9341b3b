//! Personal data of a failed event on its page: hidden, and shown once for a given reason.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    browser::{Browser, Page, link},
    chromium::Chromium,
    client::{post, send},
    eventually,
    platform::Platform,
    tenant::Tenant,
};

use super::{assert_closed, open};
use crate::{
    api::disclosure::{disclosures, failed, person},
    oidc::{
        flow,
        pages::operate::{gives, log_in},
    },
};

const LIST: &str = "/ui/operate/failed";

#[tokio::test]
async fn what_is_personal_is_shown_once_to_whoever_says_why() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let (user, name) = person(&admin).await;
    let id = failed(&platform, "user", &user).await;
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    let (path, form_at) = (format!("{LIST}/{id}"), format!("{LIST}/{id}/reveal"));
    let one = open(&mut browser, &path).await;
    assert!(one.text.contains("Show personal data (audited)") && !one.text.contains(&name), "{}", one.text);
    let file = browser.get(&format!("{path}/payload")).await;
    assert!(file.status == StatusCode::OK && !file.text.contains(&name), "{}", file.text);

    let form = |reason: &str| {
        let token = one.hidden().into_iter().find(|(name, _)| name == "token").expect("it has a token");
        vec![token, ("reason".to_owned(), reason.to_owned())]
    };
    for (reason, told) in [("", "Enter the reason"), (&*"x".repeat(1001), "1,000 characters")] {
        let wrong = browser.post(&form_at, &form(reason)).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
        assert!(wrong.text.contains(told) && wrong.text.contains("aria-invalid"), "{told}: {}", wrong.text);
        assert!(!wrong.text.contains(&name), "{}", wrong.text);
        assert_closed(&wrong);
    }
    let foreign = browser.post(&form_at, &[("reason".to_owned(), "a ticket".to_owned())]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "without the token of the page: {}", foreign.text);
    let led = browser.get(&form_at).await;
    assert_eq!((led.status, led.location()), (StatusCode::SEE_OTHER, &*path), "no address leads to it");

    let shown = browser.post(&form_at, &form("a <b>ticket</b>")).await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    assert!(shown.text.contains(&name) && shown.text.contains("human.personal"), "{}", shown.text);
    assert!(shown.text.contains("The log records that you have seen it."), "{}", shown.text);
    assert!(!shown.text.contains("<b>ticket") && !shown.text.contains("/payload\""), "{}", shown.text);
    assert_closed(&shown);
    assert!(!open(&mut browser, &path).await.text.contains(&name), "it is shown once");
    let filters = json!({ "filters": [{ "type": "disclosure.made" }] });
    let made = async || {
        let found = post(&operator, "/system/v1/events/_search", filters.clone()).await;
        let found = found.body["result"].as_array().cloned().unwrap_or_default();
        (found.len() == 1).then(|| found[0].clone())
    };
    let made = eventually("the log has it, once", made).await;
    assert!(made["payload"].as_str().is_some_and(|said| said.contains("a <b>ticket</b>")), "{made}");
    let log = open(&mut browser, "/ui/operate/log?event=disclosure.made").await;
    assert!(log.text.contains("disclosure.made</bdi>") && log.text.contains("operator"), "{}", log.text);

    // What has nothing of people does not ask.
    let target = admin.create_target("of nobody").await.expect("it is made");
    let other = failed(&platform, "target", &target).await;
    assert!(!open(&mut browser, &format!("{LIST}/{other}")).await.text.contains("Show personal data"));
}

#[tokio::test]
async fn roles_in_the_instance_say_who_is_shown_it() {
    let tenant = Tenant::start().await;
    let (admin, issuer) = (tenant.client().await, tenant.bootstrap.issuer.clone());
    let (user, name) = person(&admin).await;
    let id = failed(&tenant, "user", &user).await;
    let (path, form_at) = (format!("{LIST}/{id}"), format!("{LIST}/{id}/reveal"));
    let (looks, login) = flow::person(&admin).await;
    let given = gives(&admin, "", &looks, "IAM_OWNER_VIEWER").await;
    let mut browser = Browser::new(&issuer);
    log_in(&issuer, &mut browser, &login).await;
    let one = eventually("the role counts", async || {
        let one = browser.clone().get(&path).await;
        (one.status == StatusCode::OK).then_some(one)
    })
    .await;
    assert!(!one.text.contains("Show personal data") && !one.text.contains(&name), "{}", one.text);
    let form = |one: &Page, reason: &str| {
        let token = one.hidden().into_iter().find(|(name, _)| name == "token").expect("it has a token");
        vec![token, ("reason".to_owned(), reason.to_owned())]
    };
    for reason in ["a ticket", ""] {
        let refused = browser.post(&form_at, &form(&one, reason)).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
        assert!(refused.text.contains("failed_event.reveal") && !refused.text.contains(&name), "{}", refused.text);
    }

    let taken = admin.request(Method::DELETE, &format!("/resources/v3alpha/memberships/{given}"));
    assert_eq!(send(taken).await.status, StatusCode::OK);
    gives(&admin, "", &looks, "IAM_OWNER").await;
    let one = eventually("the other role counts", async || {
        let one = browser.clone().get(&path).await;
        one.text.contains("Show personal data (audited)").then_some(one)
    })
    .await;
    let shown = browser.post(&form_at, &form(&one, "a ticket")).await;
    assert!(shown.status == StatusCode::OK && shown.text.contains(&name), "{}", shown.text);
    assert_closed(&shown);
    let made = disclosures(&admin, 1).await;
    assert_eq!(made[0]["actorId"], json!(looks), "{}", made[0]);
}

#[tokio::test]
async fn everybody_can_have_it_shown_in_a_browser_with_and_without_scripts() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let platform = Platform::start().await;
    platform.ready().await;
    let (user, name) = person(&platform.client().await).await;
    let id = failed(&platform, "user", &user).await;
    chromium.visit(&link(&platform.data(), &[])).await;
    chromium.click("main button").await;
    chromium.wait_for_text("All ").await;
    let page = format!("{}{LIST}/{id}", platform.bootstrap.issuer);
    for scripts in [true, false] {
        chromium.runs_scripts(scripts).await;
        chromium.visit(&page).await;
        chromium.wait_for_text("Show personal data (audited)").await;
        chromium.click("form[action$=reveal] button").await;
        chromium.wait_for_text("Enter the reason").await;
        if scripts {
            chromium.assert_usable(&axe, "reveal-error").await;
        }
        chromium.fill("#reason", "a ticket").await;
        chromium.click("form[action$=reveal] button").await;
        chromium.wait_for_text(&name).await;
        if scripts {
            chromium.assert_usable(&axe, "revealed").await;
        }
    }
}
