//! Prepares a platform on connected servers: a writer, a log that is set up, read models that have caught up.

use std::{collections::HashSet, net::IpAddr, path::Path, time::Duration};

use command::{
    setup::{Additions, Outcome, Plan, setup},
    writer::{Handle, Phase},
};
use domain::log_class::OfEach;
use tokio::time::{Instant, timeout};
use view::{directory::Locator, projection::PROJECTIONS};

use crate::{
    Failure,
    bootstrap::{self, Bootstrap},
    data_dir::DataDir,
    node::Node,
    output,
};

/// How long a start waits without any progress.
const LIMIT: Duration = Duration::from_mins(5);

/// How long to wait for the lease of a former writer, which expires earlier.
const PATIENCE: Duration = Duration::from_secs(10);

/// A platform that can be used.
pub(crate) enum Prepared {
    /// An earlier start has set it up.
    Before,
    /// This start has carried out the plan, which still has to be written for the user.
    Now(Box<Plan>),
}

/// Waits for the writer, sets up an empty log, and waits until the read models have caught up and the data keys open.
pub(crate) async fn prepare(
    wanted: &Additions,
    data: &DataDir,
    node: &Node,
    writer: &Handle,
    hosts: Vec<String>,
) -> Result<Prepared, Failure> {
    output::notice("waiting for the log and the read models");
    active(writer).await?;
    let host = hosts.first().cloned().unwrap_or_default();
    let prepared = if data.bootstrap().exists() {
        Prepared::Before
    } else {
        // This node writes, so no record of an earlier writer can still arrive.
        let log_is_empty = node.adapters.log.last().await?.is_none_or(|record| record.position().sequence == 0);
        set_up(node, writer, data, bootstrap::plan(data, &node.ids, hosts, wanted, log_is_empty)?).await?
    };
    caught_up(node).await?;
    if node.directory.tenant(Locator::Domain(host.clone()), 0).await?.is_none() {
        let hint = "give the --external-url of its first start, or another verified host of an instance";
        return Err(format!("no instance of this data directory has the host {host}: {hint}").into());
    }
    Ok(prepared)
}

impl Prepared {
    /// Writes `bootstrap.json`, unless an earlier start has, and the file of the first login. Returns whether the
    /// latter was written.
    pub(crate) fn write(self, data: &DataDir, issuer: &str, first_login: &Path) -> Result<bool, Failure> {
        let Self::Now(plan) = self else { return Ok(false) };
        let has_person = plan.person.is_some();
        Bootstrap::write(data, issuer.to_owned(), *plan, first_login)?;
        Ok(has_person)
    }
}

async fn active(writer: &Handle) -> Result<(), Failure> {
    let (mut phases, begin) = (writer.phases(), Instant::now());
    loop {
        let settled = phases.wait_for(|phase| matches!(phase, Phase::Active | Phase::Ended));
        match timeout(PATIENCE, settled).await.map(|phase| phase.map(|phase| phase.clone())) {
            Ok(Ok(Phase::Active)) => return Ok(()),
            // The writer itself returns why it ended.
            Ok(_) => return Err("the platform cannot write to its log".into()),
            Err(_) => {}
        }
        match &*phases.borrow() {
            Phase::TakingOver => output::notice("still reading the log"),
            Phase::Standby(Some(name)) => {
                return Err(format!("the node {name} writes to this log: stop it first, or use another log").into());
            }
            _ if begin.elapsed() < LIMIT => {}
            _ => return Err("NATS does not let this node write; the lines above say why".into()),
        }
    }
}

/// Returns the hosts of the first instance of a standalone platform, the primary one first, without duplicates. Names
/// of this machine are hosts only where other machines cannot use the platform.
pub(crate) fn hosts(external: &str, listening: IpAddr, is_local: bool) -> Vec<String> {
    let mut all = vec![external.to_owned()];
    if is_local {
        all.extend(["localhost", "127.0.0.1"].map(str::to_owned));
    }
    if is_local || !listening.is_loopback() && !listening.is_unspecified() {
        all.push(match listening {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
    }
    let mut seen = HashSet::new();
    all.into_iter().filter(|host| seen.insert(host.clone())).collect()
}

async fn set_up(node: &Node, writer: &Handle, data: &DataDir, plan: Plan) -> Result<Prepared, Failure> {
    match setup(writer, &node.keyring, &node.persons, node.ids.clone(), &plan).await {
        Ok(Outcome::Done(_)) => Ok(Prepared::Now(Box::new(plan))),
        Err(refused) if refused.is_final() => {
            bootstrap::forget_plan(data)?;
            Err(format!("{refused}: ask for less in the setup file and start again").into())
        }
        Err(unknown) => Err(unknown.into()),
        Ok(Outcome::Other(instance)) => {
            bootstrap::forget_plan(data)?;
            let missing = data.bootstrap();
            let missing = missing.display();
            output::notice(format_args!(
                "the log was set up before, for instance {instance}, but {missing} is missing"
            ));
            Ok(Prepared::Before)
        }
    }
}

/// Waits until every read model has the complete log that it follows.
async fn caught_up(node: &Node) -> Result<(), Failure> {
    let logs = node.adapters.logs();
    let ends = OfEach { events: logs.events.end().await?, sessions: logs.sessions.end().await? };
    for projection in PROJECTIONS.iter() {
        let mut heard = node.progress.of(projection);
        loop {
            let reached = *heard.borrow_and_update();
            if reached.stream_sequence >= ends[projection.class] {
                break;
            }
            timeout(LIMIT, heard.wait_for(|later| *later != reached))
                .await
                .map_err(|_| format!("the projection {} has stopped; the lines above say why", projection.name))??;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::hosts;

    #[test]
    fn no_host_is_named_twice_and_the_external_one_is_first() {
        let listening = |address: &str| address.parse().unwrap();
        assert_eq!(hosts("127.0.0.1", listening("127.0.0.1"), true), ["127.0.0.1", "localhost"]);
        assert_eq!(hosts("localhost", listening("::1"), true), ["localhost", "127.0.0.1", "[::1]"]);
    }

    #[test]
    fn names_of_this_machine_are_no_hosts_where_others_reach_it() {
        let listening = |address: &str| address.parse().unwrap();
        for loopback in ["127.0.0.1", "::1", "0.0.0.0"] {
            assert_eq!(hosts("id.example", listening(loopback), false), ["id.example"], "{loopback}");
        }
        assert_eq!(hosts("id.example", listening("10.0.0.5"), false), ["id.example", "10.0.0.5"]);
    }
}
