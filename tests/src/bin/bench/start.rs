//! Starting again, and memory.

use std::time::Instant;

use tests::platform::Platform;

use crate::cpu;

/// Prints the resident memory of the platform's process.
pub(crate) fn memory(when: &str, platform: &mut Platform) {
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
    memory("after a start", platform);
}
