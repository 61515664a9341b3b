//! A server that runs as a child process of the platform: started, watched, stopped, and recognised when a platform
//! that was killed has left it behind.
//!
//! The pid file is also a lock, and the child holds it: the file is its standard input, opened read-only, so that the
//! child cannot name another process to be ended. So a free lock proves that no child is left, whatever became of the
//! platform, and while the lock is held no other server is started. A signal to end with the platform
//! (`PR_SET_PDEATHSIG`) is not used: it needs unsafe code, and fires when the *thread* that started the child ends.

pub(crate) mod identity;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use self::identity::Identity;
use crate::data_dir::{DataDirError, io_error};

/// A callback that gets lines for the user about what is being set up.
pub(crate) type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The signals that end a server, in their order, each with the time that it has; SIGKILL follows the last.
pub(crate) type StopSteps = &'static [(Signal, Duration)];

/// How many bytes of a log are shown in an error.
const TAIL: u64 = 2_000;
/// The length in bytes above which a log is put aside when its server starts.
const LOG_LIMIT: u64 = 10 << 20;
/// How long a server that is dropped has to end before it is left to itself.
const DROP_LIMIT: Duration = Duration::from_secs(2);
/// How long the other processes of a leftover server have to end after its main process.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// The program cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server has ended by itself.
    #[error("{name} ended ({status}); its log {} says:\n{tail}", log.display())]
    Ended {
        /// The server.
        name: &'static str,
        /// Its exit status.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The server runs, but does not answer.
    #[error("{name} did not answer within {} s; its log {} says:\n{tail}", limit.as_secs(), log.display())]
    Silent {
        /// The server.
        name: &'static str,
        /// How long the platform has waited.
        limit: Duration,
        /// Its log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// A process of an earlier platform still runs, and cannot be identified.
    #[error(
        "a {name} that an earlier platform started still runs and cannot be told from other processes: \
         find it with `fuser {}`, end it, and start again",
        pid_file.display()
    )]
    Leftover {
        /// The server.
        name: &'static str,
        /// The file that it holds locked.
        pid_file: PathBuf,
    },
    /// A file of the server cannot be used.
    #[error(transparent)]
    File(#[from] DataDirError),
}

/// The description of a server to run.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The file that its output is appended to.
    pub(crate) log: PathBuf,
    /// The file with the identity of its process.
    pub(crate) pid_file: PathBuf,
    /// The signals that end it.
    pub(crate) stop: StopSteps,
}

impl Server {
    /// Ends what a killed platform left of this server, and waits until all of it is gone.
    pub(crate) async fn clear_leftover(&self, progress: Progress<'_>) -> Result<(), ChildError> {
        self.claim(progress).await.map(drop)
    }

    /// Starts the server, after what a killed platform may have left of it has been ended.
    pub(crate) async fn spawn(&self, mut command: Command, progress: Progress<'_>) -> Result<Child, ChildError> {
        let input = self.claim(progress).await?;
        let (log, log_start) = self.open_log()?;
        let output = log.try_clone().map_err(io_error("share", &self.log))?;
        command.stdin(input).stdout(output).stderr(log);
        // A group of its own: a terminal's Ctrl-C reaches the platform only, which then stops its servers in order.
        command.process_group(0);
        let started = command.spawn();
        let program = || PathBuf::from(command.as_std().get_program());
        let process = started.map_err(|source| ChildError::Spawn { program: program(), source })?;
        let child = Child { server: self.clone(), process, log_start };
        if let Some(identity) = child.pid().and_then(Identity::of) {
            fs::write(&self.pid_file, identity.to_line()).map_err(io_error("write", &self.pid_file))?;
        }
        Ok(child)
    }

    /// Takes the pid file's lock, which a leftover holds until the last of its processes has ended.
    async fn claim(&self, progress: Progress<'_>) -> Result<File, ChildError> {
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(false).mode(0o600).open(&self.pid_file);
        let opened = made.and_then(|_| File::open(&self.pid_file));
        let mut file = opened.map_err(io_error("open", &self.pid_file))?;
        if self.try_lock(&file)? {
            return Ok(file);
        }
        let mut line = String::new();
        file.read_to_string(&mut line).map_err(io_error("read", &self.pid_file))?;
        if let Some(identity) = Identity::from_line(&line).filter(Identity::is_alive) {
            progress(&format!("stopping the {} that an earlier platform left behind", self.name));
            stop_stranger(&identity, self.stop).await;
        }
        let started = Instant::now();
        while !self.try_lock(&file)? {
            if started.elapsed() > REST_LIMIT {
                return Err(ChildError::Leftover { name: self.name, pid_file: self.pid_file.clone() });
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(file)
    }

    fn try_lock(&self, file: &File) -> Result<bool, ChildError> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(io_error("lock", &self.pid_file)(source).into()),
        }
    }

