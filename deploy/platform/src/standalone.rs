//! All roles in one process: the quick start and the test bed. Code and protocols are those of the single roles.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use base::secret;
use command::setup::{Additions, all_features};
use domain::address::Allowed;
use edge::caller::SystemUsers;
use query::operate::Writes;
use server::connections::{self, Listening};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::{Host, Url};

use crate::{
    Failure,
    binaries::Binaries,
    bootstrap::{self, Bootstrap},
    child::ChildError,
    cli,
    data_dir::DataDir,
    external::external_url,
    first_login::path_in,
    management::Managed,
    nats::Nats,
    node::{Adapters, Node, NodeOptions, ServingOptions},
    output,
    postgres::Postgres,
    prepare::{hosts, prepare},
    role::end_of,
    roles::Roles,
    serving::{ServingPort, check_servers, finished, limits, listen},
    system_user, telemetry,
};

/// The role in logs, metrics and leases.
const ROLE: &str = "standalone";

/// A start of the platform, once the management port is open.
struct StandaloneStart<'a> {
    options: &'a cli::Standalone,
    managed: &'a Managed,
    /// What the first start sets up in addition to the defaults.
    wanted: &'a Additions,
    data: &'a DataDir,
    external: Url,
}

/// The servers that this process has started itself.
struct StartedServers {
    nats: Option<Nats>,
    postgres: Option<Postgres>,
}

/// Runs until `shutdown`, or until something that it needs has ended.
pub(crate) async fn run(options: Box<cli::Standalone>, shutdown: CancellationToken) -> Result<(), Failure> {
    check_servers(options.nats.nats_url.as_deref(), options.postgres.postgres_url.as_deref())?;
    let data = DataDir::open(&options.data.data_dir, options.serving.master_key_file.as_deref(), secret::random)?;
    // First, so that errors in the flags are reported before anything is started.
    let wanted = bootstrap::additions(options.setup.as_deref(), all_features(), !data.bootstrap().exists())?;
    let listening = listen(&options.serving).await?;
    let external = external_url(&options.serving, listening.listener.local_addr()?)?;
    let (observing, node_id) = (&options.observing, data.node_id());
    let exporting = telemetry::start_node(ROLE, node_id, observing)?;
    let managed = Managed::open(observing, ROLE, node_id, &shutdown).await?;
    data.write_management_address(managed.address)?;
    data.write_address(&reached_at(&options.serving, listening.listener.local_addr()?))?;
    note_issuer(&data, &external);
    let start = StandaloneStart { options: &options, managed: &managed, wanted: &wanted, data: &data, external };
    let ended = start.run(listening, shutdown).await;
    data.forget_addresses();
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    ended
}

