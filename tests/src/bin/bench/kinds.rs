//! Kinds: what a node costs with few kinds of objects and with many, each with rows and a search index of its own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream;
use base::secret;
use domain::{aggregate::Aggregate, log_class::LogClass, resource::organization::Organization, standard::Standard};
use eventlog::{log::Log, record::Event};
use futures::TryStreamExt;
use tests::{
    auditor::connect,
    cluster::{Cluster, Node},
    process::server,
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{cpu, generator::Generator, rebuild::records};

const ADDED: &str = "added";
/// How many kinds there are, in addition to those of the platform.
const COUNTS: [usize; 2] = [10, 100];
/// How many objects there are of all of these kinds together.
const OBJECTS: usize = 20_000;
/// How many events a record has while the log is filled.
const OF_RECORD: usize = 20;
const FIRST_ID: usize = 900_000_000_000_000_000;
/// How long nodes rest before they are measured: the allocator has returned memory by then.
const SETTLED: Duration = Duration::from_secs(25);
/// How long each load is measured.
const MEASURED: Duration = Duration::from_secs(15);
/// Fifty records a second with ten events each.
const PERIOD: Duration = Duration::from_millis(20);
const AT_ONCE: usize = 10;
/// How often a checkpoint is read to see whether it has reached an event.
const PROBE: Duration = Duration::from_millis(2);
/// How long rows may take.
const LONGEST: Duration = Duration::from_mins(1);
/// Every how many records the delay of one is measured.
const SAMPLED: usize = 10;

/// A projector and a query node, alone on a log that the benchmark writes.
struct Nodes {
    cluster: Cluster,
    postgres: Arc<tokio_postgres::Client>,
    projector: Node,
    query: Node,
    generator: Generator,
    template: Event,
    written: usize,
}

/// What the nodes have used at some moment.
struct Used {
    projector: Duration,
    query: Duration,
    nats: Duration,
    postgres: Duration,
    stored: u64,
    synced: u64,
}

/// What is measured, and how much it is.
type Figures = Vec<(String, f64)>;

/// Measures nodes with few kinds, then nodes with many, at rest and while events are written.
pub(crate) async fn measure() {
    let [few, many] = COUNTS;
    let [of_few, of_many] = [measured(few).await, measured(many).await];
    println!(
        "\nkinds: a projector and a query node with {OBJECTS} objects of {few} kinds, or of {many}, beside the kinds of \
         the platform\n{:<60} {few:>9} {many:>9} {:>6}",
        "", "ratio"
    );
    for ((what, few), (_, many)) in of_few.into_iter().zip(of_many) {
        println!("{what:<60} {few:>9.2} {many:>9.2} {:>6.2}", many / few);
    }
}

async fn measured(kinds: usize) -> Figures {
    let mut nodes = Nodes::start(kinds).await;
    let mut figures = nodes.at_rest().await;
    figures.extend(nodes.under_load("written, one kind", 1).await);
    figures.extend(nodes.under_load("written, all kinds in turns", kinds).await);
    figures
}

impl Nodes {
    async fn start(kinds: usize) -> Self {
        let cluster = Cluster::start().await;
        let postgres = Arc::new(connect(&cluster.servers.places.postgres_url).await);
        let log = Log::open(cluster.servers.nats().await, LogClass::Events, 0, 1).await.expect("the log can be opened");
        let events = records(&log).await.into_iter().flat_map(|record| record.events);
        let mut organizations = events
            .map(|stored| stored.event.clone())
            .filter(|event| event.aggregate_type == Standard::<Organization>::NAME && event.r#type.ends_with(ADDED));
        let template = organizations.next().expect("the setup has made one");
        let count = kinds.to_string();
        let environment = [("PLATFORM_SAMPLE_KINDS", count.as_str())];
        let projector = cluster.node("projector", "p", &[], &environment);
        let query = cluster.node("query", "q", &[], &environment);
        let generator = Generator::begin(&log).await;
        let mut nodes = Self { cluster, postgres, projector, query, generator, template, written: 0 };
        nodes.cluster.is_ready(&nodes.projector).await;
        nodes.cluster.is_ready(&nodes.query).await;
        while nodes.written < OBJECTS {
            nodes.write(OF_RECORD, kinds).await;
        }
        let last = nodes.generator.stored().await;
        for kind in 0..kinds {
            wait_for_rows(nodes.postgres.clone(), kind, last).await;
        }
        nodes
    }

    /// Writes a record with new objects of the first of these kinds in turns, and returns the kind of the last one.
    async fn write(&mut self, events: usize, kinds: usize) -> usize {
        let numbers = self.written..self.written + events;
        self.written = numbers.end;
        let events = numbers.map(|number| self.event(number, number % kinds)).collect();
        self.generator.put(events).await;
        (self.written - 1) % kinds
    }

    fn event(&self, number: usize, kind: usize) -> Event {
        let aggregate_type = format!("sample_{kind:02}");
        Event {
            id: secret::random_text(22),
            aggregate_id: (FIRST_ID + number).to_string(),
            r#type: format!("{aggregate_type}.{ADDED}"),
            aggregate_type,
            claims_taken: vec![],
            references_taken: vec![],
            ..self.template.clone()
        }
    }

    async fn used(&self) -> Used {
        let folder = self.cluster.servers.folder();
        let pid = |name| server(&folder, name).expect("it runs");
        let synced = "select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal'";
        Used {
            projector: cpu::of(self.projector.process.pid()),
            query: cpu::of(self.query.process.pid()),
            nats: cpu::of(pid("nats")),
            postgres: cpu::of_family(pid("postgres")),
            stored: self.stored().await,
            synced: self.postgres.query_one(synced, &[]).await.expect("it can be read").get::<_, i64>(0).unsigned_abs(),
        }
    }

    /// Returns how many messages NATS has stored, each with a sync, except those of the log.
    async fn stored(&self) -> u64 {
        let context = jetstream::new(self.cluster.servers.nats().await);
        let streams: Vec<_> = context.streams().try_collect().await.expect("NATS is there");
        let beside = streams.iter().filter(|stream| stream.config.name != "EVENTS_0");
        beside.map(|stream| stream.state.last_sequence).sum()
    }

    async fn at_rest(&mut self) -> Figures {
        sleep(SETTLED).await;
        let (begin, before) = (Instant::now(), self.used().await);
        sleep(MEASURED).await;
        let mut figures = self.used().await.since(&before, "at rest", begin.elapsed());
        let connections = "select count(*)::int from pg_stat_activity where backend_type = 'client backend' \
                           and pid <> pg_backend_pid()";
        let connections: i32 = self.postgres.query_one(connections, &[]).await.expect("it can be read").get(0);
        figures.push(("at rest: connections to Postgres".into(), connections.into()));
        for (name, node) in [("the projector", &self.projector), ("the query node", &self.query)] {
            let pid = node.process.pid();
            figures.push((format!("at rest: threads of {name}"), cpu::threads(pid).into()));
            figures.push((format!("at rest: memory of {name}, MiB"), f64_of(cpu::resident_mib(pid))));
        }
        figures
    }

    /// Writes 500 events a second of the first of these kinds in turns.
    async fn under_load(&mut self, load: &str, kinds: usize) -> Figures {
        let (begin, before) = (Instant::now(), self.used().await);
        let (mut probes, mut ticks, written) = (JoinSet::new(), interval(PERIOD), self.written);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while begin.elapsed() < MEASURED {
            for _ in 1..SAMPLED {
                ticks.tick().await;
                self.write(AT_ONCE, kinds).await;
            }
            ticks.tick().await;
            let (postgres, begin) = (self.postgres.clone(), Instant::now());
            let kind = self.write(AT_ONCE, kinds).await;
            let last = self.generator.stored().await;
            probes.spawn(async move {
                wait_for_rows(postgres, kind, last).await;
                begin.elapsed()
            });
        }
        let written = f64_of((self.written - written) as u64) / begin.elapsed().as_secs_f64();
        let mut figures = self.used().await.since(&before, load, begin.elapsed());
        let mut delays = probes.join_all().await;
        figures.push((format!("{load}: events, a s"), written));
        delays.sort();
        for (what, delay) in [("median", delays[delays.len() / 2]), ("longest", delays[delays.len() - 1])] {
            figures.push((format!("{load}: delay of rows, {what}, ms"), delay.as_secs_f64() * 1000.0));
        }
        figures
    }
}

/// Waits until the rows of a kind are as of a record.
async fn wait_for_rows(postgres: Arc<tokio_postgres::Client>, kind: usize, stream_sequence: u64) {
    let reached = "select 1 from platform.checkpoints where projection = $1 and stream_sequence >= $2";
    let projection = format!("samples_{kind:02}");
    let (wanted, begin) = (i64::try_from(stream_sequence).expect("not so many"), Instant::now());
    while postgres.query_opt(reached, &[&projection, &wanted]).await.expect("it can be read").is_none() {
        assert!(begin.elapsed() < LONGEST, "no rows: was the platform built with `--features platform/kinds`?");
        sleep(PROBE).await;
    }
}

impl Used {
    /// Returns what was used since then, each second.
    fn since(&self, before: &Self, load: &str, elapsed: Duration) -> Figures {
        let ms = |after: Duration, before: Duration| after.saturating_sub(before).as_secs_f64() * 1000.0;
        let each = [
            ("CPU of the projector, ms a s", ms(self.projector, before.projector)),
            ("CPU of the query node, ms a s", ms(self.query, before.query)),
            ("CPU of NATS, ms a s", ms(self.nats, before.nats)),
            ("CPU of Postgres, ms a s", ms(self.postgres, before.postgres)),
            ("messages stored beside the log, a s", f64_of(self.stored - before.stored)),
            ("syncs of Postgres's WAL, a s", f64_of(self.synced - before.synced)),
        ];
        each.map(|(what, used)| (format!("{load}: {what}"), used / elapsed.as_secs_f64())).into()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn f64_of(count: u64) -> f64 {
    count as f64
}
