//! An instance of a running platform: its address, its users, and the platform's data directory.

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

/// An instance of a running platform.
#[derive(Debug)]
pub struct Instance {
    data: PathBuf,
    /// What the creation of the instance has returned.
    pub bootstrap: Bootstrap,
    /// Further users, created when they are first requested.
    named: Mutex<BTreeMap<String, ServiceUser>>,
}

/// `bootstrap.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The issuer, which is the address of the platform.
    pub issuer: String,
    /// The instance.
    pub instance_id: String,
    /// The organization.
    pub organization_id: String,
    /// The platform's own project.
    pub project_id: String,
    /// The service user with all rights.
    pub service_user: ServiceUser,
    /// The service users of the setup file.
    #[serde(default)]
    pub service_users: Vec<ServiceUser>,
}

/// The service users in addition to the one with all rights: `viewer` may read, `nobody` may do nothing.
const NAMED: [(&str, &[&str]); 2] = [("viewer", &["IAM_OWNER_VIEWER"]), ("nobody", &[])];

/// Returns the setup file with these users.
pub(crate) fn setup() -> String {
    let user = |(name, roles): &(&str, &[&str])| format!("[[service_user]]\nname = \"{name}\"\nroles = {roles:?}\n");
    NAMED.iter().map(user).collect()
}

impl Instance {
    pub(crate) fn of(data: PathBuf, bootstrap: Bootstrap) -> Self {
        Self { data, bootstrap, named: Mutex::default() }
    }

    /// Waits until the platform with this data directory is set up, and returns its first instance.
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

    /// Returns the platform's data directory.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Returns the address that the platform listens on.
    pub fn address(&self) -> String {
        client::address(&self.bootstrap.issuer)
    }

    /// Returns the platform's management port.
    pub fn management(&self) -> Management {
        let address = fs::read_to_string(self.data.join("management.address"));
        Management::at(&address.expect("a running platform says where it is"))
    }

    /// Returns the URL of the platform's NATS server, and the token that it requires.
    pub fn nats(&self) -> (String, String) {
        let read = |file: &str| fs::read_to_string(self.data.join("nats").join(file)).expect("it has an own server");
        let ports = read("ports");
        let port = ports.split_whitespace().next().expect("the first is the clients' port");
        (format!("nats://127.0.0.1:{port}"), read("token").trim().to_owned())
    }

    /// Returns the URL of the platform's own Postgres, with password.
    pub fn postgres_url(&self) -> String {
        let read = |file: &str| fs::read_to_string(self.data.join(file));
        let (port, password) = (read("postgres.port"), read("postgres.password"));
        let [port, password] = [port, password].map(|text| text.expect("it has an own server").trim().to_owned());
        format!("postgres://platform:{password}@127.0.0.1:{port}/postgres")
    }

    /// Opens the platform's log.
    pub async fn log(&self) -> Log {
        let (url, token) = self.nats();
        let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
        Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened")
    }

    /// Returns a client of the service user with all rights.
    pub async fn client(&self) -> Client {
        self.client_of(&self.bootstrap.service_user).await
    }

    /// Returns a client of a service user of the setup file, or of an equal one in an instance without such a file.
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

    /// Returns a client of the system user, who operates the platform.
    pub async fn operator(&self) -> Client {
        let mut command = tokio::process::Command::new(binary());
        command.args(["system-token", "--issuer", &self.bootstrap.issuer]).arg("--data-dir").arg(&self.data);
        let printed = command.output().await.expect("it runs");
        let token = String::from_utf8(printed.stdout).expect("a token is text").trim().to_owned();
        Client::with_token(&self.bootstrap.issuer, token)
    }

    /// Returns a client of a service user, for which `admin` generates a new secret.
    pub async fn log_in(&self, admin: &Client, id: &str, username: &str) -> Client {
        self.client_of(&self.with_secret(admin, id, username).await).await
    }

    /// Returns a service user with a new secret that the token endpoint accepts.
    async fn with_secret(&self, admin: &Client, id: &str, username: &str) -> ServiceUser {
        let path = format!("/resources/v3alpha/users/{id}");
        // The roles of the user may not be projected yet.
        let secret = eventually("a secret", async || {
            let answer = post(admin, &format!("{path}/_generate_secret"), json!({})).await;
            (answer.status != 503).then_some(answer)
        });
        let secret = secret.await;
        assert_eq!(secret.status, 200, "{}", secret.body);
        // The token endpoint uses a read model, which must have the secret.
        let seen = after(&secret, admin.request(Method::GET, &path)).await;
        assert_eq!(seen.body["user"]["hasSecret"], true, "{}", seen.body);
        let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
        ServiceUser { user_id: id.to_owned(), client_id: username.to_owned(), client_secret }
    }

    async fn client_of(&self, user: &ServiceUser) -> Client {
        Client::log_in(&self.bootstrap.issuer, user).await
    }
}
