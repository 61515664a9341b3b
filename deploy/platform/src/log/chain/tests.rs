use base::secret::sha256;
use bytes::Bytes;
use eventlog::record::Event;

use super::*;

/// Returns the commit records of an intact log, in two epochs.
fn complete_log() -> Vec<CommitRecord> {
    let event = |id: &str, version: u64| Event {
        aggregate_type: "target".into(),
        aggregate_id: id.into(),
        version,
        r#type: "target.changed".into(),
        payload: Bytes::from_static(b"{}"),
        ..Event::default()
    };
    let record = |number: u8, epoch: u64, events: Vec<Event>| CommitRecord {
        log_id: vec![7; 16].into(),
        incarnation: 1,
        epoch,
        record_id: vec![number; 16].into(),
        committed_at: 1000 + i64::from(number),
        events,
        ..CommitRecord::default()
    };
    vec![
        record(1, 1, vec![]),
        record(2, 1, vec![event("a", 1), event("b", 1)]),
        record(3, 2, vec![]),
        record(4, 2, vec![event("a", 2)]),
        record(5, 2, vec![event("b", 2), event("b", 3)]),
    ]
}

/// Gives each record its first sequence and the digest of the one before.
fn linked(commits: Vec<CommitRecord>) -> Vec<Record> {
    let mut at = Position::default();
    let mut records = vec![];
    for mut commit in commits {
        commit.first_sequence = at.sequence + 1;
        commit.previous_digest = if at.stream_sequence == 0 { Bytes::new() } else { at.digest.to_vec().into() };
        let digest = sha256(&commit.record_id);
        let record = Record::new(at.stream_sequence + 1, digest, commit);
        at = record.position();
        records.push(record);
    }
    records
}

fn first_fault(records: &[Record]) -> String {
    let mut chain = Chain::at(Position::default());
    let faults: Vec<_> = records.iter().map_while(|record| Some(chain.check(record).err())).flatten().take(1).collect();
    faults.first().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_whole_log_has_no_fault_also_from_its_middle() {
    let records = linked(complete_log());
    let mut chain = Chain::at(Position::default());
    assert!(records.iter().all(|record| chain.check(record).is_ok()));
    assert_eq!((chain.records, chain.epochs, chain.aggregates(), chain.at.sequence), (5, 2, 2, 5));
    for begin in 1..records.len() {
        let mut chain = Chain::after(records[begin - 1].clone());
        assert!(records[begin..].iter().all(|record| chain.check(record).is_ok()), "{begin}");
    }
}

#[test]
fn what_a_purge_has_left_begins_anywhere_and_permits_no_more_than_was_written() {
    let mut commits = complete_log();
    (commits[3].purged_to, commits[4].purged_to) = (2, 2);
    let records = linked(commits.clone());
    for purged in 0..=2 {
        let mut chain = Chain::at(records[purged].before());
        assert!(records[purged..].iter().all(|record| chain.check(record).is_ok()), "{purged}");
    }
    commits[4].purged_to = 1;
    let told_of = first_fault(&linked(commits.clone()));
    assert!(told_of.starts_with("message 5") && told_of.contains("found up to message 1"), "{told_of}");
    commits[4].purged_to = 0;
    assert!(
        first_fault(&linked(commits.clone())).contains("found up to message 0"),
        "within an epoch it is said again"
    );
    commits[4].purged_to = 5;
    let told_of = first_fault(&linked(commits));
    assert!(told_of.contains("found up to message 5, expected from message 2 to 4"), "{told_of}");
}

#[test]
fn each_fault_is_told_with_its_place_and_what_was_expected() {
    type Spoil = fn(&mut CommitRecord);
    let cases: [(usize, Spoil, &[&str]); 9] = [
        (3, |it| it.log_id = vec![8; 16].into(), &["another log", "found log id 0808", "expected log id 0707"]),
        (3, |it| it.incarnation = 0, &["older copy", "found incarnation 0", "expected 1"]),
        (3, |it| it.epoch = 1, &["taken over", "found epoch 1", "expected 2 or more"]),
        (3, |it| it.epoch = 3, &["not a barrier", "found 1 events", "the first of epoch 3"]),
        (3, |it| it.committed_at = 5, &["goes back", "found 1970-01-01T00:00:00.000005Z"]),
        (
            3,
            |it| it.events[0].version = 3,
            &["versions", "found version 3 in event 3", "expected version 2 of target a"],
        ),
        (3, |it| it.events[0].version = 1, &["versions", "found version 1 in event 3"]),
        (4, |it| it.record_id = vec![4; 16].into(), &["written before", "record id 0404"]),
        (3, |it| it.events[0].payload = Bytes::from_static(b"{"), &["payload", "event 3 (target.changed)", "JSON"]),
    ];
    for (index, spoil, words) in cases {
        let mut commits = complete_log();
        spoil(&mut commits[index]);
        let told = first_fault(&linked(commits));
        let place = format!("message {} of the log", index + 1);
        assert!(told.starts_with(&place) && words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
        assert!(told.contains("What to do: "), "{told}");
    }
}

#[test]
fn broken_links_are_told() {
    let mut records = linked(complete_log());
    records[3].commit.first_sequence = 9;
    assert!(
        first_fault(&records).contains("found a record that begins with event 9, expected event 3"),
        "{}",
        first_fault(&records)
    );
    let mut records = linked(complete_log());
    records[3].commit.previous_digest = vec![0xab; 32].into();
    assert!(
        first_fault(&records).starts_with("message 4 of the log")
            && first_fault(&records).contains("found the digest abab")
    );
    let mut records = linked(complete_log());
    records.remove(2);
    assert!(
        first_fault(&records).starts_with("message 3 of the log")
            && first_fault(&records).contains("message 4 after message 2")
    );
    let first = linked(complete_log()).remove(1);
    assert!(first_fault(&[first]).starts_with("message 1 of the log"));
}
