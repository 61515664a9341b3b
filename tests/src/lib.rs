//! The platform as its tests see it: real processes, real servers, real HTTP and gRPC clients.

pub mod auditor;
pub mod brokers;
pub mod browser;
pub mod certificate;
pub mod chromium;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod contend;
pub mod dns;
pub mod endpoint;
pub mod fold;
pub mod forge;
pub mod grpc;
pub mod idp;
pub mod instance;
pub mod load;
pub mod management;
pub mod media;
pub mod parts;
pub mod platform;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod search_audit;
pub mod secrets;
pub mod servers;
mod set_up;
pub mod settings;
pub mod system_user;
mod template;
pub mod tenant;
pub mod tools;

use std::{future::Future, time::Duration};

use tokio::time::{Instant, sleep};

/// The pause between two probes.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns how many times a test does something: the value of an environment variable, by which `make soak` raises it,
/// or the default.
pub fn how_many(variable: &str, usually: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until a probe succeeds, and fails with `what` if it does not within a minute.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        sleep(PAUSE).await;
    }
}

/// Fails unless a probe holds repeatedly for some time.
pub async fn throughout<F: Future<Output = bool>>(time: Duration, what: &str, mut probe: impl FnMut() -> F) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(probe().await, "{what}");
        sleep(PAUSE).await;
    }
}
