//! The command line. That this is an integration test has a second use: cargo builds the binary for it, so every test
//! run has the current one.

use std::process::{Command, Output};

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
fn every_command_has_help() {
    for command in ["standalone", "command", "query", "projector", "oidc", "servers", "stop", "schema"] {
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
        (&["query"], "--postgres-url"),
        (&["query", "--postgres-url", "postgres://127.0.0.1"], "--nats-url"),
    ] {
        let output = platform(arguments);
        assert!(
            !output.status.success() && complaint(&output).contains(named),
            "{arguments:?}: {}",
            complaint(&output)
        );
    }
}
