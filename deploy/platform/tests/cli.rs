//! Tests of the command line. As an integration test, this makes cargo build the binary, so that every test run has the
//! current one.

use std::process::{Command, Output, Stdio};

fn platform(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_platform")).args(arguments).output().expect("the binary runs")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_printed_schema_is_the_reviewed_one() {
    let printed = platform(&["schema"]).stdout;
    assert_eq!(String::from_utf8_lossy(&printed), include_str!("../../schema.sql"), "accept it with `make bless`");
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platform"));
    let mut child = command.arg("schema").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", complaint(&output));
}

#[test]
fn a_wrong_external_url_is_refused_before_any_server_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    for url in [
        "ftp://id.example",
        "http://id.example/path",
        "http://u@id.example",
        "http://:p@id.example",
        "http://x?q",
        "id.example.com",
    ] {
        let output = platform(&["standalone", "--listen", "127.0.0.1:0", "--data-dir", &data, "--external-url", url]);
        let told = complaint(&output);
        assert!(!output.status.success() && told.contains("--external-url") && told.contains(url), "{url}: {told}");
        assert!(told.contains("such as https://id.example.com"), "{url}: {told}");
    }
}

#[test]
fn every_command_has_help() {
    for command in ["standalone", "command", "query", "projector", "oidc", "servers", "stop", "schema", "log", "doctor"]
    {
        let help = platform(&[command, "--help"]);
        assert!(help.status.success() && !help.stdout.is_empty(), "{command}");
    }
}

#[test]
fn a_wrong_flag_is_named() {
    for (arguments, named) in [
        (&["standalone", "--listen", "nonsense"][..], "--listen"),
        (&["standalone", "--node-number", "5000"], "--node-number"),
        (&["standalone", "--no-such-flag"], "--no-such-flag"),
        (&["standalone", "--dns-server", "10.0.0.53"], "such as 10.0.0.53:53"),
        (&["query"], "--postgres-url"),
        (&["query"], "--nats-url"),
        (&["query"], "--master-key-file"),
        (&["setup"], "--nats-url"),
        (&["projector", "--postgres-url", "postgres://127.0.0.1"], "--nats-url"),
        (&["stop", "--data-dir", "/no/such/folder"], "is not the data directory"),
    ] {
        let output = platform(arguments);
        assert!(
            !output.status.success() && complaint(&output).contains(named),
            "{arguments:?}: {}",
            complaint(&output)
        );
    }
}

#[test]
fn a_limit_of_files_is_not_blamed_on_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = format!(
        "ulimit -n 40; exec {} standalone --data-dir {}",
        env!("CARGO_BIN_EXE_platform"),
        folder.path().display()
    );
    let output = Command::new("sh").args(["-c", &start]).output().expect("it runs");
    let told = complaint(&output);
    assert!(
        !output.status.success() && told.contains("may open 40 files") && told.contains("ulimit -n 8192"),
        "{told}"
    );
}
