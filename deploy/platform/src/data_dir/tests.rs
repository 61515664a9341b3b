use super::*;

fn random() -> [u8; 32] {
    [7; 32]
}

fn keys(data: &DataDir) -> String {
    data.master_keys().keys.to_text().trim_end().to_owned()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_first_start_makes_a_private_folder_that_later_starts_keep() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("new/data");
    let first = DataDir::open(&path, None, random).unwrap();
    assert_eq!(first.node_id(), "07".repeat(8));
    assert_eq!((mode(&path), mode(&path.join("master.key")), mode(&path.join("lock"))), (0o700, 0o600, 0o600));
    drop(first);
    let again = DataDir::open(&path, None, || [9; 32]).unwrap();
    assert_eq!((again.node_id(), keys(&again)), ("0707070707070707", "07".repeat(32)));
}

#[test]
fn a_start_that_was_cut_short_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    drop(DataDir::open(folder.path(), None, random).unwrap());
    fs::remove_file(folder.path().join("version")).unwrap();
    fs::write(folder.path().join("version.new"), "").unwrap();
    let again = DataDir::open(folder.path(), None, || [9; 32]).unwrap();
    assert_eq!(keys(&again), "07".repeat(32));
}

#[test]
fn a_folder_in_use_is_refused_by_name_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(DataDir::running(folder.path()).unwrap(), None);
    let first = DataDir::open(folder.path(), None, random).unwrap();
    let message = DataDir::open(folder.path(), None, random).err().unwrap().to_string();
    assert!(message.contains(&format!("process id {}", std::process::id())), "{message}");
    assert!(message.contains("make down"), "{message}");
    assert_eq!(DataDir::running(folder.path()).unwrap(), Some(std::process::id()));
    drop(first);
    assert_eq!(DataDir::running(folder.path()).unwrap(), None);
}

#[test]
fn another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(DataDir::open(folder.path(), None, random).unwrap());
    fs::write(folder.path().join("version"), "2\n").unwrap();
    let message = DataDir::open(folder.path(), None, random).err().unwrap().to_string();
    assert!(message.contains("data format 2") && message.contains("reads format 1"), "{message}");
}

#[test]
fn a_folder_of_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(DataDir::open(folder.path(), None, random), Err(DataDirError::Foreign { .. })));
    assert_eq!(mode(folder.path()), 0o755);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let file = folder.path().join("thesis.txt");
    assert!(matches!(DataDir::open(&file, None, random), Err(DataDirError::NotAFolder { .. })));
    assert!(matches!(DataDir::open(&file.join("x"), None, random), Err(DataDirError::NotAFolder { .. })));
}

#[test]
fn a_lost_master_key_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    drop(DataDir::for_servers(folder.path(), random).unwrap());
    assert!(!folder.path().join("master.key").exists(), "servers need none");
    drop(DataDir::open(folder.path(), None, random).unwrap());
    fs::remove_file(folder.path().join("master.key")).unwrap();
    fs::write(folder.path().join("system-users.json"), "[]").unwrap();
    assert!(matches!(DataDir::open(folder.path(), None, random), Err(DataDirError::KeyMissing { .. })));
}

#[test]
fn what_came_to_nothing_leaves_nothing_and_what_was_there_stays() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("new");
    DataDir::open(&path, None, random).unwrap().discard();
    assert!(!path.exists());
    drop(DataDir::open(&path, None, random).unwrap());
    DataDir::open(&path, None, random).unwrap().discard();
    assert!(path.join("master.key").exists(), "it was there before");
}

#[test]
fn a_master_key_file_takes_the_place_of_the_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let (path, key) = (folder.path().join("data"), folder.path().join("key"));
    fs::write(&key, "ab".repeat(31)).unwrap();
    assert!(
        matches!(DataDir::open(&path, Some(&key), random), Err(DataDirError::UnreadKey { .. })),
        "others may read it"
    );
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(DataDir::open(&path, Some(&key), random), Err(DataDirError::BadKey { .. })));
    fs::write(&key, format!(" {}\n", "aB".repeat(32))).unwrap();
    assert_eq!(keys(&DataDir::open(&path, Some(&key), random).unwrap()), "ab".repeat(32));
    assert!(!path.join("master.key").exists());
}

#[test]
fn a_planted_link_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("file"), folder.path().join("victim"));
    fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, folder.path().join("file.new")).unwrap();
    write_atomically(&path, b"written").unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read(&victim).unwrap()), (b"written".to_vec(), b"kept".to_vec()));
    assert!(path.symlink_metadata().unwrap().is_file());
}

#[test]
fn ports_are_kept_while_they_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports");
    let first: [u16; 2] = free_ports(&file).unwrap();
    assert_ne!(first[0], first[1]);
    assert_eq!(free_ports(&file).unwrap(), first);
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first[1])).unwrap();
    let second: [u16; 2] = free_ports(&file).unwrap();
    assert!(!second.contains(&first[1]));
    fs::write(&file, "1 2 3 nonsense").unwrap();
    assert!(free_ports::<2>(&file).is_ok());
}
