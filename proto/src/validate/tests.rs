use super::*;
use crate::{
    action::{self, CreateTargetRequest, PatchTargetRequest, SearchTargetsRequest, Target, target::TargetType},
    language_settings::{SetLanguageSettings, SetLanguages, SetLanguagesRequest},
    object::{RequestContext, request_context::ResourceOwner},
    object_settings::Language,
};

fn violations(message: &impl Validate) -> Vec<(String, String)> {
    let mut violations = Vec::new();
    message.validate("", &mut violations);
    violations.into_iter().map(|violation| (violation.field, violation.rule.to_string())).collect()
}

fn fields(message: &impl Validate) -> Vec<String> {
    violations(message).into_iter().map(|(field, _)| field).collect()
}

fn webhook(url: &str) -> TargetType {
    TargetType::RestWebhook(action::SetRestWebhook { url: url.to_owned() })
}

fn target() -> Target {
    Target { name: "hook".to_owned(), target_type: Some(webhook("https://example.com/hook")), ..Target::default() }
}

fn create(target: Target) -> CreateTargetRequest {
    CreateTargetRequest { target: Some(target) }
}

#[test]
fn a_good_target_passes() {
    assert_eq!(violations(&create(target())), []);
}

#[test]
fn all_violations_are_told_at_once() {
    let request = create(Target {
        name: String::new(),
        target_type: Some(webhook("no uri")),
        timeout: Some(Duration::from_seconds(271)),
        ..Target::default()
    });
    let expected = [
        ("target.name", "must have 1 to 200 characters"),
        ("target.timeout", "must be longer than 0s and at most 270s"),
        ("target.rest_webhook.url", "must be an absolute URI"),
    ];
    assert_eq!(violations(&request), expected.map(|(field, rule)| (field.to_owned(), rule.to_owned())));
}

#[test]
fn what_is_required_is_named() {
    assert_eq!(fields(&CreateTargetRequest::default()), ["target"]);
    assert_eq!(fields(&create(Target { name: "hook".to_owned(), ..Target::default() })), ["target.target_type"]);
}

#[test]
fn lengths_count_characters() {
    let named = |name: String| fields(&create(Target { name, ..target() }));
    assert!(named("ü".repeat(200)).is_empty());
    assert_eq!(named("ü".repeat(201)), ["target.name"]);
    assert_eq!(named("a\u{1f}".to_owned()), ["target.name"]);
}

#[test]
fn a_patch_needs_only_its_id() {
    let patch =
        |id: &str| fields(&PatchTargetRequest { id: id.to_owned(), target: Some(action::PatchTarget::default()) });
    assert!(patch("1").is_empty());
    assert_eq!(patch(""), ["id"]);
    assert_eq!(patch(&"1".repeat(201)), ["id"]);
}

#[test]
fn an_old_signing_key_may_end_at_once_but_not_in_the_past() {
    let expiring = |seconds| {
        let expiration_signing_key = Some(Duration::from_seconds(seconds));
        let target = Some(action::PatchTarget { expiration_signing_key, ..Default::default() });
        fields(&PatchTargetRequest { id: "1".to_owned(), target })
    };
    assert!(expiring(0).is_empty());
    assert_eq!(expiring(-1), ["target.expiration_signing_key"]);
}

#[test]
fn an_item_of_a_list_is_named_by_its_index() {
    let name = action::TargetNameFilter { name: "x".repeat(201), method: 99 };
    let filter = action::TargetSearchFilter { filter: Some(action::target_search_filter::Filter::Name(name)) };
    let request = SearchTargetsRequest {
        filters: vec![action::TargetSearchFilter::default(), filter],
        sorting_column: 77,
        ..Default::default()
    };
    let expected = ["sorting_column", "filters[0].filter", "filters[1].name.name", "filters[1].name.method"];
    assert_eq!(fields(&request), expected);
}

#[test]
fn equals_is_a_defined_filter_method() {
    let name = action::TargetNameFilter { name: "x".to_owned(), method: 0 };
    let filter = action::TargetSearchFilter { filter: Some(action::target_search_filter::Filter::Name(name)) };
    assert!(fields(&SearchTargetsRequest { filters: vec![filter], ..Default::default() }).is_empty());
}

#[test]
fn a_context_is_exactly_one_and_system_is_true() {
    let within = |resource_owner| {
        let ctx = Some(RequestContext { resource_owner });
        fields(&SetLanguagesRequest { ctx, settings: Some(SetLanguageSettings::default()) })
    };
    assert_eq!(within(None), ["ctx.resource_owner"]);
    assert_eq!(within(Some(ResourceOwner::System(false))), ["ctx.system"]);
    assert!(within(Some(ResourceOwner::System(true))).is_empty());
}

#[test]
fn an_empty_language_resets_but_is_no_item() {
    let language = |key: &str| Language { key: key.to_owned() };
    let settings = |default: &str, restricted: &[&str]| {
        let settings = SetLanguageSettings {
            default_language: Some(language(default)),
            restricted_languages: Some(SetLanguages {
                languages: restricted.iter().map(|key| language(key)).collect(),
            }),
        };
        fields(&SetLanguagesRequest { ctx: None, settings: Some(settings) })
    };
    assert!(settings("", &[]).is_empty());
    assert!(settings("en", &["en", "de"]).is_empty());
    assert_eq!(settings("EN", &[]), ["settings.default_language.key"]);
    assert_eq!(settings("en", &["de", ""]), ["settings.restricted_languages.languages[1].key"]);
}

