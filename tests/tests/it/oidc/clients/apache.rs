//! Apache in front of an app that knows nothing of OpenID Connect, set up by docs/apps/apache.conf as it stands.

use std::{fs, path::Path};

use axum::{Router, http::HeaderMap};
use reqwest::{StatusCode, header::COOKIE};
use tests::{client::http, tools};
use tokio::{net::TcpListener, process::Command};

use super::web_app::{ASKS, Visit};

const CONFIGURATION: &str = include_str!("../../../../../docs/apps/apache.conf");
const CLAIM: &str = "oidc_claim_";

/// Starts an app that shows what Apache tells it of who is there. Returns its port.
async fn backend() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let shows = async |headers: HeaderMap| {
        let claims = headers.iter().filter(|(name, _)| name.as_str().starts_with(CLAIM));
        let lines = claims.map(|(name, value)| format!("{name}={}\n", String::from_utf8_lossy(value.as_bytes())));
        format!("claims:\n{}", lines.collect::<String>())
    };
    let app = Router::new().fallback(shows);
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

/// Apache in one process, which ends when it is killed.
fn command(apache: &Path, folder: &Path, backend: u16) -> Command {
    fs::write(folder.join("apache.conf"), CONFIGURATION).expect("the folder can be written");
    let mut command = Command::new(apache);
    command.arg("-d").arg(folder).args(["-f", "apache.conf", "-X"]);
    command.env("BACKEND", backend.to_string()).env("PASSPHRASE", "a-passphrase-of-the-test");
    command
}

#[tokio::test]
async fn people_log_in_to_what_is_behind_apache() {
    let module = Path::new("/usr/lib/apache2/modules/mod_auth_openidc.so").exists();
    let Some(apache) = tools::on_path("apache2").filter(|_| module) else { return tools::skip_unless_root("Apache") };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut visit = Visit::start(command(&apache, folder.path(), backend().await)).await;

    let callback = visit.logs_in().await;
    let (before, state) = callback.split_once("state=").expect("Apache has sent one");
    let mut other = visit.app.clone();
    let refused = other.get(&format!("{before}state=x{state}")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    assert!(!other.get("/").await.text.contains("claims:"), "nobody is let in");

    let back = visit.app.get(&callback).await;
    assert_eq!(back.location(), format!("{}login", visit.home), "{} {}", back.status, back.text);
    let shown = visit.opens("/").await;
    for claim in [
        format!("preferred_username={}\n", visit.person),
        format!("email={}@example.com\n", visit.person),
        "given_name=Katherine\n".to_owned(),
    ] {
        assert!(shown.text.contains(&format!("{CLAIM}{claim}")), "{claim} is missing: {}", shown.text);
    }

    // What the browser says of itself is not believed.
    let cookies: Vec<_> = visit.app.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = http(&visit.home).build().expect("a client").get(&visit.home).header(COOKIE, cookies.join("; "));
    let forged = request.header("OIDC_CLAIM_email", "root@example.com").header("OIDC_CLAIM_groups", "admin");
    let text = forged.send().await.expect("Apache answers").text().await.expect("it is text");
    assert!(text.contains("claims:") && !text.contains("root@") && !text.contains("admin"), "{text}");

    let encoded = visit.home.replace(':', "%3A").replace('/', "%2F");
    let asked = visit.opens(&format!("/callback?logout={encoded}")).await;
    assert!(asked.text.contains(ASKS), "it ends at both, so the login begins anew: {} {}", asked.status, asked.text);
}
