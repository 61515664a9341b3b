//! Closed-loop load: a number of clients, each with one request at a time.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

/// The outcome of a load.
pub(crate) struct Outcome {
    /// How many operations were done.
    pub(crate) done: u64,
    /// How many failed.
    pub(crate) failed: u64,
    /// The duration of the load.
    pub(crate) elapsed: Duration,
    /// The latencies of the operations, sorted.
    latencies: Vec<Duration>,
}

impl Outcome {
    /// Returns the operations per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(crate) fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the latency that this share of the operations, in percent, did not exceed.
    pub(crate) fn latency(&self, percent: usize) -> Duration {
        self.latencies.get(self.latencies.len() * percent / 100).copied().unwrap_or_default()
    }

    /// Returns the CPU milliseconds of each operation.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn ms_each(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1000.0 / self.done.max(1) as f64
    }
}

/// Lets clients repeat an operation until the time is over. The operation returns whether it succeeded.
pub(crate) async fn run<F>(
    clients: usize,
    seconds: u64,
    operation: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Outcome
where
    F: Future<Output = bool> + Send + 'static,
{
    let operation = Arc::new(operation);
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let operation = operation.clone();
            tokio::spawn(async move {
                let (mut latencies, mut failed) = (vec![], 0);
                while Instant::now() < end {
                    let begin = Instant::now();
                    if operation(client).await {
                        latencies.push(begin.elapsed());
                    } else {
                        failed += 1;
                    }
                }
                (latencies, failed)
            })
        })
        .collect();
    let (mut latencies, mut failed) = (vec![], 0);
    for task in tasks {
        let (of_client, failed_of_client) = task.await.expect("a client does not panic");
        latencies.extend(of_client);
        failed += failed_of_client;
    }
    latencies.sort();
    Outcome { done: latencies.len() as u64, failed, elapsed: start.elapsed(), latencies }
}
