use std::collections::HashSet;

use proto::operation::OPERATIONS;

use super::*;

const NOTHING: &str = "{}";

/// Every `$ref` within a value.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => vec![],
    }
}

#[test]
fn the_whole_surface_can_be_described() {
    let document = document(OPERATIONS, NOTHING, Limits::default());
    let paths = document["paths"].as_object().unwrap().values();
    let operations: Vec<&Value> = paths.flat_map(|path| path.as_object().unwrap().values()).collect();
    assert_eq!(operations.len(), OPERATIONS.len());
    let ids: HashSet<_> = operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), OPERATIONS.len());
    for operation in operations {
        assert!(operation["summary"].as_str().is_some_and(|summary| summary.len() > 8), "{operation}");
    }
    for reference in references(&document) {
        let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        assert!(target.is_some_and(|target| !target.is_null()), "{reference}");
    }
}

#[test]
fn what_is_not_mounted_is_not_described() {
    let document = document(&[&proto::operation::GET_TARGET.facts], NOTHING, Limits::default());
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/resources/v3alpha/targets/{id}"]);
    assert!(document["components"]["schemas"].get("Execution").is_none());
}

#[test]
fn a_target_is_described_as_it_may_be_sent() {
    let document = document(OPERATIONS, NOTHING, Limits::default());
    let target = &document["components"]["schemas"]["TargetInput"];
    assert_eq!(target["required"], json!(["name"]));
    assert_eq!(target["additionalProperties"], json!(false));
    assert_eq!(target["properties"]["isAsync"]["type"], json!(["boolean", "null"]));
    let excluded = json!([
        { "properties": { "restWebhook": { "type": "null" }, "restRequestResponse": { "type": "null" } } },
        { "required": ["restWebhook", "restRequestResponse"],
          "properties": { "restWebhook": { "type": "object" }, "restRequestResponse": { "type": "object" } } },
        { "required": ["isAsync", "interruptOnError"],
          "properties": { "isAsync": { "type": "boolean" }, "interruptOnError": { "type": "boolean" } } },
    ]);
    assert_eq!(target["not"]["anyOf"], excluded);
    let told = "An endpoint that executions call. Exactly one of `restWebhook`, `restRequestResponse`. At most one of \
                `isAsync`, `interruptOnError`.";
    assert_eq!(target["description"], told);
    let name = &target["properties"]["name"];
    assert_eq!((&name["minLength"], &name["maxLength"]), (&json!(1), &json!(200)));
}

#[test]
fn an_answer_has_what_is_always_printed() {
    let document = document(OPERATIONS, NOTHING, Limits::default());
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["SearchTargetsResponse"]["required"], json!(["result"]));
    let counts = json!(["appliedLimit", "endOfList", "totalResult", "processedSequence"]);
    assert_eq!(schemas["ListDetails"]["required"], counts);
    assert_eq!(schemas["Target"]["properties"]["isAsync"]["type"], "boolean");
}

#[test]
fn a_search_takes_a_list_or_an_object_and_parameters_with_dots() {
    let document = document(OPERATIONS, NOTHING, Limits::default());
    let search = &document["paths"]["/resources/v3alpha/targets/_search"]["post"];
    let names: Vec<_> =
        search["parameters"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["query.offset", "query.limit", "query.asc", "sortingColumn"]);
    let body = &search["requestBody"]["content"]["application/json"]["schema"]["anyOf"];
    assert_eq!(body[0]["items"]["$ref"], "#/components/schemas/TargetSearchFilter");
    assert_eq!(body[1]["$ref"], "#/components/schemas/SearchTargetsRequest");
    assert_eq!(search["parameters"][1]["schema"]["maximum"], 1000);
}

#[test]
fn the_page_shows_every_operation_and_loads_nothing() {
    let page = page::page(&document(OPERATIONS, NOTHING, Limits::default()));
    for facts in OPERATIONS {
        assert!(page.contains(&format!("<article id=\"{}\"", facts.method)), "{}", facts.method);
    }
    for loading in ["src=", "<link", "@import", "url(", "http-equiv"] {
        assert!(!page.contains(loading), "{loading}");
    }
}

#[test]
fn every_link_of_the_page_leads_somewhere() {
    let page = page::page(&document(OPERATIONS, NOTHING, Limits::default()));
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: HashSet<_> = ids.iter().collect();
    let twice: Vec<_> = ids.iter().filter(|id| ids.iter().filter(|other| other == id).count() > 1).collect();
    assert_eq!(unique.len(), ids.len(), "{twice:?}");
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        // The targets of the OAuth endpoints are not in this document.
        assert!(unique.contains(&target) || ["token", "schema-OAuthError"].contains(&target), "{target}");
    }
}
