//! Compares the results of searches with a fold of the log.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    auditor::Audit,
    client::{Client, EXECUTIONS, TARGETS, post},
    eventually,
    fold::fold,
};

/// The aggregate types that can be searched, with the paths of their resources.
const SEARCHED: [(&str, &str); 4] =
    [("target", TARGETS), ("execution", EXECUTIONS), ("organization", ORGANIZATIONS), ("user", USERS)];
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";
/// The most results of a search.
const PAGE: usize = 1000;

/// Checks that searches of an instance find exactly what exists at the end of the log, as it is there. People are left
/// out, as by [`fold()`].
pub async fn assert_search_results(audit: &Audit, client: &Client, instance_id: &str) {
    let end = audit.end().sequence;
    for (aggregate_type, path) in SEARCHED {
        let own = fold(&audit.events, aggregate_type).into_iter().filter(|((instance, _), _)| instance == instance_id);
        let wanted: BTreeMap<_, _> = own.map(|((_, id), living)| (id, living.sequence)).collect();
        let found = eventually(path, async || search_all(client, path, end).await).await;
        assert_eq!(found, wanted, "what is found of {path}, and what lives");
    }
}

/// Returns the ids and sequences of all results, if the node that answers has the log up to its end.
async fn search_all(client: &Client, path: &str, end: u64) -> Option<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for offset in (0..).step_by(PAGE) {
        let page = format!("{path}/_search?query.limit={PAGE}&query.asc=true&query.offset={offset}");
        let answer = post(client, &page, json!([])).await;
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        if number(&answer.body["details"]["processedSequence"])? < end {
            return None;
        }
        let result = answer.body["result"].as_array().cloned().unwrap_or_default();
        for found in result.iter().filter(|found| !found["user"]["human"].is_object()) {
            let details = &found["details"];
            all.insert(details["id"].as_str()?.to_owned(), number(&details["sequence"])?);
        }
        if result.len() < PAGE {
            break;
        }
    }
    Some(all)
}
