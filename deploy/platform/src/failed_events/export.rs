//! `platform failed-events export`: all that are found as JSON, one a line.

use std::{
    fs::File,
    io::{BufWriter, Write},
};

use reqwest::Method;
use serde_json::{Value, json};

use super::{LISTED, PATH, filters, result};
use crate::{Failure, cli, operator::Operator, output};

/// Writes all of them, those first that failed longest ago.
pub(crate) async fn run(options: cli::ExportFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let mut file = options.output.as_ref().map(|path| File::create(path).map(BufWriter::new)).transpose()?;
    let mut pages = Pages { wanted: filters(&options.which), from: None, skip: 0 };
    let mut count = 0;
    while let Some(page) = pages.next(&operator).await? {
        for event in &page {
            match &mut file {
                Some(file) => writeln!(file, "{event}")?,
                None => output::print(event),
            }
        }
        count += page.len();
    }
    if let Some(file) = &mut file {
        file.flush()?;
    }
    output::notice(if count == 0 {
        "nothing has failed that is asked for".to_owned()
    } else {
        format!("{count} failed events")
    });
    Ok(())
}

/// Pages by time and not by number: what is mended meanwhile moves nothing that comes after it.
struct Pages {
    wanted: Vec<Value>,
    /// When the last one failed that was answered.
    from: Option<String>,
    /// How many of that time were.
    skip: usize,
}

impl Pages {
    async fn next(&mut self, operator: &Operator) -> Result<Option<Vec<Value>>, Failure> {
        let from = self.from.iter().map(|from| json!({ "failedFrom": from }));
        let filters: Vec<Value> = self.wanted.iter().cloned().chain(from).collect();
        let query = json!({ "limit": LISTED, "offset": self.skip, "asc": true });
        let body = json!({ "filters": filters, "query": query });
        let found = operator.ask(Method::POST, &format!("{PATH}/_search"), Some(body)).await?;
        let page = result(&found).to_vec();
        let Some(last) = page.last().and_then(|event| event["lastFailed"].as_str()) else { return Ok(None) };
        let of_last = page.iter().filter(|event| event["lastFailed"] == last).count();
        self.skip = if self.from.as_deref() == Some(last) { self.skip + of_last } else { of_last };
        self.from = Some(last.to_owned());
        Ok(Some(page))
    }
}
