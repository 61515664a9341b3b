//! Parked aggregates: their cost for healthy ones, and how fast the events that wait for them are processed.
//!
//! They are parked by a bad row: a constraint on the table of targets, which the benchmark adds, refuses a name, and is
//! dropped as soon as they are parked. The search index of targets, which has no such constraint, parks nothing. Its
//! cost is measured with unreadable events, which nothing repairs, in comparison with another projector.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use domain::log_class::LogClass;
use eventlog::record::Event;
use jiff::SignedDuration;
use rustix::process::Pid;
use tests::{
    auditor::connect,
    cluster::{Cluster, Node},
    forge::{Appending, named, retried},
    process::server,
};
use tokio::time::sleep;
use view::projection::{PROJECTIONS, Projection};

use crate::cpu;

/// How many targets are healthy.
const HEALTHY: usize = 1000;
/// How many events of healthy targets are projected in each measurement.
const EVENTS: usize = 60_000;
/// How many pairs are measured for each number of parked aggregates.
const PAIRS: usize = 9;
/// How many targets are parked at most: half of the limit.
const MOST: usize = 1000;
/// How many events wait for each parked target, for the retry.
const WAITING: usize = 100;
/// The number of events of a record.
const OF_RECORD: usize = 500;
/// How many are parked for events of one time, and the distance to the next time. More would count as a bad build.
const AT_ONCE: usize = 90;
const APART: SignedDuration = SignedDuration::from_secs(61);
/// How often the progress of the projections is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the number of parked aggregates is checked.
const LOOK_SOON: Duration = Duration::from_millis(10);
/// How long a projector rests before its CPU time is read.
const REST: Duration = Duration::from_millis(500);
/// How long the allocator retains freed memory.
const SETTLED: Duration = Duration::from_secs(20);
/// The name that is refused.
const REFUSED: &str = "refused";

/// A running projector, whose log has no other writer than this.
struct Bench {
    cluster: Cluster,
    projector: Node,
    postgres: tokio_postgres::Client,
    log: Appending,
    /// How many events each target has.
    versions: HashMap<String, u64>,
    /// How many targets are parked.
    parked: usize,
}

/// The cost of an event, in µs.
#[derive(Clone, Copy)]
struct Cost {
    /// The CPU time of the projector's process.
    cpu: f64,
    /// The time of the batches of `targets`.
    batches: f64,
}

/// Measures both costs on a projector.
pub(crate) async fn measure() {
    let mut bench = Bench::start().await;
    println!(
        "\nparked in `targets`, by rows that Postgres refuses: CPU of the projector for {EVENTS} events of {HEALTHY} \
         other targets, the middle of {PAIRS} pairs"
    );
    println!(
        "{:<8} {:>16} {:>16} {:>8} {:>16} {:>24}",
        "parked", "µs CPU, none", "µs CPU, parked", "ratio", "ratios", "ratio of targets' time"
    );
    // The first measurement finds cold caches.
    bench.cost().await;
    for parked in [1, MOST] {
        pairs(&mut bench, parked).await;
    }
    println!("(to reach: a ratio of 1.15)");
    bench.park(MOST).await;
    drain(&mut bench).await;
    drop(bench);
    omitted().await;
}

/// Measures with targets that are also parked in the search index, in comparison with another projector without parked
/// targets.
async fn omitted() {
    println!(
        "\nparked in `targets` and in its search index, by events that cannot be read, beside a projector that has none parked"
    );
    let (mut none, mut some) = (Bench::start().await, Bench::start().await);
    some.spoil(MOST).await;
    for bench in [&mut none, &mut some] {
        bench.cost().await;
    }
    let mut found = vec![];
    for number in 0..PAIRS {
        found.push(if number % 2 == 0 {
            let first = none.cost().await;
            (first, some.cost().await)
        } else {
            let first = some.cost().await;
            (none.cost().await, first)
        });
    }
    print(MOST, &found);
}

