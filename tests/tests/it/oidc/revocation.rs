//! Token revocation: a client revokes its tokens, and no node accepts them any more. The numbers are those of the cases
//! of the design.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Answer, Client, SCOPE, ServiceUser, TARGETS, created, done, send},
    cluster::Cluster,
    eventually,
    platform::Platform,
    servers::{Servers, drop_read_models},
    tenant::{Tenant, instance_beside},
};

use super::{
    shop::{API, Shop, user},
    signer::{BY_ASSERTION, Signer},
    token::{assert_error, parts},
};

const REVOKE: &str = "/oauth/v2/revoke";

/// Returns a request to revoke a token.
fn revoking(client: &Client) -> RequestBuilder {
    client.anonymous(Method::POST, REVOKE)
}

/// Revokes a token of a user, authenticated by its secret.
async fn revoke(client: &Client, user: &ServiceUser, token: &str) -> Answer {
    let request = revoking(client).basic_auth(&user.client_id, Some(&user.client_secret));
    send(request.form(&[("token", token)])).await
}

fn assert_revoked(case: &str, answer: &Answer) {
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &Value::Null), "{case}");
    assert_eq!(answer.headers["cache-control"], "no-store", "{case}");
}

/// Returns the status of the API for a token; a caller with the permission gets 404.
async fn status(client: &Client, token: &str) -> u16 {
    send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await.status.as_u16()
}

#[tokio::test]
async fn a_revoked_token_is_over_at_once_and_no_other_with_it() {
    let shop = Shop::open(json!({})).await;
    let [token, other] = [shop.token("").await, shop.token("").await];
    // 120, revoked: with a hint, a wrong one, or none; and once more.
    for form in [&[("token", token.as_str()), ("token_type_hint", "refresh_token")][..], &[("token", &token)]] {
        let request = revoking(&shop.admin).basic_auth(&shop.user.client_id, Some(&shop.user.client_secret));
        assert_revoked("a token of its own", &send(request.form(form)).await);
        assert_eq!(shop.introspect(&token).await, json!({ "active": false }));
        assert_eq!(shop.introspect(&other).await["active"], true);
    }
    let [_, claims] = parts(&token);
    let sequences = shop.tenant.sequences_of(claims["jti"].as_str().expect("it has one")).await;
    assert!(sequences.is_empty(), "the log that is kept for ever has nothing of it: {sequences:?}");

    // At the API.
    let user = &shop.tenant.bootstrap.service_user;
    let [one, another] = [Client::log_in(&shop.tenant.bootstrap.issuer, user).await.token, shop.admin.token.clone()];
    assert_eq!([status(&shop.admin, &one).await, status(&shop.admin, &another).await], [404, 404]);
    assert_revoked("a token of the API", &revoke(&shop.admin, user, &one).await);
    assert_eq!([status(&shop.admin, &one).await, status(&shop.admin, &another).await], [401, 404]);
    let next = Client::log_in(&shop.tenant.bootstrap.issuer, user).await;
    assert_eq!(status(&next, &next.token).await, 404, "a new one counts");
}

#[tokio::test]
async fn only_the_client_of_a_token_ends_it() {
    let shop = Shop::open(json!({})).await;
    let token = shop.token("").await;
    let other = user(&shop.admin, "other", "").await;
    assert_error("127: another user", &revoke(&shop.admin, &other, &token).await, 400, "invalid_grant");
    let app =
        ServiceUser { user_id: shop.app.0.clone(), client_id: shop.app.0.clone(), client_secret: shop.app.1.clone() };
    assert_error("an app, which got none", &revoke(&shop.admin, &app, &token).await, 400, "invalid_grant");
    // 121: nobody, and who does not have the secret.
    let wrong = ServiceUser { client_secret: "wrong".into(), ..shop.user.clone() };
    assert_error("a wrong secret", &revoke(&shop.admin, &wrong, &token).await, 401, "invalid_client");
    let nobody = ServiceUser { client_id: "nobody".into(), ..shop.user.clone() };
    assert_error("an unknown client", &revoke(&shop.admin, &nobody, &token).await, 401, "invalid_client");
    let bare = send(revoking(&shop.admin).form(&[("token", &token)])).await;
    assert_error("no authentication", &bare, 401, "invalid_client");
    let missing = revoking(&shop.admin).basic_auth(&shop.user.client_id, Some(&shop.user.client_secret));
    assert_error("127: no token", &send(missing.form(&[("a", "b")])).await, 400, "invalid_request");
    let got = send(shop.admin.anonymous(Method::GET, REVOKE)).await;
    assert_eq!((got.status.as_u16(), &got.headers["allow"]), (405, &"POST".parse().unwrap()), "127");
    assert_eq!(shop.introspect(&token).await["active"], true, "nothing of that ended it");

    // 127: what is no token, or one of others, is over already.
    let beside = instance_beside(&shop.tenant).await.client().await;
    for (case, token) in [("garbage", "garbage"), ("cut off", &token[..token.len() - 2]), ("elsewhere", &*beside.token)]
    {
        assert_revoked(case, &revoke(&shop.admin, &shop.user, token).await);
    }
    let search = beside.request(Method::POST, &format!("{API}/targets/_search")).json(&json!([]));
    assert_eq!(send(search).await.status, 200, "S2: it goes on where it is from");
    let id = &shop.user.user_id;
    let personal = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
    let personal = done(&shop.admin, &format!("{API}/users/{id}/tokens"), personal).await;
    let personal = personal.body["token"].as_str().expect("it is shown");
    let refused = revoke(&shop.admin, &shop.user, personal).await;
    assert_error("127: a personal one", &refused, 400, "unsupported_token_type");

    // With its secret in the form, by its id.
    let form = [("token", token.as_str()), ("client_id", id), ("client_secret", &shop.user.client_secret)];
    assert_revoked("in the form", &send(revoking(&shop.admin).form(&form)).await);
    assert_eq!(shop.introspect(&token).await["active"], false);
}

