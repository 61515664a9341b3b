//! `platform failed-events export`: prints all matching failed events as JSON, one a line.

use serde_json::{Value, json};

use super::{LISTED, filters, last_failed, search};
use crate::{Failure, cli, operator::Operator, output};

/// Prints all matching failed events, the one first that failed longest ago.
pub(crate) async fn export(options: cli::ExportFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let mut pages = Pages { wanted: filters(&options.which), from: None, skip: 0 };
    let mut count = 0;
    loop {
        let page = pages.next(&operator).await?;
        if page.is_empty() {
            output::notice(format!("{count} failed events"));
            return Ok(());
        }
        page.iter().for_each(output::print);
        count += page.len();
    }
}

/// Pages by time instead of by number: events that are processed meanwhile do not shift the later ones.
struct Pages {
    wanted: Vec<Value>,
    /// The time of the last failure that was returned.
    from: Option<String>,
    /// How many failures of that time were returned.
    skip: usize,
}

impl Pages {
    async fn next(&mut self, operator: &Operator) -> Result<Vec<Value>, Failure> {
        let from = self.from.iter().map(|from| last_failed(from, "GREATER_OR_EQUALS"));
        let filters = self.wanted.iter().cloned().chain(from).collect();
        let query = json!({ "limit": LISTED, "offset": self.skip.to_string(), "asc": true });
        let page = search(operator, filters, query).await?.events;
        if let Some(last) = page.last().and_then(|event| event["lastFailed"].as_str()) {
            let of_last = page.iter().filter(|event| event["lastFailed"] == last).count();
            self.skip = if self.from.as_deref() == Some(last) { self.skip + of_last } else { of_last };
            self.from = Some(last.to_owned());
        }
        Ok(page)
    }
}
