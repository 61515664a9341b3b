//! Rotation of signing keys, by the clock and on demand.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{StreamExt, stream};
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, SCOPE, ServiceUser, TARGETS, after, done, send, service_user},
    clock::Clock,
    cluster::Cluster,
    endpoint::{Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    tenant::Tenant,
};

use super::{
    shop::API,
    signer::{BEARER, Signer, exchanged, user},
};

pub(super) const KEYS: &str = "/resources/v3alpha/web_keys";
/// The step of the clock, somewhat less than the time for which a key set may be cached.
const STEP: Duration = Duration::from_mins(4);
/// How many steps pass until a published key signs.
const PUBLISHED_FOR: u32 = 3;
pub(super) const A_MONTH: Duration = Duration::from_hours(30 * 24);
/// How many tokens are issued in all.
const TOKENS: usize = 10_000;

pub(super) async fn key_set(client: &Client) -> JwkSet {
    let answer = send(client.anonymous(Method::GET, "/oauth/v2/keys")).await;
    assert_eq!(answer.headers["cache-control"], "public, max-age=300, must-revalidate");
    assert!(answer.body["keys"].as_array().is_some_and(|keys| keys.iter().all(|key| key.get("d").is_none())));
    let keys: JwkSet = serde_json::from_value(answer.body).expect("it is a key set");
    assert_eq!(ids(&keys).len(), keys.keys.len(), "148: each has an id of its own");
    keys
}

pub(super) fn ids(keys: &JwkSet) -> BTreeSet<String> {
    keys.keys.iter().filter_map(|key| key.common.key_id.clone()).collect()
}

/// Verifies a token by a key set, and returns the id of the key, and the claims.
pub(super) fn verified(token: &str, keys: &JwkSet) -> (String, Value) {
    let header = decode_header(token).expect("it is a token");
    let kid = header.kid.expect("it names its key");
    let key = keys.find(&kid).unwrap_or_else(|| panic!("{kid} is published: {:?}", ids(keys)));
    let mut validation = Validation::new(header.alg);
    (validation.validate_aud, validation.validate_exp) = (false, false);
    let key = DecodingKey::from_jwk(key).expect("it is a key");
    (kid, decode(token, &key, &validation).expect("its signature is right").claims)
}

async fn token(client: &Client, user: &ServiceUser) -> String {
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
    let request = client.anonymous(Method::POST, "/oauth/v2/token").form(&form);
    let answer = send(request.basic_auth(&user.client_id, Some(&user.client_secret))).await;
    answer.body["access_token"].as_str().unwrap_or_else(|| panic!("there is a token: {}", answer.body)).to_owned()
}

/// Lets nodes issue tokens, verifies them by a key set from before, and returns the ids of the keys that signed.
async fn issue(nodes: &[Client; 2], count: usize, user: &ServiceUser, keys: &JwkSet) -> BTreeSet<String> {
    let tokens = stream::iter(0..count).map(|number| token(&nodes[number % 2], user)).buffer_unordered(8);
    tokens.map(|token| verified(&token, keys).0).collect().await
}

