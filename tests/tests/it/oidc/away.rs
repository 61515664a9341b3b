//! Tokens at nodes while Postgres is unavailable.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, ServiceUser, created, done, send, service_user},
    cluster::{Cluster, Node},
    eventually,
    proxy::Proxy,
    throughout,
};
use tokio::time::Instant;

use super::{shop::API, signer::FAR};

/// A time longer than data from Postgres stays fresh.
const A_WHILE: Duration = Duration::from_secs(3);
/// How soon a node knows what has ended, on a busy machine.
const KNOWN: Duration = Duration::from_secs(5);

/// A node whose Postgres can be cut off, and tokens of users for a project with an app.
struct World {
    _cluster: Cluster,
    _nodes: [Node; 4],
    postgres: Proxy,
    /// Clients of the writer, and of a node that revokes tokens: both keep their Postgres.
    admin: Client,
    ending: Client,
    /// A client of the node without Postgres.
    asking: Client,
    project: String,
    app: (String, String),
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let url = &cluster.servers.places.postgres_url;
        let address = url.rsplit('@').next().and_then(|rest| rest.split('/').next()).expect("it has an address");
        let postgres = Proxy::start(address).await;
        let through = url.replace(address, &postgres.address);
        let [command, projector] = ["command", "projector"].map(|role| cluster.node(role, role, &[], &[]));
        let oidc = cluster.node("oidc", "oidc", &[("--postgres-url", &through)], &[]);
        let other = cluster.node("oidc", "other", &[], &[]);
        cluster.writes(&command).await;
        for node in [&oidc, &other] {
            cluster.is_ready(node).await;
        }
        let [admin, ending, asking] = [&command, &other, &oidc].map(|node| cluster.client(node));
        let project = created(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
        let app = json!({ "projectId": project, "name": "Checks", "api": {} });
        let app = done(&admin, &format!("{API}/apps"), app).await;
        let app = (app.id(), app.body["clientSecret"].as_str().expect("it is shown").to_owned());
        Self {
            _cluster: cluster,
            _nodes: [command, projector, oidc, other],
            postgres,
            admin,
            ending,
            asking,
            project,
            app,
        }
    }

    /// Requests a token of a user for the project from the node.
    async fn token(&self, user: &ServiceUser) -> String {
        let scope = format!("openid urn:platform:iam:org:project:id:{}:aud", self.project);
        let given = async || {
            let request = self.asking.anonymous(Method::POST, "/oauth/v2/token");
            let request = request.basic_auth(&user.client_id, Some(&user.client_secret));
            let form = [("grant_type", "client_credentials"), ("scope", &scope)];
            send(request.form(&form)).await.body["access_token"].as_str().map(str::to_owned)
        };
        eventually("the node knows the user", given).await
    }

    /// Creates a user whose tokens have a format, and returns it with a token.
    async fn user(&self, name: &str, form: &str) -> (ServiceUser, String) {
        let service = json!({ "accessTokenType": format!("ACCESS_TOKEN_TYPE_{form}") });
        let user = service_user(&self.admin, (name, service), "").await;
        let token = self.token(&user).await;
        assert_eq!(token.starts_with("at-"), form == "BEARER", "{token}");
        (user, token)
    }

    /// Creates a personal access token of a user, and returns its id and the token.
    async fn personal(&self, user: &ServiceUser) -> (String, String) {
        let path = format!("{API}/users/{}/tokens", user.user_id);
        let made = done(&self.admin, &path, json!({ "expirationDate": FAR })).await;
        (made.id(), made.body["token"].as_str().expect("it is shown").to_owned())
    }

    async fn introspected(&self, token: &str) -> Answer {
        let request = self.asking.anonymous(Method::POST, "/oauth/v2/introspect");
        send(request.basic_auth(&self.app.0, Some(&self.app.1)).form(&[("token", token)])).await
    }

    /// Fails unless a token is active, and belongs to a user.
    async fn is_active(&self, case: &str, (user, token): (&ServiceUser, &str)) {
        let told = self.introspected(token).await;
        let stands = (told.status, &told.body["active"], &told.body["sub"]);
        assert_eq!(stands, (StatusCode::OK, &json!(true), &json!(user.user_id)), "{case}: {}", told.body);
        assert_eq!(told.body["aud"], json!([self.project]), "{case}");
    }

