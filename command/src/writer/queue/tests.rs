use bytes::Bytes;
use edge::error::Reason;
use tokio::task::JoinHandle;

use super::*;
use crate::turn::{Decided, Refusal, Turn};

struct Nothing;

impl Decide for Nothing {
    type Outcome = ();

    fn decide(&self, _: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        Err(Error::new(Reason::Internal, "nobody decides").into())
    }
}

fn channel_of_active() -> (Handle, Queue, watch::Sender<Phase>) {
    let (phase, phases) = watch::channel(Phase::Active);
    let (handle, queue) = channel(phases);
    (handle, queue, phase)
}

fn origin(instance_id: &str, bytes: usize) -> Origin {
    Origin { operation: "nothing", instance_id: instance_id.into(), bytes }
}

async fn submit(handle: Handle) -> Reason {
    let once = Once {
        command_id: Bytes::from_static(b"id"),
        request_digest: [0; 32],
        instance_id: String::new(),
        answer: Box::new(|_, ()| Bytes::new()),
    };
    handle.submit(origin("1", 0), Nothing, Some(once)).await.unwrap_err().reason()
}

fn refuse(submission: Submission) {
    submission.refuse(Error::new(Reason::Internal, "it is refused"));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_what_is_in_a_record_is_in_progress_until_its_answer_however_slow_the_writer() {
    let (handle, mut queue, _phase) = channel_of_active();
    let first = tokio::spawn(submit(handle.clone()));
    let taken = queue.arrivals.recv().await.unwrap();
    assert!(taken.held.take());
    assert_eq!(submit(handle.clone()).await, Reason::IdempotencyInProgress);
    // The first caller gives up, the writer does not.
    assert_eq!(first.await.unwrap(), Reason::OutcomeUnknown);
    assert!(taken.held.take() && !taken.held.is_withdrawn());
    assert_eq!(submit(handle.clone()).await, Reason::IdempotencyInProgress);
    refuse(taken);
    let third = tokio::spawn(submit(handle));
    refuse(queue.arrivals.recv().await.unwrap());
    assert_eq!(third.await.unwrap(), Reason::Internal);
}

#[tokio::test(start_paused = true)]
async fn what_had_no_turn_in_time_was_not_done_and_its_key_is_free() {
    let (handle, mut queue, _phase) = channel_of_active();
    assert_eq!(submit(handle.clone()).await, Reason::WriterUnavailable);
    let late = queue.arrivals.recv().await.unwrap();
    assert!(late.held.is_withdrawn() && !late.held.take(), "nobody may decide it any more");
    let second = tokio::spawn(submit(handle));
    // What becomes of the first does not concern the second.
    let waiting = queue.arrivals.recv().await.unwrap();
    drop(late);
    assert!(!waiting.held.is_withdrawn());
    refuse(waiting);
    assert_eq!(second.await.unwrap(), Reason::Internal);
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_decided_and_its_key_is_free() {
    let (handle, mut queue, _phase) = channel_of_active();
    let gone = tokio::spawn(submit(handle.clone()));
    let left = queue.arrivals.recv().await.unwrap();
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    assert!(left.held.is_withdrawn() && !left.held.take());
    let second = tokio::spawn(submit(handle));
    refuse(queue.arrivals.recv().await.unwrap());
    assert_eq!(second.await.unwrap(), Reason::Internal);
}

#[tokio::test]
async fn a_key_is_free_when_its_caller_learns_that_nobody_decided() {
    for (is_taken, told) in [(true, Reason::OutcomeUnknown), (false, Reason::WriterUnavailable)] {
        let (handle, mut queue, _phase) = channel_of_active();
        let first = {
            let handle = handle.clone();
            // On a thread of its own, so that it looks the moment it learns of it.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                let reason = runtime.block_on(submit(handle.clone()));
                (reason, handle.shared.enter(&origin("1", 0), Some(&Bytes::from_static(b"id"))).is_ok())
            })
        };
        let waiting = queue.arrivals.recv().await.unwrap();
        assert!(!is_taken || waiting.held.take());
        drop(waiting);
        assert_eq!(first.join().unwrap(), (told, true));
    }
}

#[tokio::test]
async fn an_instance_that_floods_is_refused_by_its_own_bound_and_others_are_not() {
    let (handle, mut queue, _phase) = channel_of_active();
    let send = |instance_id: &'static str, bytes| -> JoinHandle<Error> {
        let handle = handle.clone();
        tokio::spawn(async move { handle.submit(origin(instance_id, bytes), Nothing, None).await.unwrap_err() })
    };
    let flood: Vec<_> = (0..PLACES).map(|_| send("greedy", 0)).collect();
    tokio::task::yield_now().await;
    let refused = send("greedy", 0).await.unwrap();
    assert_eq!(refused.reason(), Reason::WriterUnavailable);
    assert!(refused.to_string().contains("of this instance"), "{refused}");

    let quiet = send("quiet", 0);
    let mut arrived = vec![];
    while let Some(submission) = queue.arrivals.recv().await {
        let is_quiet = &*submission.origin.instance_id == "quiet";
        arrived.push(submission);
        if is_quiet {
            break;
        }
    }
    assert_eq!(arrived.len(), PLACES / 2 + 1, "half of it is left for others");
    arrived.into_iter().for_each(refuse);
    assert_eq!(quiet.await.unwrap().reason(), Reason::Internal);
    let mut refused = 0;
    for one in flood {
        refused += usize::from(one.await.unwrap().reason() == Reason::WriterUnavailable);
    }
    assert_eq!(refused, PLACES / 2);

    // Room comes back with the answers, and large commands have a bound in bytes.
    let large: Vec<_> = (0..10).map(|_| send("greedy", 8 << 20)).collect();
    tokio::task::yield_now().await;
    assert_eq!(queue.arrivals.len(), 3, "half of 64 MiB");
    let small = send("quiet", 1 << 20);
    while let Ok(submission) = queue.arrivals.try_recv() {
        refuse(submission);
    }
    drop(large);
    drop(small);
}