/// Case 148: a key is published before it signs, and stays until the last token has expired.
#[tokio::test]
async fn tokens_verify_by_the_key_set_of_their_time_while_keys_follow_each_other() {
    let clock = Clock::new();
    let cluster = Cluster::start().await;
    let node = |role: &str, name: &str| cluster.node(role, name, &[], &[clock.environment()]);
    let [_projector, command, one, two] =
        [("projector", "p"), ("command", "c"), ("oidc", "one"), ("oidc", "two")].map(|(role, name)| node(role, name));
    cluster.writes(&command).await;
    for node in [&one, &two] {
        cluster.is_ready(node).await;
    }
    let (nodes, user) = ([&one, &two].map(|node| cluster.client(node)), &cluster.bootstrap.service_user);
    let (mut ahead, mut signed) = (Duration::ZERO, BTreeSet::new());
    let phases = 3 * (PUBLISHED_FOR as usize + 2);
    for rotation in 0..3 {
        let before = ids(&key_set(&nodes[0]).await);
        ahead += A_MONTH;
        clock.set_ahead(ahead);
        // Both algorithms get a new key. What has expired is not published any more.
        let published = async |client: &Client| {
            let now = ids(&key_set(client).await);
            (now.difference(&before).count() == 2 && now.len() == 4).then_some(now)
        };
        let mut known = vec![];
        for node in &nodes {
            known.push(eventually("the next keys are published", async || published(node).await).await);
        }
        assert_eq!(known[0], known[1], "both nodes publish the same");
        let kept = token(&nodes[0], user).await;
        let old = issue(&nodes, TOKENS / phases + 1, user, &key_set(&nodes[1]).await).await;
        assert_eq!(old.len(), 1);
        assert!(before.is_superset(&old), "{rotation}: who has cached the key set from before knows the key");
        for step in 1..=PUBLISHED_FOR + 1 {
            let cached = key_set(&nodes[rotation % 2]).await;
            ahead += STEP;
            clock.set_ahead(ahead);
            let now = issue(&nodes, TOKENS / phases + 1, user, &cached).await;
            assert_eq!(now == old, step < PUBLISHED_FOR, "{rotation}, {step}: {now:?} after {old:?}");
            assert_eq!(now.len(), 1, "{rotation}, {step}: both nodes sign with the same key");
            signed.extend(now);
        }
        let is_published = async |client: &Client| ids(&key_set(client).await).is_superset(&old);
        assert!(old.contains(&verified(&kept, &key_set(&nodes[1]).await).0), "what was issued before verifies after");
        // The longest that a token lives, from when the key has ceased to sign.
        clock.set_ahead(ahead + Duration::from_hours(24));
        // What is looked at every two seconds has been looked at.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(is_published(&nodes[0]).await && is_published(&nodes[1]).await, "{rotation}");
        ahead += Duration::from_hours(26);
        clock.set_ahead(ahead);
        for node in &nodes {
            eventually("it goes when its tokens are over", async || (!is_published(node).await).then_some(())).await;
        }
    }
    assert_eq!(signed.len(), 4, "three keys followed the first one");
}

/// Creates a service user with a role that reads targets.
async fn reader_with_opaque_tokens(admin: &Client) -> ServiceUser {
    let service = json!({ "accessTokenType": "ACCESS_TOKEN_TYPE_BEARER" });
    let user = service_user(admin, ("reader", service), "").await;
    let role = json!({ "userId": user.user_id, "roles": ["IAM_OWNER_VIEWER"] });
    done(admin, &format!("{API}/memberships"), role).await;
    user
}

