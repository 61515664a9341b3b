//! An exchanged token ends with the key of the token it was exchanged for.

use std::time::Duration;

use jsonwebtoken::decode_header;
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Client, done, send},
    clock::Clock,
    eventually,
    platform::Platform,
};

use super::{
    super::{
        flow::{Flow, access_token},
        rotation::{KEYS, ids, key_set},
    },
    ACCESS, ID, JWT, enable, exchanged, exchanging, id_token, introspect, is_over,
};

fn key_of(token: &str) -> String {
    decode_header(token).expect("it is a token").kid.expect("it names its key")
}

/// Replaces the signing keys by new ones that sign after ten minutes.
async fn replace_keys(admin: &Client) {
    for kind in ["ecdsa", "rsa"] {
        let next = done(admin, KEYS, json!({ kind: {} })).await.id();
        eventually("it is published", async || ids(&key_set(admin).await).contains(&next).then_some(())).await;
        let activated = send(admin.request(Method::POST, &format!("{KEYS}/{next}/_activate"))).await;
        assert_eq!(activated.status, 200, "{}", activated.body);
    }
}

#[tokio::test]
async fn what_is_got_for_a_token_ends_with_the_key_of_that() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    enable(&admin).await;
    let flow = Flow::on((), admin, exchanging()).await;
    let (tokens, _) = flow.tokens(&[]).await;
    let (access, id) = (access_token(&tokens), id_token(&tokens));
    let keys = [key_of(access), key_of(id)];
    replace_keys(&flow.admin).await;
    clock.set_ahead(Duration::from_mins(10));
    let by_another_key = async || {
        let got = exchanged(&flow, (access, ACCESS), &[("requested_token_type", JWT)]).await;
        (!keys.contains(&key_of(access_token(&got)))).then_some(got)
    };
    let by_access = eventually("another key that signs", by_another_key).await;
    let by_that = exchanged(&flow, (access_token(&by_access), ACCESS), &[]).await;
    let by_id = exchanged(&flow, (id, ID), &[("requested_token_type", JWT)]).await;
    for got in [&by_access, &by_id] {
        assert!(!keys.contains(&key_of(access_token(got))), "another key signs: {got}");
    }
    let [first, second, third] = [&by_access, &by_that, &by_id].map(access_token);
    clock.set_ahead(Duration::from_mins(11));
    let admin = platform.client().await;
    for (key, over, there) in [(&keys[0], vec![first, second], vec![third]), (&keys[1], vec![third], vec![])] {
        for token in over.iter().chain(&there) {
            assert_eq!(introspect(&flow, token).await["active"], true, "{token}");
        }
        let deleted = send(admin.request(Method::DELETE, &format!("{KEYS}/{key}"))).await;
        assert_eq!(deleted.status, 200, "{}", deleted.body);
        for token in over {
            is_over(&flow, "its key is deleted", token).await;
        }
        for token in there {
            assert_eq!(introspect(&flow, token).await["active"], true, "it stands on another key");
        }
    }
}
