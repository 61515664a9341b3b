//! Passwords: the cost of a check in comparison with bare argon2id of the same cost, and how long other requests wait
//! meanwhile.

use std::{hint::black_box, time::Duration};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, done, send},
    platform::Platform,
};
use tokio::time::sleep;

use crate::{cpu, load};

const USERS: &str = "/resources/v3alpha/users";
const ROUNDS: usize = 9;
const SECONDS: u64 = 2;
/// How many clients check passwords.
const CLIENTS: usize = 16;
/// How many bare hashes make a round.
const BARE: u32 = 50;
const SALT: &[u8; 16] = b"a salt of bytes.";
/// The cost of a new hash: memory in KiB, and passes.
const COST: (u32, u32) = (19_456, 2);

/// Measures both.
pub(crate) async fn measure(platform: &mut Platform) {
    platform.ready().await;
    let (client, pid) = (platform.client().await, platform.process().pid());
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let person = json!({ "username": "ada", "human": { "data": data, "password": { "hash": imported() } } });
    let path = format!("{USERS}/{}/password", done(&client, USERS, person).await.id());
    let wrong = json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": "not-the-password" });
    let refused = send(client.request(Method::POST, &path).json(&wrong)).await;
    assert!(refused.body.to_string().contains("currentPassword"), "it is checked: {}", refused.body);
    let check = {
        let (client, path, wrong) = (client.clone(), path.clone(), wrong.clone());
        move |_| answers(client.clone(), Method::POST, path.clone(), Some(wrong.clone()), 400)
    };

    println!("\npasswords: argon2id with 19 MiB and two passes, {CLIENTS} clients, {ROUNDS} rounds in turns");
    println!("{:<36} {:>7} {:>8} {:>12} {:>7}", "", "per s", "ms CPU", "bare ms CPU", "ratio");
    let mut rounds = vec![];
    for _ in 0..ROUNDS {
        let before = cpu::of(pid);
        let outcome = load::run(CLIENTS, SECONDS, check.clone()).await;
        assert_eq!(outcome.failed, 0, "checks fail under load");
        let own = outcome.ms_each(cpu::of(pid).saturating_sub(before));
        let bare = tokio::task::spawn_blocking(bare).await.expect("it does not panic");
        rounds.push((own / bare, own, bare, outcome.rate()));
    }
    rounds.sort_by(|one, other| f64::total_cmp(&one.0, &other.0));
    let (ratio, own, bare, rate) = rounds[ROUNDS / 2];
    println!("{:<36} {rate:>7.1} {own:>8.2} {bare:>12.2} {ratio:>7.2}", "a wrong password is refused");
    println!("(to reach: 1.15)");

    println!("{:<36} {:>7} {:>8} {:>12}", "a target is read by one client", "per s", "ms p50", "ms p99");
    let target = client.create_target("read meanwhile").await.expect("it is created");
    let read = |client: Client| {
        let path = format!("{TARGETS}/{target}");
        load::run(1, SECONDS, move |_| answers(client.clone(), Method::GET, path.clone(), None, 200))
    };
    let alone = read(client.reconnected()).await;
    let checks = tokio::spawn(load::run(CLIENTS, SECONDS + 2, check));
    sleep(Duration::from_secs(1)).await;
    let beside = read(client.reconnected()).await;
    checks.await.expect("it does not panic");
    for (name, outcome) in [("alone", alone), ("while passwords are checked", beside)] {
        let ms = |percent| outcome.latency(percent).as_secs_f64() * 1000.0;
        println!("{name:<36} {:>7.0} {:>8.2} {:>12.2}", outcome.rate(), ms(50), ms(99));
    }
}

/// Whether a request is answered with a status.
async fn answers(client: Client, method: Method, path: String, body: Option<serde_json::Value>, status: u16) -> bool {
    let request = client.request(method, &path);
    let Ok(answer) = body.iter().fold(request, RequestBuilder::json).send().await else { return false };
    answer.status() == status && answer.bytes().await.is_ok()
}

/// Returns the hash that the person is imported with.
pub(crate) fn imported() -> String {
    let ((memory, passes), hash) = (COST, hash(b"the password of ada"));
    format!(
        "$argon2id$v=19$m={memory},t={passes},p=1${}${}",
        STANDARD_NO_PAD.encode(SALT),
        STANDARD_NO_PAD.encode(hash)
    )
}

/// Returns the time of bare argon2id, in milliseconds of a processor.
fn bare() -> f64 {
    let before = cpu::of_thread();
    for _ in 0..BARE {
        black_box(hash(black_box(b"not-the-password")));
    }
    cpu::of_thread().saturating_sub(before).as_secs_f64() * 1000.0 / f64::from(BARE)
}

fn hash(password: &[u8]) -> [u8; 32] {
    let params = Params::new(COST.0, COST.1, 1, Some(32)).expect("they are in range");
    let mut hash = [0; 32];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(password, SALT, &mut hash).expect("it hashes");
    hash
}
