use std::{future::pending, sync::atomic::AtomicUsize};

use domain::{resource::user::User, standard::Resource};
use futures::{future::join_all, poll};

use super::{
    super::changes::tests::{changes, follow},
    *,
};

/// A cache of numbers, which counts what is loaded.
struct Numbers {
    changes: Changes,
    cached: ReadThrough<u64>,
    loads: AtomicUsize,
    /// Whether answers last.
    lasts: bool,
}

impl Numbers {
    fn new() -> Self {
        Self::known_for(Duration::from_mins(1))
    }

    /// Of which it is known for so long that the log has nothing else.
    fn known_for(tolerance: Duration) -> Self {
        let changes = changes(tolerance);
        Self { cached: ReadThrough::new("numbers", 10, &changes), changes, loads: AtomicUsize::new(0), lasts: true }
    }

    /// What is loaded of a user by a read model that has processed a sequence.
    fn loaded(&self, processed: u64, found: Option<u64>) -> Cached<u64> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let dependencies = self.changes.dependencies(Some("1"), &[User::NAME], &[(User::NAME, "3")]);
        let source = Source { as_of: processed.into(), lasts: self.lasts };
        Cached { source, found: found.map(Arc::new), dependencies }
    }

    /// Asks for the user as of a sequence, of a read model that is known to have come as far, and has come as far.
    async fn get(&self, sequence: u64, processed: u64, found: Result<u64, DatabaseFailure>) -> Result<u64, String> {
        let load = || async { found.map(|found| self.loaded(processed, Some(found))) };
        let found = self.cached.get(Lookup::of("id", &["1", "3"]), Required { sequence, processed }, load).await;
        found.map(|found| found.map_or(0, |found| *found)).map_err(|failure| failure.to_string())
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::Relaxed)
    }

    fn slot(&self) -> Arc<Slot> {
        self.cached.answers.slot(&Lookup::of("id", &["1", "3"]))
    }

    /// Lets the cached answer be older by this much.
    fn age(&self, by: Duration) {
        let answer = self.slot().answer().expect("it is cached");
        let by = u64::try_from(by.as_millis()).unwrap();
        answer.loaded_at.fetch_sub(by, Ordering::Relaxed);
        answer.right_at.fetch_sub(by, Ordering::Relaxed);
    }
}

fn down() -> Result<u64, DatabaseFailure> {
    Err(DatabaseFailure::Address("Postgres is down".to_owned()))
}

#[tokio::test]
async fn an_answer_is_right_until_something_changes_and_grows_no_older() {
    let numbers = Numbers::new();
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    for sequence in 11..100 {
        follow(&numbers.changes, sequence, User::NAME, "4");
        numbers.age(TIME_TO_LIVE);
        assert_eq!(numbers.get(sequence, 10, Ok(2)).await, Ok(1), "nothing of it has changed");
    }
    assert_eq!((numbers.loads(), numbers.slot().answer().unwrap().source.as_of.get()), (1, 99));
    follow(&numbers.changes, 100, User::NAME, "3");
    assert_eq!(numbers.get(0, 100, Ok(3)).await, Ok(3));
    follow(&numbers.changes, 101, User::NAME, "3");
    assert_eq!(numbers.get(0, 101, Ok(4)).await, Ok(3), "it has just been loaded");
    numbers.age(SETTLES);
    assert_eq!(numbers.get(0, 100, Ok(4)).await, Ok(3), "the read model is not there yet");
    assert_eq!(numbers.get(0, 101, Ok(4)).await, Ok(4));
    assert_eq!(numbers.get(101, 101, Ok(5)).await, Ok(4));
    assert_eq!(numbers.loads(), 3);
}

#[tokio::test]
async fn a_caller_that_has_seen_more_waits_for_no_time() {
    let numbers = Numbers::new();
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    assert_eq!(numbers.get(20, 19, Ok(2)).await, Ok(1), "the read model has no more");
    assert_eq!(numbers.get(20, 20, Ok(3)).await, Ok(3), "it has, though the log was not followed as far");
    follow(&numbers.changes, 21, User::NAME, "3");
    numbers.age(SETTLES);
    assert_eq!(numbers.get(30, 21, Ok(4)).await, Ok(4), "more than there is does not make less of what there is");
}

#[tokio::test]
async fn an_answer_that_was_confirmed_gives_way_to_one_that_was_loaded_later() {
    let numbers = Numbers::new();
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    follow(&numbers.changes, 50, User::NAME, "4");
    assert_eq!(numbers.get(50, 10, Ok(2)).await, Ok(1));
    numbers.changes.amend("before");
    numbers.changes.amend("after");
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 40, Ok(3)).await, Ok(3), "though the read model lags");
}

#[tokio::test]
async fn what_nobody_has_needed_for_five_minutes_is_forgotten() {
    let numbers = Numbers::new();
    let count = || {
        numbers.cached.answers.forget_idle();
        numbers.cached.answers.slots.len()
    };
    assert_eq!(numbers.get(0, 10, down()).await.map_err(|_| ()), Err(()));
    assert_eq!(count(), 0, "nothing is remembered of a failure");
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    numbers.age(KNOWN_FOR);
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    assert_eq!(count(), 1, "it is needed");
    numbers.age(KNOWN_FOR + TIME_TO_LIVE);
    assert_eq!(count(), 0);
}

