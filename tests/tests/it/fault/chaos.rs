//! Nodes are killed, stopped and ended in any order under load: every command that was acknowledged is in the log once,
//! changes of one target have one order, and the read models match the log.

use std::time::Duration;

use base::fault::shortened;
use rustix::process::Signal;
use tests::{
    client::Client,
    cluster::{Cluster, Node},
    contend::{Contention, assert_linearizable},
    eventually,
    load::Load,
};
use tokio::time::{Instant, sleep};

const NODES: usize = 3;
/// How long the nodes are left alone between two faults.
const PEACE: Duration = Duration::from_secs(2);
/// The longest duration of a run.
const LIMIT: Duration = Duration::from_mins(20);
/// How often each fault happens, in an order that the seed determines.
const TIMES: usize = 2;
const BLOWS: [Blow; 4] = [Blow::KillsCommand, Blow::StopsCommand, Blow::EndsCommand, Blow::KillsProjector];

/// A fault of a node.
#[derive(Debug, Clone, Copy)]
enum Blow {
    KillsCommand,
    StopsCommand,
    EndsCommand,
    KillsProjector,
}

struct Fleet {
    cluster: Cluster,
    commands: Vec<Node>,
    projectors: Vec<Node>,
    /// The state of a small random generator, so that a run is determined by its seed.
    random: u64,
}

impl Fleet {
    async fn start(seed: u64) -> Self {
        let cluster = Cluster::start_with_short_leases().await;
        let mut fleet = Self { cluster, commands: vec![], projectors: vec![], random: seed };
        fleet.projectors = (0..2).map(|number| fleet.projector(number)).collect();
        fleet.commands.push(fleet.command(0, None));
        fleet.cluster.writes(&fleet.commands[0]).await;
        fleet.commands.extend((1..NODES).map(|number| fleet.command(number, None)).collect::<Vec<_>>());
        fleet
    }

    /// Starts a command node; a replacement listens at the address of the former node.
    fn command(&self, number: usize, place: Option<&Node>) -> Node {
        let own = number.to_string();
        let listen = place.map(|node| node.url.trim_start_matches("http://").to_owned());
        let mut flags = vec![("--node-number", own.as_str())];
        flags.extend(listen.as_deref().map(|listen| ("--listen", listen)));
        let mut node = self.cluster.node("command", &format!("command-{number}"), &flags, &[]);
        if let Some(place) = place {
            node.url.clone_from(&place.url);
        }
        node
    }

    fn projector(&self, number: usize) -> Node {
        self.cluster.node("projector", &format!("projector-{number}"), &[], &[])
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap_or_default() % bound
    }

    /// Returns the next fault: all faults in a random order, and then again.
    fn next(&mut self, left: &mut Vec<Blow>) -> Blow {
        if left.is_empty() {
            left.extend(BLOWS);
        }
        left.swap_remove(self.below(left.len()))
    }

    async fn fall(&mut self, blow: Blow) {
        let number = self.below(NODES);
        match blow {
            Blow::KillsCommand => {
                self.commands[number].process.kill().await;
                self.commands[number] = self.command(number, Some(&self.commands[number]));
            }
            Blow::StopsCommand => {
                self.commands[number].process.signal(Signal::STOP);
                // Longer than its lease lasts.
                sleep(shortened(Duration::from_secs(6), Duration::from_secs(3))).await;
                self.commands[number].process.signal(Signal::CONT);
            }
            Blow::EndsCommand => {
                self.commands[number].process.end().await;
                self.commands[number] = self.command(number, Some(&self.commands[number]));
            }
            Blow::KillsProjector => {
                let number = number % self.projectors.len();
                self.projectors[number].process.kill().await;
                self.projectors[number] = self.projector(number);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_while_nodes_die() {
    // How many commands must be acknowledged at least: `make soak` asks for many.
    let wanted = tests::how_many("CHAOS_COMMANDS", 0);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut fleet = Fleet::start(seed).await;
    let clients: Vec<Client> = fleet.commands.iter().map(|node| fleet.cluster.client(node)).collect();
    let mut contended = vec![];
    for number in 0..8 {
        let id = clients[0].create_target(&format!("contended {number}")).await.expect("it is created");
        let at = fleet.cluster.audit().await.events_of(&id)[0].sequence;
        contended.push((id, at));
    }
    let load = Load::start(&clients, 24, "load");
    let contention = Contention::start(&clients, contended, 12);
    let done = || load.acknowledged() + contention.done();

    let begin = Instant::now();
    let (mut left, mut fallen) = (vec![], 0);
    while done() < wanted || fallen < TIMES * BLOWS.len() {
        assert!(begin.elapsed() < LIMIT, "{} commands in {LIMIT:?}", done());
        sleep(PEACE).await;
        let blow = fleet.next(&mut left);
        fleet.fall(blow).await;
        fallen += 1;
        let by_now = done();
        println!("{:>6.1?} {by_now:>7} commands, {blow:?}", begin.elapsed());
        // Whatever it was, it goes on.
        eventually("further commands", || async { (done() > by_now).then_some(()) }).await;
    }
    let mut told = load.finish().await;
    let operations = contention.finish().await;
    println!("{} creates and {} changes; not served: {:?}", told.acknowledged.len(), operations.len(), told.refused);
    told.attempted.extend((0..8).map(|number| format!("contended {number}")));

    let audit = fleet.cluster.audit().await;
    let epochs = audit.records.last().map(|record| record.commit.epoch);
    println!("{} records, {} events, {epochs:?} epochs", audit.records.len(), audit.events.len());
    audit.assert_told(&told);
    assert_linearizable(&operations, &audit);
    audit.assert_projected(&fleet.cluster.servers.places.postgres_url).await;
}
