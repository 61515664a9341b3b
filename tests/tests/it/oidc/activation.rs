//! Web keys that are activated at once, and tokens while one key follows another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, decode_header, jwk::JwkSet};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, created, done, post, send},
    clock::Clock,
    eventually,
    platform::Platform,
};

use super::{
    rotation::{A_MONTH, KEYS, ids, key_set, verified},
    shop::API,
    signer::{FAR, Signer, exchanged},
};

/// How long a key is published before it signs tokens.
const PUBLISHED_FOR: Duration = Duration::from_mins(10);
const A_MINUTE: Duration = Duration::from_mins(1);

/// A platform whose clock is set ahead, and a user who requests tokens by assertions.
struct World {
    clock: Clock,
    platform: Platform,
    admin: Client,
    signer: Signer,
}

impl World {
    async fn start() -> Self {
        let clock = Clock::new();
        let platform = Platform::start_with(&[], &[clock.environment()]).await;
        let admin = platform.client().await;
        let user = json!({ "username": "robot", "service": {} });
        let user = done(&admin, &format!("{API}/users"), user).await.id();
        let wanted = json!({ "keyType": "KEY_TYPE_EC", "expirationDate": FAR });
        let signer = Signer::create(&admin, &platform.bootstrap.issuer, &format!("users/{user}"), wanted).await;
        Self { clock, platform, admin, signer }
    }

    /// Requests an access token and an ID token, while the clock is ahead by this time or is about to be.
    async fn tokens(&self, ahead: Duration) -> [String; 2] {
        let ahead = i64::try_from(ahead.as_secs()).expect("it is not for ever");
        let end = base::clock::now().as_second() + ahead + 1800;
        let answer = exchanged(&self.platform, &self.signer.with(&json!({ "iat": null, "exp": end }))).await;
        let token = |name: &str| answer.body[name].as_str().unwrap_or_else(|| panic!("{name}: {}", answer.body));
        ["access_token", "id_token"].map(|name| token(name).to_owned())
    }

    /// Does some work, and returns the tokens that are issued meanwhile, and the result.
    async fn during<T>(&self, ahead: Duration, work: impl Future<Output = T>) -> (Vec<String>, T) {
        let is_done = AtomicBool::new(false);
        let issuing = async {
            let mut all = vec![];
            while !is_done.load(Ordering::SeqCst) {
                all.extend(self.tokens(ahead).await);
            }
            all
        };
        let working = async {
            let done = work.await;
            is_done.store(true, Ordering::SeqCst);
            done
        };
        tokio::join!(issuing, working)
    }

    /// Creates keys, and returns their ids, and a key set with all of them.
    async fn publish(&self, wanted: Vec<Value>) -> (Vec<String>, JwkSet) {
        let made = join_all(wanted.into_iter().map(|wanted| created(&self.admin, KEYS, wanted))).await;
        let made: Vec<String> = made.iter().map(Answer::id).collect();
        let published = async || {
            let keys = key_set(&self.admin).await;
            made.iter().all(|id| ids(&keys).contains(id)).then_some(keys)
        };
        let keys = eventually("all are published", published).await;
        (made, keys)
    }

    /// Returns all keys from the API.
    async fn keys(&self) -> Vec<Value> {
        let found = post(&self.admin, &format!("{KEYS}/_search"), json!([])).await;
        found.body["result"].as_array().unwrap_or_else(|| panic!("there are keys: {}", found.body)).clone()
    }
}

fn id(key: &Value) -> &str {
    key["details"]["id"].as_str().expect("it has an id")
}

fn time(key: &Value, name: &str) -> Option<Timestamp> {
    key[name].as_str().map(|time| time.parse().expect("it is a time"))
}

/// Returns the ids of the active keys of an algorithm.
fn active<'a>(keys: &'a [Value], algorithm: &str) -> Vec<&'a str> {
    let active = |key: &&Value| key["state"] == "WEB_KEY_STATE_ACTIVE" && key["algorithm"] == algorithm;
    keys.iter().filter(active).map(id).collect()
}

/// Verifies tokens by the key set, and returns the ids of the keys that have signed them, by algorithm.
fn signed(tokens: &[String], keys: &JwkSet) -> BTreeMap<String, BTreeSet<String>> {
    let mut signed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for token in tokens {
        let algorithm = format!("{:?}", decode_header(token).expect("it is a token").alg);
        signed.entry(algorithm).or_default().insert(verified(token, keys).0);
    }
    signed
}

/// Checks that the keys of an algorithm follow each other without gaps, and returns the id of the last.
fn assert_chain(keys: &[Value], algorithm: &str, count: usize) -> String {
    let mut chain: Vec<&Value> =
        keys.iter().filter(|key| key["algorithm"] == algorithm && key["signsFrom"].is_string()).collect();
    chain.sort_by_key(|key| time(key, "signsFrom"));
    assert_eq!(chain.len(), count, "{algorithm}: {chain:?}");
    for pair in chain.windows(2) {
        let (ends, begins) = (time(pair[0], "signsUntil"), time(pair[1], "signsFrom"));
        assert_eq!(ends, begins, "{algorithm}: one follows the other: {pair:?}");
        assert!(time(pair[0], "signsFrom") < begins, "{algorithm}: {pair:?}");
    }
    let last = chain.last().expect("there is one");
    assert_eq!(time(last, "signsUntil"), None, "{algorithm}: the last goes on");
    id(last).to_owned()
}

