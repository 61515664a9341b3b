//! Clients that two generators make from /openapi.json, and programs that use them: the examples of
//! docs/generated-clients.md, run unchanged. `deploy/setup` installs the generators.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use tests::{tenant::Shared, tools};

use super::examples::blocks;

const DOCUMENT: &str = include_str!("../../../../docs/generated-clients.md");

/// The example of a language: the commands, the program, and the file that it is in.
struct Example {
    place: usize,
    language: &'static str,
    file: &'static str,
}

impl Example {
    /// Generates a client and runs the program, in an empty folder.
    fn run(&self, tools: &Path, folder: &Path, platform: &Shared) -> String {
        let [program] = blocks(DOCUMENT, self.language)[..] else {
            panic!("there is one program in {}", self.language)
        };
        fs::write(folder.join(self.file), program).expect("the folder can be written");
        let user = &platform.bootstrap.service_user;
        let mut command = Command::new("sh");
        command.args(["-euc", blocks(DOCUMENT, "sh")[self.place]]).current_dir(folder);
        command.env("PATH", tools::path_with(&tools.join("bin"))).env("BASE", &platform.bootstrap.issuer);
        command.env("CLIENT_ID", &user.client_id).env("CLIENT_SECRET", &user.client_secret);
        command.env("NO_PROXY", "*").env("no_proxy", "*");
        let output = command.output().expect("there is a shell");
        let (told, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{told}{faults}");
        format!("{told}{faults}")
    }
}

/// Returns what both programs print at the end.
fn expected() -> &'static str {
    let printed = blocks(DOCUMENT, "text").into_iter().find(|block| block.starts_with("created"));
    printed.expect("the document says what is printed")
}

#[tokio::test]
async fn a_generated_client_in_python_lacks_nothing_and_works() {
    let Some(tools) = tools::installed("generators") else { return tools::skip("openapi-python-client") };
    let platform = Shared::find().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let example = Example { place: 0, language: "python", file: "client.py" };
    let told = example.run(&tools, folder.path(), &platform);
    assert!(told.trim().ends_with(expected()), "{told}");
    // It warns of what it drops, and is told to fail then; this is the rest of what it says.
    assert!(!told.contains("arning"), "{told}");
}

#[tokio::test]
async fn generated_types_in_typescript_compile_and_work() {
    let Some(tools) = tools::installed("generators") else { return tools::skip("openapi-typescript") };
    let platform = Shared::find().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    symlink(tools.join("node_modules"), folder.path().join("node_modules")).expect("the folder can be written");
    let example = Example { place: 1, language: "ts", file: "client.mts" };
    let told = example.run(&tools, folder.path(), &platform);
    assert!(told.trim().ends_with(expected()), "{told}");
}
