//! Apache in front of an app without OpenID Connect, configured by docs/apps/apache.conf unchanged.

use std::{fs, path::Path};

use axum::{Router, http::HeaderMap};
use reqwest::{StatusCode, header::COOKIE};
use tests::{client::http, tools};
use tokio::{net::TcpListener, process::Command};

use super::web_app::{ASKS, Visit};

const CONFIGURATION: &str = include_str!("../../../../../docs/apps/apache.conf");
const CLAIM: &str = "oidc_claim_";
/// The beginning of what the app behind Apache shows.
const SHOWN: &str = "headers:\n";

/// Starts an app that shows what Apache sends it. Returns its port.
async fn backend() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let shows = async |headers: HeaderMap| {
        let lines = headers.iter();
        let lines = lines.map(|(name, value)| format!("{name}={}\n", String::from_utf8_lossy(value.as_bytes())));
        format!("{SHOWN}{}", lines.collect::<String>())
    };
    let app = Router::new().fallback(shows);
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

/// Returns the command that runs Apache in one process, which ends when it is killed.
fn command(apache: &Path, folder: &Path, backend: u16) -> Command {
    fs::write(folder.join("apache.conf"), CONFIGURATION).expect("the folder can be written");
    let mut command = Command::new(apache);
    command.arg("-d").arg(folder).args(["-f", "apache.conf", "-X"]);
    let passphrase = folder.join("passphrase");
    fs::write(&passphrase, "a-passphrase-of-the-test").expect("the folder can be written");
    command.env("BACKEND", backend.to_string()).env("PASSPHRASE_FILE", passphrase);
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
    assert!(!other.get("/").await.text.contains(SHOWN), "nobody is let in");

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
    for secret in ["access_token", "mod_auth_openidc_session"] {
        assert!(!shown.text.contains(secret), "the app behind needs no {secret}: {}", shown.text);
    }

    // What the browser says of itself is not believed.
    let cookies: Vec<_> = visit.app.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request = http(&visit.home).build().expect("a client").get(&visit.home).header(COOKIE, cookies.join("; "));
    let names = ["OIDC_CLAIM_email", "OIDC-CLAIM-email", "oidc_claim_groups", "OIDC_CLAIM-roles"];
    let forged = names.iter().fold(request, |request, name| request.header(*name, "root@example.com"));
    let text = forged.send().await.expect("Apache answers").text().await.expect("it is text");
    assert!(text.contains(SHOWN) && !text.contains("root@"), "{text}");

    let elsewhere = visit.app.clone().get("/callback?logout=https%3A%2F%2Fevil.example%2F").await;
    assert!(
        !elsewhere.status.is_redirection() && elsewhere.location().is_empty(),
        "{} {}",
        elsewhere.status,
        elsewhere.text
    );
    let encoded = visit.home.replace(':', "%3A").replace('/', "%2F");
    let asked = visit.opens(&format!("/callback?logout={encoded}")).await;
    assert!(asked.text.contains(ASKS), "it ends at both, so the login begins anew: {} {}", asked.status, asked.text);
}
