//! Pictures and fonts of branding: uploaded, served, inherited, reset, refused and removed.

use std::time::Duration;

use base::secret;
use bytes::Bytes;
use eventlog::assets::{AssetName, Assets};
use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, done, post, send},
    eventually,
    media::{jpeg, png, text, webp, woff2},
    platform::Platform,
    tenant::{Tenant, new_name},
    throughout,
};

use super::{EVENTS, ORGANIZATIONS, member, of_instance, of_system, resolved, set, was_set};

const BRANDING: &str = "/settings/v3alpha/branding";
const ASSETS: &str = "/settings/v3alpha/branding/assets";

/// How long an unused file stays, where grace periods are short.
const SHORT_GRACE: Duration = Duration::from_secs(20);

async fn upload(client: &Client, query: &str, kind: &str, content: &[u8]) -> Answer {
    let asset = json!({ "kind": format!("ASSET_KIND_{kind}"), "content": text(content) });
    let request = client.request(Method::POST, &format!("{ASSETS}{query}"));
    send(request.header("prefer", "wait=10").json(&asset)).await
}

/// Uploads a file, which must succeed, and returns what was set.
async fn uploaded(client: &Client, query: &str, kind: &str, content: &[u8]) -> Value {
    let answer = upload(client, query, kind, content).await;
    assert_eq!(answer.status, 200, "{kind}: {}", answer.body);
    answer.body["asset"].clone()
}

/// Returns what is served under a path, with its media type.
async fn served(client: &Client, path: &str) -> (StatusCode, String, Bytes) {
    let request = client.anonymous(Method::GET, path).header("origin", "https://pages.example");
    let answer = request.send().await.expect("it answers");
    let status = answer.status();
    let header = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().expect("text")).to_owned();
    if status == StatusCode::OK {
        assert_eq!(header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("content-security-policy"), "default-src 'none'; sandbox");
        assert_eq!(header("cross-origin-resource-policy"), "cross-origin");
        assert_eq!(header("access-control-allow-origin"), "*", "pages of the tenant's own may show it");
    } else {
        assert_eq!(header("cache-control"), "no-store", "it may be there soon");
    }
    let kind = header("content-type");
    (status, kind, answer.bytes().await.expect("it is complete"))
}

fn path(asset: &Value) -> &str {
    asset["path"].as_str().expect("it has a path")
}

#[tokio::test]
async fn what_is_uploaded_is_shown_and_served_with_its_type() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let instance = &tenant.bootstrap.instance_id;
    let cases = [
        ("LIGHT_LOGO", png(300, 60, 40), "image/png", [300, 60]),
        ("LIGHT_ICON", webp(), "image/webp", [1, 1]),
        ("DARK_LOGO", png(240, 48, 200), "image/png", [240, 48]),
        ("DARK_ICON", jpeg(), "image/jpeg", [16, 8]),
        ("FONT", woff2(), "font/woff2", [0, 0]),
    ];
    for (kind, content, media_type, [width, height]) in &cases {
        let asset = uploaded(&admin, "", kind, content).await;
        assert!(path(&asset).starts_with(&format!("/ui/login/assets/{instance}/")), "{asset}");
        assert_eq!(asset["mediaType"], *media_type);
        let side = |name: &str| asset[name].as_u64().unwrap_or_default();
        assert_eq!([side("width"), side("height")], [*width, *height], "{kind}");
        assert_eq!(
            served(&admin, path(&asset)).await,
            (StatusCode::OK, (*media_type).to_owned(), content.clone().into())
        );
        let settings = resolved(&admin, BRANDING).await;
        let shown = match *kind {
            "LIGHT_LOGO" => &settings["lightTheme"]["logo"],
            "LIGHT_ICON" => &settings["lightTheme"]["icon"],
            "DARK_LOGO" => &settings["darkTheme"]["logo"],
            "DARK_ICON" => &settings["darkTheme"]["icon"],
            _ => &settings["font"],
        };
        assert_eq!(shown, &json!({ "value": asset }), "{kind}");
    }
    let again = upload(&admin, "", "LIGHT_LOGO", &cases[0].1).await;
    let details = send(admin.request(Method::GET, BRANDING)).await.body["details"].clone();
    assert_eq!(again.body["details"], details, "the same once more changes nothing");

    let events = post(&admin, EVENTS, json!([{ "type": "branding_settings.changed" }])).await;
    assert_eq!(events.status, 200, "{}", events.body);
    let (events, digest) =
        (events.body.to_string(), path(&again.body["asset"]).rsplit('/').next().expect("it has some"));
    assert!(events.contains(digest), "events name what is set: {events}");
    assert!(!events.contains(&text(&cases[0].1)[..64]), "events hold no content");
}

