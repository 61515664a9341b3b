//! What schemathesis makes of /openapi.json: no request that it can think of gets a server error, or an answer that is
//! not described. It is a Python program; where it is not installed the test is skipped and says so, and
//! fails in continuous integration.

use std::{env, ffi::OsStr, path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use tests::{
    client::{TARGETS, send},
    platform::Platform,
};
use tokio::{process::Command, time::timeout};

/// How many requests it makes up for each operation in its random part; in others it makes many more.
const EXAMPLES: &str = "15";
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");

/// What `deploy/setup` installed, else what is on the PATH.
fn program() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    let installed = cache.map(|cache| cache.join("identity-platform/schemathesis"));
    // Without this file the installation is not whole.
    let installed = installed.filter(|folder| folder.join(".list").exists());
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).collect::<Vec<_>>().into_iter();
    let mut programs = installed.map(|folder| folder.join("bin")).into_iter().chain(folders);
    programs.find_map(|folder| Some(folder.join("schemathesis")).filter(|program| program.is_file()))
}

#[tokio::test]
async fn no_request_gets_a_server_error_or_an_answer_that_is_not_described() {
    let Some(program) = program() else {
        let is_ci = env::var("CI").is_ok_and(|value| value == "true");
        assert!(!is_ci, "schemathesis is not installed, and continuous integration does not do without it");
        println!("SKIPPED: schemathesis is not installed; PLATFORM_SETUP_TOOLS=1 deploy/setup installs it");
        return;
    };
    let platform = Platform::start().await;
    let client = platform.client().await;
    let found = send(client.request(Method::POST, &format!("{TARGETS}/_search"))).await;
    let user = &platform.bootstrap.service_user;
    let basic = STANDARD.encode(format!("{}:{}", user.client_id, user.client_secret));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let document = format!("{}/openapi.json", platform.bootstrap.issuer);
    let arguments = ["--config-file", CONFIGURATION, "run", &document];
    let run = Command::new(program)
        .args(arguments)
        .args(["--max-examples", EXAMPLES, "--generation-deterministic", "--no-color"].map(OsStr::new))
        .envs([("BEARER", &client.token), ("CONSISTENCY_TOKEN", &found.consistency()), ("BASIC", &basic)])
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = timeout(Duration::from_mins(5), run).await.expect("it ends in time").expect("it runs");
    let (told, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{told}\n{failed}");
    let summary = told.find("Test cases:").map_or("", |place| &told[place..]);
    println!("schemathesis: {}", summary.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" "));
}
