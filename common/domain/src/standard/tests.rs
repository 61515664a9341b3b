use super::*;
use crate::{resource::organization::Organization, testing::given};

/// A resource that is nothing special.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Plain {
    name: String,
}

impl Resource for Plain {
    const NAME: &'static str = "plain";
    const COLUMNS: &'static [Column<Self>] = &[];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}

fn plain(name: &str) -> WithUnknown<Plain> {
    Plain { name: name.to_owned() }.into()
}

#[test]
fn an_event_alone_gives_the_state() {
    let changed = Event::Changed { to: plain("b"), fields: vec!["name".to_owned()] };
    for (event, state) in
        [(Event::Added(plain("a")), Some(plain("a"))), (changed, Some(plain("b"))), (Event::Removed, None)]
    {
        assert!(Standard::<Plain>::restores(&event));
        for before in [None, Some(plain("z"))] {
            assert_eq!(Standard::<Plain>::evolve(before, &event), state);
        }
        assert_eq!(Standard::<Plain>::exists(&state), state.is_some());
    }
}

#[test]
fn what_is_not_there_cannot_be_changed_or_removed_and_what_is_goes_once() {
    let missing = Rejection::NotFound("plain");
    for command in [Command::Switch(true), Command::Lock(true), Command::Delete] {
        given::<Standard<Plain>>([]).when(command).then_rejected(&missing);
    }
    given::<Standard<Plain>>([Event::Added(plain("a"))]).when(Command::Delete).then([Event::Removed]);
    given::<Standard<Plain>>([Event::Added(plain("a")), Event::Removed]).when(Command::Delete).then_rejected(&missing);
}

#[test]
fn what_was_removed_can_be_created_anew() {
    given::<Standard<Plain>>([Event::Added(plain("a")), Event::Removed])
        .when(Command::Create(plain("b").known))
        .then([Event::Added(plain("b"))]);
}

#[test]
fn not_everything_can_be_switched_off() {
    for on in [true, false] {
        given::<Standard<Plain>>([Event::Added(plain("a"))])
            .when(Command::Switch(on))
            .then_rejected(&Rejection::Precondition("it cannot be switched off"));
        given::<Standard<Plain>>([Event::Added(plain("a"))])
            .when(Command::Lock(on))
            .then_rejected(&Rejection::Precondition("it cannot be locked"));
    }
    given::<Standard<Plain>>([Event::Added(plain("a"))])
        .when(Command::Impersonate("8".to_owned()))
        .then_rejected(&Rejection::Precondition("nobody acts as it"));
    given::<Standard<Plain>>([])
        .when(Command::Impersonate("8".to_owned()))
        .then_rejected(&Rejection::NotFound(Plain::NAME));
}

#[test]
fn what_exists_holds_its_claims_and_what_does_not_holds_none() {
    let acme = Organization::new("Acme");
    let claims = acme.claims();
    assert_eq!(Standard::<Organization>::claims(&Some(acme.into())), claims);
    assert_eq!(Standard::<Organization>::claims(&None), []);
    assert_eq!(Standard::<Plain>::claims(&Some(plain("a"))), []);
}

#[test]
fn a_resource_belongs_to_its_owner_unless_it_is_a_context_itself() {
    let owner = Owner::instance("1");
    assert_eq!(Standard::<Plain>::context("2", &owner), owner);
    assert_eq!(Standard::<Organization>::context("2", &owner), Owner::organization("2"));
}

#[test]
fn what_the_next_version_wrote_survives_a_change() {
    let unknown = [("of_the_next_version".to_owned(), serde_json::Value::from(1))].into_iter().collect();
    let newer = WithUnknown { known: Plain { name: "a".to_owned() }, unknown };
    let to = WithUnknown { known: Plain { name: "b".to_owned() }, ..newer.clone() };
    given::<Standard<Plain>>([Event::Added(newer)])
        .when(Command::Put(to.known.clone()))
        .then([Event::Changed { to, fields: vec!["name".to_owned()] }]);
}
