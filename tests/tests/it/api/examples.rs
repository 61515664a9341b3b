//! The examples of the documents, run unchanged.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tests::{dns::Dns, instance::Instance, platform::Platform, process::binary, tools};

const README: &str = include_str!("../../../../README.md");
const API: &str = include_str!("../../../../docs/api.md");
const PROVIDERS: &str = include_str!("../../../../docs/identity-providers.md");
const CLIENTS: &str = include_str!("../../../../docs/clients.md");

const PROJECTS: &str = include_str!("../../../../docs/projects.md");
const SETTINGS: &str = include_str!("../../../../docs/settings.md");
const TENANCY: &str = include_str!("../../../../docs/tenancy.md");
const USERS: &str = include_str!("../../../../docs/users.md");
const SESSIONS: &str = include_str!("../../../../docs/sessions.md");
const LOGIN: &str = include_str!("../../../../docs/login.md");

/// The address of the platform in the documents.
const DOCUMENTED: &str = "http://127.0.0.1:8080";

/// Returns the fenced blocks of a document in a language.
pub(crate) fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("\n```{language}\n");
    let mut blocks = vec![];
    for rest in document.split(&opening).skip(1) {
        let (block, _) = rest.split_once("\n```").expect("every block ends");
        blocks.push(block);
    }
    blocks
}

/// A program of docs/clients.md, and the tool that runs it.
struct Client {
    language: &'static str,
    file: &'static str,
    command: &'static [&'static str],
    /// The command that prints the version of the tool.
    version: &'static [&'static str],
    /// The version that is needed.
    needed: [u32; 2],
}

const PROGRAMS: [Client; 4] = [
    Client { language: "sh", file: "client.sh", command: &["sh"], version: &["curl", "--version"], needed: [7, 66] },
    Client {
        language: "python",
        file: "client.py",
        command: &["python3"],
        version: &["python3", "--version"],
        needed: [3, 9],
    },
    Client {
        language: "ts",
        file: "client.mts",
        command: &["node"],
        version: &["node", "--version"],
        needed: [22, 18],
    },
    Client { language: "go", file: "client.go", command: &["go", "run"], version: &["go", "version"], needed: [1, 24] },
];

impl Client {
    /// Returns why the program cannot be run here, if it cannot.
    fn missing(&self) -> Option<String> {
        let [tool, arguments @ ..] = self.version else { return None };
        let Ok(output) = Command::new(tool).args(arguments).env("PATH", path()).output() else {
            return Some(format!("there is no {tool}"));
        };
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = version(&printed);
        let [major, minor] = self.needed;
        (found < Some(self.needed)).then(|| format!("{tool} must be {major}.{minor} or later, not {}", printed.trim()))
    }

    fn run(&self, folder: &Path, platform: &Platform) -> Output {
        let [program] = blocks(CLIENTS, self.language)[..] else { panic!("there is one program in {}", self.language) };
        fs::write(folder.join(self.file), program).expect("the folder can be written");
        let [tool, arguments @ ..] = self.command else { panic!("there is a command") };
        let user = &platform.bootstrap.service_user;
        let mut command = Command::new(tool);
        command.args(arguments).arg(self.file).current_dir(folder).env("BASE", &platform.bootstrap.issuer);
        command.env("CLIENT_ID", &user.client_id).env("CLIENT_SECRET", &user.client_secret);
        command.env("PATH", path());
        // Go shall fetch nothing, and no client go by way of a proxy.
        command.env("GOCACHE", folder).env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("NO_PROXY", "*");
        command.env("no_proxy", "*").output().expect("it runs")
    }
}

/// Returns the PATH of the tools: Node comes with the generators of clients, too.
fn path() -> OsString {
    match tools::installed("generators") {
        Some(folder) => tools::path_with(&folder.join("bin")),
        None => env::var_os("PATH").unwrap_or_default(),
    }
}

