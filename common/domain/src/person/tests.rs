use serde_json::json;

use super::*;

fn broken(data: Value) -> Vec<(String, &'static str)> {
    let Value::Object(data) = data else { panic!("data are an object") };
    violations(&data)
}

fn with(name: &str, value: Value) -> Value {
    let mut data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    data[name] = value;
    data
}

#[test]
fn data_are_the_standard_claims_and_nothing_else() {
    let all = json!({
        "given_name": "Ada", "family_name": "Lovelace", "name": "Ada L.", "middle_name": "King", "nickname": "A",
        "profile": "https://example.com/ada", "picture": "http://example.com/ada.png?size=1", "website": "https://é.example",
        "gender": "female", "birthdate": "1815-12-10", "zoneinfo": "Europe/London", "locale": "en-GB",
        "address": { "formatted": "1 Road\nLondon", "street_address": "1 Road", "country": "UK", "locality": "London" },
    });
    assert_eq!(broken(all), []);
    let required = |name: &str| (name.to_owned(), "is required");
    assert_eq!(broken(json!({})), [required("given_name"), required("family_name")]);
    for unknown in ["email", "sub", "preferred_username", "updated_at", "__proto__", ""] {
        assert_eq!(broken(with(unknown, json!("x"))), [(unknown.to_owned(), "is not a property of the schema")]);
    }
    let inner = broken(with("address", json!({ "planet": "Mars", "country": 7 })));
    let expected = [("address.country", "must be a string"), ("address.planet", "is not a property of the schema")];
    assert_eq!(inner, expected.map(|(path, rule)| (path.to_owned(), rule)));
}

#[test]
fn each_property_has_its_type_and_its_length() {
    let is_refused = |name: &str, value: Value| broken(with(name, value)).iter().any(|(path, _)| path == name);
    for value in [json!(1), json!(true), json!([]), json!({}), json!(""), json!("a\nb"), json!("é".repeat(201))] {
        assert!(is_refused("given_name", value.clone()), "{value}");
    }
    assert!(!is_refused("given_name", json!("é".repeat(200))));
    for value in
        ["javascript:alert(1)", "data:text/html,x", "https://", "https:///x", "http://a b", "https://a/\"x", "x"]
    {
        assert!(is_refused("picture", json!(value)), "{value}");
    }
    assert!(is_refused("picture", json!(format!("https://{}", "x".repeat(2000)))));
    for (value, is_right) in [
        ("1815", true),
        ("0000-02-29", true),
        ("2000-02-29", true),
        ("2024-02-29", true),
        ("1900-02-29", false),
        ("2023-02-29", false),
        ("2023-02-28", true),
        ("1815-12-10", true),
        ("1815-01-31", true),
        ("1815-01-32", false),
        ("1815-01-00", false),
        ("1815-04-30", true),
        ("1815-02-30", false),
        ("1815-12", false),
        ("1815-13-01", false),
        ("1815-04-31", false),
        ("1815-00-10", false),
        ("15-12-10", false),
        ("+815-12-10", false),
        ("1815-12-10 ", false),
    ] {
        assert_eq!(!is_refused("birthdate", json!(value)), is_right, "{value}");
    }
    assert!(is_refused("locale", json!("en_GB<script>")) && !is_refused("locale", json!("en-GB")));
    assert!(is_refused("zoneinfo", json!("Europe/ Paris")) && is_refused("address", json!("1 Road")));
    assert!(is_refused("zoneinfo", json!("a".repeat(65))) && !is_refused("zoneinfo", json!("Etc/GMT+1")));
    let address = |text: &str| broken(with("address", json!({ "formatted": text })));
    assert_eq!((address("a\r\nb").len(), address("a\u{0}").len(), address("").len()), (0, 1, 1));
    assert_eq!(address(&"x".repeat(1001)).len(), 1);
}

#[test]
fn a_name_is_the_claim_or_both_names() {
    let person = |data: Value| Person { data: data.as_object().cloned().unwrap_or_default(), ..Person::default() };
    assert_eq!(person(with("nickname", json!("A"))).name(), "Ada Lovelace");
    assert_eq!(person(with("name", json!("A. L."))).name(), "A. L.");
}

#[test]
fn nothing_personal_is_printed() {
    let ada = Person { username: "ada".to_owned(), ..Person::default() };
    assert_eq!(format!("{ada:?}"), "Person { .. }");
    for personal in [Personal::Opened(Box::new(ada)), Personal::Sealed("ciphertext".to_owned())] {
        assert_eq!(format!("{personal:?}"), "Personal { .. }");
    }
}

#[test]
fn only_what_is_opened_is_read() {
    let ada = Person { username: "ada".to_owned(), ..Person::default() };
    assert_eq!(Personal::Opened(Box::new(ada.clone())).opened(), Some(&ada));
    assert_eq!(Personal::Sealed("ciphertext".to_owned()).opened(), None);
}

#[test]
fn all_that_others_may_know_about_a_person_is_among_the_texts() {
    let Value::Object(data) = with("address", json!({ "country": "UK", "locality": "London" })) else {
        panic!("data are an object")
    };
    let contact = |value: &str| Some(Contact { value: value.to_owned(), is_verified: false });
    let (email, phone) = (contact("ada@example.com"), contact("+441632960123"));
    let person = Person { username: "countess".to_owned(), data, email, phone };
    let mut texts = person.texts();
    texts.sort_unstable();
    let expected = ["+441632960123", "Ada", "London", "Lovelace", "UK", "ada", "ada@example.com", "countess"];
    assert_eq!(texts, expected);
}

#[test]
fn what_is_sealed_is_found_in_any_event_and_replaced() {
    let person = || Person { username: "ada".to_owned(), ..Person::default() };
    let state = |personal: Value| json!({ "username": "", "human": { "schema_id": "human", "personal": personal } });
    for wrap in [|state: Value| state, |state: Value| json!({ "to": state, "fields": ["human"] })] {
        let mut event = wrap(state(json!("block.text")));
        assert_eq!(sealed_in(&mut event).unwrap(), "block.text");
        put_opened(&mut event, Some(person()));
        let mut opened = wrap(state(json!({ "username": "ada", "data": {} })));
        super::state(&mut opened)["username"] = json!("ada");
        assert_eq!(event, opened);
        for path in opened_at(&event) {
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(event.pointer(&pointer).is_some_and(|member| !member.is_null()), "{path}: {event}");
        }
        assert!(sealed_in(&mut event).is_none(), "it is open");
        let (mut erased, nothing) =
            (wrap(state(json!("block.text"))), wrap(json!({ "username": "", "human": { "schema_id": "human" } })));
        without_sealed(&mut erased);
        assert_eq!(erased, nothing);
    }
    let mut service = json!({ "username": "robot", "name": "Robot" });
    assert!(sealed_in(&mut service).is_none() && sealed_in(&mut Value::Null).is_none());
}
