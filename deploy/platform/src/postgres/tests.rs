use rustix::process::{Pid, getpid, getuid, kill_process};

use super::*;

fn open(path: &Path) -> DataDir {
    DataDir::open(path, None, || [5; 32]).unwrap()
}

async fn start(data: &DataDir) -> Postgres {
    Postgres::start(data, &Binaries::new(), &|_| ()).await.unwrap()
}

async fn run(postgres: &Postgres, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&postgres.url, NoTls).await?;
    tokio::select! {
        ended = connection => panic!("{ended:?}"),
        messages = client.simple_query(sql) => Ok(messages?.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })),
    }
}

fn main_process(data: &DataDir) -> Pid {
    let line = fs::read_to_string(data.pid_file("postgres")).unwrap();
    Identity::from_line(&line).unwrap().pid()
}

/// `tempdir` creates a folder that only its owner may enter: where that is root, Postgres has to pass it as another
/// user.
#[tokio::test]
async fn rows_and_port_are_kept_and_removed_files_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than the path of a socket may be, and hard to quote.
    let path = folder.path().join("it's \"long\" $x é".repeat(9));
    let data = open(&path);
    let postgres = start(&data).await;
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(format!("/proc/{}", main_process(&data))).unwrap());
    assert_eq!(owner == getuid().as_raw(), !getuid().is_root());
    run(&postgres, "create table kept as select 42 as value").await.unwrap();
    assert_eq!(run(&postgres, "show fsync").await.unwrap().as_deref(), Some("on"));
    assert_eq!(run(&postgres, "show server_encoding").await.unwrap().as_deref(), Some("UTF8"));
    let url = postgres.url.clone();
    postgres.stop().await;
    drop(data);

    let data = open(&path);
    let postgres = start(&data).await;
    assert_eq!(postgres.url, url);
    assert_eq!(run(&postgres, "select value from kept").await.unwrap().as_deref(), Some("42"));
    postgres.stop().await;

    fs::remove_dir_all(data.postgres()).unwrap();
    let postgres = start(&data).await;
    assert_eq!(postgres.url, url);
    assert!(run(&postgres, "select value from kept").await.is_err());
    postgres.stop().await;
}

/// A Postgres that somebody broke into must not lead this process, which may be root, to other files.
#[tokio::test]
async fn only_the_database_files_are_the_servers_and_no_link_in_them_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    start(&data).await.stop().await;
    let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
    let files = data.postgres().join("data");
    assert_eq!(owner(&files) == getuid().as_raw(), !getuid().is_root());
    for own in [data.path().to_owned(), data.postgres(), data.postgres_password(), data.postgres_port()] {
        assert_eq!(owner(&own), getuid().as_raw(), "{}", own.display());
    }

    let (victim, planted) = (folder.path().join("victim"), files.join("postmaster.pid"));
    fs::write(&victim, format!("{}\n", getpid())).unwrap();
    std::os::unix::fs::symlink(&victim, &planted).unwrap();
    assert_eq!(named_process(&planted), None);
    forget_process(&files).unwrap();
    assert!(victim.exists() && planted.symlink_metadata().is_err());
    rustix::fs::mknodat(rustix::fs::CWD, &planted, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    forget_process(&files).unwrap();
    assert!(!planted.exists(), "a pipe is not waited for");
    start(&data).await.stop().await;
}

#[tokio::test]
async fn the_folder_of_an_earlier_preview_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    fs::create_dir(data.postgres()).unwrap();
    fs::write(data.postgres().join("password"), "05").unwrap();
    let error = Postgres::start(&data, &Binaries::new(), &|_| ()).await.err().unwrap().to_string();
    assert!(error.contains("remove it"), "{error}");
}

#[tokio::test]
async fn neither_a_leftover_nor_a_crash_keeps_it_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    let left = start(&data).await;
    let left_process = Identity::of(main_process(&data)).unwrap();
    std::mem::forget(left);
    let mut postgres = start(&data).await;
    assert!(!left_process.is_alive());

    kill_process(main_process(&data), Signal::KILL).unwrap();
    assert!(postgres.died().await.to_string().contains("SIGKILL"));
    // The id in Postgres's own file may be another program's by now: here it is this test's.
    let pid_file = data.postgres().join("data/postmaster.pid");
    let stale = fs::read_to_string(&pid_file).unwrap();
    let rest = stale.split_once('\n').unwrap().1;
    fs::write(&pid_file, format!("{}\n{rest}", getpid())).unwrap();
    start(&data).await.stop().await;
}

#[tokio::test]
async fn an_initdb_that_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    fs::create_dir_all(data.postgres().join("data.new/base")).unwrap();
    start(&data).await.stop().await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_a_missing_server_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    let nowhere = Binaries::at(folder.path(), "/nonexistent");
    let error = Postgres::start(&data, &nowhere, &|_| ()).await.err().unwrap();
    assert!(error.to_string().contains("deploy/setup"));
    let postgres = start(&data).await;
    let wrong = postgres.url.replacen("05", "06", 1);
    assert!(tokio_postgres::connect(&wrong, NoTls).await.is_err());
    postgres.stop().await;
}
