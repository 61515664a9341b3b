//! The master key is changed while the platform runs.

use std::fs;

use reqwest::StatusCode;
use tests::{eventually, platform::Platform, process::run, secrets::Secrets};

fn rotate(platform: &Platform, flags: &[&str]) -> (bool, String) {
    let data = platform.data().display().to_string();
    let (is_fine, told, said) = run(&[&["master-key", "rotate", "--data-dir", &data], flags].concat());
    (is_fine, told + &said)
}

#[tokio::test]
async fn the_master_key_is_changed_while_the_platform_runs() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let client = platform.client().await;
    client.create_target("before").await.expect("it is created");
    let file = platform.data().join("master.key");
    let old = fs::read_to_string(&file).expect("the folder has the key");
    let (is_fine, said) = rotate(&platform, &[]);
    // Five of the instance, three of the system.
    assert!(is_fine && said.contains("8 data keys are wrapped"), "{said}");
    let new = fs::read_to_string(&file).expect("the folder has the key");
    assert!(new != old && new.trim().len() == 64, "only the new one is left");
    // These read all keys with the one of the file.
    Secrets::of(&platform).await;
    client.create_target("after").await.expect("what is known goes on");
    platform.client().await;

    platform.stop().await;
    platform.restart(&[]).await;
    platform.client().await.create_target("after a restart").await.expect("the new key opens everything");
    platform.stop().await;
    fs::write(&file, &old).expect("the folder can be written");
    let data = platform.data().display().to_string();
    let (is_fine, _, said) = run(&["standalone", "--data-dir", &data, "--listen", "127.0.0.1:0"]);
    assert!(!is_fine && said.contains("the master key is not the one"), "{said}");
}

#[tokio::test]
async fn a_key_is_prepared_for_all_nodes_and_a_wrong_file_changes_nothing() {
    let said = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let stderr = said.reopen().expect("it can be opened");
    let mut platform = Platform::start_telling(&[], &[], stderr.into()).await;
    platform.ready().await;
    let file = platform.data().join("master.key");
    let old = fs::read_to_string(&file).expect("the folder has the key");
    let refused = async |times: usize| {
        eventually("the file is refused", async || {
            let said = fs::read_to_string(said.path()).ok()?;
            (said.matches("the previous one is").count() >= times).then_some(())
        })
        .await;
    };
    let (is_fine, said) = rotate(&platform, &["--prepare"]);
    assert!(is_fine && said.contains("give it to all nodes"), "{said}");
    let both = fs::read_to_string(&file).expect("the folder has the key");
    assert!(both.ends_with(&old) && both.lines().count() == 2, "the new one is before the old one");
    assert_eq!(rotate(&platform, &["--prepare"]), (true, said), "the same again");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), both, "no third one is made");

    // What cannot be right is not taken, and what runs goes on.
    for (wrong, times) in ["", &"ab".repeat(32), "no key\n"].into_iter().zip(1..) {
        fs::write(&file, wrong).expect("the folder can be written");
        refused(times).await;
        assert_eq!(
            platform.client().await.create_target("goes on").await.map(|_| StatusCode::OK),
            Some(StatusCode::OK)
        );
    }
    let (is_fine, said) = rotate(&platform, &[]);
    assert!(!is_fine, "a key that opens nothing: {said}");
    fs::write(&file, &both).expect("the folder can be written");
    let (is_fine, said) = rotate(&platform, &[]);
    assert!(is_fine && said.contains("8 data keys are wrapped"), "{said}");
    eventually("the file has one key", async || (fs::read_to_string(&file).ok()?.lines().count() == 1).then_some(()))
        .await;
    platform.stop().await;
    let (is_fine, said) = rotate(&platform, &[]);
    assert!(!is_fine && said.contains("does not answer"), "{said}");
}
