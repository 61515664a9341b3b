//! An instance for one test, on the platform that the API tests share. Nobody else uses it, so a test sees only its own
//! effects.
//!
//! The platform runs on the folder that the environment variable `TESTS_PLATFORM` names (`make test` starts it).
//! Without the variable, a test starts a platform of its own.

use std::{env, ops::Deref, path::PathBuf, sync::Arc};

use base::secret::random_secret;
use eventlog::record::{Position, Record};
use futures::{StreamExt, TryStreamExt};
use serde_json::json;

use crate::{
    client::{Client, post},
    eventually,
    instance::{Bootstrap, Instance},
    platform::Platform,
};

/// The environment variable with the data directory of the shared platform.
const SHARED: &str = "TESTS_PLATFORM";
const INSTANCES: &str = "/resources/v3alpha/instances";

/// The platform that the API tests share, and its first instance. Tests use it at the same time, so a test must change
/// nothing there that another one could notice.
#[derive(Debug)]
pub struct Shared {
    first: Instance,
    /// A platform of the test's own, where there is none to share.
    _own: Option<Platform>,
}

/// An instance of a test's own.
#[derive(Debug)]
pub struct Tenant {
    /// The platform of the instance.
    pub shared: Shared,
    instance: Instance,
    /// The end of the log when the instance was created.
    since: Position,
}

impl Shared {
    /// Finds the shared platform.
    pub async fn find() -> Self {
        let data = env::var_os(SHARED).filter(|data| !data.is_empty()).map(PathBuf::from);
        let own = if data.is_some() { None } else { Some(Platform::start().await) };
        let data = data.or_else(|| own.as_ref().map(|platform| platform.data())).expect("one of both is there");
        let first = Instance::first(data).await;
        first.ready().await;
        Self { first, _own: own }
    }

    /// Creates an instance.
    pub async fn instance(&self) -> Instance {
        instance_beside(&self.first).await
    }
}

impl Tenant {
    /// Creates an instance on the shared platform, and waits until it serves.
    pub async fn start() -> Self {
        let shared = Shared::find().await;
        let last = shared.first.log().await.last().await.expect("the log can be read");
        let since = last.expect("it has been set up").position();
        let instance = shared.instance().await;
        Self { shared, instance, since }
    }

    /// Returns how much of the log belongs to the instance: events, and records with an event or an answer of it.
    pub async fn log_end(&self) -> (usize, usize) {
        let id = &self.bootstrap.instance_id;
        let mut end = (0, 0);
        for record in self.records().await {
            let events = record.events.iter().filter(|recorded| recorded.event.instance_id == *id).count();
            let has_answer = record.commit.answers.iter().any(|answer| answer.instance_id == *id);
            end = (end.0 + events, end.1 + usize::from(events > 0 || has_answer));
        }
        end
    }

    /// Returns the sequences of the events of an aggregate.
    pub async fn sequences_of(&self, id: &str) -> Vec<u64> {
        let records = self.records().await;
        let events = records.iter().flat_map(|record| &record.events);
        events.filter(|recorded| recorded.event.aggregate_id == id).map(|recorded| recorded.sequence).collect()
    }

    /// Returns all records since the instance was created, of any instance.
    async fn records(&self) -> Vec<Arc<Record>> {
        let log = self.log().await;
        let last = log.last().await.expect("the log can be read").expect("it was set up").stream_sequence;
        let count = usize::try_from(last - self.since.stream_sequence).expect("a short log");
        let records = log.follow(self.since).await.expect("the log can be read");
        records.take(count).try_collect().await.expect("the log is an unbroken chain")
    }
}

impl Deref for Shared {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.first
    }
}

impl Deref for Tenant {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

/// Creates an instance on the platform of another one, which is the platform's first.
pub async fn instance_beside(first: &Instance) -> Instance {
    let domain = new_host();
    let operator = first.operator().await;
    let founded = json!({ "name": "Tenant", "domain": domain, "organizationName": "Default" });
    let made = post(&operator, INSTANCES, founded).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let mut bootstrap = made.body.clone();
    bootstrap["instanceId"] = json!(made.id());
    let bootstrap: Bootstrap = serde_json::from_value(bootstrap).expect("it says what it made");
    let instance = Instance::of(first.data(), bootstrap);
    instance.ready().await;
    eventually("the first user is known", async || {
        Client::try_log_in(&instance.bootstrap.issuer, &instance.bootstrap.service_user).await.ok()
    })
    .await;
    instance
}

/// Returns the name of a host that no other test has.
pub fn new_host() -> String {
    format!("{}.localhost", new_name())
}

/// Returns a name that no other test has, of lower-case letters and digits.
pub fn new_name() -> String {
    let random = random_secret().to_ascii_lowercase();
    let random: String = random.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    format!("t{random}")
}
