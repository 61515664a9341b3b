use proto::{
    action::{CreateTargetRequest, PatchTargetRequest, SearchTargetsRequest, TargetFieldName},
    language_settings::SetLanguagesRequest,
    object::request_context::ResourceOwner,
    operation::{
        CREATE_TARGET, DELETE_TARGET, Facts, GENERATE_USER_SECRET, PATCH_TARGET, SEARCH_FAILED_EVENTS, SEARCH_TARGETS,
        SET_LANGUAGES,
    },
    system::SearchFailedEventsRequest,
};

use super::*;

const TARGET: &str = r#"{"name":"hook","restWebhook":{"url":"https://example.com"}}"#;

fn create(body: &str) -> Result<CreateTargetRequest, Error> {
    bind(&CREATE_TARGET.facts, [], None, body.as_bytes())
}

fn patch(query: &str, body: &str) -> Result<PatchTargetRequest, Error> {
    bind(&PATCH_TARGET.facts, [("id", "7")], Some(query), body.as_bytes())
}

fn search(query: &str, body: &str) -> Result<SearchTargetsRequest, Error> {
    bind(&SEARCH_TARGETS.facts, [], Some(query), body.as_bytes())
}

fn set(query: &str, body: &str) -> Result<SetLanguagesRequest, Error> {
    bind(&SET_LANGUAGES.facts, [], Some(query), body.as_bytes())
}

fn refusal<I: std::fmt::Debug>(outcome: Result<I, Error>) -> (&'static str, String) {
    let error = outcome.unwrap_err();
    (error.reason().name(), error.to_string())
}

/// The reason, and the message of the first fault.
fn first<I: std::fmt::Debug>(outcome: Result<I, Error>) -> (&'static str, String) {
    let (reason, message) = refusal(outcome);
    (reason, message.split("; ").next().unwrap_or_default().to_owned())
}

