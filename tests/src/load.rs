//! Clients that create targets continuously, and record the answers.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, StatusCode};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    client::{Answer, Client, TARGETS, target},
    eventually,
};

/// How long a client waits before it tries again after a request that was not served.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients at work.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

/// What the clients have requested, and the answers.
#[derive(Debug, Default)]
pub struct Requested {
    /// The names of the targets that were requested.
    pub attempted: HashSet<String>,
    /// The names of the targets whose creation was acknowledged, and their ids.
    pub acknowledged: HashMap<String, String>,
    /// How often a request was not served, by reason; `none` where there was no answer.
    pub refused: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    told: Mutex<Requested>,
}

impl Load {
    /// Starts workers that create targets under names with the prefix.
    ///
    /// Every second worker sends an idempotency key with a create, repeats it until it is served, and then once more:
    /// the second answer must equal the first.
    pub fn start(clients: &[Client], workers: usize, prefix: &str) -> Self {
        Self::start_paced(clients, workers, prefix, Duration::ZERO)
    }

    /// Starts workers that each create a target at most once in this time.
    pub fn start_paced(clients: &[Client], workers: usize, prefix: &str, every: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let clients = Arc::new(clients.to_vec());
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let (shared, clients, prefix) = (shared.clone(), clients.clone(), format!("{prefix}-{worker}"));
            tasks.spawn(async move {
                let mut number = 0;
                while !shared.is_over.load(Ordering::SeqCst) {
                    let next = Instant::now() + every;
                    number += 1;
                    let name = format!("{prefix}-{number}");
                    let client = &clients[worker % clients.len()];
                    if worker % 2 == 0 {
                        shared.create_once(client, &name).await;
                    } else {
                        shared.create_for_certain(&clients, &name).await;
                    }
                    sleep_until(next).await;
                }
            });
        }
        Self { shared, workers: tasks }
    }

    /// Waits until a number of further targets were created, and returns how long that took.
    pub async fn creates(&self, more: usize) -> Duration {
        let begin = Instant::now();
        let wanted = self.shared.with_requested(|told| told.acknowledged.len()) + more;
        eventually("acknowledged creates", || async {
            (self.shared.with_requested(|told| told.acknowledged.len()) >= wanted).then_some(())
        })
        .await;
        begin.elapsed()
    }

    /// Returns how many creates were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.shared.with_requested(|told| told.acknowledged.len())
    }

    /// Lets the clients finish, for which the platform must be available, and returns what they have recorded.
    pub async fn finish(mut self) -> Requested {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.expect("a client saw what it must not see");
        }
        self.shared.with_requested(std::mem::take)
    }
}

impl Shared {
    fn with_requested<T>(&self, what: impl FnOnce(&mut Requested) -> T) -> T {
        what(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn create_once(&self, client: &Client, name: &str) {
        self.with_requested(|told| told.attempted.insert(name.to_owned()));
        let request = client.request(Method::POST, TARGETS).json(&target(name));
        if self.served(name, request).await.is_none() {
            sleep(PAUSE).await;
        }
    }

    async fn create_for_certain(&self, clients: &[Client], name: &str) {
        self.with_requested(|told| told.attempted.insert(name.to_owned()));
        let mut served = vec![];
        let mut turn = 0;
        while served.len() < 2 {
            let client = &clients[turn % clients.len()];
            turn += 1;
            let request = client.request(Method::POST, TARGETS).json(&target(name)).header("idempotency-key", name);
            match self.served(name, request).await {
                Some(answer) => served.push(answer),
                None => sleep(PAUSE).await,
            }
        }
        assert_eq!(served[0].body, served[1].body, "{name}: the same command has the same answer");
        assert!(served[1].headers.contains_key("idempotency-replayed"), "{name}: the second answer is a repetition");
    }

    /// Sends a create, and records the answer. The outcome of any unsuccessful answer is unknown.
    async fn served(&self, name: &str, request: reqwest::RequestBuilder) -> Option<Answer> {
        let answer = match request.send().await {
            Ok(response) => Answer::of(response).await,
            Err(_) => {
                self.with_requested(|told| *told.refused.entry("none".to_owned()).or_default() += 1);
                return None;
            }
        };
        if answer.status == StatusCode::CREATED && !answer.body.is_null() {
            let id = answer.id();
            let before = self.with_requested(|told| told.acknowledged.insert(name.to_owned(), id.clone()));
            assert!(before.is_none_or(|before| before == id), "{name} was created twice");
            return Some(answer);
        }
        let is_passing = answer.status.is_server_error() || answer.reason() == "IDEMPOTENCY_IN_PROGRESS";
        assert!(is_passing || answer.status == StatusCode::CREATED, "{name}: {answer:?}");
        self.with_requested(|told| *told.refused.entry(answer.reason().to_owned()).or_default() += 1);
        None
    }
}

impl Requested {
    /// Adds what other clients have recorded.
    pub fn add(&mut self, other: Self) {
        self.attempted.extend(other.attempted);
        self.acknowledged.extend(other.acknowledged);
        for (reason, times) in other.refused {
            *self.refused.entry(reason).or_default() += times;
        }
    }
}
