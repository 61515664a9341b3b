//! A short run of the fuzzer; `make fuzz` takes longer.

use std::process::Command;

#[test]
fn what_nobody_would_send_does_no_harm() {
    let mut fuzzer = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    let output = fuzzer.env("FUZZ_SECONDS", "2").output().expect("it runs");
    let (told, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{told}");
    assert!(output.status.success(), "{told}{faults}");
    let tokens = ["access-token", "opaque-token", "consistency-token"];
    for kind in ["body", "query", "password-hash", "record", "frame"].into_iter().chain(tokens) {
        let line = told.lines().find(|line| line.starts_with(&format!("{kind} ")));
        let inputs = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok());
        assert!(inputs.is_some_and(|inputs| inputs > 100), "{kind} was fed: {told}");
    }
}