impl StandaloneStart<'_> {
    async fn run(&self, listening: Listening, shutdown: CancellationToken) -> Result<(), Failure> {
        let progress = |line: &str| output::notice(line);
        let mut own = StartedServers { nats: None, postgres: None };
        let node_options = tokio::select! {
            node_options = self.node_options(&mut own, &progress) => node_options,
            () = shutdown.cancelled() => Err("interrupted".into()),
        };
        let ended = match node_options {
            Ok(node_options) => {
                tokio::select! {
                    ended = self.serve(node_options, listening, &shutdown) => ended,
                    death = own.died() => Err(death.into()),
                }
            }
            Err(_) if shutdown.is_cancelled() => Ok(()),
            Err(error) => Err(error),
        };
        own.stop().await;
        ended
    }

    /// Starts the servers for which no address is given.
    async fn node_options(
        &self,
        own: &mut StartedServers,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<NodeOptions, Failure> {
        let (binaries, Self { options, managed, data, .. }) = (Binaries::new(), self);
        let mut nats = options.nats.clone();
        if nats.nats_url.is_none() {
            let started = Nats::start(data, &binaries, progress).await?;
            nats.nats_url = Some(started.url.clone());
            nats.nats_token = Some(started.token.clone());
            nats.nats_monitor_url = Some(started.monitor_url.clone());
            own.nats = Some(started);
        }
        let postgres_url = match &options.postgres.postgres_url {
            Some(url) => url.clone(),
            None => {
                let started = Postgres::start(data, &binaries, progress).await?;
                let url = started.url.clone();
                own.postgres = Some(started);
                url
            }
        };
        Ok(NodeOptions {
            nats_url: nats.nats_url.clone().unwrap_or_default(),
            nats,
            postgres_url,
            role: ROLE,
            name: data.node_id().to_owned(),
            number: Some(options.serving.node_number),
            stopping: managed.stopping.clone(),
            writes: true,
            // It holds the lock of the data directory.
            is_alone: true,
            accepts_lost_keys: options.people.accept_lost_keys,
            health: managed.health.clone(),
        })
    }

    async fn serve(
        &self,
        node_options: NodeOptions,
        listening: Listening,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        let Self { options, managed, wanted, data, external } = self;
        let serving = &options.serving;
        let is_local = is_local(serving, external);
        let serving_options = ServingOptions {
            external: external.clone(),
            number: serving.node_number,
            tail_limit: serving.writes.tail_limit,
            object_limits: serving.writes.object_limits.clone(),
            targets: targets(serving, is_local),
            dns_server: serving.dns_server,
            silence: Duration::from_secs(serving.silence_limit),
            directory_size: serving.directory_size,
            patience: serving.deliveries.patience(),
            system_users: system_users(serving, data)?,
            searches: serving.searches.bounds(),
        };
        let connect = async {
            let adapters = Adapters::connect(node_options).await?;
            Node::new(adapters, serving_options, data.master_keys()).await
        };
        let node = tokio::select! {
            node = connect => node?,
            () = shutdown.cancelled() => return Ok(()),
        };
        let roles = Roles::start(&node, &options.read_models, data.path().join("index"), shutdown)?;
        let hosts = hosts(external.host_str().unwrap_or_default(), serving.listen.ip(), is_local);
        let prepared = tokio::select! {
            prepared = prepare(wanted, data, &node, &roles.writer, hosts) => prepared.map(Some),
            () = shutdown.cancelled() => Ok(None),
        };
        let issuer = external.origin().ascii_serialization();
        let answered = match prepared {
            Ok(Some(prepared)) => {
                let ready = || {
                    let first_login = path_in(data.path());
                    let is_left = prepared.write(data, &issuer, &first_login)?;
                    output::print(Bootstrap::commands(data, &issuer, is_left.then_some(&first_login)));
                    managed.serves();
                    Ok(())
                };
                let port = ServingPort { listening, rates: &serving.rates, searches: serving.searches };
                answer(&node, &roles, port, shutdown, ready).await
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        shutdown.cancel();
        let ended = roles.end().await;
        node.adapters.sole.verdict().and(ended).and(answered)
    }
}

/// Returns the URL under which this machine can use a platform that listens at this address.
fn reached_at(serving: &cli::Serving, listening: SocketAddr) -> String {
    let scheme = if serving.tls_cert.is_some() { "https" } else { "http" };
    let ip = match listening.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("{scheme}://{}", SocketAddr::new(ip, listening.port()))
}

/// Prints a notice where the issuer has changed since the first start, which nobody would notice otherwise.
fn note_issuer(data: &DataDir, external: &Url) {
    let now = external.origin().ascii_serialization();
    if let Ok(before) = Bootstrap::issuer_of(data.path())
        && before != now
    {
        output::notice(format_args!(
            "the issuer is {now} now, and was {before} at the first start: earlier tokens are refused, and clients \
             have to use the new issuer; --external-url {before} restores the old one"
        ));
    }
}

/// Returns the users that sign their own tokens: the user of the data directory, and those of the file.
fn system_users(serving: &cli::Serving, data: &DataDir) -> Result<SystemUsers, Failure> {
    let mut users = system_user::own(data.path())?;
    if let Some(file) = &serving.system_users {
        users.extend(system_user::read(file)?);
    }
    Ok(SystemUsers::new(users)?)
}

/// Whether only this machine can use the platform. A loopback address may be behind a public proxy: then clients use
/// another name, or the proxy is trusted.
fn is_local(serving: &cli::Serving, external: &Url) -> bool {
    let is_loopback = match external.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    serving.listen.ip().is_loopback() && is_loopback && serving.trusted_proxies.is_empty()
}

/// Returns the addresses that targets may have in addition to the public internet: those of this machine, if nobody
/// else can use the platform.
fn targets(serving: &cli::Serving, is_local: bool) -> Allowed {
    let allowed = serving.allow_targets.clone();
    if !is_local {
        return allowed;
    }
    output::notice("targets on this machine are allowed, because only this machine reaches the platform");
    allowed.and(Allowed::loopback())
}

/// Serves every role on one port until `shutdown`. Earlier connections wait in the listener's queue.
async fn answer(
    node: &Node,
    roles: &Roles,
    port: ServingPort<'_>,
    shutdown: &CancellationToken,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let edge = node.edge().await?;
    let passed_on = TaskTracker::new();
    let commands = node.commands(&edge, roles.writer.clone(), &passed_on, shutdown).await?;
    let queries = node.queries(&edge, roles.indexes.clone(), Writes::Here(commands.clone())).await?;
    let router = commands.merge(queries).merge(node.oidc(&edge));
    let router = finished(router, &edge, &port, shutdown).await;
    ready()?;
    connections::serve(port.listening, router, shutdown.cancelled(), limits(port.rates)).await;
    end_of(passed_on, &node.adapters.log.client()).await;
    Ok(())
}

impl StartedServers {
    /// Waits until a server that this process has started ends by itself.
    async fn died(&mut self) -> ChildError {
        match (&mut self.nats, &mut self.postgres) {
            (Some(nats), Some(postgres)) => tokio::select! {
                death = nats.died() => death,
                death = postgres.died() => death,
            },
            (Some(nats), None) => nats.died().await,
            (None, Some(postgres)) => postgres.died().await,
            (None, None) => std::future::pending().await,
        }
    }

    async fn stop(self) {
        let nats = async {
            if let Some(nats) = self.nats {
                nats.stop().await;
            }
        };
        let postgres = async {
            if let Some(postgres) = self.postgres {
                postgres.stop().await;
            }
        };
        tokio::join!(nats, postgres);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn only_who_is_reached_by_this_machine_alone_is_local() {
        let is_local = |flags: &[&str], external: &str| {
            let command = [&["platform", "standalone"], flags].concat();
            let cli::Mode::Standalone(options) = cli::Cli::parse_from(command).mode else { panic!("it is asked for") };
            is_local(&options.serving, &external.parse().unwrap())
        };
        for external in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:1"] {
            assert!(is_local(&[], external), "{external}");
            assert!(!is_local(&["--trusted-proxies", "127.0.0.1"], external), "a proxy brings requests of others");
            assert!(!is_local(&["--listen", "0.0.0.0:8080"], external), "others reach it");
        }
        for external in ["https://id.example.com", "http://localhost.example", "http://10.0.0.1"] {
            assert!(!is_local(&[], external), "{external}");
        }
    }
}
