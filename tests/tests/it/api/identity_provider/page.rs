//! Pages of large results.

use serde_json::json;
use tests::{
    client::{done, post},
    idp::{IDPS, METADATA},
    tenant::Tenant,
};

use super::EVENTS;

#[tokio::test]
async fn a_page_has_what_clients_can_take_and_the_next_begins_after_it() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let metadata = format!("{METADATA}{}", " ".repeat(195_000));
    for number in 10..28 {
        let config = json!({ "metadataXml": metadata });
        done(&admin, &format!("{IDPS}/saml"), json!({ "idp": { "name": format!("{number}") }, "config": config }))
            .await;
    }
    for path in [format!("{IDPS}/_search"), EVENTS.to_owned()] {
        let (mut offset, mut pages, mut found) = (0, 0, vec![]);
        loop {
            let query = format!("{path}?query.asc=true&query.limit=100&query.offset={offset}");
            let page = post(&admin, &query, json!([])).await;
            let (result, details) = (page.body["result"].as_array().expect("it is a page"), &page.body["details"]);
            assert!(page.body.to_string().len() < 4 << 20, "it is too large");
            found.extend(result.iter().map(|one| one.get("details").unwrap_or(one)["sequence"].clone()));
            offset += details["appliedLimit"].as_u64().expect("it is a number");
            pages += 1;
            if details["endOfList"] == true {
                assert_eq!(details["totalResult"], found.len().to_string(), "{path}");
                break;
            }
            assert_eq!(details["appliedLimit"], result.len(), "{path}");
        }
        let count = found.len();
        found.dedup();
        assert!(pages > 1 && found.len() == count && count >= 18, "{path}: {count} on {pages} pages");
    }
}
