//! `platform doctor`: whether the servers and this machine are such that a platform runs well on them, and what to change.
//! It creates and changes nothing.

mod machine;
mod nats;
mod postgres;
mod report;

use base::clock;
use jiff::Timestamp;
use report::Report;
use tokio_util::sync::CancellationToken;

use crate::{Failure, cli, output};

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
    let log = nats::check(&options.servers, report).await;
    postgres::check(options, log.as_ref(), report).await;
}

/// The seconds by which a server's clock is ahead of ours, when it told its time between two moments.
struct Ahead(f64);

impl Ahead {
    /// Asks for the time. The answer was made somewhere between; half of that is taken off.
    async fn of(ask: impl Future<Output = Option<Timestamp>>) -> Option<Self> {
        let before = clock::now();
        let told = ask.await?;
        let after = clock::now();
        let seconds = |at: Timestamp| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
        Some(Self(seconds(told) - f64::midpoint(seconds(before), seconds(after))))
    }

    /// A second is the precision of what clients see; at ten seconds tokens of one node are of the future for another.
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

/// Bytes for people.
fn shown(bytes: u64) -> String {
    let (mib, gib) = (bytes >> 20, bytes >> 30);
    if gib >= 10 { format!("{gib} GiB") } else { format!("{mib} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seconds: f64) -> String {
        let mut report = Report::new(true);
        Ahead(seconds).report("clock", "NATS", &mut report);
        report.json().to_string()
    }

    #[test]
    fn a_clock_may_differ_by_a_second_and_must_not_by_ten() {
        assert!(told(0.9).contains(r#""status":"ok""#) && told(-1.0).contains(r#""status":"ok""#));
        assert!(told(1.1).contains(r#""status":"warn""#) && told(-10.0).contains(r#""status":"warn""#));
        assert!(told(10.1).contains(r#""status":"fail""#) && told(-3600.0).contains("is 3600.000 s behind"));
    }

    #[tokio::test]
    async fn the_way_to_a_server_does_not_count() {
        let ask = async {
            let told = clock::now();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            Some(told)
        };
        let Ahead(seconds) = Ahead::of(ask).await.unwrap();
        assert!((-5.0..=-0.01).contains(&seconds), "{seconds}");
        assert!(Ahead::of(async { None }).await.is_none());
    }
}
