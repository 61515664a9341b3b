//! Leases on a real NATS server: the beliefs of a holder that is cut off, paused, or delayed.

use std::{thread, time::Duration};

use async_nats::{
    ConnectOptions,
    jetstream::{self, kv, stream},
};
use base::clock::since_start;
use eventlog::lease::{Lease, Leases, holders, ttl};
use tests::{eventually, proxy::Proxy, servers::Servers};
use tokio::{
    sync::oneshot,
    time::{Instant, interval, timeout},
};

/// Opens the leases of a process that connects to NATS at this address.
async fn leases_at(servers: &Servers, address: &str, name: &str) -> Leases {
    let (token, url) = (servers.places.nats_token.clone(), format!("nats://{address}"));
    let connect = move || {
        let (options, url) = (ConnectOptions::with_token(token.clone()), url.clone());
        async move { options.connect(url).await.ok() }
    };
    let context = jetstream::new(connect().await.expect("NATS is there"));
    Leases::open(&context, "test", name, 1, Box::new(move || Box::pin(connect()))).await.expect("the bucket is there")
}

async fn leases(servers: &Servers, name: &str) -> Leases {
    leases_at(servers, servers.places.nats_url.trim_start_matches("nats://"), name).await
}

async fn take(leases: &Leases, unit: &str) -> Lease {
    leases.acquire(unit, |_| {}).await
}

#[tokio::test]
async fn a_lease_that_another_has_held_meanwhile_is_lost() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(servers.places.nats_url.trim_start_matches("nats://")).await;
    let far = leases_at(&servers, &proxy.address, "far").await;
    let near = leases(&servers, "near").await;

    let lease = take(&far, "work").await;
    assert!(lease.confirm().await);
    proxy.cut();
    // It does its work and is gone before the first one hears of anything.
    let begin = Instant::now();
    take(&near, "work").await.release().await;
    assert!(begin.elapsed() > ttl() * 4 / 7, "not before the first may not rely on it any more");
    assert!(lease.is_held(), "nobody could tell it");
    proxy.open();
    timeout(Duration::from_secs(30), lease.lost()).await.expect("it hears that there was somebody else");
    assert!(!lease.confirm().await);
    drop(lease);
    take(&far, "work").await;
}

#[tokio::test]
async fn a_process_of_the_same_name_is_another_holder() {
    let servers = Servers::start().await;
    let (first, second) = (leases(&servers, "twin").await, leases(&servers, "twin").await.alone());
    let lease = take(&first, "work").await;
    // One that is known to be alone need not wait: this is how a standalone platform that was killed comes back.
    let taken = timeout(ttl() / 2, take(&second, "work")).await.expect("it takes it over at once");
    timeout(ttl(), lease.lost()).await.expect("the first hears of it with its next renewal");
    assert!(!lease.confirm().await);
    assert!(taken.confirm().await);
    taken.release().await;
}

#[tokio::test]
async fn a_lease_that_the_broker_loses_is_not_taken_while_its_holder_relies_on_it() {
    let servers = Servers::start().await;
    let (holder, other) = (leases(&servers, "holder").await, leases(&servers, "other").await);
    let lease = take(&holder, "work").await;
    let (seen, told) = oneshot::channel();
    let mut seen = Some(seen);
    let taking = tokio::spawn(async move {
        let held_by = |_: &str| {
            if let Some(seen) = seen.take() {
                let _ = seen.send(());
            }
        };
        other.acquire("work", held_by).await;
        Instant::now()
    });
    told.await.expect("the other sees that it is held");
    // As when the broker's clock jumps: it is gone, and nobody gave it up.
    let bucket = jetstream::new(servers.nats().await).get_stream("KV_HOLDERS").await.expect("it is there");
    bucket.purge().await.expect("it is emptied");
    lease.lost().await;
    let lost = Instant::now();
    assert!(taking.await.expect("it is taken in the end") >= lost, "nobody else had it before its holder knew");
}

#[tokio::test]
async fn what_a_process_holds_is_lost_together_and_can_be_taken_again() {
    let servers = Servers::start().await;
    let leases = leases(&servers, "node").await;
    let held = [take(&leases, "projection.a").await, take(&leases, "projection.b").await];
    let context = jetstream::new(servers.nats().await);
    let names =
        |held: Vec<(String, String)>| held.into_iter().map(|(unit, name)| unit + " " + &name).collect::<Vec<_>>();
    let both = ["projection.a node", "projection.b node"];
    assert_eq!(names(holders(&context).await.expect("NATS is there")), both);
    let bucket = context.get_stream("KV_HOLDERS").await.expect("it is there");
    bucket.purge().filter("$KV.HOLDERS.process.>").await.expect("it is emptied");
    for lease in held {
        timeout(ttl(), lease.lost()).await.expect("it hears with its next renewal");
        lease.release().await;
    }
    assert_eq!(
        names(holders(&context).await.expect("NATS is there")),
        Vec::<String>::new(),
        "the entries say otherwise"
    );
    let _held = [take(&leases, "projection.a").await, take(&leases, "projection.b").await];
    assert_eq!(names(holders(&context).await.expect("NATS is there")), both);
}

