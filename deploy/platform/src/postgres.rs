//! The Postgres server of a standalone platform. It holds read models only: its folder may be deleted, and is filled
//! again from the log.

mod account;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Signal;
use tokio_postgres::NoTls;

use self::account::{Account, AccountError};
use crate::binaries::{Binaries, BinariesError};
use crate::child::identity::{Identity, parse_pid};
use crate::child::{Child, ChildError, Progress, Server, StopSteps};
use crate::data_dir::{DataDir, DataDirError, create_private, free_ports, io_error, sync_folder};

const USER: &str = "platform";
/// The signals that stop Postgres: SIGINT closes all sessions, SIGQUIT ends it without a checkpoint, so that the next
/// start recovers.
const STOP: StopSteps = &[(Signal::INT, Duration::from_secs(5)), (Signal::QUIT, Duration::from_secs(1))];
/// The signals that stop initdb: none before SIGKILL, since unfinished files are discarded anyway.
const STOP_INITDB: StopSteps = &[];
const INITDB_LIMIT: Duration = Duration::from_mins(2);
/// How long a start may take, including recovery after a crash.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How often a start is tried: another program may take a free port before the server does.
const ATTEMPTS: u32 = 3;

/// The settings, given on the command line so that they override files of an earlier version.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    // A socket's path is limited to 107 bytes, and a data folder's is not.
    "unix_socket_directories=",
    "fsync=on",
    "shared_buffers=64MB",
    "max_connections=100",
    "max_wal_size=512MB",
    "jit=off",
    "timezone=UTC",
    "log_timezone=UTC",
    "log_destination=stderr",
    "logging_collector=off",
];

/// Why there is no Postgres.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostgresError {
    /// Postgres is not installed.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// Its folder cannot be prepared.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// There is no user to run it as.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The folder was created by an earlier preview, which stored more than the database files in it.
    #[error("{} is of an earlier preview: remove it and start again, it is filled from the log", folder.display())]
    Earlier {
        /// The folder that may be removed.
        folder: PathBuf,
    },
    /// The database files cannot be created.
    #[error("cannot make the database files: {0}")]
    Init(#[source] ChildError),
    /// The server does not run.
    #[error("{source}\nif the database files are damaged, remove {} and start again: it is filled from the log", folder.display())]
    Child {
        /// The folder that may be removed.
        folder: PathBuf,
        /// The error of the server.
        source: ChildError,
    },
}

/// A running Postgres.
pub(crate) struct Postgres {
    child: Child,
    /// The URL for clients, with user and password: not to be shown.
    pub(crate) url: String,
}

impl Postgres {
    /// Starts the server, and waits until it answers; creates its database files where there are none.
    pub(crate) async fn start(
        data: &DataDir,
        binaries: &Binaries,
        progress: Progress<'_>,
    ) -> Result<Self, PostgresError> {
        let programs = binaries.postgres()?;
        let folder = own_folder(data)?;
        let files = folder.join("data");
        let account = Account::for_files(&files, binaries)?;
        let password = data.secret(&data.postgres_password())?;

        let server =
            Server { name: "postgres", log: data.log("postgres"), pid_file: data.pid_file("postgres"), stop: STOP };
        let failed = |source| PostgresError::Child { folder: folder.clone(), source };
        server.clear_leftover(progress).await.map_err(failed)?;
        if files.exists() {
            forget_process(&files)?;
        } else {
            init(data, &account, &programs.initdb, progress).await?;
        }
        progress("starting postgres");
        let mut attempt = 1;
        loop {
            let [port] = free_ports(&data.postgres_port())?;
            let mut command = account.command(&programs.postgres);
            command.current_dir(&folder).arg("-D").arg(&files).arg("-c").arg(format!("port={port}"));
            command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
            let mut child = server.spawn(command, progress).await.map_err(failed)?;
            let url = url(port, &password);
            match child.ready(START_LIMIT, || answers(&url)).await {
                Ok(()) => return Ok(Self { child, url }),
                Err(ChildError::Ended { tail, .. })
                    if attempt < ATTEMPTS && tail.contains("Address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => {
                    child.stop().await;
                    return Err(failed(error));
                }
            }
        }
    }

    /// Waits until the server ends by itself, and returns the error that describes it.
    pub(crate) async fn died(&mut self) -> ChildError {
        self.child.died().await
    }

    /// Stops the server.
    pub(crate) async fn stop(self) {
        self.child.stop().await;
    }
}

/// Returns the URL of the platform's own server.
pub(crate) fn url(port: u16, password: &str) -> String {
    format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres")
}

/// Returns the folder of Postgres, which belongs to the user of this process as the data folder does: only the database
/// files in it are given to another user.
fn own_folder(data: &DataDir) -> Result<PathBuf, PostgresError> {
    let folder = data.postgres();
    create_private(&folder)?;
    let owner = |path: &Path| path.symlink_metadata().map(|metadata| metadata.uid()).map_err(io_error("read", path));
    let is_given_away = owner(&folder)? != owner(data.path())?;
    if is_given_away || folder.join("password").symlink_metadata().is_ok() {
        return Err(PostgresError::Earlier { folder });
    }
    Ok(folder)
}

/// Creates the database files in another place, and moves them when they are complete.
async fn init(data: &DataDir, account: &Account, initdb: &Path, progress: Progress<'_>) -> Result<(), PostgresError> {
    let server =
        Server { name: "initdb", log: data.log("initdb"), pid_file: data.pid_file("initdb"), stop: STOP_INITDB };
    server.clear_leftover(progress).await.map_err(PostgresError::Init)?;
    progress("making the database files");
    let folder = data.postgres();
    let (unfinished, files) = (folder.join("data.new"), folder.join("data"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(io_error("remove", &unfinished))?;
    }
    create_private(&unfinished)?;
    account.own(&unfinished)?;
    let mut command = account.command(initdb);
    // Relative paths, because initdb passes its own to a shell. The password file stays this process's: the capability
    // to enter the folder also permits reading.
    command.current_dir(&folder).args(["-D", "data.new", "--pwfile", "../postgres.password"]);
    command.args(["--username", USER, "--auth", "scram-sha-256"]);
    command.args(["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"]);
    let child = server.spawn(command, progress).await.map_err(PostgresError::Init)?;
    child.finish(INITDB_LIMIT).await.map_err(PostgresError::Init)?;
    fs::rename(&unfinished, &files).and_then(|()| sync_folder(&files)).map_err(io_error("rename", &unfinished))?;
    Ok(())
}

/// Removes the file in which a killed Postgres has left its process id, which may be another program's by now: Postgres
/// would take that program for a running server, and not start.
fn forget_process(files: &Path) -> Result<(), DataDirError> {
    let path = files.join("postmaster.pid");
    let folder = named_process(&path).and_then(|identity| identity.folder());
    // Somebody may have started a Postgres on these files by hand; it works in their folder.
    if folder.is_some_and(|folder| folder == files) {
        return Ok(());
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// Returns the process whose id is in a file of Postgres's own folder, where Postgres may have put anything: a link is
/// not followed, a pipe not waited for, and no more is read than an id needs.
fn named_process(path: &Path) -> Option<Identity> {
    let careful = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(careful).open(path).ok()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.lines().next().and_then(parse_pid).and_then(Identity::of)
}

async fn answers(url: &str) -> bool {
    let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else { return false };
    tokio::select! {
        _ = connection => false,
        answer = client.simple_query("select 1") => answer.is_ok(),
    }
}

#[cfg(test)]
mod tests;
