//! Everything in one process: the quick start and the test bed. The same code on the same wire as the single roles.

use std::{net::SocketAddr, time::Duration};

use command::{
    setup::{Outcome, setup},
    writer::Phase,
};
use store::{
    keyring::{self, Purpose, SYSTEM},
    projection::PROJECTIONS,
    secret,
};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    Failure,
    binaries::Binaries,
    bootstrap::{self, Bootstrap},
    child::ChildError,
    cli,
    data_dir::DataDir,
    nats::Nats,
    node::{Node, Place},
    postgres::Postgres,
    role,
};

/// How long the first answers of a start may take.
const START_LIMIT: Duration = Duration::from_mins(5);
/// How long the roles may take to end; the servers need the rest of the promised 15 s.
const END_LIMIT: Duration = Duration::from_secs(4);

/// The servers that this process started itself.
struct Own {
    nats: Option<Nats>,
    postgres: Option<Postgres>,
}

/// Runs until `shutdown`, or until something that it needs has ended.
pub(crate) async fn run(options: Box<cli::Standalone>, shutdown: CancellationToken) -> Result<(), Failure> {
    let data = DataDir::open(&options.data.data_dir, options.serving.master_key_file.as_deref(), secret::random)?;
    let listener = listen(options.serving.listen).await?;
    let external = external_url(&options.serving, listener.local_addr()?)?;
    let progress = |line: &str| eprintln!("{line}");
    let mut own = Own { nats: None, postgres: None };
    let place = tokio::select! {
        place = place(&options, &data, external, &mut own, &progress) => place,
        () = shutdown.cancelled() => Err("interrupted".into()),
    };
    let ended = match place {
        Ok(place) => {
            tokio::select! {
                ended = serve(&options, &data, place, listener, &shutdown, &progress) => ended,
                death = own.died() => Err(death.into()),
            }
        }
        Err(_) if shutdown.is_cancelled() => Ok(()),
        Err(error) => Err(error),
    };
    own.stop().await;
    ended
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there; choose another address with --listen",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need privileges; choose a higher one with --listen"
            }
            _ => "choose an address of this machine with --listen",
        };
        format!("cannot listen on {address}: {error}: {hint}").into()
    })
}

pub(crate) fn external_url(serving: &cli::Serving, listening: SocketAddr) -> Result<Url, Failure> {
    match &serving.external_url {
        Some(url) => Ok(url.clone()),
        None if listening.ip().is_unspecified() => Ok(Url::parse(&format!("http://localhost:{}", listening.port()))?),
        None => Ok(Url::parse(&format!("http://{listening}"))?),
    }
}

/// Starts the servers that are not given.
async fn place(
    options: &cli::Standalone,
    data: &DataDir,
    external: Url,
    own: &mut Own,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Place, Failure> {
    let binaries = Binaries::new();
    let mut nats = options.nats.clone();
    if nats.nats_url.is_none() {
        let started = Nats::start(data, &binaries, progress).await?;
        nats.nats_url = Some(started.url.clone());
        nats.nats_token = Some(started.token.clone());
        nats.nats_monitor_url = Some(started.monitor_url.clone());
        own.nats = Some(started);
    }
    let postgres_url = match &options.postgres_url {
        Some(url) => url.clone(),
        None => {
            let started = Postgres::start(data, &binaries, progress).await?;
            let url = started.url.clone();
            own.postgres = Some(started);
            url
        }
    };
    Ok(Place {
        nats_url: nats.nats_url.clone().unwrap_or_default(),
        nats,
        postgres_url,
        name: data.node_id().to_owned(),
        number: options.serving.node_number,
        external,
        tail_limit: options.serving.tail_limit,
    })
}

async fn serve(
    options: &cli::Standalone,
    data: &DataDir,
    place: Place,
    listener: TcpListener,
    shutdown: &CancellationToken,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), Failure> {
    let external = place.external.clone();
    let node = Node::connect(place, secret::Key::new(*data.master_key())).await?;
    let mut projector = node.start_projector(shutdown)?;
    let (writer, mut writing) = node.start_writer(shutdown.clone());

    progress("waiting for the log and the read models");
    let mut phases = writer.phases();
    let active = timeout(START_LIMIT, phases.wait_for(|phase| matches!(phase, Phase::Active | Phase::Ended)));
    tokio::select! {
        active = active => match active.map(|phase| phase.map(|phase| *phase)) {
            Ok(Ok(Phase::Active)) => {}
            Ok(_) => {
                (&mut writing).await??;
                return Ok(());
            }
            Err(_) => return Err("another node writes to this log: a standalone platform needs a log of its own".into()),
        },
        () = shutdown.cancelled() => return end(&mut projector, writing).await,
    }

    let prepare = async {
        let bootstrap = prepare(options, data, &node, &writer, &external).await?;
        let edge = node.edge().await?;
        Ok::<_, Failure>((bootstrap, edge))
    };
    let (plan, edge) = tokio::select! {
        prepared = prepare => prepared?,
        () = shutdown.cancelled() => return end(&mut projector, writing).await,
    };
    let router = node.commands(&edge, writer).merge(node.queries(&edge)).merge(node.oidc(&edge));
    let serving = tokio::spawn(transport::server::serve(
        listener,
        role::finished(router),
        shutdown.clone().cancelled_owned(),
        role::limits(),
    ));
    let bootstrap = match plan {
        Prepared::Before(bootstrap) => *bootstrap,
        Prepared::Now(plan) => Bootstrap::write(data, external.origin().ascii_serialization(), *plan)?,
    };
    println!("{}", bootstrap.commands(data));
    let ended = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        ended = &mut writing => ended?.map_err(Into::into),
    };
    shutdown.cancel();
    let _ = timeout(END_LIMIT, serving).await;
    end(&mut projector, writing).await?;
    ended
}