/// Measures with a number of parked targets and with none, in turns, and prints the medians.
async fn pairs(bench: &mut Bench, parked: usize) {
    let mut found = vec![];
    for number in 0..PAIRS {
        let order = if number % 2 == 0 { [0, parked] } else { [parked, 0] };
        let mut costs = vec![];
        for count in order {
            bench.has_parked(count).await;
            costs.push(bench.cost().await);
        }
        if order[0] != 0 {
            costs.reverse();
        }
        found.push((costs[0], costs[1]));
    }
    print(parked, &found);
}

/// Prints the medians of the measurements without and with parked targets.
fn print(parked: usize, found: &[(Cost, Cost)]) {
    let middle = |of: &dyn Fn(&(Cost, Cost)) -> f64| sorted(found.iter().map(of).collect())[PAIRS / 2];
    let ratios = sorted(found.iter().map(|(none, some)| some.cpu / none.cpu).collect());
    println!(
        "{parked:<8} {:>16.1} {:>16.1} {:>8.3} {:>16} {:>24.3}",
        middle(&|(none, _)| none.cpu),
        middle(&|(_, some)| some.cpu),
        ratios[PAIRS / 2],
        format!("{:.2} to {:.2}", ratios[0], ratios[PAIRS - 1]),
        middle(&|(none, some)| some.batches / none.batches),
    );
}

fn sorted(mut all: Vec<f64>) -> Vec<f64> {
    all.sort_by(f64::total_cmp);
    all
}

/// Adds events for all parked targets, retries these, and prints how fast that is and what it costs.
async fn drain(bench: &mut Bench) {
    let (pid, postgres) = (bench.projector.process.pid(), bench.postgres_pid());
    let waiting = MOST * WAITING;
    cpu::forget_peak(pid);
    let (begin, used) = (Instant::now(), cpu::of(pid));
    bench.change(&ids('8', MOST), waiting).await;
    let (passed, passing) = (begin.elapsed(), cpu::of(pid).saturating_sub(used));
    let while_passing = cpu::peak_mib(pid);
    assert_eq!(bench.count().await, MOST, "all of it waits");
    sleep(SETTLED).await;
    let before = cpu::resident_mib(pid);
    cpu::forget_peak(pid);
    let used = || (cpu::of(pid), cpu::of_family(postgres));
    let (begin, then) = (Instant::now(), used());
    bench.retry().await;
    let (spent, now, peak) = (begin.elapsed(), used(), cpu::peak_mib(pid));
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = |spent: Duration| waiting as f64 / spent.as_secs_f64();
    println!(
        "\n{waiting} events wait behind {MOST} parked targets: passed by in {passed:.1?} ({:.0} per s, {:.0} per CPU-second)",
        rate(passed),
        rate(passing)
    );
    let (own, of_postgres) = (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1));
    println!(
        "tried again until none is parked: {spent:.2?}, {:.0} events/s, {own:.1?} CPU of the projector and {of_postgres:.1?} of Postgres",
        rate(spent)
    );
    println!(
        "memory of the projector: {before} MiB resident before and {peak} MiB at most meanwhile; {while_passing} MiB at most \
         while they passed by"
    );
}

