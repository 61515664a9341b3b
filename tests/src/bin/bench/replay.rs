//! Replay: the tables of every projection are dropped, or Postgres is deleted, and built again from the log.

use std::{fs, time::Instant};

use tests::{
    auditor::{Audit, connect},
    platform::Platform,
    process::server,
};

use crate::cpu;

/// How often the tables are dropped; the median counts.
const TIMES: usize = 5;

/// Measures a start without tables, and one without Postgres's data.
pub(crate) async fn measure(platform: &mut Platform) {
    let (url, token) = platform.nats();
    let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
    let audit = Audit::of(client).await;
    let (events, records) = (audit.end().sequence, audit.end().stream_sequence);
    println!(
        "\nreplay of {events} events in {records} records into rows; CPU of the platform and Postgres from their start"
    );
    let drop = "do $$ declare name text; begin \
                for name in select nspname from pg_namespace where nspname ~ '_[0-9]+$' loop \
                execute format('drop schema %I cascade', name); end loop; end $$; delete from platform.checkpoints";
    let mut rates = vec![];
    for _ in 0..TIMES {
        // A live projector would begin at once, before it is measured; the servers outlive it.
        platform.process().kill().await;
        let postgres = connect(&platform.postgres_url()).await;
        postgres.batch_execute(drop).await.expect("the tables are dropped");
        rates.push(replayed(platform, &audit, "tables dropped").await);
    }
    platform.stop().await;
    fs::remove_dir_all(platform.data().join("postgres")).expect("the folder is there");
    replayed(platform, &audit, "Postgres deleted, initdb included").await;
    rates.sort_by(f64::total_cmp);
    println!("tables dropped: {:.0} events per CPU-second (to reach: 20000)", rates[TIMES / 2]);
}

/// Starts the platform, and prints the time until all rows exist.
async fn replayed(platform: &mut Platform, audit: &Audit, what: &str) -> f64 {
    let start = Instant::now();
    platform.restart(&[]).await;
    audit.wait_projected(&platform.postgres_url()).await;
    let elapsed = start.elapsed();
    let postgres = server(&platform.data(), "postgres").expect("Postgres runs");
    let used = cpu::of(platform.process().pid()) + cpu::of_family(postgres);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = audit.end().sequence as f64 / used.as_secs_f64();
    println!("{what}: {elapsed:.2?}, {used:.2?} CPU: {rate:.0} events per CPU-second");
    rate
}