enum Prepared {
    /// An earlier start has left its bootstrap.
    Before(Box<Bootstrap>),
    /// The plan is carried out and still to be told.
    Now(Box<command::setup::Plan>),
}

/// Sets an empty log up, and waits until the read models have what was set up and the keys open.
async fn prepare(
    options: &cli::Standalone,
    data: &DataDir,
    node: &Node,
    writer: &command::writer::Handle,
    external: &Url,
) -> Result<Prepared, Failure> {
    let host = external.host_str().unwrap_or_default().to_owned();
    let prepared = match Bootstrap::read(data)? {
        Some(bootstrap) => Prepared::Before(Box::new(bootstrap)),
        None => {
            let mut hosts = vec![host.clone(), "localhost".into(), "127.0.0.1".into()];
            hosts.push(options.serving.listen.ip().to_string());
            let mut seen = vec![];
            hosts.retain(|host| {
                !seen.contains(host) && {
                    seen.push(host.clone());
                    true
                }
            });
            let plan = bootstrap::plan(data, &node.ids, hosts, options.setup.as_deref())?;
            match setup(writer, &node.keyring, node.ids.clone(), &plan).await? {
                Outcome::Done(_) => Prepared::Now(Box::new(plan)),
                Outcome::Other(instance) => {
                    return Err(format!(
                        "the log was set up before, for instance {instance}, from another data directory: its bootstrap.json is there"
                    )
                    .into());
                }
            }
        }
    };
    let end = node.log.last().await?.map(|record| record.position()).unwrap_or_default();
    for projection in PROJECTIONS {
        let mut reached = node.progress.of(projection);
        timeout(START_LIMIT, reached.wait_for(|reached| reached.stream_sequence >= end.stream_sequence))
            .await
            .map_err(|_| format!("the projection {} does not catch up; the log above says why", projection.name))??;
    }
    node.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(|error| match error {
        keyring::Failure::WrongMasterKey => format!(
            "{error}: the one that was is in {}, unless --master-key-file named another",
            data.path().join("master.key").display()
        ),
        other => other.to_string(),
    })?;
    if node.directory.tenant(&host, 0).await?.is_none() {
        return Err(format!(
            "no instance of this data directory answers under {host}: give the --external-url of its first start"
        )
        .into());
    }
    Ok(prepared)
}

async fn end(
    projector: &mut tokio::task::JoinSet<()>,
    writing: tokio::task::JoinHandle<Result<(), command::writer::Failure>>,
) -> Result<(), Failure> {
    let all = async {
        if !writing.is_finished() {
            let _ = writing.await;
        }
        while projector.join_next().await.is_some() {}
    };
    let _ = timeout(END_LIMIT, all).await;
    Ok(())
}

impl Own {
    /// Ends when a server that this process started has ended by itself.
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
