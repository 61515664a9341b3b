//! Checks of NATS: whether it answers, syncs what it acknowledges, and has the streams as they must be.

use std::time::Duration;

use async_nats::{Client, jetstream};
use base::{clock::since_start, explain::explain};
use domain::log_class::{LogClass, OfEach};
use eventlog::{
    durability::{Durability, Unsafe},
    log::{Log, LogFailure},
    nats::without_password,
    streams::{BESIDE, StreamState, server_time},
};

use super::{Ahead, readable_size, report::Report};
use crate::{
    cli,
    node::{SHARD, durability},
    running_servers,
};

/// The oldest version that the platform is tested with.
const OLDEST: (u32, u32) = (2, 12);
/// The smallest payload limit, in bytes: packs of an index are sent in messages of half a megabyte.
const SMALLEST_PAYLOAD: usize = 600_000;
const USUAL_PAYLOAD: usize = 1 << 20;
const LITTLE: u64 = 1 << 30;
const NOTHING: u64 = 64 << 20;
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks NATS, and returns the logs that exist and can be read.
pub(super) async fn check(servers: &cli::Servers, report: &mut Report) -> OfEach<Option<Log>> {
    check_logs(servers, report).await.unwrap_or_default()
}

async fn check_logs(servers: &cli::Servers, report: &mut Report) -> Option<OfEach<Option<Log>>> {
    let flags = match running_servers::nats(servers) {
        Ok(flags) => flags,
        Err(error) => {
            report.fail("nats", error.to_string(), "");
            return None;
        }
    };
    let client = match running_servers::connect(&flags, "platform doctor").await {
        Ok(client) => client,
        Err(error) => {
            report.fail("nats", error.to_string(), "");
            return None;
        }
    };
    let address = without_password(flags.nats_url.as_deref().unwrap_or_default());
    report.ok("nats", format!("{} at {address} answers", client.server_info().server_name));
    check_version(&client, report);
    let durability = durability(&flags);
    check_durability(&durability, report).await;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(API_TIMEOUT);
    check_jetstream(&context, &durability, report).await?;
    check_payload(&client, report);
    let replicas = usize::from(flags.nats_replicas);
    let events = check_log(&client, LogClass::Events, replicas, report).await;
    let sessions = check_log(&client, LogClass::Sessions, replicas, report).await;
    if let Some(ahead) = Ahead::of(server_time(&client, "EVENTS_0")).await {
        ahead.report("nats clock", "NATS", report);
    }
    for beside in &BESIDE {
        let name = beside.stream;
        match beside.check(&context, replicas).await {
            Ok(StreamState::Right) => report.ok("stream", format!("{name}, {}, is set up correctly", beside.what)),
            Ok(StreamState::Absent) => {
                let found = format!("{name}, {}, does not exist", beside.what);
                report.warn("stream", found, "none, unless nodes run already: the first node that starts makes it");
            }
            Ok(StreamState::Wrong(rule)) => {
                let remedy = format!(
                    "stop the nodes, remove {name} and start them again: they create it again, and {}",
                    beside.loses
                );
                report.fail("stream", format!("{name}, {}, has {rule}", beside.what), &remedy);
            }
            Err(error) => report.fail("stream", format!("{name}: {error}"), "check that this user may access it"),
        }
    }
    Some(OfEach { events, sessions })
}

fn check_version(client: &Client, report: &mut Report) {
    let version = client.server_info().version;
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let known = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if known >= OLDEST {
        return report.ok("nats version", format!("nats-server {version}"));
    }
    let remedy = format!("run nats-server {}.{} or later", OLDEST.0, OLDEST.1);
    report.fail("nats version", format!("nats-server {version} is too old"), &remedy);
}

async fn check_durability(durability: &Durability, report: &mut Report) {
    const CHECK: &str = "durability";
    if durability.unsafe_durability {
        let found = "not checked, because of --unsafe-durability: acknowledged writes may be lost when the power fails";
        return report.warn(
            CHECK,
            found,
            "set sync_interval: always in the server's jetstream block, and leave the flag out",
        );
    }
    match durability.check().await {
        Ok(()) => report.ok(CHECK, "NATS syncs to disk before it acknowledges"),
        Err(error @ (Unsafe::NoAnswer(..) | Unsafe::TooFew { .. })) => {
            report.fail(CHECK, error.to_string(), "check --nats-monitor-url or --nats-system-url");
        }
        Err(error) => report.fail(CHECK, error.to_string(), ""),
    }
}

