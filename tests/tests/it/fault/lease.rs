//! Leases on a real NATS: what a holder may believe that was cut off.

use std::time::Duration;

use async_nats::{
    ConnectOptions,
    jetstream::{self, kv},
};
use eventlog::lease::{Leases, ttl};
use tests::{proxy::Proxy, servers::Servers};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

#[tokio::test]
async fn a_lease_that_another_has_held_meanwhile_is_lost() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(servers.places.nats_url.trim_start_matches("nats://")).await;
    let options = ConnectOptions::with_token(servers.places.nats_token.clone());
    let far = options.connect(format!("nats://{}", proxy.address)).await.expect("NATS is there");
    let far = Leases::open(&jetstream::new(far), "far", 1).await.expect("the bucket is made");
    let near = Leases::open(&jetstream::new(servers.nats().await), "near", 1).await.expect("the bucket is there");

    let lease = far.acquire("work", |_| {}).await.keep();
    assert!(lease.confirm().await);
    proxy.cut();
    // It does its work and is gone before the first one hears of anything.
    near.acquire("work", |_| {}).await.keep().release().await;
    assert!(lease.is_held(), "nobody could tell it");
    proxy.open();
    timeout(Duration::from_secs(30), lease.lost()).await.expect("it hears that there was somebody else");
    assert!(!lease.confirm().await);
}

#[tokio::test]
async fn a_process_of_the_same_name_is_another_holder() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let open = || async { Leases::open(&context, "twin", 1).await.expect("the bucket is there") };
    let (first, second) = (open().await, open().await.alone());
    let lease = first.acquire("work", |_| {}).await.keep();
    // One that is known to be alone need not wait: this is how a standalone platform that was killed comes back.
    let taken = timeout(ttl() / 2, second.acquire("work", |_| {})).await.expect("it takes it over at once");
    timeout(ttl(), lease.lost()).await.expect("the first hears of it with its next renewal");
    assert!(!lease.confirm().await);
    taken.keep().release().await;
}

#[tokio::test]
async fn a_lease_that_the_broker_loses_is_not_taken_while_its_holder_relies_on_it() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let [holder, other] = ["holder", "other"].map(|name| {
        let context = context.clone();
        async move { Leases::open(&context, name, 1).await.expect("the bucket is there") }
    });
    let lease = holder.await.acquire("work", |_| {}).await.keep();
    let (seen, told) = oneshot::channel();
    let mut seen = Some(seen);
    let other = other.await;
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
    let bucket = context.get_stream("KV_LEASES").await.expect("it is there");
    bucket.purge().await.expect("it is emptied");
    lease.lost().await;
    let lost = Instant::now();
    assert!(taking.await.expect("it is taken in the end") >= lost, "nobody else had it before its holder knew");
}

#[tokio::test]
async fn a_bucket_with_other_rules_is_refused() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let forever = kv::Config { bucket: "LEASES".to_owned(), history: 1, ..kv::Config::default() };
    context.create_key_value(forever).await.expect("it is made");
    let refused = Leases::open(&context, "node", 1).await.expect_err("a lease there never ends").to_string();
    assert!(
        refused.contains("KV_LEASES has another maximum age") && refused.contains("remove the stream"),
        "{refused}"
    );
}
