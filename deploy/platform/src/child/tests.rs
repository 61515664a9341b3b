use std::path::Path;

use super::*;

const GENTLE: StopSteps = &[(Signal::TERM, Duration::from_millis(500))];

fn server(folder: &Path) -> Server {
    Server { name: "sleeper", log: folder.join("sleeper.log"), pid_file: folder.join("pid"), stop: GENTLE }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn silent(_: &str) {}

fn identity(child: &Child) -> Identity {
    Identity::of(child.pid().unwrap()).unwrap()
}

async fn wait_for_text(log: &Path, text: &str) {
    while !fs::read_to_string(log).unwrap().contains(text) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_stopped_child_is_gone_and_cannot_have_named_another() {
    let folder = tempfile::tempdir().unwrap();
    let child = server(folder.path()).spawn(shell("exec sleep 60"), &silent).await.unwrap();
    let identity = identity(&child);
    let input = fs::read_to_string(format!("/proc/{}/fdinfo/0", identity.pid())).unwrap();
    let flags = input.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    assert!(flags.ends_with('0'), "the pid file is open for writing: {flags}");
    child.stop().await;
    assert!(!identity.is_alive());
}

#[tokio::test]
async fn a_child_that_does_not_listen_is_ended_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let child = server.spawn(shell("trap '' TERM; sleep 60 & echo $!; wait"), &silent).await.unwrap();
    wait_for_text(&server.log, "\n").await;
    let grandchild = identity::parse_pid(&fs::read_to_string(&server.log).unwrap()).unwrap();
    let identities = [identity(&child), Identity::of(grandchild).unwrap()];
    child.stop().await;
    server.clear_leftover(&silent).await.unwrap();
    // A process closes its files, and releases the lock with them, a moment before it is dead.
    let began = Instant::now();
    while identities.iter().any(Identity::is_alive) {
        assert!(began.elapsed() < Duration::from_secs(5), "{identities:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_early_end_shows_what_this_start_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    fs::write(&server.log, "an old line\n").unwrap();
    let mut child = server.spawn(shell("echo no such port >&2; exit 3"), &silent).await.unwrap();
    let message = child.ready(Duration::from_secs(5), || async { false }).await.unwrap_err().to_string();
    assert!(message.contains("exit status: 3") && message.contains("no such port"), "{message}");
    assert!(!message.contains("old"), "{message}");
}

#[tokio::test]
async fn a_silent_child_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = server(folder.path()).spawn(shell("exec sleep 60"), &silent).await.unwrap();
    let error = child.ready(Duration::from_millis(50), || async { false }).await.unwrap_err();
    assert!(matches!(error, ChildError::Silent { .. }));
    child.stop().await;
}

#[tokio::test]
async fn a_child_of_a_killed_platform_is_ended_before_the_next_starts() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let first = server.spawn(shell("exec sleep 60"), &silent).await.unwrap();
    let left = identity(&first);
    std::mem::forget(first);
    let second = server.spawn(shell("exec sleep 60"), &silent).await.unwrap();
    assert!(!left.is_alive());
    assert!(identity(&second).is_alive());
    second.stop().await;
}

#[tokio::test]
async fn a_process_that_got_a_leftovers_id_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let stranger = Server { pid_file: folder.path().join("other"), ..server(folder.path()) };
    let stranger = stranger.spawn(shell("exec sleep 60"), &silent).await.unwrap();
    let alive = identity(&stranger);
    let server = server(folder.path());

    // The lock is free: nothing is left over, whichever process has the id.
    fs::write(&server.pid_file, alive.to_line()).unwrap();
    server.clear_leftover(&silent).await.unwrap();
    assert!(alive.is_alive());

    // The lock is held by another process than the one with that id.
    fs::write(&server.pid_file, alive.to_line().replacen(' ', " 1", 1)).unwrap();
    let held = File::open(&server.pid_file).unwrap();
    held.lock().unwrap();
    assert!(matches!(server.clear_leftover(&silent).await, Err(ChildError::Leftover { .. })));
    assert!(alive.is_alive());
    stranger.stop().await;
}

#[tokio::test]
async fn a_dropped_child_is_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let child = server.spawn(shell("exec sleep 60"), &silent).await.unwrap();
    let identity = identity(&child);
    drop(child);
    assert!(!identity.is_alive(), "it is waited for");
}

#[tokio::test]
async fn a_long_log_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    File::create(&server.log).unwrap().set_len(LOG_LIMIT + 1).unwrap();
    server.spawn(shell("echo new"), &silent).await.unwrap().finish(Duration::from_secs(5)).await.unwrap();
    assert_eq!(fs::read_to_string(&server.log).unwrap(), "new\n");
    assert!(folder.path().join("sleeper.log.1").exists());
}
