//! Prepares a log and a database for nodes in processes of their own, once.

use std::path::PathBuf;

use base::{health::Health, secret};
use command::setup::Additions;
use domain::{address::Allowed, log_class::LogClass, object_limits::ObjectLimits};
use edge::caller::SystemUsers;
use eventlog::log::{Log, LogFailure};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, bootstrap, cli,
    data_dir::DataDir,
    first_login::path_in,
    master_key::proof::prove,
    node::{self, Adapters, Node, NodeOptions, ServingOptions},
    output,
    prepare::prepare,
    roles::Roles,
    serving::check_servers,
    system_user,
};

/// Sets up an empty log, and leaves the master key and `bootstrap.json` in the folder; a log that was set up before is
/// not changed.
pub(crate) async fn run(options: Box<cli::Setup>, shutdown: CancellationToken) -> Result<(), Failure> {
    check_servers(options.nats.nats_url.as_deref(), Some(&options.postgres.postgres_url))?;
    let has_person = options.first_person_file.is_some();
    let wanted = bootstrap::additions(options.setup.as_deref(), options.features.clone(), has_person)?;
    if DataDir::require(&options.data.data_dir).is_err() && is_set_up(&options).await? {
        let folder = options.data.data_dir.display();
        output::notice(format_args!(
            "the log was set up before, from another folder than {folder}; nothing was changed, and no key was made"
        ));
        return Ok(());
    }
    let data = DataDir::open(&options.data.data_dir, options.master_key_file.as_deref(), secret::random)?;
    match prepare_in(&options, &wanted, &data, shutdown).await {
        Err(error) if !bootstrap::is_planned(&data) => {
            data.discard();
            Err(error)
        }
        ended => ended,
    }
}

/// Whether there is a log with events, for a folder that was not used with it yet.
async fn is_set_up(options: &cli::Setup) -> Result<bool, Failure> {
    let url = options.nats.nats_url.as_deref().ok_or(node::NO_NATS)?;
    let client = node::connect(&options.nats, url, "setup", "platform setup").await?;
    match Log::find(client, LogClass::Events, node::SHARD).await {
        Ok(log) => Ok(log.last().await?.is_some_and(|record| record.position().sequence > 0)),
        Err(LogFailure::Absent { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Fails where the log was set up for another address than the given one.
fn check_issuer(data: &DataDir, options: &cli::Setup) -> Result<(), Failure> {
    let given = options.external_url.origin().ascii_serialization();
    match bootstrap::Bootstrap::issuer_of(data.path()) {
        Ok(before) if before != given => Err(format!(
            "the log was set up for {before}, so --external-url {given} has no effect; nothing was changed. Nodes take scheme \
             and port from their own --external-url, and hosts are domains of instances (docs/tenancy.md)"
        )
        .into()),
        _ => Ok(()),
    }
}

async fn prepare_in(
    options: &cli::Setup,
    wanted: &Additions,
    data: &DataDir,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let (serving_options, node_options) = node_options(options, data, &shutdown)?;
    let adapters = tokio::select! {
        adapters = Adapters::connect(node_options) => adapters?,
        () = shutdown.cancelled() => return Err("interrupted; start it again".into()),
    };
    let replicas = usize::from(options.nats.nats_replicas);
    command::reaction::delivery::prepare(&adapters.log, node::SHARD, replicas).await?;
    let events = adapters.log.last().await?.map_or(0, |record| record.position().sequence);
    if events > 0 && !bootstrap::is_planned(data) {
        check_issuer(data, options)?;
        prove(&adapters.log, &adapters.pools.keys, data.master_keys()).await?;
        output::notice(format_args!("the log was set up before and has {events} events; nothing was changed"));
        return Ok(());
    }
    let node = Node::new(adapters, serving_options, data.master_keys()).await?;
    let index = tempfile::tempdir()?;
    let roles = Roles::start(&node, &cli::ReadModels::default(), index.path().to_owned(), &shutdown)?;
    let host = options.external_url.host_str().unwrap_or_default().to_owned();
    let prepared = tokio::select! {
        prepared = prepare(wanted, data, &node, &roles.writer, vec![host]) => prepared,
        () = shutdown.cancelled() => Err("interrupted; start it again to finish".into()),
    };
    let issuer = options.external_url.origin().ascii_serialization();
    let first_login = match &options.first_person_file {
        Some(file) => std::path::absolute(file)?,
        None => path_in(data.path()),
    };
    let kept = prepared.and_then(|prepared| prepared.write(data, &issuer, &first_login));
    shutdown.cancel();
    roles.end().await?;
    print_summary(options, data, kept?.then_some(&first_login));
    Ok(())
}

/// Returns the options of the node that sets up the log.
fn node_options(
    options: &cli::Setup,
    data: &DataDir,
    stopping: &CancellationToken,
) -> Result<(ServingOptions, NodeOptions), Failure> {
    let serving_options = ServingOptions {
        external: options.external_url.clone(),
        number: 0,
        tail_limit: cli::TAIL_LIMIT,
        object_limits: ObjectLimits::default(),
        patience: command::reaction::delivery::Patience::default(),
        system_users: SystemUsers::new(system_user::own(data.path())?)?,
        targets: Allowed::default(),
        dns_server: None,
        silence: view::ended::SILENCE,
        directory_size: view::directory::SIZE,
        searches: query::SearchBounds::default(),
    };
    let node_options = NodeOptions {
        nats_url: options.nats.nats_url.clone().ok_or(node::NO_NATS)?,
        nats: options.nats.clone(),
        postgres_url: options.postgres.postgres_url.clone(),
        role: "setup",
        name: data.node_id().to_owned(),
        // Before there is a log no other node generates ids.
        number: None,
        health: Health::default(),
        stopping: stopping.clone(),
        writes: true,
        is_alone: true,
        accepts_lost_keys: false,
    };
    Ok((serving_options, node_options))
}

/// Prints what was created, the file of the first login, and what nodes need.
fn print_summary(options: &cli::Setup, data: &DataDir, first_login: Option<&PathBuf>) {
    let (key, told) = (data.path().join("master.key"), data.bootstrap());
    output::notice(format_args!("the log is set up: {} shows who may log in", told.display()));
    match (first_login, &options.first_person_file) {
        (Some(file), _) => output::notice(format_args!("how the first person logs in is in {}", file.display())),
        (None, Some(file)) => output::notice(format_args!(
            "{} was not written, because no first person was created: the setup that was begun before has none",
            file.display()
        )),
        (None, None) => {}
    }
    if options.master_key_file.is_none() {
        output::notice(format_args!("every node needs the master key: --master-key-file {}", key.display()));
    }
    let users = system_user::public(data.path());
    output::notice(format_args!(
        "and lets operator tools in with the system users: --system-users {}",
        users.display()
    ));
}
