//! An instance of a running platform: where it is reached, who its users are, and where the platform keeps its data.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use domain::log_class::LogClass;
use eventlog::log::Log;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    client::{self, Client, ServiceUser, after, created, post},
    eventually,
    management::Management,
    process::binary,
};

/// An instance of a platform that runs.
#[derive(Debug)]
pub struct Instance {
    data: PathBuf,
    /// What its founding made.
    pub bootstrap: Bootstrap,
    /// Further users, made when they are first asked for.
    named: Mutex<BTreeMap<String, ServiceUser>>,
}

/// `bootstrap.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The issuer, which is where the platform is reached.
    pub issuer: String,
    /// The instance.
    pub instance_id: String,
    /// The organization.
    pub organization_id: String,
    /// The platform's own project.
    pub project_id: String,
    /// The service user with all rights.
    pub service_user: ServiceUser,
    /// Those of the setup file.
    #[serde(default)]
    pub service_users: Vec<ServiceUser>,
}

/// Who there is besides the one with all rights: `viewer` may read, `nobody` may do nothing.
const NAMED: [(&str, &[&str]); 2] = [("viewer", &["IAM_OWNER_VIEWER"]), ("nobody", &[])];

/// The same as a setup file.
pub(crate) fn setup() -> String {
    let user = |(name, roles): &(&str, &[&str])| format!("[[service_user]]\nname = \"{name}\"\nroles = {roles:?}\n");
    NAMED.iter().map(user).collect()
}

impl Instance {
    pub(crate) fn of(data: PathBuf, bootstrap: Bootstrap) -> Self {
        Self { data, bootstrap, named: Mutex::default() }
    }

    /// The first instance of the platform that keeps its data in this folder, as soon as it was set up.
    pub(crate) async fn first(data: PathBuf) -> Self {
        let path = data.join("bootstrap.json");
        let bootstrap = eventually("bootstrap.json", || {
            let found = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
            std::future::ready(found)
        });
        let bootstrap = bootstrap.await;
        Self::of(data, bootstrap)
    }

    /// Waits until tokens can be issued.
    pub async fn ready(&self) {
        let issuer = &self.bootstrap.issuer;
        let url = format!("{issuer}/.well-known/openid-configuration");
        let http = client::http(issuer).timeout(Duration::from_secs(2)).build().expect("a client");
        eventually("discovery", || async { http.get(&url).send().await.ok().filter(|answer| answer.status() == 200) })
            .await;
    }

    /// The platform's data directory.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// The address that the platform listens on.
    pub fn address(&self) -> String {
        client::address(&self.bootstrap.issuer)
    }

    /// The platform's management port.
    pub fn management(&self) -> Management {
        let address = fs::read_to_string(self.data.join("management.address"));
        Management::at(&address.expect("a running platform says where it is"))
    }

    /// The address of the platform's NATS server, and the token that it asks for.
    pub fn nats(&self) -> (String, String) {
        let read = |file: &str| fs::read_to_string(self.data.join("nats").join(file)).expect("it has an own server");
        let ports = read("ports");
        let port = ports.split_whitespace().next().expect("the first is the clients' port");
        (format!("nats://127.0.0.1:{port}"), read("token").trim().to_owned())
    }

    /// The address of the platform's own Postgres, with password.
    pub fn postgres_url(&self) -> String {
        let read = |file: &str| fs::read_to_string(self.data.join(file));
        let (port, password) = (read("postgres.port"), read("postgres.password"));
        let [port, password] = [port, password].map(|text| text.expect("it has an own server").trim().to_owned());
        format!("postgres://platform:{password}@127.0.0.1:{port}/postgres")
    }

    /// The platform's log.
    pub async fn log(&self) -> Log {
        let (url, token) = self.nats();
        let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
        Log::open(client, (LogClass::Events, 0), 1).await.expect("the log can be opened")
    }

    /// A client of the service user with all rights.
    pub async fn client(&self) -> Client {
        self.client_of(&self.bootstrap.service_user).await
    }

    /// A client of one of the setup file's service users, or of the same in an instance without such a file.
    pub async fn client_named(&self, name: &str) -> Client {
        let of_file = self.bootstrap.service_users.iter().find(|user| user.client_id == name);
        let user = match of_file {
            Some(user) => user.clone(),
            None => self.named(name).await,
        };
        self.client_of(&user).await
    }

    async fn named(&self, name: &str) -> ServiceUser {
        let mut named = self.named.lock().await;
        if let Some(known) = named.get(name) {
            return known.clone();
        }
        let (_, roles) = NAMED.iter().find(|(known, _)| *known == name).expect("there is such a user");
        let admin = self.client().await;
        let body = json!({ "username": name, "service": { "name": name } });
        let id = created(&admin, "/resources/v3alpha/users", body).await.id();
        if !roles.is_empty() {
            let given = json!({ "userId": id, "roles": roles });
            created(&admin, "/resources/v3alpha/memberships", given).await;
        }
        let user = self.with_secret(&admin, &id, name).await;
        named.insert(name.to_owned(), user.clone());
        user
    }

    /// A client of the system user, who operates the platform.
    pub async fn operator(&self) -> Client {
        let mut command = tokio::process::Command::new(binary());
        command.args(["system-token", "--issuer", &self.bootstrap.issuer]).arg("--data-dir").arg(&self.data);
        let printed = command.output().await.expect("it runs");
        let token = String::from_utf8(printed.stdout).expect("a token is text").trim().to_owned();
        Client::with_token(&self.bootstrap.issuer, token)
    }

    /// A client that is logged in as a service user, for which `admin` makes a new secret.
    pub async fn log_in(&self, admin: &Client, id: &str, username: &str) -> Client {
        self.client_of(&self.with_secret(admin, id, username).await).await
    }

    /// A service user with a new secret that the token endpoint knows.
    async fn with_secret(&self, admin: &Client, id: &str, username: &str) -> ServiceUser {
        let path = format!("/resources/v3alpha/users/{id}");
        // It may not be known yet which roles the user has.
        let secret = eventually("a secret", async || {
            let answer = post(admin, &format!("{path}/_generate_secret"), json!({})).await;
            (answer.status != 503).then_some(answer)
        });
        let secret = secret.await;
        assert_eq!(secret.status, 200, "{}", secret.body);
        // The token endpoint reads a read model.
        let seen = after(&secret, admin.request(Method::GET, &path)).await;
        assert_eq!(seen.body["user"]["hasSecret"], true, "{}", seen.body);
        let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
        ServiceUser { user_id: id.to_owned(), client_id: username.to_owned(), client_secret }
    }

    async fn client_of(&self, user: &ServiceUser) -> Client {
        Client::log_in(&self.bootstrap.issuer, user).await
    }
}
