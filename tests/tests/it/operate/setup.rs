//! A log and a database are prepared once, and then used by nodes in processes of their own.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    eventually,
    instance::Bootstrap,
    ports::free_address,
    process::{Process, binary, server},
    servers::Servers,
};
use tokio::io::{AsyncBufReadExt, BufReader};

const ISSUER: &str = "http://localhost:8443";

fn run(arguments: &[String], environment: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(binary()).args(arguments).envs(environment.iter().copied());
    let Output { status, stderr, .. } = command.output().expect("it runs");
    (status.success(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Returns the flags of the servers, without a master key.
fn flags(servers: &Servers) -> Vec<String> {
    let mut flags = servers.flags();
    let key = flags.iter().position(|word| word == "--master-key-file").expect("it is given");
    flags.drain(key..key + 2);
    flags
}

fn set_up(servers: &Servers, folder: &Path, more: &[&str]) -> (bool, String) {
    let place = folder.display().to_string();
    let own = ["setup", "--data-dir", &place].map(str::to_owned);
    let url = ["--external-url", ISSUER].map(str::to_owned);
    let url = if more.contains(&"--external-url") { &[] } else { &url[..] };
    run(&[&own[..], url, &flags(servers), &more.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()].concat(), &[])
}

#[tokio::test]
async fn nodes_run_on_what_was_set_up_once() {
    let servers = Servers::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("platform");
    let (success, told) = set_up(&servers, &place, &["--features", "multitenancy_resources_api"]);
    assert!(success, "{told}");
    let read = || fs::read(place.join("bootstrap.json")).expect("it tells who may log in");
    let bootstrap: Bootstrap = serde_json::from_slice(&read()).expect("it is JSON");
    assert_eq!(bootstrap.issuer, ISSUER);
    assert!(told.contains("master.key") && told.contains("bootstrap.json"), "{told}");

    let before = read();
    let (success, told) = set_up(&servers, &place, &[]);
    assert!(success && told.contains("nothing was changed"), "{told}");
    let (success, told) = set_up(&servers, &folder.path().join("other"), &[]);
    assert!(success && told.contains("nothing was changed"), "{told}");
    assert_eq!(read(), before);
    assert!(!folder.path().join("other").exists(), "no key is left that belongs to nothing");
    another_issuer_is_refused(&servers, &place);

    let nodes = Nodes::start(&servers, (folder.path(), &place)).await;
    let (client, [command, query]) = (nodes.log_in(&bootstrap).await, [&nodes.command, &nodes.query]);
    let created = eventually("a write", || async {
        let request = client.at(command).request(Method::POST, TARGETS).json(&target("one"));
        let answer = Answer::of(request.send().await.ok()?).await;
        (answer.status == 201).then_some(answer)
    });
    let created = created.await;
    let path = format!("{TARGETS}/{}", created.id());
    let request = client.at(query).request(Method::GET, &path).header("consistency-wait", "10s");
    let found = send(request.header("consistency-token", created.consistency())).await;
    assert_eq!(found.body["target"]["target"]["name"], json!("one"), "{found:?}");
}

#[tokio::test]
async fn how_the_first_person_logs_in_is_left_where_setup_is_told() {
    let servers = Servers::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let setup = "[first_person]\nusername = \"ada\"\ngiven_name = \"Ada\"\nfamily_name = \"Lovelace\"\n";
    let start = |setup: &str| {
        fs::write(folder.path().join("setup.toml"), setup).expect("the folder can be written");
        let own = ["setup", "--data-dir", "data", "--external-url", ISSUER, "--setup", "setup.toml"];
        let mut command = Command::new(binary());
        command.current_dir(folder.path()).args(own).args(["--first-person-file", "first"]).args(flags(&servers));
        let Output { status, stderr, .. } = command.output().expect("it runs");
        (status.success(), String::from_utf8_lossy(&stderr).into_owned())
    };
    for (wrong, told) in [
        (setup.replace("\"ada\"", "\"123\""), "first_person: username must not consist of digits only"),
        (setup.replace("\"ada\"", "\"PLATFORM-admin\""), "first_person: username must differ"),
        (setup.replace("family_name = \"Lovelace\"", ""), "missing field `family_name`"),
        (format!("{setup}mail = \"x\""), "unknown field `mail`"),
        (format!("{setup}email = \"x\""), "first_person: email must be an e-mail address"),
    ] {
        let (success, said) = start(&wrong);
        assert!(!success && said.contains(told), "{wrong}: {said}");
    }
    let (success, told) = start(setup);
    assert!(success && told.contains("how the first person logs in is in"), "{told}");
    let file = folder.path().join("first");
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).expect("it can be read");
    assert!(text.starts_with(&format!("open: {ISSUER}/ui/login\nlogin name: ada\none-time password: ")), "{text}");
    let (success, told) = start(setup);
    assert!(success && told.contains("nothing was changed"), "{told}");
    assert_eq!(fs::read_to_string(&file).expect("it can be read"), text, "it stays");
}

/// A node of each role.
struct Nodes {
    _processes: Vec<Process>,
    command: String,
    query: String,
    oidc: String,
}

impl Nodes {
    /// Starts the nodes with what was set up in a folder.
    async fn start(servers: &Servers, (folder, place): (&Path, &Path)) -> Self {
        let (config, places) = (folder.join("platform.toml"), &servers.places);
        let text = format!(
            "nats-url = {:?}\nnats-token = {:?}\nnats-monitor-url = {:?}\npostgres-url = {:?}\nexternal-url = {ISSUER:?}\n\
             master-key-file = {:?}\nindex-grace = 60\n",
            places.nats_url,
            places.nats_token,
            places.nats_monitor_url,
            places.postgres_url,
            place.join("master.key").display().to_string()
        );
        fs::write(&config, text).expect("the folder can be written");
        let nodes = ["command", "projector", "query", "oidc"].map(|role| {
            let listen = free_address();
            let mut arguments = vec![role.to_owned(), "--config".into(), config.display().to_string()];
            if role != "projector" {
                arguments.extend(["--listen".to_owned(), listen.clone()]);
            }
            let url = format!("http://{}", listen.replace("127.0.0.1", "localhost"));
            (Process::spawn(&arguments, &[], std::process::Stdio::null()), url)
        });
        let [command, _, query, oidc] = nodes.each_ref().map(|(_, url)| url.clone());
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        eventually("tokens", || async {
            let discovery = http.get(format!("{oidc}/.well-known/openid-configuration"));
            discovery.send().await.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        Self { _processes: nodes.into_iter().map(|(process, _)| process).collect(), command, query, oidc }
    }

    async fn log_in(&self, bootstrap: &Bootstrap) -> Client {
        Client::log_in(&self.oidc, &bootstrap.service_user).await
    }
}

#[tokio::test]
async fn previews_that_nobody_asked_for_are_off() {
    let servers = Servers::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("platform");
    let (success, told) = set_up(&servers, &place, &["--features", "multitenancy_resource_api"]);
    assert!(!success && told.contains("multitenancy_resources_api"), "it says which there are: {told}");
    let (success, told) = set_up(&servers, &place, &[]);
    assert!(success, "{told}");
    let text = fs::read(place.join("bootstrap.json")).expect("it tells who may log in");
    let bootstrap: Bootstrap = serde_json::from_slice(&text).expect("it is JSON");
    let nodes = Nodes::start(&servers, (folder.path(), &place)).await;
    let client = nodes.log_in(&bootstrap).await;
    let (one, search) = (format!("{TARGETS}/1"), format!("{TARGETS}/_search"));
    for (node, method, path, body) in [
        (&nodes.command, Method::POST, TARGETS, ::tests::client::target("one")),
        (&nodes.command, Method::DELETE, one.as_str(), json!({})),
        (&nodes.query, Method::GET, one.as_str(), json!({})),
        (&nodes.query, Method::POST, search.as_str(), json!([])),
    ] {
        let answer = eventually(path, || async {
            let request = client.at(node).request(method.clone(), path).json(&body);
            Some(Answer::of(request.send().await.ok()?).await).filter(|answer| answer.status != 503)
        });
        answer.await.assert_refused(path, 400, "FEATURE_DISABLED");
    }
}

fn another_issuer_is_refused(servers: &Servers, place: &Path) {
    let (success, told) = set_up(servers, place, &["--external-url", "https://other.example"]);
    assert!(!success && told.contains(ISSUER) && told.contains("https://other.example"), "{told}");
}

#[tokio::test]
async fn a_setup_that_cannot_be_says_why() {
    let servers = Servers::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let told = |(success, told): (bool, String), words: &[&str]| {
        assert!(!success, "{told}");
        assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
    };
    told(run(&["setup".to_owned()], &[]), &["--postgres-url", "--external-url"]);
    told(set_up(&servers, &place("a"), &["--external-url", "ftp://x"]), &["external-url"]);
    let users = folder.path().join("users.toml");
    fs::write(&users, "[[service_user]]\nname = \"a\"\nroles = [\"KING\"]").expect("a file");
    told(set_up(&servers, &place("b"), &["--setup", &users.display().to_string()]), &["KING", "users.toml"]);

    // A node that runs before there is anything keeps the log for itself.
    let mut early = servers.flags();
    early.splice(0..0, ["command", "--node-name", "early", "--listen", "127.0.0.1:0"].map(str::to_owned));
    let early = Process::spawn(&early, &[], std::process::Stdio::null());
    let leases = async_nats::jetstream::new(servers.nats().await);
    eventually("it has the lease", || async {
        let held = eventlog::lease::holders(&leases).await.ok()?;
        held.iter().any(|(name, _)| name == "writer.0").then_some(())
    })
    .await;
    told(set_up(&servers, &place("c"), &[]), &["early", "stop it"]);
    assert!(!place("a").exists() && !place("b").exists() && !place("c").exists(), "nothing is left of what failed");
    drop(early);
}

#[tokio::test]
async fn a_wrong_configuration_file_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("platform.toml");
    let name = file.display().to_string();
    let with = |text: &str, environment: &[(&str, &str)]| {
        fs::write(&file, text).expect("a file");
        run(&["query", "--config", &name].map(str::to_owned), environment)
    };
    for (text, word) in [
        ("listen = ", "TOML"),
        ("lisen = \"127.0.0.1:0\"", "there is no setting lisen"),
        ("listen = [1]", "listen must be a string or a number"),
        ("node-number = 5000\npostgres-url = \"x\"", "5000"),
        ("nats-token = \"a\"\nnats-credentials = \"b\"\npostgres-url = \"x\"", "cannot be used with"),
    ] {
        let (success, told) = with(text, &[]);
        assert!(!success && told.contains(word) && told.contains("platform.toml"), "{text}: {told}");
    }
    let (success, told) = run(&["query", "--config", "/nowhere/x.toml"].map(str::to_owned), &[]);
    assert!(!success && told.contains("/nowhere/x.toml"), "{told}");
    // What is in the environment wins over the file.
    let (success, told) = with(
        "nats-url = \"nats://file.invalid:1\"\npostgres-url = \"postgres://u@127.0.0.1:1/x\"\nlisten = \"127.0.0.1:0\"\nmaster-key-file = \"/nowhere/key\"",
        &[("PLATFORM_MASTER_KEY_FILE", "/elsewhere/key")],
    );
    assert!(!success && told.contains("/elsewhere/key"), "{told}");
}

#[tokio::test]
async fn servers_end_when_one_of_them_dies_and_leave_no_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["servers", "--data-dir", &folder.path().display().to_string()].map(str::to_owned);
    let mut servers = Process::spawn(&arguments, &[], std::process::Stdio::piped());
    let stdout = servers.stdout().expect("it is piped");
    BufReader::new(stdout).lines().next_line().await.expect("it prints").expect("they start");
    let keys = ["master.key", "system-user.key"].map(|name| folder.path().join(name).exists());
    assert_eq!(keys, [false, false], "they belong to nothing");
    kill_process(server(folder.path(), "nats").expect("it runs"), Signal::KILL).expect("it is there");
    assert!(!servers.ended().await.success());
    assert!(server(folder.path(), "postgres").is_none(), "the other one was stopped");
}

#[tokio::test]
async fn tools_find_what_runs_on_a_folder_and_another_issuer_is_told() {
    let servers = Servers::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    let start = |url: &str, log: &str| {
        let own =
            ["standalone", "--data-dir", &data, "--listen", "127.0.0.1:0", "--external-url", url].map(str::to_owned);
        let stderr = fs::File::create(folder.path().join(log)).expect("a file");
        Process::spawn_to(&[&own[..], &servers.flags()].concat(), &[], std::process::Stdio::null(), stderr.into())
    };
    let mut first = start("http://localhost:9", "first");
    let listed = eventually("its executions", || async {
        let (is_success, out, told) = tests::process::run(&["execution", "list", "--data-dir", &data]);
        is_success.then_some((out, told))
    });
    let (out, told) = listed.await;
    assert!(out.is_empty() && told.contains("0 of 0 executions"), "{out}{told}");
    let (is_success, _, told) = tests::process::run(&["execution", "delete", "request", "--data-dir", &data]);
    assert!(!is_success && told.contains("the platform refused it: ") && !told.contains('{'), "{told}");
    assert!(first.end().await.success());
    let mut second = start("http://localhost:10", "second");
    let said = || fs::read_to_string(folder.path().join("second")).unwrap_or_default();
    let words = "the issuer is http://localhost:10 now, and was http://localhost:9";
    eventually("it says so", || async { said().contains(words).then_some(()) }).await;
    second.end().await;
}
