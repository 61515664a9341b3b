//! 100,000 commands while nodes are killed, stopped and ended at random: every one that was acknowledged is in the log
//! once, changes of one target have one order, and the read models are what the log says.

use std::{env, time::Duration};

use rustix::process::Signal;
use tests::{
    client::Client,
    cluster::{Cluster, Node},
    contend::{Contention, assert_linearizable},
    eventually,
    load::Load,
};
use tokio::time::{Instant, sleep};

/// How many commands must be acknowledged; `CHAOS_COMMANDS` says otherwise.
const COMMANDS: usize = 100_000;
const NODES: usize = 3;
/// How long the nodes are left alone between two blows.
const PEACE: Duration = Duration::from_secs(8);
/// A run that takes longer has lost its way.
const LIMIT: Duration = Duration::from_mins(20);

struct Fleet {
    cluster: Cluster,
    commands: Vec<Node>,
    projectors: Vec<Node>,
    /// A small generator of its own: a run is told by its seed.
    random: u64,
}

impl Fleet {
    async fn start(seed: u64) -> Self {
        let cluster = Cluster::start().await;
        let mut fleet = Self { cluster, commands: vec![], projectors: vec![], random: seed };
        fleet.projectors = (0..2).map(|number| fleet.projector(number)).collect();
        fleet.commands.push(fleet.command(0, None));
        fleet.cluster.writes(&fleet.commands[0]).await;
        fleet.commands.extend((1..NODES).map(|number| fleet.command(number, None)).collect::<Vec<_>>());
        fleet
    }

    /// A command node; one that takes another's place listens where that one did.
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

    async fn blow(&mut self) -> &'static str {
        let number = self.below(NODES);
        match self.below(5) {
            0 | 1 => {
                self.commands[number].process.kill().await;
                self.commands[number] = self.command(number, Some(&self.commands[number]));
                "a command node was killed"
            }
            2 => {
                self.commands[number].process.signal(Signal::STOP);
                sleep(Duration::from_secs(6)).await;
                self.commands[number].process.signal(Signal::CONT);
                "a command node stood still for 6 s"
            }
            3 => {
                self.commands[number].process.end().await;
                self.commands[number] = self.command(number, Some(&self.commands[number]));
                "a command node was ended"
            }
            _ => {
                let number = self.below(2);
                self.projectors[number].process.kill().await;
                self.projectors[number] = self.projector(number);
                "a projector was killed"
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_while_nodes_die() {
    let wanted = env::var("CHAOS_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(COMMANDS);
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
    let load = Load::start(&clients, 64, "load");
    let contention = Contention::start(&clients, contended, 16);

    let begin = Instant::now();
    let mut last = 0;
    while load.acknowledged() + contention.done() < wanted {
        assert!(begin.elapsed() < LIMIT, "{} commands in {LIMIT:?}", load.acknowledged() + contention.done());
        sleep(PEACE).await;
        let blow = fleet.blow().await;
        let now = load.acknowledged() + contention.done();
        println!("{:>6.1?} {now:>7} commands, {blow}", begin.elapsed());
        // Whatever it was, it goes on.
        eventually("further commands", || async { (load.acknowledged() + contention.done() > last).then_some(()) })
            .await;
        last = now;
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