#[tokio::test]
async fn an_organization_inherits_what_it_has_not_set_and_resets_what_it_has() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let (below, context) = (format!("{BRANDING}?ctx.orgId={acme}"), format!("?ctx.orgId={acme}"));
    assert_eq!(resolved(&admin, &below).await["lightTheme"]["logo"], json!(null), "there is no default");
    let of_all = uploaded(&admin, "", "LIGHT_LOGO", &png(10, 10, 1)).await;
    let inherited = json!({ "value": of_all, "owner": of_instance(&tenant) });
    assert_eq!(resolved(&admin, &below).await["lightTheme"]["logo"], inherited);
    let own = uploaded(&admin, &context, "LIGHT_LOGO", &png(20, 20, 2)).await;
    assert!(path(&own).starts_with(&format!("/ui/login/assets/{acme}/")), "{own}");
    assert_eq!(resolved(&admin, &below).await["lightTheme"]["logo"], json!({ "value": own }));
    assert_eq!(resolved(&admin, BRANDING).await["lightTheme"]["logo"], json!({ "value": of_all }));
    was_set(&admin, &below, json!({ "lightTheme": { "logo": { "reset": true } }, "font": { "reset": true } })).await;
    assert_eq!(resolved(&admin, &below).await["lightTheme"]["logo"], inherited);
    was_set(&admin, BRANDING, json!({ "lightTheme": { "logo": { "reset": true } } })).await;
    assert_eq!(resolved(&admin, &below).await["lightTheme"]["logo"], json!(null));

    for wrong in [json!({ "set": "x" }), json!({ "reset": false }), json!({})] {
        let refused = set(&admin, BRANDING, json!({ "lightTheme": { "logo": wrong } })).await;
        assert_eq!(refused.status, 400, "{wrong}: it is set by its content only: {}", refused.body);
    }
}

#[tokio::test]
async fn nobody_sees_or_sets_those_of_another_instance_or_organization() {
    let (tenant, other) = (Tenant::start().await, Tenant::start().await);
    let (admin, stranger) = (tenant.client().await, other.client().await);
    let [acme, rival] = ["Acme", "Rival"].map(|name| done(&admin, ORGANIZATIONS, json!({ "name": name })));
    let (acme, rival) = (acme.await.id(), rival.await.id());
    let content = png(8, 8, 7);
    let asset = uploaded(&admin, "", "DARK_LOGO", &content).await;
    let of_acme = uploaded(&admin, &format!("?ctx.orgId={acme}"), "DARK_LOGO", &content).await;
    let digest = path(&asset).rsplit('/').next().expect("it has some").to_owned();
    for wrong in [
        path(&asset).to_owned(),
        path(&of_acme).to_owned(),
        format!("/ui/login/assets/{}/{digest}", other.bootstrap.instance_id),
        format!("/ui/login/assets/*/{digest}"),
        format!("/ui/login/assets/%3E/{digest}"),
        format!("/ui/login/assets/system/{digest}"),
    ] {
        assert_eq!(served(&stranger, &wrong).await.0, StatusCode::NOT_FOUND, "{wrong}");
    }
    assert_eq!(served(&admin, &format!("/ui/login/assets/{rival}/{digest}")).await.0, StatusCode::NOT_FOUND);

    let owner = member(&tenant, &admin, &acme, "owns-acme", &["ORG_OWNER"]).await;
    uploaded(&owner, &format!("?ctx.orgId={acme}"), "DARK_ICON", &content).await;
    let nobody = member(&tenant, &admin, &acme, "of-acme", &[]).await;
    let refusable = png(8, 8, 8);
    let absent = format!("?ctx.orgId={}", new_name());
    for (client, context) in [
        (&owner, ""),
        (&owner, &*format!("?ctx.orgId={rival}")),
        (&nobody, &*format!("?ctx.orgId={acme}")),
        (&admin, &*absent),
        (&admin, "?ctx.system=true"),
    ] {
        let refused = upload(client, context, "DARK_ICON", &refusable).await;
        assert!(refused.status == 403 || refused.status == 404, "{context}: {}", refused.body);
    }
    let digest: String = secret::sha256(&refusable).iter().map(|byte| format!("{byte:02x}")).collect();
    let assets = Assets::open(tenant.log().await.context(), 1).await.expect("it is there");
    let all = assets.all().await.expect("NATS is there");
    assert!(all.iter().all(|name| name.digest != digest), "nothing is kept of what is refused: {all:?}");
}