#[test]
fn a_target_is_called_over_http() {
    let rule = "must be an http or https URL with a host, and without user or password";
    for url in ["https://example.com", "HTTP://example.com:8080/a?b=c#d", "http://[2606:4700::1]:1/", "https://1.1.1.1"]
    {
        assert_eq!(violations(&create(Target { target_type: Some(webhook(url)), ..target() })), [], "{url}");
    }
    for url in [
        "ftp://example.com",
        "mailto:a@example.com",
        "https:example.com",
        "https:///path",
        "https://user@example.com",
        "https://user:password@example.com",
        "https://@example.com",
        "https://example.com:99999",
        "https://example.com:0",
        "https://1.2.3.4.5",
        "file:///etc/passwd",
        "javascript:alert(1)",
    ] {
        let found = violations(&create(Target { target_type: Some(webhook(url)), ..target() }));
        assert_eq!(found, [("target.rest_webhook.url".to_owned(), rule.to_owned())], "{url}");
    }
}

#[test]
fn a_value_that_is_none_is_told_which_there_are() {
    let request = SearchTargetsRequest { sorting_column: 99, ..Default::default() };
    let [(field, rule)] = &violations(&request)[..] else { panic!("{:?}", violations(&request)) };
    assert_eq!(field, "sorting_column");
    assert!(rule.starts_with("must be one of TARGET_FIELD_NAME_UNSPECIFIED, TARGET_FIELD_NAME_ID, "), "{rule}");
}

#[test]
fn a_space_is_no_control_character() {
    assert!(fields(&create(Target { name: "my hook".to_owned(), ..target() })).is_empty());
}

#[test]
fn a_check_refuses_what_is_just_out_of_range() {
    let refused = |check: &dyn Fn(&mut Check<'_>)| {
        let mut violations = vec![];
        check(&mut Check::new("", &mut violations));
        !violations.is_empty()
    };
    let at_most =
        |seconds, rules: &Span| refused(&|check| check.duration("span", Duration::from_seconds(seconds), rules));
    let positive = Span { gt_zero: true, non_negative: false, max_seconds: Some(10) };
    assert_eq!([0, 1, 10, 11].map(|seconds| at_most(seconds, &positive)), [true, false, false, true]);
    let any = Span { gt_zero: false, non_negative: false, max_seconds: None };
    assert!(!at_most(-1, &any) && at_most(i64::MAX, &any));
    assert_eq!([1, 2, 3].map(|count| refused(&|check| check.items("list", count, 2))), [false, false, true]);
    let key = |key: &str| {
        refused(&|check| {
            check.key("map", key);
        })
    };
    let (longest, too_long) = ("k".repeat(100), "k".repeat(101));
    assert_eq!(["", "a-b.c_1", "A", longest.as_str(), too_long.as_str()].map(key), [true, false, true, false, true]);
    let mut violations = vec![];
    let mut check = Check::new("", &mut violations);
    assert!(check.key("map", "name") && !check.key("map", "No Name"));
}

#[test]
fn no_more_than_the_most_violations_are_looked_for() {
    let mut violations = vec![];
    for count in 0..=MOST_VIOLATIONS {
        assert_eq!(Check::new("", &mut violations).is_full(), count == MOST_VIOLATIONS);
        Check::new("", &mut violations).missing("name");
    }
    assert_eq!(violations.len(), MOST_VIOLATIONS);
}

#[test]
fn a_violation_follows_from_a_field_that_could_not_be_read() {
    let of_field = |field: &str| Violation::new(field, "is required");
    for (field, follows) in
        [("a.b", true), ("a.b.c", true), ("a.b[0]", true), ("a.bc", false), ("a", false), ("b", false)]
    {
        assert_eq!(of_field(field).follows_from("a.b"), follows, "{field}");
    }
    let of_oneof = |field: &str| Violation::new(field, Rule::OneOf("one, other"));
    assert!(of_oneof("kind").follows_from("one") && of_oneof("a.kind").follows_from("a.other"));
    assert!(!of_oneof("kind").follows_from("a.one") && !of_oneof("a.kind").follows_from("a.another"));
    assert!(!Violation::new("a.kind", "one, other").follows_from("a.one"), "only a oneof has members");
    assert_eq!(Rule::OneOf("one, other").to_string(), "is required: one of one, other");
}

#[test]
fn a_time_and_what_is_boxed_are_checked() {
    let outside = Timestamp { seconds: i64::MAX, nanos: 0 };
    let expected = [(String::new(), "must be a time in the years 1 to 9999".to_owned())];
    assert_eq!(violations(&outside), expected);
    assert_eq!(violations(&Box::new(outside)), expected);
    assert_eq!(violations(&Timestamp { seconds: 0, nanos: 0 }), []);
}

#[test]
fn most_requests_name_no_context() {
    assert_eq!(CreateTargetRequest::default().context(), None);
}
