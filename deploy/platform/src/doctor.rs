//! `platform doctor`: checks whether the servers and this machine suit a platform, and says what to change.
//! It creates and changes nothing.

mod machine;
mod nats;
mod postgres;
mod report;

use std::path::Path;

use base::clock;
use eventlog::log::Log;
use jiff::Timestamp;
use report::Report;
use tokio_util::sync::CancellationToken;
use view::database::Database;

use crate::{
    Failure, cli,
    data_dir::read_master_keys,
    master_key::proof::{Proof, proof},
    output, running_servers,
};

/// Checks everything that the flags name, one line each.
pub(crate) async fn run(options: cli::Doctor, shutdown: CancellationToken) -> Result<(), Failure> {
    let mut report = Report::new(options.json);
    tokio::select! {
        () = check(&options, &mut report) => {}
        () = shutdown.cancelled() => return Err("interrupted".into()),
    }
    if options.json {
        output::print(report.json());
    }
    match report.failed() {
        0 => Ok(()),
        1 => Err("one check failed: see the line that begins with fail, and docs/operator-tools.md".into()),
        failed => {
            Err(format!("{failed} checks failed: see the lines that begin with fail, and docs/operator-tools.md")
                .into())
        }
    }
}

async fn check(options: &cli::Doctor, report: &mut Report) {
    machine::check(options, report);
    let logs = nats::check(&options.servers, report).await;
    postgres::check(options, &logs, report).await;
    if let (Some(log), Some(file)) = (logs.events, machine::key_file(options)) {
        check_key(options, &log, &file, report).await;
    }
}

/// Checks that the master key is the one that the log was set up with. A file without a key was reported before.
async fn check_key(options: &cli::Doctor, log: &Log, file: &Path, report: &mut Report) {
    const CHECK: &str = "master key";
    let Ok(keys) = read_master_keys(file) else { return };
    let url = running_servers::postgres(&options.servers, options.postgres.postgres_url.as_ref());
    let database = url.ok().and_then(|url| Database::new(&url, 1).ok());
    let name = file.display();
    match proof(log, database.as_ref(), &keys).await {
        Ok(Proof::Right) => report.ok(CHECK, format!("{name} decrypts the data keys of this log")),
        Ok(Proof::Unset) => {
            report.warn(CHECK, "the log is not set up, so it has no master key yet", "none, before the first start");
        }
        Ok(Proof::Wrong) => report.fail(
            CHECK,
            format!("{name} is another key than the one that this log was set up with"),
            "put the right one there, or check that --nats-url is the log that is meant: no node starts with this one",
        ),
        Err(error) => report.fail(CHECK, format!("cannot be proved: {error}"), ""),
    }
}

/// How many seconds a server's clock is ahead of this machine's, at the moment of its answer.
struct Ahead(f64);

impl Ahead {
    /// Asks a server for its time.
    async fn of(ask: impl Future<Output = Option<Timestamp>>) -> Option<Self> {
        clock::ahead(ask).await.map(Self)
    }

    /// Reports the difference: it may be a second, the precision of what clients see; at ten seconds a node refuses
    /// tokens of another as issued in the future.
    fn report(&self, check: &'static str, server: &str, report: &mut Report) {
        let (seconds, direction) = (self.0.abs(), if self.0 < 0.0 { "behind" } else { "ahead of" });
        let found = format!("the clock of {server} is {seconds:.3} s {direction} this machine's");
        let remedy = "let both follow the same time server (chrony, systemd-timesyncd)";
        match seconds {
            ..=1.0 => report.ok(check, found),
            ..=10.0 => report.warn(check, found, remedy),
            _ => report.fail(check, found, remedy),
        }
    }
}

/// Formats a number of bytes for people.
fn readable_size(bytes: u64) -> String {
    let (mib, gib) = (bytes >> 20, bytes >> 30);
    if gib >= 10 { format!("{gib} GiB") } else { format!("{mib} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(seconds: f64) -> String {
        let mut report = Report::new(true);
        Ahead(seconds).report("clock", "NATS", &mut report);
        report.json().to_string()
    }

    #[test]
    fn a_clock_may_differ_by_a_second_and_must_not_by_ten() {
        assert!(finding(0.9).contains(r#""status":"ok""#) && finding(-1.0).contains(r#""status":"ok""#));
        assert!(finding(1.1).contains(r#""status":"warn""#) && finding(-10.0).contains(r#""status":"warn""#));
        assert!(finding(10.1).contains(r#""status":"fail""#) && finding(-3600.0).contains("is 3600.000 s behind"));
    }
}
