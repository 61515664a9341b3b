//! Logins over https: only the host itself can set the cookie of a browser (`__Host-`, RFC 6265bis, section 4.1.3.2).

use std::{fs, path::Path, process::Stdio};

use reqwest::header::SET_COOKIE;
use serde_json::json;
use tests::{
    browser::{Browser, Page},
    certificate::{certify, flags},
    chromium::Chromium,
    platform::Platform,
    ports::free_port,
    tenant::instance_beside,
    tools,
};
use tokio::process::{Child, Command};

use super::{
    super::flow::{App, Flow, PASSWORD},
    back, browser, on_pages,
};

/// The cookie of a browser over https.
const COOKIE: &str = "__Host-login";

/// Starts a flow on a platform that browsers use over https.
async fn flow_on(platform: Platform) -> Flow<Platform> {
    assert!(platform.bootstrap.issuer.starts_with("https://"), "{}", platform.bootstrap.issuer);
    platform.ready().await;
    let admin = platform.client().await;
    Flow::on(platform, admin, on_pages(&App::public())).await
}

/// Returns the attributes of the cookie that a page sets, in alphabetical order, without its age.
fn attributes(shown: &Page) -> Vec<String> {
    let lines: Vec<_> = shown.headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()).collect();
    let [line] = lines[..] else { panic!("one cookie is set: {lines:?}") };
    assert!(line.starts_with(&format!("{COOKIE}=")), "{line}");
    let attributes = line.split("; ").skip(1).filter(|attribute| !attribute.starts_with("Max-Age="));
    let mut attributes: Vec<_> = attributes.map(str::to_owned).collect();
    attributes.sort();
    attributes
}

/// Returns the error that the app gets for a silent request; nothing where the browser is logged in.
async fn silently(flow: &Flow<Platform>, browser: &Browser) -> Option<String> {
    back(&flow.sent_by(&mut browser.clone(), &[("prompt", "none")]).await).remove("error")
}

/// Checks the cookie from the first page to after the login, and that no other cookie stands for it.
async fn assert_is_of_host(flow: &Flow<Platform>) {
    let mut own = browser(&flow.tenant);
    let sent = own.get(&flow.sends(&[])).await;
    let path = sent.location().strip_prefix(flow.tenant.bootstrap.issuer.as_str()).expect("our own");
    let entry = own.get(path).await;
    assert_eq!(attributes(&entry), ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]);
    let entry = flow.follow(&mut own, entry).await;
    let name = flow.person.1.as_str();
    let asked = flow.send(&mut own, &entry, &[("username", name)]).await;
    let before = own.clone();
    let led = own.post(&asked.action(), &asked.form(&[("username", name), ("password", PASSWORD)])).await;
    assert_eq!(attributes(&led), ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]);
    back(&flow.follow(&mut own, led).await);
    assert_eq!(own.cookies.keys().collect::<Vec<_>>(), [COOKIE]);
    let value = own.cookies[COOKIE].clone();
    assert_ne!(before.cookies[COOKIE], value, "146: a login gives another one");

    assert_eq!(silently(flow, &own).await, None, "it is logged in");
    let required = Some("login_required".to_owned());
    assert_eq!(silently(flow, &before).await, required, "146: who has set the cookie from before is not");
    let port = flow.tenant.address().rsplit(':').next().unwrap_or_default().to_owned();
    for other in ["login", &format!("login-{port}"), "login-443", "__Secure-login", "__host-login"] {
        let mut without = own.clone();
        without.cookies = [(other.to_owned(), value.clone())].into();
        assert_eq!(silently(flow, &without).await, required, "{other} could have been set by others");
    }
    let beside = instance_beside(&flow.tenant).await;
    let admin = beside.client().await;
    let elsewhere = Flow::on(Box::new(beside), admin, on_pages(&App::public())).await;
    let mut theirs = browser(&elsewhere.tenant);
    back(&elsewhere.logs_in(&mut theirs, &elsewhere.person.1, &[]).await);
    let mut foreign = own.clone();
    foreign.cookies.clone_from(&theirs.cookies);
    assert_eq!(foreign.cookies.keys().collect::<Vec<_>>(), [COOKIE]);
    assert_eq!(silently(flow, &foreign).await, required, "it is of another instance");
}

#[tokio::test]
async fn the_cookie_of_a_login_is_of_its_host_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    certify(folder.path());
    let flow = flow_on(Platform::start_with(&flags(folder.path()), &[]).await).await;
    assert_is_of_host(&flow).await;

    let Some(chromium) = Chromium::open().await else { return tools::skip_unless_root("Chromium") };
    chromium.visit(&format!("{}{}", flow.tenant.bootstrap.issuer, flow.sends(&[]))).await;
    chromium.wait_for_text("Sign in to Shop").await;
    let cookies = chromium.cookies().await;
    let cookie = &cookies[0];
    assert_eq!((cookies.as_array().map(Vec::len), &cookie["name"]), (Some(1), &json!(COOKIE)), "{cookies}");
    assert_eq!((&cookie["httpOnly"], &cookie["secure"]), (&json!(true), &json!(true)), "{cookie}");
    assert_eq!((&cookie["domain"], &cookie["path"]), (&json!("127.0.0.1"), &json!("/")), "{cookie}");
    assert_eq!((&cookie["sameSite"], chromium.run("return document.cookie").await), (&json!("Lax"), json!("")));
}

/// Starts nginx, which terminates TLS in front of a platform.
fn start_nginx(program: &Path, folder: &Path, front: u16, platform: u16) -> Child {
    let configuration = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;
        events {{}}
        http {{
            access_log off;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
            scgi_temp_path scgi;
            server {{
                listen 127.0.0.1:{front} ssl;
                ssl_certificate cert.pem;
                ssl_certificate_key key.pem;
                location / {{
                    proxy_pass http://127.0.0.1:{platform};
                    proxy_set_header Host $http_host;
                }}
            }}
        }}"
    );
    fs::write(folder.join("nginx.conf"), configuration).expect("the folder can be written");
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn().expect("it can be started")
}

#[tokio::test]
async fn so_is_the_one_behind_a_proxy_that_terminates_tls() {
    let Some(nginx) = tools::on_path("nginx") else { return tools::skip_unless_root("nginx") };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    certify(folder.path());
    let (front, port) = (free_port(), free_port());
    let _proxy = start_nginx(&nginx, folder.path(), front, port);
    let flags = ["--external-url".to_owned(), format!("https://localhost:{front}")];
    let flow = flow_on(Platform::start_on(&format!("127.0.0.1:{port}"), &flags).await).await;
    assert_is_of_host(&flow).await;
}
