//! Case 93, and security class S3: an assertion is accepted once, by any node, at any time, whatever is killed
//! meanwhile.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, future::join_all, stream};
use reqwest::StatusCode;
use serde_json::json;
use tests::{
    client::{Answer, Client, SCOPE, done, send},
    cluster::Cluster,
    eventually,
    platform::Platform,
};

use super::{
    shop::API,
    signer::{BEARER, BY_ASSERTION, FAR, Signer},
    token::assert_error,
};

/// How many assertions are sent while a platform is killed, and how many it has accepted by then.
const MANY: usize = 200;
const SOME: usize = 16;
/// The uses of an assertion.
const USES: [&str; 2] = ["to get a token", "to authenticate"];

/// Creates a user with a key, on a platform of the test's own.
async fn signer(admin: &Client, issuer: &str) -> Signer {
    let user = json!({ "username": "robot", "service": {} });
    let user = done(admin, &format!("{API}/users"), user).await.id();
    let wanted = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": FAR });
    Signer::create(admin, issuer, &format!("users/{user}"), wanted).await
}

/// Returns an assertion that is valid longer than the test takes on a slow machine.
fn lasting(signer: &Signer) -> String {
    signer.with(&json!({ "exp": base::clock::now().as_second() + 1800 }))
}

/// A request with an assertion.
fn using(node: &Client, r#use: &str, assertion: &str) -> reqwest::RequestBuilder {
    let form = if r#use == USES[0] {
        vec![("grant_type", BEARER), ("assertion", assertion)]
    } else {
        let by_assertion = [("client_assertion_type", BY_ASSERTION), ("client_assertion", assertion)];
        [&[("grant_type", "client_credentials")], &by_assertion[..]].concat()
    };
    node.anonymous(reqwest::Method::POST, "/oauth/v2/token").form(&[&form[..], &[("scope", SCOPE)]].concat())
}

async fn used(node: &Client, r#use: &str, assertion: &str) -> Answer {
    send(using(node, r#use, assertion)).await
}

/// Fails unless a used assertion is refused at a node.
async fn is_used(case: &str, node: &Client, assertion: &str) {
    assert_error(case, &used(node, USES[0], assertion).await, 400, "invalid_grant");
    assert_error(case, &used(node, USES[1], assertion).await, 401, "invalid_client");
}

#[tokio::test]
async fn of_all_nodes_one_takes_an_assertion_and_none_that_comes_after() {
    let cluster = Cluster::start().await;
    let node = |role: &str, name: &str| cluster.node(role, name, &[], &[]);
    let [_projector, command, mut one, two] =
        [("projector", "p"), ("command", "c"), ("oidc", "one"), ("oidc", "two")].map(|(role, name)| node(role, name));
    cluster.writes(&command).await;
    for node in [&one, &two] {
        cluster.is_ready(node).await;
    }
    let signer = signer(&cluster.client(&command), &cluster.bootstrap.issuer).await;
    let nodes = [&one, &two].map(|node| cluster.client(node));
    let (mut all, mut by) = (vec![], BTreeMap::new());
    for round in 0..10 {
        for r#use in USES {
            let assertion = lasting(&signer);
            let asked = (0..16).map(|number| used(&nodes[(number + round) % 2], r#use, &assertion));
            let answers = join_all(asked).await;
            let taken: Vec<usize> = (0..16).filter(|number| answers[*number].status == StatusCode::OK).collect();
            assert_eq!(taken.len(), 1, "{use}, {round}: {taken:?} of {answers:?}");
            *by.entry((taken[0] + round) % 2).or_insert(0) += 1;
            let error = if r#use == USES[0] { "invalid_grant" } else { "invalid_client" };
            let refused = answers.iter().filter(|answer| answer.body["error"] == error).count();
            assert_eq!(refused, 15, "{use}, {round}: {answers:?}");
            all.push(assertion);
        }
    }
    println!("each node was the first so often: {by:?}");
    one.process.kill().await;
    let three = node("oidc", "three");
    cluster.is_ready(&three).await;
    for assertion in &all {
        for node in [&nodes[1], &cluster.client(&three)] {
            is_used("S3: after one of the nodes has died", node, assertion).await;
        }
    }
    let next = lasting(&signer);
    assert_eq!(used(&cluster.client(&three), USES[0], &next).await.status, StatusCode::OK, "another one is taken");
    is_used("by another node", &nodes[1], &next).await;
}

#[tokio::test]
async fn an_assertion_that_was_used_stays_so_when_the_platform_dies() {
    let mut platform = Platform::start().await;
    let admin = platform.client().await;
    let signer = signer(&admin, &platform.bootstrap.issuer).await;
    let [before, unused] = [lasting(&signer), lasting(&signer)];
    assert_eq!(used(&admin, USES[0], &before).await.status, StatusCode::OK);
    // Some of these are on their way when it dies: nobody knows whether they were taken, but none is twice.
    let during: Vec<String> = (0..MANY).map(|_| lasting(&signer)).collect();
    let count = AtomicUsize::new(0);
    let sending = stream::iter(&during).map(async |assertion| {
        let answer = using(&admin, USES[0], assertion).send().await;
        let is_taken = answer.is_ok_and(|answer| answer.status() == StatusCode::OK);
        count.fetch_add(usize::from(is_taken), Ordering::SeqCst);
        is_taken
    });
    let killing = async {
        eventually("some are taken", async || (count.load(Ordering::SeqCst) >= SOME).then_some(())).await;
        platform.process().kill().await;
    };
    let (taken, ()) = tokio::join!(sending.buffered(8).collect::<Vec<bool>>(), killing);
    platform.restart(&[]).await;

    is_used("S3: used before it died", &admin, &before).await;
    let mut counts = [0; 3];
    for (assertion, was_taken) in during.iter().zip(taken) {
        let again = used(&admin, USES[0], assertion).await;
        let is_taken = again.status == StatusCode::OK;
        assert!(is_taken || again.body["error"] == "invalid_grant", "{}", again.body);
        assert!(!(was_taken && is_taken), "S3: it was taken before it died, and after");
        counts[if was_taken { 0 } else { usize::from(!is_taken) + 1 }] += 1;
        is_used("S3: at the latest by now", &admin, assertion).await;
    }
    let [earlier, later, lost] = counts;
    assert!(earlier >= SOME && later > 0, "it died on the way: {counts:?}");
    println!("{earlier} were taken before it died, {later} after, and {lost} without an answer");
    assert_eq!(used(&admin, USES[0], &unused).await.status, StatusCode::OK, "what nobody has sent is taken");
    is_used("and once", &admin, &unused).await;
}