impl Bench {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let projector = cluster.node("projector", "projector", &[], &[]);
        let postgres = connect(&cluster.servers.places.postgres_url).await;
        let log = Appending::begin(cluster.servers.nats().await).await;
        let mut bench = Self { cluster, projector, postgres, log, versions: HashMap::new(), parked: 0 };
        for (kind, count) in [('7', HEALTHY), ('8', MOST)] {
            bench.change(&ids(kind, count), count).await;
        }
        bench
    }

    /// Measures the cost of projecting events of healthy targets.
    async fn cost(&mut self) -> Cost {
        let pid = self.projector.process.pid();
        // Evens out what came before: an index commits less often after events that were committed long ago.
        self.change(&ids('7', HEALTHY), HEALTHY).await;
        sleep(REST).await;
        let before = (cpu::of(pid), self.batches().await);
        self.change(&ids('7', HEALTHY), EVENTS).await;
        let after = (cpu::of(pid), self.batches().await);
        assert_eq!(self.count().await, self.parked, "nothing is tried again meanwhile");
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let each = |seconds: f64| seconds * 1e6 / EVENTS as f64;
        Cost { cpu: each(after.0.saturating_sub(before.0).as_secs_f64()), batches: each(after.1 - before.1) }
    }

    /// Returns how many seconds `targets` has worked on batches.
    async fn batches(&self) -> f64 {
        let metric = "platform_projection_apply_duration_seconds_sum";
        self.projector.management.sum(metric, &[r#"projection="targets""#]).await
    }

    /// Appends a number of changes of targets in turn, and waits until all projections have them.
    async fn change(&mut self, ids: &[String], count: usize) {
        let ids: Vec<&String> = ids.iter().cycle().take(count).collect();
        for part in ids.chunks(OF_RECORD) {
            let events = part.iter().map(|id| self.event(id, "healthy")).collect();
            self.log.put(events, SignedDuration::ZERO).await;
        }
        self.arrive().await;
    }

    fn event(&mut self, id: &str, name: &str) -> Event {
        let version = self.versions.entry(id.to_owned()).or_default();
        *version += 1;
        named(&self.cluster.bootstrap.instance_id, (id, *version), name)
    }

    /// Waits until all projections have the end of the log.
    async fn arrive(&self) {
        let followed = PROJECTIONS.iter().filter(|projection| projection.class == LogClass::Events);
        let parts: Vec<String> = followed.map(Projection::part).collect();
        let are_there = async || {
            let (_, readiness) = self.projector.management.readiness().await?;
            let checks = readiness["checks"].as_array()?;
            let is_there = |part: &String| {
                let check = checks.iter().find(|check| check["name"] == part.as_str());
                check.is_some_and(|check| check["place"]["sequence"].as_u64() >= Some(self.log.end()))
            };
            parts.iter().all(is_there).then_some(())
        };
        while are_there().await.is_none() {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Ensures that a number of targets are parked.
    async fn has_parked(&mut self, count: usize) {
        if self.parked == count {
            return;
        }
        if self.parked > 0 {
            self.retry().await;
        }
        if count > 0 {
            self.park(count).await;
        }
        self.arrive().await;
    }

    /// Parks targets, none of which is parked yet.
    async fn park(&mut self, count: usize) {
        let table = "alter table targets_1.targets";
        let add = format!("{table} add constraint bench check (name <> '{REFUSED}') not valid");
        self.postgres.batch_execute(&add).await.expect("the table is there");
        let ids = ids('8', count);
        for (part, number) in ids.chunks(AT_ONCE).zip(1..) {
            let events = part.iter().map(|id| self.event(id, REFUSED)).collect();
            self.log.put(events, APART * number).await;
        }
        self.parked = count;
        self.are_parked().await;
        self.postgres.batch_execute(&format!("{table} drop constraint bench")).await.expect("it was just made");
    }

    /// Parks targets for good by unreadable events.
    async fn spoil(&mut self, count: usize) {
        let ids = ids('8', count);
        for (part, number) in ids.chunks(AT_ONCE).zip(1..) {
            let events = part.iter().map(|id| Event { payload: "{".into(), ..self.event(id, REFUSED) }).collect();
            self.log.put(events, APART * number).await;
        }
        self.parked = count;
        while self.count_in("targets").await != count || self.count_in("targets_index").await != count {
            sleep(LOOK_SOON).await;
        }
    }

    /// Retries everything that is parked, and waits until nothing is parked.
    async fn retry(&mut self) {
        self.log.put(vec![retried(self.log.end())], SignedDuration::ZERO).await;
        self.parked = 0;
        self.are_parked().await;
    }

    /// Waits until the expected number is parked.
    async fn are_parked(&self) {
        while self.count().await != self.parked {
            sleep(LOOK_SOON).await;
        }
    }

    /// Returns how many are parked.
    async fn count(&self) -> usize {
        self.count_in("targets").await
    }

    async fn count_in(&self, projection: &str) -> usize {
        let text = "select count(*) from platform.failed_events where projection = $1";
        let count: i64 = self.postgres.query_one(text, &[&projection]).await.expect("the table is there").get(0);
        usize::try_from(count).expect("it is a count")
    }

    fn postgres_pid(&self) -> Pid {
        server(&self.cluster.servers.folder(), "postgres").expect("Postgres runs")
    }
}

/// Returns ids of targets of a kind, which is their first digit.
fn ids(kind: char, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{kind}{number:017}")).collect()
}
