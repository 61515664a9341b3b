//! How pages look and in which words, as settings say.

use reqwest::StatusCode;
use serde_json::json;
use tests::{
    client::{Client, done},
    eventually,
    tenant::new_name,
};

use super::{
    super::flow::{API, PASSWORD},
    back, browser, set, start, title,
};

#[tokio::test]
async fn pages_are_in_the_language_of_the_reader_as_far_as_it_is_allowed() {
    let flow = start().await;
    let mut browser = browser(&flow.tenant);
    let shown = flow.sent_by(&mut browser, &[("ui_locales", "sv de")]).await;
    assert_eq!(title(&shown), "Bei Shop anmelden");
    assert!(shown.text.contains("<html lang=\"de\" dir=\"ltr\">"), "{}", shown.text);
    let shown = flow.sent_by(&mut browser, &[("ui_locales", "ar")]).await;
    assert!(shown.text.contains("<html lang=\"ar\" dir=\"rtl\">"), "{}", shown.text);
    let request = shown.hidden()[0].1.clone();
    let picked = browser.get(&format!("/ui/login/name?authRequest={request}&language=fr")).await;
    assert!(picked.text.contains("<html lang=\"fr\" dir=\"ltr\">"), "who picks one gets it: {}", picked.text);
    let next = flow.send(&mut browser, &picked, &[("username", "radia")]).await;
    assert!(next.text.contains("<html lang=\"fr\" dir=\"ltr\">"), "and the next page too: {}", next.text);
    let bye = browser.get("/ui/logout?client_id=1&state=x").await;
    assert_eq!(bye.status, StatusCode::OK, "{}", bye.text);

    let only = json!({ "restrictedLanguages": { "languages": [{ "key": "en" }, { "key": "es" }] } });
    set(&flow.admin, "/settings/v3alpha/languages", only).await;
    let shown = eventually("others are not allowed", async || {
        let shown = flow.sent_by(&mut super::browser(&flow.tenant), &[("ui_locales", "de es")]).await;
        shown.text.contains("<html lang=\"es\"").then_some(shown)
    })
    .await;
    assert!(shown.text.contains("hreflang=\"en\"") && !shown.text.contains("hreflang=\"de\""), "{}", shown.text);
}

