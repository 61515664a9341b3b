//! Replay: Postgres deleted, every read model built again from the log.

use std::{fs, time::Instant};

use tests::{platform::Platform, process::server};

use crate::cpu;

/// Measures a start without Postgres's data.
pub(crate) async fn measure(platform: &mut Platform) {
    let (events, records) = platform.log_end().await;
    platform.stop().await;
    fs::remove_dir_all(platform.data().join("postgres")).expect("the folder is there");
    let start = Instant::now();
    platform.restart(&[]).await;
    let elapsed = start.elapsed();
    let postgres = server(&platform.data(), "postgres").expect("Postgres runs");
    let used = cpu::of(platform.process().pid()) + cpu::of_family(postgres);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = events as f64 / used.as_secs_f64();
    println!(
        "\nreplay of {events} events in {records} records into all read models: {elapsed:.2?}, {used:.2?} CPU of platform \
         and Postgres, initdb included: {rate:.0} events per CPU-second (to reach: 20000)"
    );
}
