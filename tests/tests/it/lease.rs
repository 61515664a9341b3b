//! Leases on a real NATS: what a holder may believe that was cut off.

use std::time::Duration;

use async_nats::{ConnectOptions, jetstream};
use store::lease::Leases;
use tests::{proxy::Proxy, servers::Servers};
use tokio::time::timeout;

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
