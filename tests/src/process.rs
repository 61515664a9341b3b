//! Child processes that do not outlive their test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// Returns the path of the platform's binary, built beside the tests.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // Tests are in target/<profile>/deps, programs in target/<profile>.
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join("platform")).find(|binary| binary.exists());
    found.expect("the platform is built beside the tests: make build")
}

/// The environment variable that lets a process of the platform write what the next version might.
pub const NEXT_VERSION: (&str, &str) = ("PLATFORM_NEXT_VERSION", "1");

/// Runs the platform to its end, for at most a minute, and returns whether it succeeded, its standard output, and its
/// standard error.
pub fn run(arguments: &[&str]) -> (bool, String, String) {
    let mut command = std::process::Command::new("timeout");
    let output = command.arg("60").arg(binary()).args(arguments).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// A running process of the platform.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    /// Starts the platform with these arguments and environment variables. Its standard output can be piped; its
    /// standard error is that of the test.
    pub fn spawn(arguments: &[String], environment: &[(&str, &str)], stdout: Stdio) -> Self {
        Self::spawn_to(arguments, environment, stdout, Stdio::inherit())
    }

    /// Starts the platform with these outputs.
    pub fn spawn_to(arguments: &[String], environment: &[(&str, &str)], stdout: Stdio, stderr: Stdio) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments).env_remove("PLATFORM_FAULT");
        // Load is more than an instance should have.
        command.env("PLATFORM_OBJECT_LIMITS", "target=0,execution=0").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).kill_on_drop(true);
        let child = command.spawn().expect("the binary starts");
        let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("a process that was just started has an id");
        Self { child, pid: Pid::from_raw(id).expect("ids are positive") }
    }

    /// Returns the standard output of the process, if it is piped.
    pub fn stdout(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process is still there");
    }

    /// Stops the process with SIGTERM, and waits for its end.
    pub async fn end(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits for the end of the process.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = timeout(Duration::from_mins(1), self.child.wait()).await;
        ended.expect("the process ends").expect("a child can be waited for")
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_some()
    }

    /// Whether the process was stopped (SIGSTOP) and not resumed.
    pub fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).unwrap_or_default();
        // The state follows the command's name, which may have spaces.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Kills the process at once (SIGKILL).
    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }
}

/// Returns the process of a server of a data directory, if it is running.
pub fn server(data: &Path, name: &str) -> Option<Pid> {
    let kept = fs::read_to_string(data.join(format!("{name}.pid"))).ok()?;
    let mut words = kept.split_whitespace();
    let (pid, started) = (words.next()?, words.next()?);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the command's name, which may have spaces, comes field 3; the start time is field 22.
    let since = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    (since == started).then(|| pid.parse().ok().and_then(Pid::from_raw)).flatten()
}
