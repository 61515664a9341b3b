//! docs/actions.md: the signature checks run as they stand, where their language is on this machine.

use std::{fs, path::Path, process::Command};

use action::signature::signature;

const ACTIONS: &str = include_str!("../../../docs/actions.md");
const KEY: &str = "Ncb5tR8wYd0KsUqJ2fHvXz7LmGa4PoEi1TkB";
const BODY: &str = "{\"a\": 1}";

/// The block of a language that holds a text.
fn block<'a>(language: &str, with: &str) -> &'a str {
    let opening = format!("\n```{language}\n");
    let blocks = ACTIONS.split(&opening).skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block);
    blocks.find(|block| block.contains(with)).unwrap_or_else(|| panic!("no {language} with {with}"))
}

/// Runs a program on headers, and compares what it finds good with what is.
fn check(program: &str, file: &Path, text: &str) {
    let now = store::clock::now().as_second();
    let signed = |at: i64| signature(KEY.as_bytes(), at, BODY.as_bytes());
    fs::write(file, text).expect("the folder can be written");
    let body = file.with_extension("body");
    fs::write(&body, BODY).expect("the folder can be written");
    for (header, is_good) in [
        (format!("t={now},v1={}", signed(now)), true),
        (format!("t={now},v1={},v1={}", "0".repeat(64), signed(now)), true),
        (format!("t={now},v1={}", "0".repeat(64)), false),
        (format!("t={now},v0={}", signed(now)), false),
        (format!("t={},v1={}", now - 10, signed(now)), false),
        (format!("t={},v1={}", now - 400, signed(now - 400)), false),
    ] {
        let ran = Command::new(program).arg(file).args([KEY, &header]).arg(&body).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.is_empty(), "{program}: {said}");
        assert_eq!(ran.status.success(), is_good, "{program}: {header}");
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success())
}

#[test]
fn the_signature_checks_of_the_document_are_right() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = |name: &str| folder.path().join(name);
    let shell = format!("{}\nis_signed \"$1\" \"$2\" \"$3\"\n", block("sh", "is_signed"));
    check("sh", &file("check.sh"), &shell);
    if is_there("node") {
        let script = "\nconst [, , key, header, body] = process.argv;\n\
            process.exit(isSigned(key, header, require(\"node:fs\").readFileSync(body)) ? 0 : 1);\n";
        check("node", &file("check.js"), &(block("javascript", "isSigned").to_owned() + script));
    }
    if is_there("python3") {
        let (functions, _) = block("python", "is_signed").split_once("\nclass ").expect("the class comes behind");
        let script = "\nKEY = sys.argv[1].encode()\n\
            sys.exit(0 if is_signed(sys.argv[2], open(sys.argv[3], \"rb\").read(), time.time()) else 1)\n";
        check("python3", &file("check.py"), &(functions.to_owned() + script));
    }
}