/// Parses the version that a tool prints.
fn version(printed: &str) -> Option<[u32; 2]> {
    let begin = printed.find(|char: char| char.is_ascii_digit())?;
    let mut numbers = printed[begin..].split(|char: char| !char.is_ascii_digit()).map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

#[tokio::test]
async fn the_clients_do_what_they_say() {
    // A program sends one request more than the bucket holds, and has to wait for the last.
    let flags = ["--rate-limit-loopback", "--rate-limit-client", "1", "--rate-limit-address", "1000"];
    let platform = Platform::start_with(&flags.map(str::to_owned), &[]).await;
    platform.ready().await;
    let printed = blocks(CLIENTS, "text").into_iter().find(|block| block.starts_with("created"));
    let expected = printed.expect("the document says what is printed").trim();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut ran = 0;
    for client in PROGRAMS {
        if let Some(missing) = client.missing() {
            println!("SKIPPED: the client in {}: {missing}", client.language);
            continue;
        }
        let output = client.run(folder.path(), &platform);
        let (told, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {told}{faults}", client.language);
        assert_eq!(told.trim(), expected, "{}: {faults}", client.language);
        println!("ran the client in {}", client.language);
        ran += 1;
    }
    assert!(ran > 0, "curl is needed to start at all");
}

/// Runs blocks for a shell, one after the other, beside the data folder of a platform.
pub(crate) fn shell(platform: &Instance, script: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    symlink(platform.data(), folder.path().join(".data")).expect("the folder can be written");
    let script = script.replace(DOCUMENTED, &platform.bootstrap.issuer);
    let mut shell = Command::new("bash");
    let own = binary().parent().expect("it is in a folder").display().to_string();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
    shell.args(["-eu", "-c", &script]).current_dir(folder.path()).env("no_proxy", "*").env("PATH", path);
    let output = shell.output();
    let output = output.expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[tokio::test]
async fn the_first_target_is_made_as_the_readme_says() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (_, rest) = README.split_once("<!-- first-target -->").expect("the block is marked");
    let told = shell(&platform, blocks(rest, "sh").first().expect("it follows the mark"));
    let mut read: Value =
        serde_json::from_str(told.lines().last().unwrap_or_default()).expect("the target is read back");
    let shown = blocks(rest, "json").first().map(|shown| serde_json::from_str(shown));
    let mut shown: Value = shown.expect("the answer is shown").expect("it is JSON");
    for answer in [&mut read, &mut shown] {
        let details = &mut answer["target"]["details"];
        for own in ["/id", "/sequence", "/changeDate", "/resourceOwner/id"] {
            let value = details.pointer_mut(own).expect("details are complete");
            assert!(value.take().is_string(), "{own}");
        }
    }
    assert_eq!(read, shown);
}

#[tokio::test]
async fn the_api_is_used_as_its_document_says() {
    let platform = Platform::start().await;
    platform.ready().await;
    let told = shell(&platform, &blocks(API, "sh").join("\n"));
    println!("{told}");
    for expected in ["\"name\":\"bell\"", "idempotency-replayed: true", "\"signingKey\":"] {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
    let meant = ["RESOURCE_NOT_FOUND", "SEQUENCE_MISMATCH", "UNKNOWN_PARAMETER"];
    assert_eq!(reasons(&told), BTreeSet::from(meant), "only what is shown on purpose goes wrong: {told}");
}

/// Returns the reasons of all refusals.
fn reasons(told: &str) -> BTreeSet<&str> {
    told.split("\"reason\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn the_tenants_live_as_their_document_says() {
    let dns = Dns::start().await;
    let platform = Platform::start_with(&["--dns-server".to_owned(), dns.address.to_string()], &[]).await;
    platform.ready().await;
    let told = shell(&platform, &blocks(TENANCY, "sh").join("\n"));
    println!("{told}");
    assert_eq!(reasons(&told), BTreeSet::from(["CHALLENGE_NOT_FOUND"]), "only what is shown on purpose: {told}");
    for expected in ["\"totalResult\":\"1\"", "\"previousValidUntil\":", "http://acme.id.example", "\"actorId\":"] {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
}

#[tokio::test]
async fn identity_providers_are_kept_as_their_document_says() {
    let platform = Platform::start().await;
    platform.ready().await;
    let told = shell(&platform, &blocks(PROVIDERS, "sh").join("\n"));
    println!("{told}");
    assert_eq!(reasons(&told), BTreeSet::from(["PRECONDITION_FAILED"]), "only what is shown on purpose: {told}");
    let expected =
        ["\"scopes\":[\"openid\",\"email\"]", "\"statePolicy\":\"STATE_POLICY_DEACTIVATE\"", "\"totalResult\":\"1\""];
    for expected in expected {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
}

#[tokio::test]
async fn settings_are_set_as_their_document_says() {
    let platform = Platform::start().await;
    platform.ready().await;
    let told = shell(&platform, &blocks(SETTINGS, "sh").join("\n"));
    println!("{told}");
    let shown = BTreeSet::from(["SEQUENCE_MISMATCH", "SETTING_NOT_BUILT"]);
    assert_eq!(reasons(&told), shown, "only what is shown on purpose: {told}");
    let expected = [
        "\"defaultLanguage\":{\"value\":\"fr\"}",
        "\"tokenExchange\":{\"value\":true}",
        "{\"value\":\"Willkommen bei {app}\"}",
    ];
    for expected in expected {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
}

#[tokio::test]
async fn people_and_their_sessions_are_kept_as_their_documents_say() {
    let platform = Platform::start().await;
    platform.ready().await;
    let told = shell(&platform, &blocks(SESSIONS, "sh").join("\n"));
    assert_eq!(reasons(&told), BTreeSet::from(["CREDENTIALS_INVALID"]), "only what is shown on purpose: {told}");
    for expected in ["\"metadata\":{\"place\":\"home\"}", "\"sessionToken\":\"sess-", "\"totalResult\":\"1\""] {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
    let told = shell(&platform, &blocks(LOGIN, "sh").join("\n"));
    assert_eq!(reasons(&told), BTreeSet::new(), "nothing is refused: {told}");
    let led = ["https://login.example/start?authRequest=", "https://shop.example/callback?code="];
    for expected in
        [&led[..], &["\"id_token\":\"", "\"preferred_username\":\"radia\"", "\"issued_token_type\":\"", "\"act\":{"]]
            .concat()
    {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
    let told = shell(&platform, &blocks(USERS, "sh").join("\n"));
    println!("{told}");
    assert_eq!(reasons(&told), BTreeSet::new(), "nothing is refused: {told}");
    for expected in ["\"given_name\":\"Ada\"", "\"family_name\":\"King\"", "\"totalResult\":\"1\""] {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
}

#[tokio::test]
async fn projects_are_made_as_their_document_says() {
    let platform = Platform::start().await;
    platform.ready().await;
    let told = shell(&platform, &blocks(PROJECTS, "sh").join("\n"));
    println!("{told}");
    assert_eq!(reasons(&told), BTreeSet::from(["PRECONDITION_FAILED"]), "only what is shown on purpose: {told}");
    for expected in [
        "\"access_token\":\"",
        "\"active\":true",
        "\"state\":\"EFFECTIVE_STATE_INACTIVE\"",
        "\"roleKeys\":[\"clerk\"]",
        "OIDC_COMPLIANCE_PROBLEM_NATIVE_HTTP_REDIRECT_URI",
    ] {
        assert!(told.contains(expected), "{expected} is missing: {told}");
    }
}
