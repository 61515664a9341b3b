//! Prepares a log and a database for nodes in processes of their own, once.

use base::{health::Health, secret};
use domain::address::Allowed;
use edge::caller::SystemUsers;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, bootstrap, cli,
    data_dir::DataDir,
    node::{self, Adapters, Node, NodeOptions, ServingOptions},
    output,
    prepare::prepare,
    roles::Roles,
    serving::check_servers,
    system_user,
};

/// Sets an empty log up, and leaves master key and `bootstrap.json` in the folder; of a log that was set up it changes
/// nothing.
pub(crate) async fn run(options: Box<cli::Setup>, shutdown: CancellationToken) -> Result<(), Failure> {
    check_servers(options.nats.nats_url.as_deref(), Some(&options.postgres.postgres_url))?;
    let data = DataDir::open(&options.data.data_dir, options.master_key_file.as_deref(), secret::random)?;
    let wanted = bootstrap::wanted(options.setup.as_deref())?;
    node::external(&options.external_url)?;
    let serving_options = ServingOptions {
        external: options.external_url.clone(),
        number: 0,
        tail_limit: cli::TAIL_LIMIT,
        patience: command::reaction::delivery::Patience::default(),
        system_users: SystemUsers::new(system_user::own(data.path())?)?,
        targets: Allowed::default(),
        dns_server: None,
        silence: view::ended::SILENCE,
        searches: query::SearchBounds::default(),
    };
    let node_options = NodeOptions {
        nats_url: options.nats.nats_url.clone().ok_or(node::NO_NATS)?,
        nats: options.nats.clone(),
        postgres_url: options.postgres.postgres_url.clone(),
        role: "setup",
        name: data.node_id().to_owned(),
        health: Health::default(),
        writes: true,
        is_alone: true,
    };
    let adapters = Adapters::connect(node_options).await?;
    let replicas = usize::from(options.nats.nats_replicas);
    command::reaction::delivery::prepare(&adapters.log, node::SHARD, replicas).await?;
    let events = adapters.log.last().await?.map_or(0, |record| record.position().sequence);
    if events > 0 && !bootstrap::is_planned(&data) {
        output::notice(format_args!("the log was set up before and has {events} events; nothing was changed"));
        return Ok(());
    }
    let node = Node::new(adapters, serving_options, data.master_keys()).await?;
    let index = tempfile::tempdir()?;
    let roles = Roles::start(&node, &cli::Index { index_grace: cli::INDEX_GRACE }, index.path().to_owned(), &shutdown)?;
    let host = options.external_url.host_str().unwrap_or_default().to_owned();
    let prepared = tokio::select! {
        prepared = prepare(&wanted, &data, &node, &roles.writer, vec![host]) => prepared,
        () = shutdown.cancelled() => Err("interrupted; start it again to finish".into()),
    };
    let issuer = options.external_url.origin().ascii_serialization();
    let kept = prepared.and_then(|prepared| prepared.keep(&data, &issuer));
    shutdown.cancel();
    roles.end().await.and(kept)?;
    let (key, told) = (data.path().join("master.key"), data.bootstrap());
    output::notice(format_args!("the log is set up: {} tells who may log in", told.display()));
    if options.master_key_file.is_none() {
        output::notice(format_args!("every node needs the master key: --master-key-file {}", key.display()));
    }
    let users = system_user::public(data.path());
    output::notice(format_args!(
        "and lets operator tools in with the system users: --system-users {}",
        users.display()
    ));
    Ok(())
}