#[tokio::test]
async fn a_client_that_signs_ends_its_tokens() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = created(&admin, &format!("{API}/users"), json!({ "username": "signer", "service": {} })).await.id();
    let signer = Signer::new(&tenant, &format!("users/{user}"), "EC").await;
    let form_of = |assertion: &str, more: &[(&str, &str)]| {
        let form = [("client_assertion_type", BY_ASSERTION), ("client_assertion", assertion)];
        let form = form.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        form.collect::<Vec<_>>()
    };
    let asked = || async {
        let form = form_of(&signer.assertion(), &[("grant_type", "client_credentials"), ("scope", SCOPE)]);
        let answer = send(admin.anonymous(Method::POST, "/oauth/v2/token").form(&form)).await;
        answer.body["access_token"].as_str().map(str::to_owned)
    };
    let token = eventually("its key is known", asked).await;
    assert_eq!(status(&admin, &token).await, 403, "it has no role, and is known");
    let assertion = signer.assertion();
    let form = form_of(&assertion, &[("token", &token)]);
    assert_revoked("it has signed", &send(revoking(&admin).form(&form)).await);
    assert_eq!(status(&admin, &token).await, 401);
    let again = send(revoking(&admin).form(&form)).await;
    assert_error("the same assertion once more", &again, 401, "invalid_client");
}

#[tokio::test]
async fn all_nodes_know_what_one_has_ended() {
    let cluster = Cluster::start().await;
    let [_projector, command, query, oidc, other] =
        [("projector", "p"), ("command", "c"), ("query", "q"), ("oidc", "o"), ("oidc", "o2")]
            .map(|(role, name)| cluster.node(role, name, &[], &[]));
    cluster.writes(&command).await;
    for node in [&query, &oidc, &other] {
        cluster.is_ready(node).await;
    }
    let user = &cluster.bootstrap.service_user;
    let [at_query, at_command, at_oidc, at_other] = [&query, &command, &oidc, &other].map(|node| cluster.client(node));
    for round in 0..10 {
        let token = Client::log_in(&other.url, user).await.token;
        assert_eq!([status(&at_query, &token).await, status(&at_query, &token).await], [404, 404], "round {round}");
        assert_revoked("by another node than it was issued by", &revoke(&at_oidc, user, &token).await);
        let is_over = async |client: &Client| (status(client, &token).await == 401).then_some(());
        eventually("the query node knows", async || is_over(&at_query).await).await;
        let request = async || {
            let request = at_command.anonymous(Method::POST, TARGETS).bearer_auth(&token);
            (send(request.json(&json!({}))).await.status == 401).then_some(())
        };
        eventually("the command node knows", request).await;
        assert_revoked("it is over already", &revoke(&at_other, user, &token).await);
    }
}

#[tokio::test]
async fn what_was_revoked_stays_so_without_read_models_and_over_starts() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    let admin = platform.client().await;
    let user = platform.bootstrap.service_user.clone();
    let [over, good] = [
        Client::log_in(&platform.bootstrap.issuer, &user).await.token,
        Client::log_in(&platform.bootstrap.issuer, &user).await.token,
    ];
    assert_revoked("one of two", &revoke(&admin, &user, &over).await);
    created(&admin, &format!("{API}/users"), json!({ "username": "after", "service": {} })).await;
    let url = servers.places.postgres_url.clone();
    for from_nothing in [false, true] {
        platform.stop().await;
        if from_nothing {
            drop_read_models(&url).await;
        }
        platform.restart(&[]).await;
        platform.ready().await;
        let client = platform.client().await;
        assert_eq!([status(&client, &over).await, status(&client, &good).await], [401, 404]);
    }
    // And it is in its own history, once.
    let rows = connect(&url).await.query("select type from session_history_1.events", &[]).await.expect("it is there");
    let types: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(types, ["token_revocation.revoked"]);
}
