//! Clients that change the same few targets under `If-Match`, and a check that their answers are linearizable in the
//! order of the log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    auditor::Audit,
    client::{Answer, Client, TARGETS},
};

/// How long a client waits before it tries again after a request that was not served.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients at work.
#[derive(Debug)]
pub struct Contention {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    is_over: AtomicBool,
    targets: Vec<String>,
    /// The newest sequence of each target that any client has seen.
    seen: Vec<Mutex<u64>>,
    operations: Mutex<Vec<Operation>>,
}

/// A change that was requested, and its outcome.
#[derive(Debug)]
pub struct Operation {
    target: String,
    /// The new name, unique among all operations.
    name: String,
    /// The sequence that the target must have before.
    expected: u64,
    asked: Instant,
    answered: Instant,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The change was made, and is the event with this sequence.
    Done(u64),
    /// The target has this sequence instead.
    Refused(u64),
    /// It is unknown whether the change was made.
    Unknown,
}

impl Contention {
    /// Starts workers on the targets with these ids and sequences.
    pub fn start(clients: &[Client], targets: Vec<(String, u64)>, workers: usize) -> Self {
        let (targets, seen): (Vec<_>, Vec<_>) = targets.into_iter().map(|(id, at)| (id, Mutex::new(at))).unzip();
        let shared = Arc::new(Shared { is_over: AtomicBool::new(false), targets, seen, operations: Mutex::default() });
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let (shared, client) = (shared.clone(), clients[worker % clients.len()].clone());
            tasks.spawn(async move {
                let mut number = 0;
                while !shared.is_over.load(Ordering::SeqCst) {
                    number += 1;
                    if shared
                        .change(&client, (worker + number) % shared.targets.len(), &format!("{worker}-{number}"))
                        .await
                        == Outcome::Unknown
                    {
                        sleep(PAUSE).await;
                    }
                }
            });
        }
        Self { shared, workers: tasks }
    }

    /// Returns how many changes were made, as far as clients know.
    pub fn done(&self) -> usize {
        let operations = self.shared.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.iter().filter(|operation| matches!(operation.outcome, Outcome::Done(_))).count()
    }

    /// Lets the clients finish, and returns their operations.
    pub async fn finish(mut self) -> Vec<Operation> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.expect("a client saw what it must not see");
        }
        std::mem::take(&mut self.shared.operations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    async fn change(&self, client: &Client, place: usize, name: &str) -> Outcome {
        let target = &self.targets[place];
        let expected = *self.seen[place].lock().unwrap_or_else(PoisonError::into_inner);
        let asked = Instant::now();
        let request = client.request(Method::PATCH, &format!("{TARGETS}/{target}")).json(&json!({ "name": name }));
        let sent = request.header("if-match", format!("\"{expected}\"")).send().await;
        let outcome = match sent {
            Ok(response) => outcome_of(&Answer::of(response).await),
            Err(_) => Outcome::Unknown,
        };
        if let Outcome::Done(sequence) | Outcome::Refused(sequence) = outcome {
            let mut seen = self.seen[place].lock().unwrap_or_else(PoisonError::into_inner);
            *seen = sequence.max(*seen);
        }
        let operation = Operation {
            target: target.clone(),
            name: name.to_owned(),
            expected,
            asked,
            answered: Instant::now(),
            outcome,
        };
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
        outcome
    }
}

fn outcome_of(answer: &Answer) -> Outcome {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let told = match answer.status {
        StatusCode::OK => number(&answer.body["details"]["sequence"]).map(Outcome::Done),
        StatusCode::PRECONDITION_FAILED => {
            number(&answer.body["details"][0]["metadata"]["sequence"]).map(Outcome::Refused)
        }
        status => {
            assert!(status.is_server_error(), "{answer:?}");
            None
        }
    };
    told.unwrap_or(Outcome::Unknown)
}

/// Checks that the log is an order of the operations in which each was answered correctly, and which agrees with real
/// time: an operation that was requested after another was answered comes after it.
pub fn assert_linearizable(operations: &[Operation], audit: &Audit) {
    let mut events: HashMap<&str, Vec<(u64, String)>> = HashMap::new();
    for recorded in &audit.events {
        let payload: Value = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let name = payload["to"]["name"].as_str().unwrap_or_default().to_owned();
        events.entry(&recorded.event.aggregate_id).or_default().push((recorded.sequence, name));
    }
    let mut by_target: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        by_target.entry(&operation.target).or_default().push(operation);
    }
    for (target, operations) in by_target {
        let log = &events[target];
        for operation in &operations {
            let told = log.iter().filter(|(_, name)| *name == operation.name).count();
            let place = |sequence| log.iter().position(|(at, _)| *at == sequence);
            match operation.outcome {
                Outcome::Done(sequence) => {
                    let place = place(sequence).unwrap_or_else(|| panic!("{operation:?} is not in the log"));
                    assert_eq!((told, &log[place].1), (1, &operation.name), "{operation:?}");
                    assert_eq!(log[place - 1].0, operation.expected, "{operation:?} was done on another state");
                }
                Outcome::Refused(sequence) => {
                    assert_eq!(told, 0, "{operation:?} was done though it was refused");
                    assert!(place(sequence).is_some() && sequence != operation.expected, "{operation:?}");
                }
                Outcome::Unknown => assert!(told <= 1, "{operation:?} was done twice"),
            }
        }
        assert_real_time(&operations);
    }
}

fn assert_real_time(operations: &[&Operation]) {
    let known = |operation: &&&Operation| operation.outcome != Outcome::Unknown;
    let (mut asked, mut answered): (Vec<&&Operation>, Vec<&&Operation>) =
        (operations.iter().filter(known).collect(), operations.iter().filter(known).collect());
    asked.sort_by_key(|operation| operation.asked);
    answered.sort_by_key(|operation| operation.answered);
    let (mut before, mut newest) = (answered.into_iter().peekable(), 0);
    for operation in asked {
        while let Some(earlier) = before.next_if(|earlier| earlier.answered < operation.asked) {
            let (Outcome::Done(at) | Outcome::Refused(at)) = earlier.outcome else { continue };
            newest = newest.max(at);
        }
        match operation.outcome {
            Outcome::Done(at) => {
                assert!(at > newest, "{operation:?} comes before what was answered before it: {newest}");
            }
            Outcome::Refused(at) => assert!(at >= newest, "{operation:?} was refused on an old state: {newest}"),
            Outcome::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "was refused on an old state")]
    fn a_stale_answer_is_noticed() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let operation = |asked, answered, outcome| Operation {
            target: "t".to_owned(),
            name: "n".to_owned(),
            expected: 1,
            asked: at(asked),
            answered: at(answered),
            outcome,
        };
        let done = operation(0, 10, Outcome::Done(5));
        assert_real_time(&[&done, &operation(5, 12, Outcome::Refused(3))]);
        assert_real_time(&[&done, &operation(11, 12, Outcome::Refused(3))]);
    }
}