/// 148
#[tokio::test]
async fn of_keys_that_are_activated_at_once_one_signs_at_every_time() {
    let world = World::start().await;
    // Of the third algorithm there is no key yet.
    let kinds = [
        ("ES256", json!({ "ecdsa": {} }), 6, 1),
        ("RS256", json!({ "rsa": {} }), 4, 1),
        ("EdDSA", json!({ "ed25519": {} }), 6, 0),
    ];
    let wanted = kinds.iter().flat_map(|(_, wanted, count, _)| vec![wanted.clone(); *count]);
    let (made, cached) = world.publish(wanted.collect()).await;
    let before = world.keys().await;

    let activate = async |id: &String| {
        let request = world.admin.request(Method::POST, &format!("{KEYS}/{id}/_activate"));
        send(request.header("prefer", "wait=10")).await
    };
    let (issued, answers) = world.during(Duration::ZERO, join_all(made.iter().map(activate))).await;
    for answer in &answers {
        assert_eq!((answer.status, answer.body["signsFrom"].is_string()), (StatusCode::OK, true), "{}", answer.body);
    }
    let keys = world.keys().await;
    let mut last = BTreeMap::new();
    for (algorithm, _, count, there) in &kinds {
        last.insert(*algorithm, assert_chain(&keys, algorithm, count + there));
        assert_eq!(active(&keys, algorithm).len(), 1, "{algorithm}: {keys:?}");
        if *there == 1 {
            assert_eq!(active(&keys, algorithm), active(&before, algorithm), "none signs that is not in all caches");
        }
    }
    let signed_before = signed(&issued, &cached);
    for algorithm in ["ES256", "RS256"] {
        let old = active(&before, algorithm).into_iter().map(str::to_owned).collect();
        assert_eq!(signed_before[algorithm], old, "{algorithm}: of {} tokens", issued.len());
    }

    // Who has cached the key set since then knows whatever comes.
    let ahead = PUBLISHED_FOR + A_MINUTE;
    let switched = async {
        world.clock.set_ahead(ahead);
        eventually("the last ones sign", async || {
            let [access, id] = world.tokens(ahead).await.map(|token| verified(&token, &cached).0);
            (access == last["ES256"] && id == last["RS256"]).then_some(())
        })
        .await;
    };
    let (issued, ()) = world.during(ahead, switched).await;
    assert!(signed(&issued, &cached)["ES256"].is_subset(&ids(&cached)));
    let keys = world.keys().await;
    for (algorithm, ..) in &kinds {
        assert_eq!(active(&keys, algorithm), [last[algorithm].as_str()], "{algorithm}: {keys:?}");
    }
    let after = signed(&world.tokens(ahead).await, &key_set(&world.admin).await);
    for algorithm in ["ES256", "RS256"] {
        assert_eq!(after[algorithm], BTreeSet::from([last[algorithm].clone()]), "{algorithm}");
    }
}

/// 148: so do ID tokens, which are signed by another algorithm than access tokens.
#[tokio::test]
async fn id_tokens_verify_while_keys_follow_each_other() {
    let world = World::start().await;
    let id_token = async |ahead| {
        let [_, token] = world.tokens(ahead).await;
        assert_eq!(decode_header(&token).expect("it is a token").alg, Algorithm::RS256);
        token
    };
    let first = key_set(&world.admin).await;
    let kept = id_token(Duration::ZERO).await;
    let (old, claims) = verified(&kept, &first);
    assert_eq!(claims["sub"], world.signer.holder.as_str());

    let rotated = A_MONTH;
    world.clock.set_ahead(rotated);
    let published = async || {
        let keys = key_set(&world.admin).await;
        (ids(&keys).difference(&ids(&first)).count() == 2).then_some(keys)
    };
    let cached = eventually("the next keys are published", published).await;
    let soon = rotated + A_MINUTE * 9;
    for ahead in [rotated, soon] {
        world.clock.set_ahead(ahead);
        assert_eq!(verified(&id_token(ahead).await, &first).0, old, "who has an older key set knows the key");
    }
    let later = rotated + PUBLISHED_FOR + A_MINUTE;
    world.clock.set_ahead(later);
    let new = id_token(later).await;
    let (next, claims) = verified(&new, &cached);
    assert_eq!((next != old, &claims["sub"]), (true, &json!(world.signer.holder)), "{next} after {old}");
    assert!(!ids(&first).contains(&next), "it was published before it signed, and not from the beginning");
    let now = key_set(&world.admin).await;
    assert_eq!(verified(&kept, &now).0, old, "what was issued before verifies after");
    assert_eq!(verified(&new, &now).0, next);
}
