//! The look and the texts of pages, as set by settings.

use reqwest::StatusCode;
use serde_json::json;
use tests::{
    client::{Client, done},
    eventually,
    media::{png, text, webp, woff2},
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
    // 37: the first language of the list that there is.
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

/// Creates a person of an organization with a login name.
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

/// Uploads a picture or a font for the pages of an instance.
async fn upload(admin: &Client, kind: &str, content: &[u8]) -> String {
    let asset = json!({ "kind": format!("ASSET_KIND_{kind}"), "content": text(content) });
    let answer = done(admin, "/settings/v3alpha/branding/assets", asset).await;
    answer.body["asset"]["path"].as_str().expect("it has a path").to_owned()
}

#[tokio::test]
async fn pages_show_the_logo_icon_and_font_that_are_uploaded() {
    let flow = start().await;
    let page = async || flow.sent_by(&mut browser(&flow.tenant), &[]).await.text;
    let page_with =
        async |what: &str| eventually(what, async || Some(page().await).filter(|text| text.contains(what))).await;
    let before = page().await;
    assert!(
        !before.contains("<img") && before.contains("type=\"image/svg+xml\"") && !before.contains("/ui/login/font/")
    );
    let light = upload(&flow.admin, "LIGHT_LOGO", &png(480, 48, 40)).await;
    let shown = page_with(&light).await;
    let img = format!("<img src=\"{light}\" width=\"240\" height=\"24\" alt=\"");
    assert!(shown.contains(&img) && shown.contains("class=\"plate\""), "{shown}");
    let alt = shown.split_once(&img).and_then(|(_, rest)| rest.split('"').next());
    assert!(alt.is_some_and(|alt| !alt.is_empty()), "{shown}");

    let dark = upload(&flow.admin, "DARK_LOGO", &png(20, 10, 200)).await;
    let shown = page_with(&dark).await;
    let source = format!("<source media=\"(prefers-color-scheme:dark)\" srcset=\"{dark}\" width=\"20\" height=\"10\">");
    assert!(shown.contains(&source) && shown.contains(&img) && !shown.contains("class=\"plate"), "{shown}");
    let icon = upload(&flow.admin, "LIGHT_ICON", &webp()).await;
    let shown = page_with(&icon).await;
    assert!(shown.contains(&format!("<link rel=\"icon\" href=\"{icon}\" type=\"image/webp\">")), "{shown}");
    assert!(!shown.contains("image/svg+xml"), "{shown}");
    let font = upload(&flow.admin, "FONT", &woff2()).await;
    let digest = font.rsplit('/').next().expect("it has some");
    let shown = page_with(digest).await;
    let sheet = shown.split("href=\"").find(|rest| rest.starts_with("/ui/login/font/")).expect("there is a stylesheet");
    let sheet = sheet.split('"').next().expect("it ends");
    let mut browser = browser(&flow.tenant);
    let styles = browser.get(sheet).await;
    assert!(styles.status == StatusCode::OK && styles.text.contains(&format!("url({font})")), "{}", styles.text);
    assert_eq!(browser.get(&sheet.replace(digest, "x")).await.status, StatusCode::NOT_FOUND);
    for path in [&light, &dark, &icon, &font] {
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }

    set(&flow.admin, "/settings/v3alpha/branding", json!({ "themeMode": { "set": "THEME_MODE_DARK" } })).await;
    let shown = page_with("content=\"dark\"").await;
    assert!(shown.contains(&format!("<img src=\"{dark}\"")) && !shown.contains(&light), "{shown}");
}

#[tokio::test]
async fn the_logo_of_an_organization_is_called_as_the_organization() {
    let flow = start().await;
    let name = new_name();
    let organization = done(&flow.admin, "/resources/v3alpha/organizations", json!({ "name": name })).await.id();
    let scope = format!("openid urn:platform:iam:org:id:{organization}");
    let page = async || flow.sent_by(&mut browser(&flow.tenant), &[("scope", scope.as_str())]).await.text;
    let path = upload(&flow.admin, "LIGHT_LOGO", &png(10, 10, 1)).await;
    let shown = eventually("it is inherited", async || Some(page().await).filter(|text| text.contains(&path))).await;
    assert!(!shown.contains(&format!("alt=\"{name}\"")), "it is the instance's: {shown}");
    let asset = json!({ "kind": "ASSET_KIND_LIGHT_LOGO", "content": text(&png(10, 10, 2)) });
    done(&flow.admin, &format!("/settings/v3alpha/branding/assets?ctx.orgId={organization}"), asset).await;
    let alt = format!("alt=\"{name}\"");
    eventually("it is named", async || Some(page().await).filter(|text| text.contains(&alt))).await;
}
