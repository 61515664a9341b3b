//! The time of a restart, and memory.

use std::time::{Duration, Instant};

use tests::platform::Platform;
use tokio::time::sleep;

use crate::cpu;

/// How long the allocator retains freed memory.
const SETTLED: Duration = Duration::from_secs(20);

/// Prints the resident memory of the platform's process after a rest.
pub(crate) async fn memory(when: &str, platform: &mut Platform) {
    sleep(SETTLED).await;
    println!(
        "\nmemory {when}: {} MiB resident (to reach when idle: below 100)",
        cpu::resident_mib(platform.process().pid())
    );
}

/// Measures a second start on the same data.
pub(crate) async fn measure(platform: &mut Platform) {
    platform.stop().await;
    let start = Instant::now();
    platform.restart(&[]).await;
    let (elapsed, used) = (start.elapsed(), cpu::of(platform.process().pid()));
    println!("\nsecond start, to the first answer: {elapsed:.2?} (to reach: 3 s), {used:.2?} CPU of the platform");
    memory("after a start", platform).await;
}
