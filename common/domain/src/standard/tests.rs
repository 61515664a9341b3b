use super::*;
use crate::{
    resource::{
        execution::{self, Condition, Events, Execution},
        organization::Organization,
        project::Project,
        project_grant::{self, ProjectGrant},
        project_role::GrantedRole,
        session::Session,
        user::User,
    },
    testing::given,
};

/// A minimal resource.
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
        .when(Command::Create(plain("b").into_known()))
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
        .then_rejected(&Rejection::Precondition("it cannot be impersonated"));
    given::<Standard<Plain>>([])
        .when(Command::Impersonate("8".to_owned()))
        .then_rejected(&Rejection::NotFound(Plain::NAME));
    given::<Standard<Plain>>([Event::Added(plain("a"))])
        .when(Command::EndSessions(7))
        .then_rejected(&Rejection::Precondition("it has no sessions"));
}

#[test]
fn a_plain_resource_has_nothing_that_only_some_have() {
    let plain = plain("a").into_known();
    assert_eq!((plain.user("7"), plain.holder(), plain.also_seen_by()), (None, None, None));
    assert_eq!((plain.parts("7"), plain.references(), plain.claims()), (vec![], vec![], vec![]));
    assert_eq!((plain.may_hold(), plain.has_expired(i64::MAX)), (Ok(()), false));
    assert_eq!(Plain::id_below("7", "8"), "8", "its id is unique without its holder");
    assert_eq!(plain.clone().with_holder_parts(&[Part::project("1")]), plain);
    assert_eq!(plain.unlinked(&Reference::new(Link::INSTANCE, "1")), None, "it goes with all that it names");
}

#[test]
fn what_expires_has_expired_from_that_time_on() {
    let session: Session = serde_json::from_value(serde_json::json!({ "secret": null, "expires_at": 10 })).unwrap();
    assert_eq!([9, 10, 11].map(|now| session.has_expired(now)), [false, true, true]);
}

fn grant() -> ProjectGrant {
    let roles = vec![GrantedRole { id: "3".to_owned(), key: "a".to_owned() }];
    ProjectGrant { project_id: "1".to_owned(), organization_id: "2".to_owned(), roles, is_active: true }
}

#[test]
fn a_project_grant_is_seen_by_the_organization_that_it_was_granted_to() {
    assert_eq!(grant().also_seen_by(), Some(Owner::organization("2")));
}

#[test]
fn roles_are_held_in_the_resource_itself_and_in_what_it_names() {
    let parts = |state: &Option<WithUnknown<ProjectGrant>>, asked: Option<&Command<ProjectGrant>>| {
        Standard::<ProjectGrant>::parts("9", state, asked)
    };
    let both = vec![Part::project("1"), Part::project_grant("9")];
    assert_eq!(parts(&Some(grant().into()), None), both);
    for creates in [Command::Create(grant()), Command::Put(grant())] {
        assert_eq!(parts(&None, Some(&creates)), both, "before it is created");
    }
    assert_eq!((parts(&None, None), parts(&None, Some(&Command::Delete))), (vec![], vec![]));
    let nowhere = ProjectGrant { project_id: String::new(), ..grant() };
    assert_eq!(nowhere.parts("9"), [Part::project_grant("9")], "an empty id names nothing");
    assert_eq!(Project::new("a").parts("1"), [Part::project("1")]);
}

#[test]
fn what_exists_belongs_to_its_user() {
    let user = |state: &Option<WithUnknown<User>>| Standard::<User>::user("7", state).map(str::to_owned);
    assert_eq!((user(&Some(User::default().into())), user(&None)), (Some("7".to_owned()), None));
}

#[test]
fn a_resource_goes_with_some_of_what_it_names() {
    let instance = Reference::new(Link::INSTANCE, "9");
    let condition = Condition::Event(Events::All);
    let execution = Execution { condition, targets: vec!["1".to_owned()], includes: vec!["2".to_owned()] };
    let named = vec![Reference::new(execution::TARGET, "1"), instance.clone(), Reference::new(execution::INCLUDE, "2")];
    assert_eq!(goes_with(&execution, named), [instance]);
    let stands_on = [Reference::new(project_grant::PROJECT, "1"), Reference::new(project_grant::GRANTED, "2")];
    assert_eq!(goes_with(&grant(), grant().references()), stands_on, "and not with its roles");
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
    let written = |name| serde_json::json!({ "name": name, "of_the_next_version": 1 });
    let [newer, to] = ["a", "b"].map(|name| serde_json::from_value::<WithUnknown<Plain>>(written(name)).unwrap());
    given::<Standard<Plain>>([Event::Added(newer)])
        .when(Command::Put(Plain::clone(&to)))
        .then([Event::Changed { to, fields: vec!["name".to_owned()] }]);
}