/// Checks that JetStream is enabled and has room. The limit of the account and that of the server both apply.
async fn check_jetstream(context: &jetstream::Context, durability: &Durability, report: &mut Report) -> Option<()> {
    let begin = since_start();
    let account = match context.query_account().await {
        Ok(account) => account,
        Err(error) => {
            let found = format!("JetStream does not answer: {}", explain(&error));
            report.fail(
                "jetstream",
                found,
                "enable JetStream on the server and for this account, and let this user access it",
            );
            return None;
        }
    };
    let took = since_start().saturating_sub(begin).as_secs_f64() * 1000.0;
    report.ok("jetstream", format!("JetStream answers in {took:.1} ms; this account has {} streams", account.streams));
    let limit = account.limits.max_storage.and_then(|most| u64::try_from(most).ok());
    let mut rooms: Vec<(String, u64)> = vec![];
    rooms.extend(limit.map(|most| ("this account".to_owned(), most.saturating_sub(account.storage))));
    let servers = durability.storage().await.unwrap_or_default().into_iter();
    rooms.extend(servers.map(|it| (it.server, it.most.saturating_sub(it.used))));
    let Some((whose, free)) = rooms.into_iter().min_by_key(|(_, free)| *free) else {
        let remedy = "give --nats-monitor-url or --nats-system-url";
        report.warn("nats storage", "the free space for the log is unknown", remedy);
        return Some(());
    };
    let found = format!("{whose} may store {} more in files", readable_size(free));
    let remedy = "raise max_file_store of the server or the account's limit, after making room on the disk";
    match free {
        LITTLE.. => report.ok("nats storage", found),
        NOTHING.. => report.warn("nats storage", found, remedy),
        _ => report.fail("nats storage", found, remedy),
    }
    Some(())
}

fn check_payload(client: &Client, report: &mut Report) {
    let most = client.server_info().max_payload;
    let found = format!("a message may have {most} bytes, a record half of that");
    let remedy = "set max_payload: 1MB, NATS's own default, in the server's configuration";
    match most {
        USUAL_PAYLOAD.. => report.ok("max_payload", found),
        SMALLEST_PAYLOAD.. => report.warn("max_payload", format!("{found}; larger commands are refused"), remedy),
        _ => report.fail("max_payload", format!("{found}; search indexes cannot be published"), remedy),
    }
}

async fn check_log(client: &Client, class: LogClass, replicas: usize, report: &mut Report) -> Option<Log> {
    const CHECK: &str = "log";
    let name = format!("{}_{SHARD}", class.name());
    let log = match Log::find(client.clone(), class, SHARD).await {
        Ok(log) => log,
        Err(error @ LogFailure::Absent { .. }) => {
            let remedy = "none, before the first start: `platform setup` or `platform standalone` makes the log";
            report.warn(CHECK, error.to_string(), remedy);
            return None;
        }
        Err(error) => {
            report.fail(CHECK, error.to_string(), &format!("check that this user may access the stream {name}"));
            return None;
        }
    };
    match log.check_rules(SHARD, replicas).await {
        Ok(()) => report.ok(CHECK, format!("{name} has the rules of a log, {replicas} replicas or more")),
        Err(error) => {
            let remedy = format!(
                "for replicas and maxima edit the stream (`nats stream edit {name}`); otherwise recreate it with \
                 the same messages, as docs/nats-permissions.md explains under \"When there is a foreign message\""
            );
            report.fail(CHECK, error.to_string(), &remedy);
        }
    }
    match log.check_complete().await {
        Ok(()) => {
            let purged = match log.purged().await {
                Ok(purged) if purged > 0 => format!(", except the first {purged}, which have aged out"),
                _ => String::new(),
            };
            report.ok(
                "log messages",
                format!("no message of {name} is missing{purged}; {} reads them all", verify(class)),
            );
        }
        Err(error) => {
            report.fail("log messages", error.to_string(), "");
            return None;
        }
    }
    match log.lagging().await {
        Ok(lagging) if !lagging.is_empty() => {
            let found = format!("these servers are unavailable or lag with {name}: {}", lagging.join(", "));
            report.warn("log servers", found, "bring them back: without a majority no write is acknowledged");
        }
        _ => {}
    }
    match log.last().await {
        Ok(_) => Some(log),
        Err(error) => {
            report.fail("log end", error.to_string(), &format!("{} shows details", verify(class)));
            None
        }
    }
}

/// Returns the command that reads a complete log.
const fn verify(class: LogClass) -> &'static str {
    match class {
        LogClass::Events => "`platform log verify`",
        LogClass::Sessions => "`platform log verify --log sessions`",
    }
}