    fn open_log(&self) -> Result<(File, u64), ChildError> {
        let length = fs::metadata(&self.log).map_or(0, |metadata| metadata.len());
        if length > LOG_LIMIT {
            fs::rename(&self.log, self.log.with_extension("log.1")).map_err(io_error("put aside", &self.log))?;
        }
        let mut options = OpenOptions::new();
        let log = options.append(true).create(true).mode(0o600).open(&self.log).map_err(io_error("open", &self.log))?;
        Ok((log, if length > LOG_LIMIT { 0 } else { length }))
    }
}

/// A running server. If it is dropped without [`Child::stop`], it gets the first signal, and has up to [`DROP_LIMIT`]
/// to end.
#[derive(Debug)]
pub(crate) struct Child {
    server: Server,
    process: tokio::process::Child,
    log_start: u64,
}

impl Child {
    /// Waits until `answers`, which is called repeatedly, returns true, for at most `limit`.
    pub(crate) async fn ready<Answer: Future<Output = bool>>(
        &mut self,
        limit: Duration,
        mut answers: impl FnMut() -> Answer,
    ) -> Result<(), ChildError> {
        let asking = async {
            let mut pause = Duration::from_millis(10);
            while !answers().await {
                sleep(pause).await;
                pause = (pause * 3 / 2).min(Duration::from_millis(500));
            }
        };
        tokio::select! {
            () = asking => Ok(()),
            ended = self.died() => Err(ended),
            () = sleep(limit) => Err(self.silent(limit)),
        }
    }

    /// Waits until the server ends by itself, and returns the error that describes it.
    pub(crate) async fn died(&mut self) -> ChildError {
        let status = self.process.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        let Server { name, log, .. } = &self.server;
        ChildError::Ended { name, status, log: log.clone(), tail: self.log_tail() }
    }

    /// Waits for a program that ends by itself, and returns whether it succeeded.
    pub(crate) async fn finish(mut self, limit: Duration) -> Result<(), ChildError> {
        match timeout(limit, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) => Err(self.died().await),
            Err(_) => {
                let error = self.silent(limit);
                self.stop().await;
                Err(error)
            }
        }
    }

    /// Ends the server in order, and by force when it takes too long.
    pub(crate) async fn stop(mut self) {
        for (signal, patience) in self.server.stop {
            // The process id is known until the process has been waited for, so it cannot be somebody else's.
            let Some(pid) = self.pid() else { return };
            let _ = rustix::process::kill_process(pid, *signal);
            if timeout(*patience, self.process.wait()).await.is_ok() {
                return;
            }
        }
        if let Some(pid) = self.pid() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            let _ = self.process.wait().await;
        }
    }

    fn silent(&self, limit: Duration) -> ChildError {
        let Server { name, log, .. } = &self.server;
        ChildError::Silent { name, limit, log: log.clone(), tail: self.log_tail() }
    }

    fn pid(&self) -> Option<Pid> {
        self.process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()))
    }

    /// The last lines of what the server has written since it was started.
    fn log_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut log = File::open(&self.server.log)?;
            let from = log.metadata()?.len().saturating_sub(TAIL).max(self.log_start);
            log.seek(SeekFrom::Start(from))?;
            let mut tail = Vec::new();
            log.read_to_end(&mut tail)?;
            Ok(String::from_utf8_lossy(&tail).trim().to_owned())
        };
        read().unwrap_or_else(|error| format!("(cannot be read: {error})"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(pid) = self.pid() else { return };
        let _ = match self.server.stop.first() {
            Some((signal, _)) => rustix::process::kill_process(pid, *signal),
            None => rustix::process::kill_process_group(pid, Signal::KILL),
        };
        // The process is ending anyway when this is dropped, so it may block.
        let until = Instant::now() + DROP_LIMIT;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ends a process that is not this one's child.
async fn stop_stranger(identity: &Identity, steps: StopSteps) {
    for (signal, patience) in steps {
        let started = Instant::now();
        let _ = rustix::process::kill_process(identity.pid(), *signal);
        while started.elapsed() < *patience {
            if !identity.is_alive() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    let _ = rustix::process::kill_process_group(identity.pid(), Signal::KILL);
}

#[cfg(test)]
mod tests;