#[test]
fn the_body_is_the_field_of_the_mapping() {
    let target = create(TARGET).unwrap().target.unwrap();
    assert_eq!(target.name, "hook");
    let request = patch("", r#"{"name":"new"}"#).unwrap();
    assert_eq!((request.id.as_str(), request.target.unwrap().name.as_deref()), ("7", Some("new")));
}

#[test]
fn null_is_absent() {
    let body = r#"{"name":"hook","timeout":null,"restWebhook":null,"rest_request_response":{"url":"https://a.b"}}"#;
    let target = create(body).unwrap().target.unwrap();
    assert_eq!(target.timeout, None);
    assert!(matches!(target.target_type, Some(proto::action::target::TargetType::RestRequestResponse(_))));
    assert_eq!(create("null").unwrap().target, None);
    assert_eq!(create("").unwrap().target, None);
}

#[test]
fn a_body_cannot_set_a_sibling_of_its_field() {
    for body in [r#"{"name":"x"},"ctx":{"orgId":"evil"}"#, r#"{"name":"x"},"id":"evil""#, r#"{"name":"x"}{}"#] {
        assert_eq!(refusal(patch("", body)).0, "MALFORMED_JSON", "{body}");
    }
    assert_eq!(first(patch("", r#"{"id":"evil"}"#)), ("UNKNOWN_FIELD", "there is no field target.id".to_owned()));
    assert_eq!(refusal(patch("id=evil", "{}")).0, "UNKNOWN_PARAMETER");
    assert_eq!(refusal(set("", r#"{"ctx":{"orgId":"1"}}"#)).1, "there is no field settings.ctx");
}

#[test]
fn what_is_wrong_is_told_in_words_of_json() {
    let cases = [
        (r#"{"name":5}"#, "target.name must be a string, not a number"),
        (r#"{"restWebhook":[]}"#, "target.rest_webhook must be an object, not an array"),
        (r#"{"restWebhook":{"url":true}}"#, "target.rest_webhook.url must be a string, not a boolean"),
        (r#"{"isAsync":"true"}"#, "target.is_async must be true or false, not a string"),
        (r#"{"timeout":"10"}"#, "target.timeout must be a duration in seconds such as \"3.5s\""),
        (r#"{"timeout":10}"#, "target.timeout must be a duration in seconds such as \"3.5s\", not a number"),
        ("[]", "target must be an object, not an array"),
    ];
    for (body, message) in cases {
        assert_eq!(first(create(body)), ("INVALID_REQUEST", message.to_owned()));
    }
}

#[test]
fn alternatives_and_spellings_exclude_each_other() {
    for body in [r#"{"isAsync":false,"interruptOnError":true}"#, r#"{"isAsync":true,"is_async":true}"#] {
        let message = "target.is_async must be set once, and not together with an alternative".to_owned();
        assert_eq!(first(create(body)), ("INVALID_REQUEST", message), "{body}");
    }
}

#[test]
fn an_unknown_member_is_named_with_its_path() {
    assert_eq!(first(create(r#"{"nmae":"x"}"#)), ("UNKNOWN_FIELD", "there is no field target.nmae".to_owned()));
    let nested = first(create(r#"{"restWebhook":{"uri":"x"}}"#));
    assert_eq!(nested, ("UNKNOWN_FIELD", "there is no field target.rest_webhook.uri".to_owned()));
    let item = first(search("", r#"[{"nam":{}}]"#));
    assert_eq!(item, ("UNKNOWN_FIELD", "there is no field filters[0].nam".to_owned()));
}

#[test]
fn what_is_no_json_is_refused() {
    for body in ["{", "{'name':1}", r#"{"name":"a","name":"b"}"#, r#"{"name":null,"name":"b"}"#, "\u{feff}{}", " "] {
        assert_eq!(refusal(create(body)).0, "MALFORMED_JSON", "{body}");
    }
    assert_eq!(refusal(create(&"[".repeat(200))).0, "MALFORMED_JSON");
    assert_eq!(refusal(bind::<CreateTargetRequest>(&CREATE_TARGET.facts, [], None, b"\"\xff\"")).0, "MALFORMED_JSON");
}

#[test]
fn filters_are_an_array_or_an_object_or_nothing() {
    let filter = r#"{"name":{"name":"x","method":"TEXT_FILTER_METHOD_CONTAINS"}}"#;
    assert_eq!(search("", &format!("[{filter}]")).unwrap().filters.len(), 1);
    let whole = format!(r#"{{"filters":[{filter}],"query":{{"limit":5}},"sortingColumn":"TARGET_FIELD_NAME_URL"}}"#);
    let request = search("", &whole).unwrap();
    assert_eq!((request.filters.len(), request.query.unwrap().limit), (1, 5));
    assert_eq!(request.sorting_column, i32::from(TargetFieldName::Url));
    for empty in ["", "[]", "{}", "null", r#"{"filters":null}"#] {
        assert!(search("", empty).unwrap().filters.is_empty(), "{empty}");
    }
}

#[test]
fn a_null_in_an_array_is_refused() {
    let (reason, message) = refusal(search("", "[null]"));
    assert_eq!((reason, message.as_str()), ("INVALID_REQUEST", "filters[0] must be an object, not null"));
}

#[test]
fn parameters_are_dotted_and_in_either_spelling() {
    let request = search("query.limit=10&query.asc=true&sortingColumn=TARGET_FIELD_NAME_NAME", "").unwrap();
    assert_eq!(request.sorting_column, i32::from(TargetFieldName::Name));
    let query = request.query.unwrap();
    assert_eq!((query.limit, query.asc), (10, true));
    assert_eq!(search("sorting_column=4", "").unwrap().sorting_column, 4);
    assert_eq!(search("query.asc=false", "").unwrap().query.map(|query| query.asc), Some(false));
    for name in ["ctx.orgId", "ctx.org_id", "ctx.org%49d"] {
        let owner = set(&format!("{name}=a+b%2Bc"), "{}").unwrap().ctx.unwrap().resource_owner;
        assert_eq!(owner, Some(ResourceOwner::OrgId("a b+c".to_owned())), "{name}");
    }
    assert_eq!(set("ctx.system=true", "{}").unwrap().ctx.unwrap().resource_owner, Some(ResourceOwner::System(true)));
}

#[test]
fn parameters_join_the_object_form() {
    let query = search("query.limit=10", r#"{"query":{"asc":true}}"#).unwrap().query.unwrap();
    assert_eq!((query.limit, query.asc), (10, true));
    assert_eq!(refusal(search("query.limit=10", r#"{"query":{"limit":5}}"#)).0, "INVALID_PARAMETER");
    assert_eq!(refusal(search("query.limit=10", r#"{"query":5}"#)).0, "INVALID_PARAMETER");
}

#[test]
fn bad_parameters_are_refused() {
    let cases = [
        ("limit=10", "UNKNOWN_PARAMETER"),
        ("filters=x", "UNKNOWN_PARAMETER"),
        ("query=x", "UNKNOWN_PARAMETER"),
        ("query.limit=1&query.limit=2", "INVALID_PARAMETER"),
        ("query.limit=%ff", "INVALID_PARAMETER"),
        ("query.limit=ten", "INVALID_REQUEST"),
        ("query.limit=-1", "INVALID_REQUEST"),
        ("query.limit=4294967296", "INVALID_REQUEST"),
        ("query.asc=yes", "INVALID_REQUEST"),
        ("query.asc", "INVALID_REQUEST"),
        ("sortingColumn=NAME", "INVALID_REQUEST"),
        ("sortingColumn=99", "INVALID_REQUEST"),
    ];
    for (query, reason) in cases {
        assert_eq!(refusal(search(query, "")).0, reason, "{query}");
    }
    assert_eq!(refusal(set("ctx.orgId=1&ctx.instanceId=2", "{}")).0, "INVALID_REQUEST");
    let (_, message) = refusal(search("query.limit=ten", ""));
    assert_eq!(message, "query.limit must be a whole number in the range of its type");
    let (_, message) = refusal(search("sortingColumn=NAME", ""));
    assert!(message.starts_with("sorting_column must be one of TARGET_FIELD_NAME_UNSPECIFIED, TARGET_"), "{message}");
}

#[test]
fn a_field_that_has_to_be_set_is_not_told_the_value_that_sets_nothing() {
    let app = |oidc: &str| {
        let body = format!(r#"{{"projectId":"7","name":"Shop","oidc":{oidc}}}"#);
        refusal(bind::<proto::app::CreateAppRequest>(&proto::operation::CREATE_APP.facts, [], None, body.as_bytes())).1
    };
    for (oidc, field, may_be_unset) in [
        (r#"{"appType":"NONE"}"#, "app.oidc.app_type", true),
        (r#"{"grantTypes":["OIDC_GRANT_TYPE_IMPLICIT","NONE"]}"#, "app.oidc.grant_types[1]", false),
        (r#"{"grantTypes":["NONE"]}"#, "app.oidc.grant_types[0]", false),
    ] {
        let message = app(oidc);
        assert!(message.contains(&format!("{field} must be one of OIDC_")), "{message}");
        assert_eq!(message.contains("UNSPECIFIED"), may_be_unset, "{message}");
    }
    let both = app(r#"{"appType":"NONE","grantTypes":5,"nothing":1}"#);
    assert!(both.contains("there is no field app.oidc.nothing") && both.contains("grant_types"), "{both}");
}

#[test]
fn numbers_may_be_text_and_have_an_empty_fraction() {
    for (text, offset) in [("5", 5), ("\"5\"", 5), ("5.0", 5), ("1e3", 1000), ("\"18446744073709551615\"", u64::MAX)] {
        let request = search("", &format!(r#"{{"query":{{"offset":{text}}}}}"#)).unwrap();
        assert_eq!(request.query.unwrap().offset, offset, "{text}");
    }
    for text in ["1.5", "-1", "true", "\"\"", "1e30"] {
        assert_eq!(refusal(search("", &format!(r#"{{"query":{{"offset":{text}}}}}"#))).0, "INVALID_REQUEST", "{text}");
    }
}

#[test]
fn an_operation_without_a_body_takes_none() {
    let delete =
        |facts: &Facts, body: &[u8]| bind::<proto::action::DeleteTargetRequest>(facts, [("id", "7")], None, body);
    assert_eq!(delete(&DELETE_TARGET.facts, b"").unwrap().id, "7");
    assert_eq!(refusal(delete(&DELETE_TARGET.facts, b"{}")).0, "INVALID_REQUEST");
    let secret = |query: &str, body: &[u8]| {
        let facts = &GENERATE_USER_SECRET.facts;
        bind::<proto::user::GenerateUserSecretRequest>(facts, [("id", "7")], Some(query), body)
    };
    for body in ["", "{}", " { } "] {
        let request = secret("previousExpiration=5s", body.as_bytes()).unwrap();
        assert_eq!(request.previous_expiration.map(|lasts| lasts.seconds), Some(5), "{body}");
    }
    for body in [r#"{"previousExpiration":"5s"}"#, "[]", "null", "5"] {
        assert_eq!(refusal(secret("", body.as_bytes())).0, "INVALID_REQUEST", "{body}");
    }
}

#[test]
fn a_body_of_filters_may_be_an_object_of_all_fields() {
    let search = |body: &str| bind::<SearchFailedEventsRequest>(&SEARCH_FAILED_EVENTS.facts, [], None, body.as_bytes());
    assert_eq!(search("{}").unwrap(), SearchFailedEventsRequest::default());
    assert_eq!(search("").unwrap(), SearchFailedEventsRequest::default());
    assert_eq!(search(r#"{"query":{"limit":3}}"#).unwrap().query.unwrap().limit, 3);
    assert_eq!(search("[]").unwrap(), SearchFailedEventsRequest::default());
    assert_eq!(refusal(search("5")).0, "INVALID_REQUEST");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let told = |body: &str| refusal(create(body));
    assert_eq!(
        told(r#"{"name":5,"timeout":"x","isAsync":"y","foo":1}"#),
        (
            "UNKNOWN_FIELD",
            "there is no field target.foo; target.is_async must be true or false, not a string; target.name must be a \
             string, not a number; target.timeout must be a duration in seconds such as \"3.5s\"; target.target_type is \
             required: one of rest_webhook, rest_request_response"
                .to_owned()
        )
    );
    // Unreadable fields are not reported as missing.
    let webhook = told(r#"{"restWebhook":5,"timeout":"0s"}"#).1;
    assert_eq!(
        webhook,
        "target.rest_webhook must be an object, not a number; target.name must have 1 to 200 characters; \
         target.timeout must be longer than 0s and at most 270s"
    );
    assert_eq!(told("[]").1, "target must be an object, not an array");
    let both = told(r#"{"isAsync":true,"is_async":false,"interruptOnError":3}"#).1;
    assert!(both.contains("target.interrupt_on_error must be true or false, not a number; target.is_async"), "{both}");
}

#[test]
fn items_keep_their_numbers_when_others_are_wrong() {
    let filters = r#"[5,{"nme":{}},{"inIds":{"ids":["a",7,"b",8]}},{"name":{"name":1,"method":"X"}}]"#;
    let (reason, message) =
        refusal(search("query.limit=ten&query.offset=-1&colour=red&query.asc=true&query.asc=true", filters));
    assert_eq!(reason, "UNKNOWN_PARAMETER");
    let sentences: Vec<_> = message.split("; ").map(|sentence| sentence.split(" must").next().unwrap()).collect();
    let expected = [
        "there is no query parameter \"colour\" here",
        "the parameter query.asc",
        "filters[0]",
        "there is no field filters[1].nme",
        "filters[2].in_ids.ids[1]",
        "filters[2].in_ids.ids[3]",
        "filters[3].name.method",
        "filters[3].name.name",
        "query.limit",
        "query.offset",
    ];
    assert_eq!(sentences[..expected.len()], expected, "{message}");
}

#[test]
fn parameters_are_told_as_fields_too() {
    let error = search("colour=red&query.limit=1&query.limit=2&x=%ff", "").unwrap_err();
    let status = tonic::Status::from(error);
    let details = tonic_types::StatusExt::get_error_details(&status);
    let fields: Vec<_> =
        details.bad_request().unwrap().field_violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(fields, ["colour", "query.limit", "x"]);
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!(metadata.len(), 1);
    assert_eq!(metadata["parameter"], "colour");
}

#[test]
fn there_is_an_end_to_what_is_told() {
    let members: Vec<String> = (0..1000).map(|number| format!("\"m{number}\":1")).collect();
    let message = refusal(create(&format!("{{{}}}", members.join(",")))).1;
    assert_eq!(message.split("; ").count(), 20);
}