    /// Fails unless a token becomes inactive within the time that it may take, and stays so.
    async fn is_over(&self, case: &str, token: &str) {
        let begun = Instant::now();
        let over = async || {
            let told = self.introspected(token).await;
            assert_eq!(told.status, StatusCode::OK, "{case}: {}", told.body);
            (told.body == json!({ "active": false })).then_some(())
        };
        eventually(case, over).await;
        let took = begun.elapsed();
        println!("{case}: known after {took:.0?}");
        assert!(took < KNOWN, "{case}: {took:?}");
        assert!(over().await.is_some(), "{case}");
    }

    /// Revokes a token of a client at a node.
    async fn revoke(&self, at: &Client, client: &ServiceUser, token: &str) {
        let request = at.anonymous(Method::POST, "/oauth/v2/revoke").form(&[("token", token)]);
        let ended = send(request.basic_auth(&client.client_id, Some(&client.client_secret))).await;
        assert_eq!((ended.status, &ended.body), (StatusCode::OK, &Value::Null), "{ended:?}");
    }

    async fn delete(&self, path: &str) {
        let gone = send(self.admin.request(Method::DELETE, &format!("{API}/{path}"))).await;
        assert_eq!(gone.status, StatusCode::OK, "{path}: {}", gone.body);
    }
}

#[tokio::test]
async fn tokens_of_all_forms_are_active_without_postgres_until_they_are_over() {
    let world = World::start().await;
    let (signs, signed) = world.user("signed", "JWT").await;
    let (seals, opaque) = world.user("opaque", "BEARER").await;
    let (holds, of_holder) = world.user("holder", "JWT").await;
    let (personal_id, personal) = world.personal(&holds).await;
    let (_, unseen) = world.personal(&holds).await;
    let (ends, ended) = world.user("ends", "JWT").await;
    let (before, token) = world.user("before", "JWT").await;
    world.revoke(&world.asking, &before, &token).await;
    let forms = [("a JWT", &signs, &signed), ("opaque", &seals, &opaque), ("personal", &holds, &personal)];
    let others = [("one that stays", &holds, &of_holder), ("one that is ended there", &ends, &ended)];
    for (case, user, token) in forms.iter().chain(&others) {
        eventually(case, async || (world.introspected(token).await.body["active"] == true).then_some(())).await;
        world.is_active(case, (user, token)).await;
    }
    world.postgres.cut();
    throughout(A_WHILE, "what was known goes on", async || {
        for (case, user, token) in forms.iter().chain(&others) {
            world.is_active(&format!("{case}, without Postgres"), (user, token)).await;
        }
        true
    })
    .await;
    // What cannot be known is not said to be over.
    let unknown = world.introspected(&unseen).await;
    assert_eq!((unknown.status.as_u16(), unknown.body.get("active")), (503, None), "{}", unknown.body);
    let garbage = world.introspected("garbage").await;
    assert_eq!((garbage.status, &garbage.body), (StatusCode::OK, &json!({ "active": false })));

    // Who has ended a token at the node does so again.
    world.revoke(&world.asking, &ends, &ended).await;
    world.is_over("one that its client has ended there", &ended).await;
    // What ends elsewhere the node hears of.
    world.revoke(&world.ending, &seals, &opaque).await;
    world.is_over("one that its client has ended", &opaque).await;
    done(&world.admin, &format!("{API}/users/{}/_deactivate", signs.user_id), json!({})).await;
    world.is_over("a JWT of a user that is off", &signed).await;
    world.delete(&format!("users/{}/tokens/{personal_id}", holds.user_id)).await;
    world.is_over("a personal one that was deleted", &personal).await;
    world.is_active("nothing else has ended", (&holds, &of_holder)).await;

    world.postgres.open();
    eventually("it asks Postgres again", async || {
        let told = world.introspected(&unseen).await;
        (told.body["active"] == true).then_some(())
    })
    .await;
    for (case, _, token) in forms {
        assert_eq!(world.introspected(token).await.body, json!({ "active": false }), "{case}: it stays over");
    }
    world.is_active("it goes on", (&holds, &of_holder)).await;
    done(&world.admin, &format!("{API}/projects/{}/_deactivate", world.project), json!({})).await;
    let app_is_off = async || (world.introspected(&of_holder).await.status == 401).then_some(());
    eventually("the project is off, and its app with it", app_is_off).await;
}
