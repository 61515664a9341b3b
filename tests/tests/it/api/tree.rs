//! A random tree of contexts on nodes of its own, with a node that lags when the test wants it.

use reqwest::{Method, RequestBuilder, Url};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{
    client::{Answer, Client, done, send},
    cluster::{Cluster, Node},
    eventually,
    system_user::{system_owner, system_token},
    tenant::new_host,
};

const INSTANCES: &str = "/resources/v3alpha/instances";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";

/// How many instances there are at most, and organizations of each.
const INSTANCES_AT_MOST: usize = 3;
const ORGANIZATIONS_AT_MOST: usize = 4;

/// The system, instances of it, and organizations of these.
pub(super) struct Tree {
    /// The contexts: the system first, and each after its parent.
    pub(super) contexts: Vec<Context>,
    projector: Node,
    _nodes: [Node; 2],
    _cluster: Cluster,
    _folder: TempDir,
}

/// A context, with clients that may do everything there.
pub(super) struct Context {
    /// The index of its parent.
    pub(super) parent: Option<usize>,
    /// How requests name it.
    pub(super) query: String,
    /// The owner as in answers.
    pub(super) owner: Value,
    /// A client of the writing node, at the host of the context's instance.
    pub(super) writing: Client,
    /// A client of the reading node.
    pub(super) reading: Client,
}

/// The clients of a host.
struct Clients {
    writing: Client,
    reading: Client,
}

impl Tree {
    /// Creates a random tree.
    pub(super) async fn start(random: &mut fastrand::Rng) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = system_owner(folder.path()).display().to_string();
        let cluster = Cluster::start().await;
        let [command, query] =
            ["command", "query"].map(|role| cluster.node(role, role, &[("--system-users", &file)], &[]));
        let projector = cluster.node("projector", "projector", &[], &[]);
        cluster.writes(&command).await;
        cluster.searches(&cluster.client(&query)).await;
        let at = |issuer: &str| {
            let token = system_token(folder.path(), issuer);
            let client = |node: &Node| Client::with_token(&with_port_of(issuer, &node.url), token.clone());
            Clients { writing: client(&command), reading: client(&query) }
        };
        let first = &cluster.bootstrap;
        let mut contexts = vec![Context::of(None, "ctx.system=true", of("SYSTEM", None), &at(&first.issuer))];
        for number in 0..random.usize(1..=INSTANCES_AT_MOST) {
            let (id, issuer) = match number {
                0 => (first.instance_id.clone(), first.issuer.clone()),
                _ => founded(&contexts[0].writing, &first.issuer).await,
            };
            let (clients, instance) = (at(&issuer), contexts.len());
            let query = format!("ctx.instanceId={id}");
            contexts.push(Context::of(Some(0), &query, of("INSTANCE", Some(&id)), &clients));
            for organization in 0..random.usize(..=ORGANIZATIONS_AT_MOST) {
                let name = json!({ "name": format!("Organization {organization}") });
                let id = done(&clients.writing, ORGANIZATIONS, name).await.id();
                let query = format!("ctx.orgId={id}");
                contexts.push(Context::of(Some(instance), &query, of("ORG", Some(&id)), &clients));
            }
        }
        let owners: Vec<_> = contexts.iter().map(|context| &context.owner["type"]).collect();
        println!("the contexts are {owners:?}");
        Self { contexts, projector, _nodes: [command, query], _cluster: cluster, _folder: folder }
    }

    /// Returns a context and all above it, the nearest first.
    pub(super) fn chain(&self, context: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(context), |context| self.contexts[*context].parent)
    }

    /// Stops the updates of the read models.
    pub(super) async fn pause_projector(&self) {
        self.projector.process.signal(Signal::STOP);
        eventually("the projector stands", async || self.projector.process.is_stopped().then_some(())).await;
    }

    /// Resumes the updates of the read models.
    pub(super) fn go_on(&self) {
        self.projector.process.signal(Signal::CONT);
    }

    /// Checks that a held read model answers without a consistency token, and is refused with the token of a newer
    /// write.
    pub(super) async fn assert_lags(&self, last: &Answer, request: impl Fn() -> RequestBuilder) {
        let old = send(request()).await;
        assert_eq!(old.status, 200, "whoever names nothing is answered: {}", old.body);
        let request = request().header("consistency-token", last.consistency()).header("consistency-wait", "1ms");
        let refused = send(request).await;
        assert_eq!(refused.reason(), "CONSISTENCY_NOT_REACHED", "{} {}", refused.status, refused.body);
    }
}

impl Context {
    fn of(parent: Option<usize>, query: &str, owner: Value, Clients { writing, reading }: &Clients) -> Self {
        Self { parent, query: query.to_owned(), owner, writing: writing.clone(), reading: reading.clone() }
    }

    /// Returns a request that writes in the context.
    pub(super) fn writes(&self, method: Method, path: &str) -> RequestBuilder {
        self.writing.request(method, &format!("{path}?{}", self.query))
    }
}

/// Returns an owner as in answers.
fn of(kind: &str, id: Option<&str>) -> Value {
    let kind = format!("OWNER_TYPE_{kind}");
    id.map_or_else(|| json!({ "type": kind }), |id| json!({ "type": kind, "id": id }))
}

/// Creates an instance, and returns its id and issuer.
async fn founded(operator: &Client, first: &str) -> (String, String) {
    let domain = new_host();
    let instance = json!({ "name": "Another", "domain": domain, "organizationName": "Default" });
    let id = done(operator, INSTANCES, instance).await.id();
    (id, with_port_of(&format!("http://{domain}"), first))
}

/// Returns an address with the port of another one.
fn with_port_of(address: &str, other: &str) -> String {
    let [mut address, other] = [address, other].map(|text| text.parse::<Url>().expect("it is a URL"));
    address.set_port(other.port()).expect("it can have one");
    address.as_str().trim_end_matches('/').to_owned()
}
