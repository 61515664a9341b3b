//! `platform deliveries`: prints the deliveries to targets that were given up, and how many wait. It changes nothing.

use command::reaction::delivery::{self, Failed};
use serde_json::json;

use crate::{Failure, cli, node::SHARD, output, running_servers};

/// Prints the contents of the queue.
pub(crate) async fn run(options: cli::Listed) -> Result<(), Failure> {
    let nats = running_servers::nats(&options.servers)?;
    let client = running_servers::connect(&nats, "platform deliveries").await?;
    let (waiting, failed) = delivery::list(&async_nats::jetstream::new(client), SHARD).await?;
    for failed in &failed {
        output::print(if options.json { json!({ "failed": failed }).to_string() } else { line(failed) });
    }
    if options.json {
        for waiting in &waiting {
            output::print(json!({ "waiting": waiting.delivery }).to_string());
        }
    } else {
        output::print(format_args!("{} given up, {} waiting", failed.len(), waiting.len()));
    }
    Ok(())
}

fn line(failed: &Failed) -> String {
    let Failed { delivery, tries, error, failed_at, .. } = failed;
    format!(
        "{failed_at} {} event {} of {} to target {} of instance {} after {tries} tries: {}",
        delivery.event_type,
        delivery.sequence,
        delivery.aggregate,
        delivery.target_id,
        delivery.instance_id,
        error.replace(char::is_control, " "),
    )
}
