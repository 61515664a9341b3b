//! Folders of servers that tests copy, so that not each of them makes database files and sets a log up. They are made by
//! the first test that needs them, with the platform's binary and beside it, and again when the binary is another.
//!
//! A copy has a master key of its own where nothing was sealed with one yet.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use base::secret::random;
use tempfile::TempDir;

use crate::{instance::Bootstrap, platform::Platform, process::binary, servers::Servers};

/// How long a template is used: the token in it lasts twelve hours.
const AGE: Duration = Duration::from_hours(6);

/// A template. Nobody else makes or copies it meanwhile.
struct Template {
    folder: PathBuf,
    _lock: File,
}

/// A log that was set up.
pub(crate) struct SetUp {
    /// A copy of the servers' folder, with its master key.
    pub(crate) servers: TempDir,
    /// What the setup made.
    pub(crate) bootstrap: Bootstrap,
    /// An access token of the one with all rights.
    pub(crate) token: String,
}

/// Makes a data folder with the files of a Postgres that is empty.
pub(crate) async fn with_postgres(data: &Path) {
    let template = Template::find("postgres", async |folder| {
        let servers = Servers::start_on(tempfile::tempdir().expect("a temporary folder can be made")).await;
        let made = servers.stop().await;
        for part in ["version", "postgres", "postgres.password"] {
            copy(&made.path().join(part), &folder.join(part));
        }
    });
    copy(&template.await.folder, data);
    let key: String = random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join("master.key"));
    file.and_then(|mut file| writeln!(file, "{key}")).expect("the folder can be written");
}

/// Copies a log that was set up, with the servers that keep it.
pub(crate) async fn set_up() -> SetUp {
    let template = Template::find("set-up", async |folder| {
        let servers = Servers::start().await;
        let mut platform = Platform::start_with(&servers.flags(), &[]).await;
        platform.ready().await;
        let token = platform.client().await.token;
        platform.stop().await;
        fs::write(folder.join("token"), token).expect("the folder can be written");
        copy(&platform.data().join("bootstrap.json"), &folder.join("bootstrap.json"));
        copy(servers.stop().await.path(), &folder.join("servers"));
    });
    let template = template.await;
    let servers = tempfile::tempdir().expect("a temporary folder can be made");
    copy(&template.folder.join("servers"), servers.path());
    let read = |file: &str| fs::read_to_string(template.folder.join(file)).expect("the template is whole");
    let bootstrap = serde_json::from_str(&read("bootstrap.json")).expect("it is JSON");
    SetUp { servers, bootstrap, token: read("token") }
}

impl Template {
    /// Finds a template, or makes it in a folder.
    async fn find(name: &str, make: impl AsyncFnOnce(&Path)) -> Self {
        let binary = binary();
        let metadata = fs::metadata(&binary).expect("the binary is there");
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let all = binary.with_file_name("tests-templates");
        fs::create_dir_all(&all).expect("what is beside the binary can be written");
        let lock = File::create(all.join(format!("{name}.lock"))).expect("the folder can be written");
        lock.lock().expect("files can be locked");

        let folder = all.join(format!("{name}-{:x}-{:x}", modified.as_nanos(), metadata.len()));
        let since = folder.metadata().and_then(|metadata| metadata.modified());
        if !since.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < AGE)) {
            for old in fs::read_dir(&all).expect("the folder can be read").flatten() {
                if old.path().is_dir() && old.file_name().to_string_lossy().starts_with(name) {
                    fs::remove_dir_all(old.path()).expect("what is old can be removed");
                }
            }
            let unfinished = all.join(format!("{name}.unfinished"));
            fs::create_dir(&unfinished).expect("the folder can be written");
            make(&unfinished).await;
            fs::rename(&unfinished, &folder).expect("the folder can be written");
        }
        Self { folder, _lock: lock }
    }
}

/// Copies a file or a folder with owners and modes: database files belong to a user of their own.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-aT").arg(from).arg(to).status().expect("there is cp");
    assert!(status.success(), "{} can be copied", from.display());
}