#[tokio::test]
async fn writes_at_rest_do_not_grow_with_what_is_held() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let written = || async {
        let bucket = context.get_stream("KV_HOLDERS").await.expect("it is there");
        bucket.cached_info().state.last_sequence
    };
    let leases = leases(&servers, "node").await;
    let mut held = vec![];
    for units in [1, 40] {
        while held.len() < units {
            held.push(take(&leases, &format!("projection.{}", held.len())).await);
        }
        let (begin, until) = (written().await, since_start() + ttl() * 2);
        let mut beat = interval(ttl() / 8);
        while since_start() < until {
            beat.tick().await;
            held.iter().for_each(Lease::tick);
        }
        let renewals = written().await - begin;
        println!("{units} units: {renewals} writes in {:?}", ttl() * 2);
        // One every two sevenths of what a lease lasts.
        assert!((3..=8).contains(&renewals), "{units} units: {renewals} writes");
    }
    for lease in &held {
        assert!(lease.confirm().await);
    }
}

#[tokio::test]
async fn who_holds_nothing_writes_nothing() {
    let servers = Servers::start().await;
    let (holder, standby) = (leases(&servers, "holder").await, leases(&servers, "standby").await);
    let _lease = take(&holder, "work").await;
    let waiting = timeout(ttl(), take(&standby, "work")).await;
    assert!(waiting.is_err(), "it is held");
    let bucket = jetstream::new(servers.nats().await).get_stream("KV_HOLDERS").await.expect("it is there");
    let processes = bucket.info_with_subjects("$KV.HOLDERS.process.>").await.expect("it is there");
    assert_eq!(futures::StreamExt::count(processes).await, 1, "only the holder has an entry");
}

#[tokio::test]
async fn requests_that_block_their_threads_do_not_hold_up_a_renewal() {
    let servers = Servers::start().await;
    let other = leases(&servers, "other").await;
    let leases = leases(&servers, "busy").await;
    let lease = take(&leases, "work").await;
    // All that runs here stands still, and the connection that others use with it.
    thread::sleep(ttl() * 2);
    lease.tick();
    assert!(lease.is_held());
    assert!(timeout(Duration::ZERO, lease.confirm()).await.expect("it need not wait"), "it was renewed meanwhile");
    assert!(timeout(ttl() * 2, take(&other, "work")).await.is_err(), "and goes on to be");
}

#[tokio::test]
async fn a_unit_without_a_sign_of_life_is_left_to_others_and_its_process_goes_on() {
    let servers = Servers::start().await;
    let (first, other) = (leases(&servers, "first").await, leases(&servers, "other").await);
    let (silent, alive) = (take(&first, "projection.silent").await, take(&first, "projection.alive").await);
    let ticking = alive.during(async {
        let taken = timeout(Duration::from_secs(30), take(&other, "projection.silent")).await;
        assert!(!silent.is_held() && !silent.confirm().await, "its holder knows");
        taken.expect("the other takes it")
    });
    let taken = ticking.await;
    assert!(alive.confirm().await && taken.confirm().await);
    silent.release().await;
    assert!(taken.confirm().await, "it was no longer the first one's to give up");
}

#[tokio::test]
async fn what_an_earlier_version_holds_is_waited_for() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let earlier = kv::Config { bucket: "LEASES".to_owned(), history: 1, ..kv::Config::default() };
    let earlier = context.create_key_value(earlier).await.expect("it is made");
    earlier.put("work", "old\n0123456789abcdef".into()).await.expect("NATS is there");
    let leases = leases(&servers, "new").await;
    let mut seen = None;
    let taking = leases.acquire("work", |name| seen = Some(name.to_owned()));
    assert!(timeout(ttl(), taking).await.is_err(), "it is held");
    assert_eq!(seen.as_deref(), Some("old"));
    assert_eq!(holders(&context).await.expect("NATS is there"), [("work".to_owned(), "old".to_owned())]);
    earlier.delete("work").await.expect("NATS is there");
    take(&leases, "work").await;
}

#[tokio::test]
async fn an_entry_of_a_process_that_is_gone_ends_by_itself() {
    let servers = Servers::start().await;
    let bucket = jetstream::new(servers.nats().await);
    let leases = leases(&servers, "node").await;
    take(&leases, "work").await.release().await;
    drop(leases);
    eventually("nothing is left of the process", || async {
        let bucket = bucket.get_stream("KV_HOLDERS").await.ok()?;
        (bucket.cached_info().state.messages == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_bucket_with_other_rules_is_refused() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let forever = stream::Config {
        name: "KV_HOLDERS".to_owned(),
        subjects: vec!["$KV.HOLDERS.>".to_owned()],
        max_messages_per_subject: 1,
        ..stream::Config::default()
    };
    context.create_stream(forever).await.expect("it is made");
    let refused = Leases::open(&context, "test", "node", 1, Box::new(|| Box::pin(async { None }))).await;
    let refused = refused.expect_err("the lease of a process there never ends").to_string();
    assert!(
        refused.contains("KV_HOLDERS has no end of single values") && refused.contains("remove the stream"),
        "{refused}"
    );
}