#[tokio::test]
async fn those_of_the_system_are_served_on_every_host() {
    let platform = Platform::start().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let asset = uploaded(&operator, "?ctx.system=true", "FONT", &woff2()).await;
    assert_eq!(resolved(&admin, BRANDING).await["font"], json!({ "value": asset, "owner": of_system() }));
    assert!(path(&asset).starts_with("/ui/login/assets/system/"), "{asset}");
    assert_eq!(served(&admin, path(&asset)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_is_no_picture_or_font_is_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let picture = png(2, 2, 0);
    let large = [&png(500, 520, 0)[..], &vec![0; 2000]].concat();
    assert!(large.len() > 256 << 10);
    let larger = [&picture[..], &vec![0; (271 << 10) - picture.len()]].concat();
    let cases: [(&str, &str, &[u8], &str); 12] = [
        ("nothing", "LIGHT_LOGO", b"", "must be a complete PNG"),
        ("text", "LIGHT_LOGO", b"a logo", "must be a complete PNG"),
        ("SVG", "LIGHT_ICON", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "must be a complete PNG"),
        ("GIF", "DARK_LOGO", b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "must be a complete PNG"),
        ("cut off", "DARK_ICON", &picture[..picture.len() - 1], "must be a complete PNG"),
        ("a picture", "FONT", &picture, "must be a complete WOFF2"),
        ("a font", "LIGHT_LOGO", &woff2(), "must be a complete PNG"),
        ("a font of another length", "FONT", &woff2()[..59], "must be a complete WOFF2"),
        ("too many bytes", "LIGHT_LOGO", &large, "must be at most 256 KiB"),
        ("271 KiB", "LIGHT_LOGO", &larger, "must be at most 256 KiB"),
        ("a font of 271 KiB", "FONT", &larger, "must be at most 256 KiB"),
        ("too many pixels", "LIGHT_LOGO", &png(4097, 1, 0), "must be 1 to 4096 pixels"),
    ];
    for (case, kind, content, rule) in cases {
        let refused = upload(&admin, "", kind, content).await;
        refused.assert_refused(case, 400, "INVALID_REQUEST");
        let told = refused.body.to_string();
        assert!(told.contains("asset.content") && told.contains(rule), "{case}: {told}");
        assert!(content.is_empty() || !told.contains(&text(content)), "{case}: it repeats nothing");
    }
    for kind in ["UNSPECIFIED", "BANNER"] {
        upload(&admin, "", kind, &picture).await.assert_refused(kind, 400, "INVALID_REQUEST");
    }
    let most = png(511, 511, 0);
    assert!(most.len() > 255 << 10 && most.len() <= 256 << 10, "{}", most.len());
    uploaded(&admin, "", "LIGHT_LOGO", &most).await;
}

/// Opens the stored pictures and fonts in NATS.
async fn assets(platform: &Platform) -> Assets {
    Assets::open(platform.log().await.context(), 1).await.expect("it is there")
}

#[tokio::test]
async fn what_nobody_shows_any_more_is_taken_out() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let (instance, assets) = (platform.bootstrap.instance_id.clone(), assets(&platform).await);
    let name = |asset: &Value, owner: &str| {
        let digest = path(asset).rsplit('/').next().expect("it has some");
        AssetName::new(&instance, owner, digest).expect("it is one")
    };
    let is_there = async |name: &AssetName| assets.get(name).await.expect("NATS is there").is_some();
    let removed = done(&admin, ORGANIZATIONS, json!({ "name": "Removed" })).await.id();
    let of_removed = uploaded(&admin, &format!("?ctx.orgId={removed}"), "LIGHT_LOGO", &png(3, 3, 3)).await;
    let replaced = uploaded(&admin, "", "LIGHT_LOGO", &png(4, 4, 4)).await;
    let is_old = async || assets.written_before(&name(&replaced, &instance), SHORT_GRACE).await.expect("NATS is there");
    eventually("it is as old as others that are taken out", is_old).await;
    let shown = uploaded(&admin, "", "LIGHT_LOGO", &png(5, 5, 5)).await;
    let two_sweeps = Duration::from_secs(5);
    throughout(two_sweeps, "open pages still name it", async || is_there(&name(&replaced, &instance)).await).await;
    let foreign = AssetName::new(&instance, &instance, &"0f".repeat(32)).expect("it is one");
    assets.put(&foreign, Bytes::from_static(b"of an upload that failed")).await.expect("NATS is there");
    let gone = [name(&of_removed, &removed), name(&replaced, &instance), foreign];
    let path = format!("{ORGANIZATIONS}/{removed}");
    assert_eq!(send(admin.request(Method::DELETE, &path)).await.status, 200);
    for name in &gone {
        eventually("it is taken out", async || (!is_there(name).await).then_some(())).await;
    }
    assert!(is_there(&name(&shown, &instance)).await, "what is shown stays");
    assert_eq!(served(&admin, super::asset::path(&shown)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_is_written_again_while_it_is_taken_out_stays() {
    let tenant = Tenant::start().await;
    let log = tenant.log().await;
    let assets = Assets::open(log.context(), 1).await.expect("it is there");
    let name = AssetName::new(&new_name(), "1", &"a0".repeat(32)).expect("it is one");
    let put = async || assets.put(&name, Bytes::from_static(b"content")).await.expect("NATS is there");
    let written = async |age| assets.written_before(&name, age).await.expect("NATS is there");
    assert_eq!(written(Duration::ZERO).await, None);
    put().await;
    assert_eq!(written(Duration::from_mins(10)).await, None, "it is young");
    let before = eventually("it is older than nothing", || written(Duration::ZERO)).await;
    put().await;
    assets.remove(before).await.expect("another one is there");
    assert!(assets.get(&name).await.expect("NATS is there").is_some(), "it was written again");
    let now = eventually("it is older than nothing", || written(Duration::ZERO)).await;
    assets.remove(now).await.expect("NATS is there");
    assert!(assets.get(&name).await.expect("NATS is there").is_none());
    assets.remove(now).await.expect("it is gone already");
}

#[tokio::test]
async fn a_context_has_a_bounded_number_of_contents() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let log = tenant.log().await;
    let (assets, instance) =
        (Assets::open(log.context(), 1).await.expect("it is there"), &tenant.bootstrap.instance_id);
    for number in 0..31 {
        let name = AssetName::new(instance, instance, &format!("{number:064x}")).expect("it is one");
        assets.put(&name, Bytes::from_static(b"content")).await.expect("NATS is there");
    }
    let contents = [1, 2, 3, 4].map(|grey| png(1, 1, grey));
    let together = contents.each_ref().map(|content| upload(&admin, "", "LIGHT_ICON", content));
    let mut answers: Vec<_> = join_all(together).await.into_iter().map(|answer| answer.status).collect();
    answers.sort_unstable();
    assert_eq!(answers, [200, 429, 429, 429], "there is room for one");
    let refused = upload(&admin, "", "LIGHT_ICON", &png(1, 1, 99)).await;
    refused.assert_refused("too many", 429, "RATE_LIMITED");
    let stream = log.context().get_stream("KV_ASSETS").await.expect("it is there");
    let bound = stream.cached_info().config.max_bytes;
    assert_eq!(bound, 512 << 20, "what all contexts upload leaves the disk to the log");
    uploaded(&admin, &format!("?ctx.orgId={acme}"), "LIGHT_ICON", &png(1, 1, 99)).await;
}