#[tokio::test]
async fn pages_have_the_colours_texts_and_links_that_are_set() {
    let flow = start().await;
    let shown = flow.sent_by(&mut browser(&flow.tenant), &[]).await;
    let sheet =
        |text: &str| text.split_once("rel=\"stylesheet\" href=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let usual = sheet(&shown.text);
    assert!(shown.text.contains("Identity Platform"), "{}", shown.text);
    let branding = json!({ "lightTheme": { "primaryColor": { "set": "#ffe600" }, "backgroundColor": { "set": "#ffffff" } },
        "themeMode": { "set": "THEME_MODE_LIGHT" }, "disableWatermark": { "set": true } });
    set(&flow.admin, "/settings/v3alpha/branding", branding).await;
    let texts = json!({ "texts": { "name.title": { "set": "Hello <b>{app}</b>" } } });
    set(&flow.admin, "/settings/v3alpha/texts?language=en", texts).await;
    let help = json!({ "tosLink": { "set": "https://shop.example/terms" }, "customLink": { "set": "https://shop.example/more" }, "customLinkText": { "set": "More of us" },
        "supportEmail": { "set": "help@shop.example" } });
    set(&flow.admin, "/settings/v3alpha/help", help).await;
    let shown = eventually("it is known", async || {
        let shown = flow.sent_by(&mut browser(&flow.tenant), &[]).await;
        let is_known = shown.text.contains("Hello") && shown.text.contains("shop.example/terms");
        (is_known && sheet(&shown.text) != usual).then_some(shown)
    })
    .await;
    assert!(shown.text.contains("Hello &#60;b&#62;Shop&#60;/b&#62;"), "{}", shown.text);
    assert!(shown.text.contains("content=\"light\"") && !shown.text.contains("Identity Platform"), "{}", shown.text);
    assert!(shown.text.contains("mailto:help@shop.example") && shown.text.contains("More of us"), "{}", shown.text);
    let mut browser = browser(&flow.tenant);
    let colours = browser.get(&sheet(&shown.text)).await;
    assert_eq!(colours.status, StatusCode::OK);
    assert!(colours.text.contains("--primary:#ffe600") && colours.text.contains("--page:#ffffff"), "{}", colours.text);
    assert!(colours.headers["cache-control"].to_str().unwrap().contains("immutable"));
    let wrong = browser.get("/ui/login/theme/x.css").await;
    assert_eq!(wrong.status, StatusCode::NOT_FOUND);
}

/// A person of an organization who logs in by a name.
async fn named(admin: &Client, organization: &str, name: &str) {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let human = json!({ "data": data, "password": { "password": PASSWORD } });
    let path = format!("{API}/users?ctx.orgId={organization}");
    done(admin, &path, json!({ "username": name, "human": human })).await;
}

#[tokio::test]
async fn login_names_are_shown_without_the_domain_of_the_organization_that_is_asked_for() {
    let flow = start().await;
    let own = flow.tenant.bootstrap.organization_id.clone();
    let other = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let domain = format!("{}.example", new_name());
    let operator = flow.tenant.operator().await.at(&flow.tenant.bootstrap.issuer);
    let verified = json!({ "domain": domain, "isVerified": true });
    let made = done(&operator, &format!("{API}/domains?ctx.orgId={own}"), verified).await.id();
    done(&flow.admin, &format!("{API}/domains/{made}/_set_as_primary"), json!({})).await;
    let [name, theirs] = ["ada", "grace"].map(|name| format!("{name}@{domain}"));
    named(&flow.admin, &own, &name).await;
    named(&flow.admin, &other, &theirs).await;
    let hidden = json!({ "hideLoginNameSuffix": { "set": true } });
    set(&flow.admin, &format!("/settings/v3alpha/branding?ctx.orgId={own}"), hidden).await;
    let scope = format!("openid urn:platform:iam:org:id:{own}");
    let asked = eventually("it is known", async || {
        let mut browser = browser(&flow.tenant);
        let shown = flow.sent_by(&mut browser, &[("scope", &scope)]).await;
        let shown = flow.send(&mut browser, &shown, &[("username", &name)]).await;
        shown.text.contains("<bdi>ada</bdi>").then_some(shown)
    })
    .await;
    assert!(asked.text.contains(&format!("value=\"{name}\"")), "managers of passwords know all of it: {}", asked.text);

    let mut browser = browser(&flow.tenant);
    let shown = flow.logs_in(&mut browser, &theirs, &[]).await;
    assert_eq!(title(&shown), "Shop asks for access");
    let request = shown.hidden()[0].1.clone();
    let shown = browser.get(&format!("/ui/login/name?authRequest={request}")).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &name)]).await;
    assert!(shown.text.contains(&format!("<bdi>{name}</bdi>")), "no organization is asked for: {}", shown.text);
    back(&flow.send(&mut browser, &shown, &[("username", &name), ("password", PASSWORD)]).await);
    let choosing = [("scope", scope.as_str()), ("prompt", "select_account")];
    let shown = flow.sent_by(&mut browser, &choosing).await;
    assert_eq!(title(&shown), "Choose an account");
    assert!(shown.text.contains(">ada</bdi>") && !shown.text.contains(&name), "{}", shown.text);
    assert!(
        shown.text.contains(&theirs),
        "somebody of another organization is not taken for one of it: {}",
        shown.text
    );
    let shown = flow.sent_by(&mut browser, &choosing[1..]).await;
    assert!(shown.text.contains(&name), "{}", shown.text);

    named(&flow.admin, &own, "ada").await;
    let request = flow.sent_by(&mut browser, &choosing).await.hidden()[0].1.clone();
    let path = format!("/ui/login/name?authRequest={request}");
    let shown = browser.get(&path).await;
    let shown = flow.send(&mut browser, &shown, &[("username", &theirs)]).await;
    assert!(shown.text.contains(&format!("<bdi>{theirs}</bdi>")), "nor while it logs in again: {}", shown.text);
    let shown = browser.get(&path).await;
    let shown = flow.send(&mut browser, &shown, &[("username", "ada")]).await;
    back(&flow.send(&mut browser, &shown, &[("username", "ada"), ("password", PASSWORD)]).await);
    let shown = flow.sent_by(&mut browser, &choosing).await;
    assert!(
        shown.text.contains(">ada</bdi>") && shown.text.contains(&format!("{name}</bdi>")),
        "no two are shown alike: {}",
        shown.text
    );
}