#[tokio::test]
async fn a_key_signs_on_demand_and_what_a_deleted_one_has_signed_counts_nowhere() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let (admin, user) = (platform.client().await, &platform.bootstrap.service_user);
    let reader = reader_with_opaque_tokens(&admin).await;
    let (old, sealed) = (token(&admin, user).await, token(&admin, &reader).await);
    let first = decode_header(&old).expect("it is a token").kid.expect("it names its key");
    let state = async |id: &str| send(admin.request(Method::GET, &format!("{KEYS}/{id}"))).await.body["key"].clone();
    assert_eq!(state(&first).await["state"], "WEB_KEY_STATE_ACTIVE");

    let made = done(&admin, KEYS, json!({ "ecdsa": {} })).await;
    let next = made.id();
    eventually("it is published", async || ids(&key_set(&admin).await).contains(&next).then_some(())).await;
    assert_eq!(state(&next).await["state"], "WEB_KEY_STATE_INITIAL");
    let change = async |method: Method, path: &str| send(admin.request(method, &format!("{KEYS}/{path}"))).await;
    let activated = change(Method::POST, &format!("{next}/_activate")).await;
    assert_eq!(activated.status, 200, "{}", activated.body);
    let again = change(Method::POST, &format!("{next}/_activate")).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &activated.body), "it is asked for twice");
    change(Method::DELETE, &next).await.assert_refused("it will sign", 400, "PRECONDITION_FAILED");
    change(Method::DELETE, &first).await.assert_refused("it signs", 400, "PRECONDITION_FAILED");
    let shown = after(&activated, admin.request(Method::GET, &format!("{KEYS}/{first}"))).await.body;
    assert_eq!(shown["key"]["signsUntil"], activated.body["signsFrom"], "{shown}");
    assert_eq!(verified(&token(&admin, user).await, &key_set(&admin).await).0, first, "not yet");

    clock.set_ahead(Duration::from_mins(10));
    change(Method::DELETE, &first).await.assert_refused("it has just signed", 400, "PRECONDITION_FAILED");
    change(Method::POST, &format!("{first}/_activate")).await.assert_refused("replaced", 400, "PRECONDITION_FAILED");
    let new = token(&admin, user).await;
    assert_eq!(verified(&new, &key_set(&admin).await).0, next);
    assert_eq!(state(&first).await["state"], "WEB_KEY_STATE_INACTIVE");
    let answered =
        async |token: &str| send(admin.with(token.to_owned()).request(Method::GET, &format!("{TARGETS}/1"))).await;
    let resealed = token(&admin, &reader).await;
    for (token, kid) in [(&sealed, &first), (&resealed, &next)] {
        assert!(token.starts_with(&format!("at-{kid}-")), "an opaque one belongs to the key that signs: {token}");
    }
    for token in [&old, &new, &sealed, &resealed] {
        assert_eq!(answered(token).await.status, 404, "{token}");
    }
    clock.set_ahead(Duration::from_mins(11));
    let admin = admin.with(new.clone());
    let deleted = send(admin.request(Method::DELETE, &format!("{KEYS}/{first}"))).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    for token in [&old, &sealed] {
        answered(token).await.assert_refused("what belongs to a deleted key", 401, "TOKEN_INVALID");
    }
    for token in [&new, &resealed] {
        assert_eq!(answered(token).await.status, 404, "{token}");
    }
    let published = async || (!ids(&key_set(&admin).await).contains(&first)).then_some(());
    eventually("it is not published any more", published).await;
}

/// 100
#[tokio::test]
async fn who_signs_for_a_token_gets_an_id_token_where_it_asks_for_openid() {
    let tenant = Tenant::start().await;
    let path = user(&tenant, "robot").await;
    let signer = Signer::new(&tenant, &path, "EC").await;
    let client = tenant.client().await;
    let answer = exchanged(&tenant, &signer.assertion()).await;
    let [id_token, access_token] =
        ["id_token", "access_token"].map(|name| answer.body[name].as_str().expect("there is one").to_owned());
    let (_, claims) = verified(&id_token, &key_set(&client).await);
    let header = decode_header(&id_token).expect("it is a token");
    assert_eq!((header.typ.as_deref(), header.alg), (Some("JWT"), jsonwebtoken::Algorithm::RS256));
    let digest = base::secret::sha256(access_token.as_bytes());
    let iat = claims["iat"].as_i64().expect("it is there");
    let expected = json!({
        "iss": signer.issuer,
        "sub": signer.holder,
        "aud": [signer.holder],
        "azp": signer.holder,
        "client_id": signer.holder,
        "iat": iat,
        "auth_time": iat,
        "exp": iat + 12 * 3600,
        "at_hash": URL_SAFE_NO_PAD.encode(&digest[..16]),
    });
    assert_eq!(claims, expected);
    // It tells who somebody is, and opens nothing.
    let as_access = send(client.with(id_token).request(Method::GET, &format!("{TARGETS}/1"))).await;
    as_access.assert_refused("an ID token", 401, "TOKEN_INVALID");

    let scope = format!("urn:platform:iam:org:project:id:{}:aud", tenant.bootstrap.project_id);
    let form = [("grant_type", BEARER), ("assertion", &signer.assertion()), ("scope", &scope)];
    let without = send(client.anonymous(Method::POST, "/oauth/v2/token").form(&form)).await;
    assert_eq!((without.status.as_u16(), without.body.get("id_token")), (200, None), "{}", without.body);
    let endpoint = Endpoint::start().await;
    let (target, _) = endpoint.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    execute(&client, json!({ "function": "preuserinfo" }), &[&target]).await;
    let added = json!([{ "key": "tier", "value": 3 }, { "key": "at_hash", "value": "theirs" }]);
    endpoint.reply(Reply::json(&json!({ "append_claims": added })));
    let settings = json!({ "idTokenLifetime": { "set": "600s" } });
    let set = send(client.request(Method::PATCH, "/settings/v3alpha/oidc").json(&settings)).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let answer = exchanged(&tenant, &signer.assertion()).await;
    let id_token = answer.body["id_token"].as_str().expect("there is one");
    let (_, claims) = verified(id_token, &key_set(&client).await);
    assert_eq!(claims["exp"].as_i64(), claims["iat"].as_i64().map(|iat| iat + 600));
    assert_eq!(claims["tier"], 3);
    assert_eq!(claims["urn:platform:iam:action:preuserinfo:log"], json!(["claim at_hash exists already"]));
}

