use prost::Message;
use serde_json::json;

use crate::{
    action::{GetTarget, SearchTargetsResponse, Target, TargetFieldName, target::TargetType},
    idp::{IdpFieldName, SearchIdpsResponse},
    log::{CommitRecord, Event},
    object::{Details, ListDetails, TimestampFilterMethod},
    wellknown::{Duration, Timestamp},
};

#[test]
fn an_empty_list_still_prints_what_it_counts() {
    let answer = SearchTargetsResponse { details: Some(ListDetails::default()), ..Default::default() };
    let details = json!({ "appliedLimit": 0, "endOfList": false, "totalResult": "0", "processedSequence": "0" });
    assert_eq!(json!(answer), json!({ "details": details, "result": [] }));
    assert_eq!(json!(SearchIdpsResponse::default()), json!({ "result": [] }));
}

#[test]
fn a_message_prints_camel_case_text_numbers_and_enum_names() {
    let details = Details {
        id: "1".to_owned(),
        sequence: 1 << 60,
        change_date: Some(Timestamp::default()),
        ..Default::default()
    };
    let target = Target { timeout: Some(Duration::from_seconds(10)), ..Default::default() };
    let answer = SearchTargetsResponse {
        details: None,
        sorting_column: TargetFieldName::CreationDate.into(),
        result: vec![GetTarget { details: Some(details), target: Some(target) }],
    };
    let details = json!({ "id": "1", "sequence": "1152921504606846976", "changeDate": "1970-01-01T00:00:00Z" });
    let result = json!([{ "details": details, "target": { "timeout": "10s" } }]);
    assert_eq!(json!(answer), json!({ "sortingColumn": "TARGET_FIELD_NAME_CREATION_DATE", "result": result }));
}

#[test]
fn a_message_is_read_in_camel_case_and_in_snake_case() {
    for name in ["restWebhook", "rest_webhook"] {
        let target: Target = serde_json::from_value(json!({ name: { "url": "https://example.com" } })).unwrap();
        assert!(matches!(target.target_type, Some(TargetType::RestWebhook(_))), "{name}");
    }
}

#[test]
fn enum_values_keep_the_published_spelling() {
    assert_eq!(json!(TimestampFilterMethod::GreaterOrEquals), "TIMESTAMP_Filter_METHOD_GREATER_OR_EQUALS");
    assert_eq!(json!(IdpFieldName::Name), "IDP_FIELD_NAME_NAME");
}

#[test]
fn a_commit_record_survives_its_encoding() {
    let event = Event { id: "1".to_owned(), r#type: "target.added".to_owned(), ..Default::default() };
    let record = CommitRecord { first_sequence: 7, events: vec![event], ..Default::default() };
    assert_eq!(CommitRecord::decode(record.encode_to_vec().as_slice()), Ok(record));
}
