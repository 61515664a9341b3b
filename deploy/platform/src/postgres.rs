//! The Postgres server of a standalone platform. It holds read models only: its folder may be deleted and is filled again
//! from the log.

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
/// SIGINT ends all sessions in order, SIGQUIT without a checkpoint: the next start then recovers.
const STOP: StopSteps = &[(Signal::INT, Duration::from_secs(5)), (Signal::QUIT, Duration::from_secs(1))];
/// What initdb leaves unfinished is thrown away, so nothing is gained by asking it first.
const STOP_INITDB: StopSteps = &[];
const INITDB_LIMIT: Duration = Duration::from_mins(2);
/// Recovery after a crash takes its time.
const START_LIMIT: Duration = Duration::from_mins(1);
/// A port that was free can be taken by another program before the server has it.
const ATTEMPTS: u32 = 3;

/// On the command line they hold whatever the files of an earlier version say.
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
    /// It is not installed.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// Its folder cannot be prepared.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// There is no user to run it as.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Its folder was made by an earlier preview, which kept more than the database files in it.
    #[error("{} is of an earlier preview: remove it and start again, it is filled from the log", folder.display())]
    Earlier {
        /// The folder that may be removed.
        folder: PathBuf,
    },
    /// The database files cannot be made.
    #[error("cannot make the database files: {0}")]
    Init(#[source] ChildError),
    /// It does not run.
    #[error("{source}\nif the database files are damaged, remove {} and start again: it is filled from the log", folder.display())]
    Child {
        /// The folder that may be removed.
        folder: PathBuf,
        /// What happened.
        source: ChildError,
    },
}

/// A running Postgres.
pub(crate) struct Postgres {
    child: Child,
    /// Where clients connect, with user and password: not to be shown.
    pub(crate) url: String,
}

impl Postgres {
    /// Starts the server and waits until it answers; makes its database files when there are none.
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

    /// Waits until the server ends by itself, and returns how.
    pub(crate) async fn died(&mut self) -> ChildError {
        self.child.died().await
    }

    /// Ends the server in order.
    pub(crate) async fn stop(self) {
        self.child.stop().await;
    }
}

/// Where clients connect to the own server.
pub(crate) fn url(port: u16, password: &str) -> String {
    format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres")
}

/// The folder of Postgres, which is this process's own as the data folder is: only what lies in it is given away.
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

/// Makes the database files beside their place and moves them there when they are whole.
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
    // Relative paths: initdb hands its own to a shell. The file stays this process's: what lets the user enter the folder
    // lets it read too.
    command.current_dir(&folder).args(["-D", "data.new", "--pwfile", "../postgres.password"]);
    command.args(["--username", USER, "--auth", "scram-sha-256"]);
    command.args(["--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"]);
    let child = server.spawn(command, progress).await.map_err(PostgresError::Init)?;
    child.finish(INITDB_LIMIT).await.map_err(PostgresError::Init)?;
    fs::rename(&unfinished, &files).and_then(|()| sync_folder(&files)).map_err(io_error("rename", &unfinished))?;
    Ok(())
}

/// Removes the file in which a Postgres that was killed has left its process id, which may be another program's by now:
/// Postgres would take that for itself and not start.
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

/// The process whose id is in a file of Postgres's own folder, where Postgres may have put anything: a link is not
/// followed, a pipe not waited for, and no more is read than an id needs.
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