#[tokio::test]
async fn a_change_that_the_read_model_does_not_have_is_looked_for_every_second() {
    let numbers = Numbers::new();
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    follow(&numbers.changes, 11, User::NAME, "3");
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 10, Ok(2)).await, Ok(2));
    numbers.age(SETTLES);
    assert_eq!(numbers.get(0, 10, Ok(3)).await, Ok(2));
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 10, Ok(4)).await, Ok(4));
}

#[tokio::test]
async fn rows_that_were_amended_are_read_again() {
    let numbers = Numbers::new();
    numbers.changes.amend("before");
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    numbers.changes.amend("after");
    assert_eq!(numbers.get(0, 10, Ok(2)).await, Ok(1), "for a second");
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 10, Ok(3)).await, Ok(3));
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 10, Ok(4)).await, Ok(3));
    numbers.changes.amend("before");
    assert_eq!(numbers.get(0, 10, Ok(5)).await, Ok(5), "they are as they were, which was not read");
}

#[tokio::test]
async fn what_is_not_known_to_be_right_is_read_again_every_second() {
    let silent = Numbers::known_for(Duration::ZERO);
    let passing = Numbers { lasts: false, ..Numbers::new() };
    for numbers in [silent, passing] {
        for answer in 1..4 {
            assert_eq!(numbers.get(0, 10, Ok(answer)).await, Ok(answer));
            assert_eq!(numbers.get(0, 10, Ok(0)).await, Ok(answer));
            numbers.age(TIME_TO_LIVE);
        }
    }
}

#[tokio::test]
async fn the_last_answer_is_used_while_postgres_is_down_for_five_minutes() {
    let numbers = Numbers::new();
    let failure = down().unwrap_err().to_string();
    assert_eq!(numbers.get(0, 10, down()).await, Err(failure.clone()));
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    follow(&numbers.changes, 11, User::NAME, "3");
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 11, down()).await, Ok(1));
    assert_eq!(numbers.get(0, 10, Ok(2)).await, Ok(1), "it is asked again in a second");
    numbers.age(KNOWN_FOR);
    assert_eq!(numbers.get(0, 11, down()).await, Err(failure));
    assert_eq!(numbers.get(0, 11, Ok(3)).await, Ok(3));
}

#[tokio::test]
async fn commits_that_postgres_has_lost_do_not_make_an_answer_older() {
    let numbers = Numbers::new();
    assert_eq!(numbers.get(0, 10, Ok(1)).await, Ok(1));
    follow(&numbers.changes, 11, User::NAME, "3");
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 9, Ok(2)).await, Ok(1));
    numbers.age(TIME_TO_LIVE);
    assert_eq!(numbers.get(0, 11, Ok(3)).await, Ok(3), "they are back");
}

#[tokio::test]
async fn many_who_find_nothing_share_a_load_and_its_failure() {
    let numbers = Numbers::new();
    let failing = || async {
        numbers.loads.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Err::<Cached<u64>, _>(down().unwrap_err())
    };
    let required = Required { sequence: 0, processed: 10 };
    let parts = ["1", "3"];
    let callers = (0..50).map(|_| numbers.cached.get(Lookup::of("id", &parts), required, failing));
    assert!(join_all(callers).await.into_iter().all(|answer| answer.is_err()));
    assert_eq!(numbers.loads(), 1);
    // The next one tries anew, and who takes over from a caller that has gone loads it, too.
    let gone = Box::pin(numbers.cached.get(Lookup::of("id", &parts), required, pending));
    let mut waiting = Box::pin(numbers.get(0, 10, Ok(1)));
    let mut gone = Some(gone);
    assert!(poll!(gone.as_mut().unwrap()).is_pending() && poll!(&mut waiting).is_pending());
    gone = None;
    assert!(gone.is_none());
    assert_eq!(waiting.await, Ok(1));
}

#[tokio::test]
async fn who_came_after_a_load_had_begun_is_not_answered_by_it_where_it_is_too_old() {
    let numbers = Numbers::new();
    let (read, found) = tokio::sync::oneshot::channel();
    let parts = ["1", "3"];
    let load = || async { Ok(numbers.loaded(10, found.await.ok())) };
    let mut first =
        Box::pin(numbers.cached.get(Lookup::of("id", &parts), Required { sequence: 0, processed: 10 }, load));
    assert!(poll!(&mut first).is_pending());
    let mut others: Vec<_> = (0..50).map(|_| Box::pin(numbers.get(11, 11, Ok(2)))).collect();
    for other in &mut others {
        assert!(poll!(other).is_pending());
    }
    read.send(1).unwrap();
    assert_eq!(first.await.unwrap().map(|found| *found), Some(1));
    assert!(join_all(others).await.into_iter().all(|answer| answer == Ok(2)));
    assert_eq!(numbers.loads(), 2);
}

#[test]
fn a_lookup_finds_its_own_key_only() {
    let key = Key::from(&Lookup::of("id", &["1", "23"]));
    let is = |kind, parts: &[&str]| Lookup::of(kind, parts).equivalent(&key);
    assert!(is("id", &["1", "23"]));
    assert!(!is("name", &["1", "23"]) && !is("id", &["12", "3"]) && !is("id", &["1", "23", ""]) && !is("id", &["1"]));
}
