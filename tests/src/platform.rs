//! A standalone platform.

use std::{fs, ops::Deref, process::Stdio};

use tempfile::TempDir;

pub use crate::client::ServiceUser;
use crate::{
    instance::{self, Instance},
    process::Process,
    servers::{end_at_once, with_postgres},
};

/// A platform in one process on a folder of its own, stopped when dropped.
#[derive(Debug)]
pub struct Platform {
    flags: Vec<String>,
    process: Process,
    instance: Instance,
    _folder: TempDir,
}

impl Platform {
    /// Starts a new platform.
    pub async fn start() -> Self {
        Self::start_with(&[], &[]).await
    }

    /// Starts a new platform on an empty folder, as its users do.
    pub async fn start_from_nothing() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        Self::start_in(folder, "127.0.0.1:0", &[], &[], Stdio::inherit()).await
    }

    /// Starts a new platform with further flags and environment variables.
    pub async fn start_with(flags: &[String], environment: &[(&str, &str)]) -> Self {
        Self::start_telling(flags, environment, Stdio::inherit()).await
    }

    /// Starts a new platform whose log lines go to `stderr`.
    pub async fn start_telling(flags: &[String], environment: &[(&str, &str)], stderr: Stdio) -> Self {
        Self::start_at("127.0.0.1:0", flags, environment, stderr).await
    }

    /// Starts a new platform that listens on another address.
    pub async fn start_on(listen: &str, flags: &[String]) -> Self {
        Self::start_at(listen, flags, &[], Stdio::inherit()).await
    }

    async fn start_at(listen: &str, flags: &[String], environment: &[(&str, &str)], stderr: Stdio) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        if !flags.iter().any(|flag| flag == "--postgres-url") {
            with_postgres(&folder.path().join("data")).await;
        }
        Self::start_in(folder, listen, flags, environment, stderr).await
    }

    async fn start_in(
        folder: TempDir,
        listen: &str,
        flags: &[String],
        environment: &[(&str, &str)],
        stderr: Stdio,
    ) -> Self {
        let setup = folder.path().join("setup.toml");
        fs::write(&setup, instance::setup()).expect("the folder can be written");
        let data = folder.path().join("data").display().to_string();
        let mut all = vec!["standalone".to_owned(), "--data-dir".into(), data];
        if !flags.iter().any(|flag| flag == "--setup") {
            all.extend(["--setup".to_owned(), setup.display().to_string()]);
        }
        all.extend_from_slice(flags);
        let process = Self::spawn(&all, listen, environment, stderr);
        let instance = Instance::first(folder.path().join("data")).await;
        Self { flags: all, process, instance, _folder: folder }
    }

    fn spawn(flags: &[String], listen: &str, environment: &[(&str, &str)], stderr: Stdio) -> Process {
        let flags: Vec<String> = flags.iter().cloned().chain(["--listen".to_owned(), listen.to_owned()]).collect();
        Process::spawn_to(&flags, environment, Stdio::null(), stderr)
    }

    /// Starts the process again on the same data and address, and waits until it answers.
    pub async fn restart(&mut self, environment: &[(&str, &str)]) {
        self.respawn(environment);
        self.ready().await;
    }

    /// Starts the process again without waiting.
    pub fn respawn(&mut self, environment: &[(&str, &str)]) {
        let listen = self.bootstrap.issuer.trim_start_matches("http://").to_owned();
        self.process = Self::spawn(&self.flags, &listen, environment, Stdio::inherit());
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Stops the process.
    pub async fn stop(&mut self) {
        self.process.end().await;
    }

    /// Returns the sequence of the last event in the log, and the number of records.
    pub async fn log_end(&self) -> (u64, u64) {
        let last = self.log().await.last().await.expect("the log can be read").expect("it has been set up").position();
        (last.sequence, last.stream_sequence)
    }
}

impl Deref for Platform {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        let data = self.data();
        end_at_once(&mut self.process, &data);
    }
}
