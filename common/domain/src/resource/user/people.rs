//! Tests of what holds for people only, and of service users in older logs.

use serde_json::json;

use super::*;
use crate::{
    secret::Sealed,
    standard::{Command, Event, Standard},
    testing::{assert_columns, given},
    with_unknown::WithUnknown,
};

fn sealed(text: &str) -> Human {
    Human {
        schema_id: "human".into(),
        personal: Some(Personal::Sealed(text.into())),
        username_key: Hashed::new(format!("hash of {text}")),
        ..Human::default()
    }
}

fn person(human: Human) -> User {
    User { human: Some(human), is_active: true, ..User::default() }
}

#[test]
fn what_is_personal_is_written_sealed_or_not_at_all() {
    let ada = Person { username: "ada".into(), ..Person::default() };
    let opened = Human { personal: Some(Personal::Opened(Box::new(ada))), ..sealed("a") };
    let refused = Rejection::Precondition("personal data must be sealed before it is written");
    given::<Standard<User>>([]).when(Command::Create(person(opened.clone()))).then_rejected(&refused);
    let named = User { username: "ada".into(), ..person(sealed("a")) };
    given::<Standard<User>>([]).when(Command::Create(named)).then_rejected(&refused);
    let added = Event::Added(person(sealed("a")).into());
    given::<Standard<User>>([]).when(Command::Create(person(sealed("a")))).then([added.clone()]);
    let patch = |human| Command::Patch(UserPatch { human: Some(human), ..UserPatch::default() });
    given::<Standard<User>>([added.clone()]).when(patch(opened)).then_rejected(&refused);
    given::<Standard<User>>([added.clone()]).when(patch(sealed("a"))).then([]);
    let to = person(sealed("b")).into();
    given::<Standard<User>>([added])
        .when(patch(sealed("b")))
        .then([Event::Changed { to, fields: vec!["human".into()] }]);
}

#[test]
fn a_person_has_nothing_of_a_service_user() {
    let refused = Rejection::Precondition(
        "the user is a person; only service users have client secrets, keys and tokens of their own",
    );
    let added = || given::<Standard<User>>([Event::Added(person(sealed("a")).into())]);
    let renewal = Some(Renewal { secret: Hashed::new("hash"), previous_until: None });
    for patch in [
        UserPatch { renewal, ..UserPatch::default() },
        UserPatch { description: Some("x".into()), ..UserPatch::default() },
        UserPatch { name: Some("x".into()), ..UserPatch::default() },
        UserPatch { access_token_alg: Some(Some("RS256".into())), ..UserPatch::default() },
        UserPatch { allow_token_endpoint_audience: Some(true), ..UserPatch::default() },
    ] {
        added().when(Command::Patch(patch)).then_rejected(&refused);
    }
    assert_eq!(person(sealed("a")).may_hold(), Err(refused));
    assert_eq!(User::default().may_hold(), Ok(()));
    let locked = User { is_locked: true, ..person(sealed("a")) };
    added().when(Command::Lock(true)).then([Event::Locked(locked.into())]);
}

#[test]
fn a_person_is_named_once_as_a_service_user_is() {
    assert_eq!(person(sealed("a")).claims(), [Claim::hashed("username", "hash of a")]);
    let robot = User { username: "robot".into(), ..User::default() };
    assert_eq!(robot.claims(), [User::username_claim("robot")]);
    assert_eq!(person(Human::default()).claims(), []);
}

#[test]
fn columns_show_what_is_open_and_nothing_of_what_is_sealed() {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace", "nickname": "A" });
    let contact = |value: &str| Some(crate::person::Contact { value: value.into(), is_verified: true });
    let ada = Person {
        username: "ada".into(),
        data: data.as_object().cloned().unwrap_or_default(),
        email: contact("ada@example.com"),
        phone: contact("+441632960123"),
    };
    let human = Human {
        personal: Some(Personal::Opened(Box::new(ada))),
        email_key: Hashed::new("e"),
        phone_key: Hashed::new("p"),
        ..sealed("a")
    };
    let columns = json!({
        "username": "ada", "name": "Ada Lovelace", "is_active": true, "type": "human", "given_name": "Ada",
        "family_name": "Lovelace", "nickname": "A", "email": "ada@example.com", "phone": "+441632960123",
        "email_key": "e", "phone_key": "p",
    });
    assert_columns(&User { username: "ada".into(), ..person(human) }, &columns);
    let columns = json!({
        "username": "", "name": "", "is_active": true, "type": "human", "given_name": "", "family_name": "",
        "nickname": "", "email": "", "phone": "", "email_key": "", "phone_key": "",
    });
    assert_columns(&person(sealed("a")), &columns);
}

