//! Checks of Postgres: whether it answers, can hold the read models safely, and how far they lag.

use std::{str::FromStr as _, time::Duration};

use base::{explain::explain, health::LAGS};
use domain::log_class::OfEach;
use eventlog::log::{Lag, Log};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls};
use view::{
    database::Database,
    projection::{PROJECTIONS, Projection},
    read_model::ReadModel,
    schema,
};

use super::{Ahead, report::Report};
use crate::{cli, node::SHARD, running_servers};

/// The oldest version that the platform is tested with.
const OLDEST: i32 = 15;
const PATIENCE: Duration = Duration::from_secs(5);
/// The lag, in seconds, above which a projection counts as one without a worker.
const STANDING: f64 = 60.0;

pub(super) async fn check(options: &cli::Doctor, logs: &OfEach<Option<Log>>, report: &mut Report) {
    let url = match running_servers::postgres(&options.servers, options.postgres.postgres_url.as_ref()) {
        Ok(url) => url,
        Err(error) => return report.fail("postgres", error.to_string(), ""),
    };
    let client = match connect(&url).await {
        Ok(client) => client,
        Err(error) => {
            let remedy = "check --postgres-url, and that the server runs and lets this user in";
            return report.fail("postgres", format!("cannot connect to Postgres: {error}"), remedy);
        }
    };
    let checked = timeout(PATIENCE, async {
        check_server(&client, report).await?;
        let time = async {
            let micros = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
            let told: i64 = client.query_one(micros, &[]).await.ok()?.get(0);
            jiff::Timestamp::from_microsecond(told).ok()
        };
        if let Some(ahead) = Ahead::of(time).await {
            ahead.report("postgres clock", "Postgres", report);
        }
        Ok::<_, tokio_postgres::Error>(())
    });
    match checked.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return report.fail("postgres", explain(&error), "see Postgres's own log"),
        Err(_) => return report.fail("postgres", "Postgres does not answer", "see its own log, and its load"),
    }
    for projection in PROJECTIONS.iter().filter(|projection| projection.schema().is_some()) {
        if let Err(error) = check_projection(&url, projection, logs[projection.class].as_ref(), report).await {
            let found = format!("{} cannot be read: {error}", projection.schema_name());
            report.fail(
                "read model",
                found,
                "let the user of --postgres-url own the schemas, or rebuild (docs/operations.md)",
            );
        }
    }
}

async fn connect(url: &str) -> Result<Client, String> {
    let mut config = Config::from_str(url).map_err(|error| explain(&error))?;
    config.connect_timeout(PATIENCE).application_name("platform doctor");
    let (client, connection) = match timeout(PATIENCE, config.connect(NoTls)).await {
        Ok(connected) => connected.map_err(|error| explain(&error))?,
        Err(_) => return Err("no answer".to_owned()),
    };
    tokio::spawn(connection);
    Ok(client)
}

async fn check_server(client: &Client, report: &mut Report) -> Result<(), tokio_postgres::Error> {
    report.ok("postgres", "Postgres answers");
    let text = "select current_setting('server_version_num')::integer / 10000, current_setting('server_version'), \
                current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', pg_is_in_recovery(), \
                has_database_privilege(current_database(), 'create'), current_user::text, current_database()::text";
    let row = client.query_one(text, &[]).await?;
    let (major, version): (i32, String) = (row.get(0), row.get(1));
    let (fsync, full_page_writes, is_standby, may_create): (bool, bool, bool, bool) =
        (row.get(2), row.get(3), row.get(4), row.get(5));
    let (user, database): (String, String) = (row.get(6), row.get(7));
    if major >= OLDEST {
        report.ok("postgres version", format!("Postgres {version}"));
    } else {
        let remedy = format!("run Postgres {OLDEST} or later");
        report.fail("postgres version", format!("Postgres {version} is too old"), &remedy);
    }
    for (setting, is_on) in [("fsync", fsync), ("full_page_writes", full_page_writes)] {
        if is_on {
            report.ok("postgres disk", format!("{setting} is on"));
        } else {
            let found = format!("{setting} is off, so read models may be damaged unseen when the power fails");
            let remedy =
                format!("`alter system set {setting} = on`, reload, and rebuild the read models (docs/operations.md)");
            report.fail("postgres disk", found, &remedy);
        }
    }
    if is_standby {
        report.fail("postgres role", "this is a standby, which takes no writes", "give the primary's address");
    }
    if may_create {
        report.ok("schemas", format!("{user} may create schemas in {database}"));
    } else {
        let remedy = format!("`grant create on database {database} to {user}`");
        report.fail("schemas", format!("{user} may not create schemas in {database}"), &remedy);
    }
    Ok(())
}

async fn check_projection(
    url: &str,
    projection: &Projection,
    log: Option<&Log>,
    report: &mut Report,
) -> Result<(), String> {
    const CHECK: &str = "read model";
    let name = projection.schema_name();
    let database = Database::new(url, 1).map_err(|error| explain(&error))?;
    let is_complete =
        database.within(schema::is_complete(&database, projection)).await.map_err(|error| explain(&error))?;
    if !is_complete {
        let remedy =
            "none, before the first start; else start a node: it creates what is missing and fills it from the log";
        report.warn(CHECK, format!("tables of {name} are missing"), remedy);
        return Ok(());
    }
    let Some(log) = log else { return Ok(()) };
    let read = async { ReadModel::new(projection, SHARD).checkpoint(&*database.connection().await?).await };
    let Some(checkpoint) = database.within(read).await.map_err(|error| explain(&error))? else {
        report.warn(CHECK, format!("{name} has not begun to follow the log"), "start a projector");
        return Ok(());
    };
    // Read after the checkpoint, so that a log that grows meanwhile does not seem shorter than the checkpoint.
    let last = log.last().await.map_err(|error| explain(&error))?;
    let (at, end) = (checkpoint.position, last.as_ref().map(eventlog::record::Record::position).unwrap_or_default());
    let is_here = at.stream_sequence <= end.stream_sequence && log.has(at).await.map_err(|error| explain(&error))?;
    if !is_here {
        let (at, end) = (at.stream_sequence, end.stream_sequence);
        let found = format!(
            "{name} is at message {at}, which is missing in this log or another record there; the log ends at {end}"
        );
        let remedy = "check that --nats-url and --postgres-url belong together. If they do, the log has lost messages or was \
                      restored from an older backup: keep the read models, which may be the last copy, until it is clear \
                      what is missing (docs/operations.md, \"When the log has lost messages\")";
        report.fail(CHECK, found, remedy);
        return Ok(());
    }
    let found = format!("{name} has event {} of {}", at.sequence, end.sequence);
    if at.stream_sequence >= end.stream_sequence {
        report.ok(CHECK, found);
        return Ok(());
    }
    let Lag { seconds, .. } = log.lag(at.into(), end.into()).await.map_err(|error| explain(&error))?;
    let found = format!("{found}; it lags {seconds:.1} s");
    let remedy = "check that a projector runs, and its log lines (docs/operations.md)";
    match seconds {
        ..=LAGS => report.ok(CHECK, found),
        ..=STANDING => report.warn(CHECK, found, remedy),
        _ => report.fail(CHECK, found, remedy),
    }
    Ok(())
}
