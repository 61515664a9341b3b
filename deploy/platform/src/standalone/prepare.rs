//! From connected servers to a platform that can be used: a writer, a log that is set up, read models that have it.

use std::{collections::HashSet, net::IpAddr, time::Duration};

use command::{
    setup::{Outcome, Plan, setup},
    writer::{Handle, Phase},
};
use store::{
    keyring::{self, Purpose, SYSTEM},
    projection::PROJECTIONS,
};
use tokio::time::timeout;
use url::Url;

use crate::{
    Failure,
    bootstrap::{self, Bootstrap},
    cli,
    data_dir::DataDir,
    node::Node,
};

/// How long each step of a start may take.
const LIMIT: Duration = Duration::from_mins(5);

/// A platform that can be used.
pub(super) enum Prepared {
    /// An earlier start has left its bootstrap.
    Before(Box<Bootstrap>),
    /// The plan is carried out and still to be told.
    Now(Box<Plan>),
}

/// Waits for the writer, sets an empty log up, and waits until the read models have it and the keys open.
pub(super) async fn prepare(
    options: &cli::Standalone,
    data: &DataDir,
    node: &Node,
    writer: &Handle,
    external: &Url,
) -> Result<Prepared, Failure> {
    eprintln!("waiting for the log and the read models");
    active(writer).await?;
    let host = external.host_str().unwrap_or_default();
    let prepared = match Bootstrap::read(data)? {
        Some(bootstrap) => Prepared::Before(Box::new(bootstrap)),
        None => {
            let hosts = hosts(host, options.serving.listen.ip());
            let plan = bootstrap::plan(data, &node.ids, hosts, options.setup.as_deref())?;
            set_up(node, writer, &plan).await?;
            Prepared::Now(Box::new(plan))
        }
    };
    caught_up(node).await?;
    master_key_fits(node, data).await?;
    if node.directory.tenant(host, 0).await?.is_none() {
        let hint = "give the --external-url of its first start";
        return Err(format!("no instance of this data directory answers under {host}: {hint}").into());
    }
    Ok(prepared)
}

impl Prepared {
    /// Leaves `bootstrap.json` where an earlier start has not, and prints what to do next.
    pub(super) fn tell(self, data: &DataDir, external: &Url) -> Result<(), Failure> {
        let bootstrap = match self {
            Self::Before(bootstrap) => *bootstrap,
            Self::Now(plan) => Bootstrap::write(data, external.origin().ascii_serialization(), *plan)?,
        };
        println!("{}", bootstrap.commands(data));
        Ok(())
    }
}

async fn active(writer: &Handle) -> Result<(), Failure> {
    let mut phases = writer.phases();
    let settled = phases.wait_for(|phase| matches!(phase, Phase::Active | Phase::Ended));
    match timeout(LIMIT, settled).await {
        Ok(Ok(phase)) if *phase == Phase::Active => Ok(()),
        // Why it ended is told by the writer's own end.
        Ok(_) => Err("the platform cannot write to its log".into()),
        Err(_) => Err("another node writes to this log: a standalone platform needs a log of its own".into()),
    }
}

/// The hosts of the first instance, the primary one first, none of them twice.
fn hosts(external: &str, listening: IpAddr) -> Vec<String> {
    let listening = match listening {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let mut seen = HashSet::new();
    let all = [external.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned(), listening];
    all.into_iter().filter(|host| seen.insert(host.clone())).collect()
}

async fn set_up(node: &Node, writer: &Handle, plan: &Plan) -> Result<(), Failure> {
    match setup(writer, &node.keyring, node.ids.clone(), plan).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Other(instance) => {
            let hint = "its bootstrap.json is in that one";
            Err(format!("the log was set up from another data directory, for instance {instance}: {hint}").into())
        }
    }
}

/// Waits until every read model has the whole log.
async fn caught_up(node: &Node) -> Result<(), Failure> {
    let end = node.log.last().await?.map(|record| record.position()).unwrap_or_default();
    for projection in PROJECTIONS {
        let mut reached = node.progress.of(projection);
        let there = reached.wait_for(|reached| reached.stream_sequence >= end.stream_sequence);
        timeout(LIMIT, there)
            .await
            .map_err(|_| format!("the projection {} does not catch up; the lines above say why", projection.name))??;
    }
    Ok(())
}

async fn master_key_fits(node: &Node, data: &DataDir) -> Result<(), Failure> {
    match node.keyring.key(SYSTEM, Purpose::Consistency).await {
        Ok(_) => Ok(()),
        Err(error @ keyring::Failure::WrongMasterKey) => {
            let usual = data.path().join("master.key");
            Err(format!("{error}: it is in {} unless --master-key-file named another", usual.display()).into())
        }
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::hosts;

    #[test]
    fn no_host_is_named_twice_and_the_external_one_is_first() {
        let listening = |address: &str| address.parse().unwrap();
        assert_eq!(hosts("127.0.0.1", listening("127.0.0.1")), ["127.0.0.1", "localhost"]);
        assert_eq!(hosts("id.example", listening("::1")), ["id.example", "localhost", "127.0.0.1", "[::1]"]);
    }
}
