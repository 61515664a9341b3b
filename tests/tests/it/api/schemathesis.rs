//! Schemathesis with /openapi.json: none of its requests gets a server error, or an undescribed answer. It is a Python
//! program; where it is not installed, the test is skipped with a notice, and fails in continuous integration.

use std::{env, ffi::OsStr, path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use tests::{
    client::{TARGETS, send},
    platform::Platform,
    tools,
};
use tokio::{process::Command, time::timeout};

/// The operations that differ from others in data only. It tests one or two of each kind, and all of them where
/// `SCHEMATHESIS_ALL` is set.
const ALIKE: &str = "^((Create|Patch|Get)(CodeHostA|CodeHostAES|CodeHostBSelfHosted|DirectoryA|JWT|OAuth|OIDC|SAML|SocialA|SocialB)IDP\
                     |(Set|Resolve)(Password|Lockout|Help|Domain|Oidc)Settings\
                     |(Create|Delete|Get|Search)AppKeys?\
                     |(Create|Patch)(Domain|Membership|ProjectGrant|Role|UserGrant)\
                     |(Get|Delete)(App|Domain|IDP|Instance|Membership|Organization|PersonalAccessToken|Project|ProjectGrant|Role|UserGrant|UserKey|WebKey)\
                     |(Deactivate|Reactivate)(App|IDP|Instance|Organization|Project|ProjectGrant|UserGrant)\
                     |(Discard|Get|Retry|Reveal)InstanceFailedEvents?\
                     |Search(Domains|InstanceFailedEvents|Memberships|Organizations|PersonalAccessTokens|ProjectGrants|Projects|Roles|SystemEvents|UserGrants|UserMetadata|WebKeys)\
                     |(RollBack|Switch|Verify)View)$";
/// How long it may take on a busy machine; usually it takes one or two thirds of that.
const LIMIT: Duration = Duration::from_mins(15);
/// Its phases. A further one infers links between operations, which it then reports as wrong.
const PHASES: &str = "examples,coverage,fuzzing";
/// How many requests it generates for each operation in its random phase; in the others it makes many more.
const EXAMPLES: &str = "8";
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");

/// Finds the program that `deploy/setup` has installed, else the one on the PATH.
fn program() -> Option<PathBuf> {
    let installed = tools::installed("schemathesis").map(|folder| folder.join("bin/schemathesis"));
    installed.or_else(|| tools::on_path("schemathesis"))
}

#[tokio::test]
async fn no_request_gets_a_server_error_or_an_answer_that_is_not_described() {
    let Some(program) = program() else {
        return tools::skip("schemathesis");
    };
    let platform = Platform::start().await;
    let client = platform.client().await;
    let found = send(client.request(Method::POST, &format!("{TARGETS}/_search"))).await;
    let user = &platform.bootstrap.service_user;
    let basic = STANDARD.encode(format!("{}:{}", user.client_id, user.client_secret));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let document = format!("{}/openapi.json", platform.bootstrap.issuer);
    let arguments = ["--config-file", CONFIGURATION, "run", &document];
    let excluded = if env::var_os("SCHEMATHESIS_ALL").is_some() { "^$" } else { ALIKE };
    let run = Command::new(program)
        .args(arguments)
        .args(["--exclude-operation-id-regex", excluded, "--phases", PHASES])
        .args(["--max-examples", EXAMPLES, "--generation-deterministic", "--no-color"].map(OsStr::new))
        .envs([("BEARER", &client.token), ("CONSISTENCY_TOKEN", &found.consistency()), ("BASIC", &basic)])
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = timeout(LIMIT, run).await.expect("it ends in time").expect("it runs");
    let (told, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{told}\n{failed}");
    let summary = told.find("Test cases:").map_or("", |place| &told[place..]);
    println!("schemathesis: {}", summary.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" "));
}