fn password(hash: &str) -> Password {
    Password { hash: Sealed::new(hash), changed_at: 7, is_change_required: false, expires_at: None }
}

#[test]
fn only_people_have_passwords_and_a_change_names_them() {
    let patch = |password| Command::Patch(UserPatch { password: Some(password), ..UserPatch::default() });
    let robot = User { username: "robot".into(), is_active: true, ..User::default() };
    given::<Standard<User>>([Event::Added(robot.into())]).when(patch(password("a"))).then_rejected(&ONLY_PEOPLE);
    let with = |hash| User { password: Some(password(hash)), ..person(sealed("a")) };
    let added = || given::<Standard<User>>([Event::Added(with("a").into())]);
    let to = with("b").into();
    added().when(patch(password("b"))).then([Event::Changed { to, fields: vec!["password".into()] }]);
    added().when(patch(password("a"))).then([]);
    let written = serde_json::to_value(with("a")).unwrap();
    assert_eq!(written["password"], json!({ "sealed": "a", "changed_at": 7, "is_change_required": false }));
}

#[test]
fn a_person_can_be_changed_whatever_the_state_and_however_sessions_ended() {
    for before in [
        User { is_active: false, ..person(sealed("a")) },
        User { is_locked: true, ..person(sealed("a")) },
        User { sessions_end: Some(7), ..person(sealed("a")) },
    ] {
        let to = User { password: Some(password("a")), ..before.clone() };
        given::<Standard<User>>([Event::Added(before.into())])
            .when(Command::Patch(UserPatch { password: Some(password("a")), ..UserPatch::default() }))
            .then([Event::Changed { to: to.into(), fields: vec!["password".into()] }]);
    }
}

#[test]
fn a_person_names_the_contacts_by_which_it_is_found_and_a_service_user_none() {
    let human = Human { email_key: Hashed::new("e"), phone_key: Hashed::new("p"), ..sealed("a") };
    let contacts = [Reference::new(contact::EMAIL.link, "e"), Reference::new(contact::PHONE.link, "p")];
    assert_eq!(person(human).references(), contacts);
    assert_eq!((person(sealed("a")).references(), User::default().references()), (vec![], vec![]));
}

/// An event as written by a build from before people existed.
const RECORDED: &str = r#"{"username":"robot","name":"Robot","description":"","allow_token_endpoint_audience":false,"secret":"hash","previous":null,"is_active":true,"is_locked":false}"#;

#[test]
fn events_from_before_people_are_read_and_written_as_they_were() {
    let read: WithUnknown<User> = serde_json::from_str(RECORDED).unwrap();
    assert!(read.human.is_none() && read.unknown().is_empty());
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::from_str::<serde_json::Value>(RECORDED).unwrap());
}

#[test]
fn all_sessions_of_a_person_end_however_often_that_is_asked_for() {
    let ended = |seen| User { sessions_end: Some(seen), ..person(sealed("a")) };
    let events = [Event::Added(person(sealed("a")).into()), Event::SessionsEnded(ended(7).into())];
    given::<Standard<User>>(events.clone()).when(Command::EndSessions(7)).then([events[1].clone()]);
    given::<Standard<User>>(events).when(Command::EndSessions(9)).then([Event::SessionsEnded(ended(9).into())]);
    let robot = User { username: "robot".into(), is_active: true, ..User::default() };
    given::<Standard<User>>([Event::Added(robot.into())])
        .when(Command::EndSessions(7))
        .then_rejected(&Rejection::Precondition("it has no sessions"));
}