#[tokio::test]
async fn a_service_user_chooses_what_its_tokens_are_signed_with_among_what_the_instance_has_keys_for() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let path = user(&tenant, "robot").await;
    let signer = Signer::new(&tenant, &path, "EC").await;
    let choose = async |access: &str, id: &str| {
        let algorithm = |name: &str| format!("TOKEN_ALGORITHM_{name}");
        let service = json!({ "accessTokenAlg": algorithm(access), "idTokenAlg": algorithm(id) });
        let body = json!({ "service": service });
        send(client.request(Method::PATCH, &format!("{API}/{path}")).header("prefer", "wait=10").json(&body)).await
    };
    choose("ES384", "RS256").await.assert_refused("no key", 400, "PRECONDITION_FAILED");
    let kinds = [
        ("ES384", json!({ "ecdsa": { "curve": "ECDSA_CURVE_P384" } })),
        ("EDDSA", json!({ "ed25519": {} })),
        ("RS512", json!({ "rsa": { "hasher": "RSA_HASHER_SHA512" } })),
    ];
    for (_, wanted) in &kinds {
        let made = done(&client, KEYS, wanted.clone()).await.id();
        let activated = client.request(Method::POST, &format!("{KEYS}/{made}/_activate")).header("prefer", "wait=10");
        assert_eq!(send(activated).await.status, 200);
    }
    let is_published = async || (key_set(&client).await.keys.len() == 2 + kinds.len()).then_some(());
    eventually("all are published", is_published).await;
    // The half of a hash that the algorithm of the ID token has, in base64url.
    for (access, id, length) in
        [("ES384", "EDDSA", 43), ("EDDSA", "RS512", 43), ("RS512", "ES384", 32), ("RS256", "ES256", 22)]
    {
        let chosen = choose(access, id).await;
        assert_eq!(chosen.status, 200, "{}", chosen.body);
        let issued = async || {
            let answer = exchanged(&tenant, &signer.assertion()).await;
            let [access_token, id_token] = ["access_token", "id_token"].map(|name| answer.body[name].as_str());
            let [access_token, id_token] = [access_token?, id_token?].map(str::to_owned);
            let algorithm = |token: &str| format!("{:?}", decode_header(token).expect("it is a token").alg);
            let is_chosen = [&access_token, &id_token].map(|token| algorithm(token).to_uppercase()) == [access, id];
            is_chosen.then_some((access_token, id_token))
        };
        let (access_token, id_token) = eventually("the choice counts", issued).await;
        let (_, claims) = verified(&id_token, &key_set(&client).await);
        assert_eq!(claims["at_hash"].as_str().map(str::len), Some(length));
        verified(&access_token, &key_set(&client).await);
        let own = client.with(access_token).request(Method::GET, "/settings/v3alpha/languages");
        assert_eq!(send(own).await.status, 200, "{access}");
    }
}
