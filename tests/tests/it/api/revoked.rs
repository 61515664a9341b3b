//! A right that was revoked at some place in the log is refused for every command after it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, done, send, service_user, target},
    eventually,
    tenant::Tenant,
};

const ROUNDS: usize = 5;
const WRITERS: usize = 8;

/// Creates targets one after another until that is refused, counts them, and returns the sequence of the last.
async fn write(client: Client, written: Arc<AtomicUsize>) -> u64 {
    let mut last = 0;
    loop {
        let answer = send(client.request(Method::POST, TARGETS).json(&target("racing"))).await;
        match answer.status {
            StatusCode::CREATED => {
                last = answer.sequence();
                written.fetch_add(1, Ordering::Relaxed);
            }
            StatusCode::FORBIDDEN => return last,
            _ => panic!("{answer:?}"),
        }
    }
}

#[tokio::test]
async fn nothing_is_written_behind_the_end_of_a_right() {
    let tenant = Tenant::start().await;
    tenant.ready().await;
    let admin = tenant.client().await;
    let user = service_user(&admin, ("racer", json!({})), "").await;
    let (id, racer) = (&user.user_id, Client::log_in(&tenant.bootstrap.issuer, &user).await);
    for round in 0..ROUNDS {
        let membership =
            done(&admin, "/resources/v3alpha/memberships", json!({ "userId": id, "roles": ["IAM_OWNER"] })).await.id();
        eventually("the right is known", async || racer.create_target("first").await).await;
        let written = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(write(racer.clone(), written.clone()))).collect();
        eventually("they write", async || (written.load(Ordering::Relaxed) >= 2 * WRITERS).then_some(())).await;
        let path = format!("/resources/v3alpha/memberships/{membership}");
        let revoked = send(admin.request(Method::DELETE, &path)).await;
        let revoked = revoked.sequence();
        for writer in writers {
            let last = writer.await.expect("it does not panic");
            assert!(last < revoked, "round {round}: written at {last}, behind the end of the right at {revoked}");
        }
    }
}
