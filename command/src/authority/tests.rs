//! Who may do what, by what is committed.

use domain::{
    log_class::LogClass,
    secret::Hashed,
    standard::Command::{self, Delete, Lock, Patch, Switch},
};
use edge::error::Reason::{
    self, FeatureDisabled, InstanceBlocked, InstanceInactive, PermissionDenied, ResourceNotFound, TokenInvalid,
};
use proto::operation::{CREATE_TARGET, END_USER_SESSIONS, Facts, GET_USER, SEARCH_SYSTEM_EVENTS, Waived};

use view::directory::AsOf;

use super::*;
use crate::scene::{INSTANCE, ORGANIZATION, PERSON, Scene, key};

const USER: &str = PERSON;
const WRITE: &str = "action.target.write";

/// A scene with an instance where the API of resources is on, an organization and a user of that.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.add(INSTANCE, &Owner::system(), Instance::new("Instance", "7")).expect("it is new");
    scene.add(ORGANIZATION, &instance_owner(), Organization::new("Acme")).expect("it is new");
    let user = User { username: "robot".into(), is_active: true, ..User::default() };
    scene.add(USER, &place(), user).expect("it is new");
    scene.switch(INSTANCE, true).expect("it was not set");
    scene
}

fn instance_owner() -> Owner {
    Owner::instance(INSTANCE)
}

fn place() -> Owner {
    Owner::organization(ORGANIZATION)
}

/// The authority of the user.
fn authority(scene: &Scene, operation: &'static Facts) -> Authority {
    Authority {
        operation,
        instance_id: INSTANCE.into(),
        caller_id: USER.into(),
        home: key::<Instance>(INSTANCE),
        user: key::<User>(USER),
        organization: Some(key::<Organization>(ORGANIZATION)),
        seen: 10,
        token: None,
        features: [INSTANCE, SYSTEM].map(|place| AggregateKey::of::<Settings<Features>>(place, place)),
        system: None,
        is_bounded: false,
        claims: scene.keys.instance.clone(),
    }
}

/// The authority of a system user with roles in the entire system.
fn of_system(scene: &Scene, roles: &[&str]) -> Authority {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    let held = Membership::new("operator", &Owner::system(), Owner::system(), roles);
    let user = Principal {
        as_of: AsOf::default(),
        id: "operator".into(),
        user: User::default(),
        owner: Owner::system(),
        is_live: true,
        memberships: vec![held],
    };
    Authority {
        caller_id: "operator".into(),
        user: key::<User>("operator"),
        organization: None,
        system: Some(Arc::new(user)),
        ..authority(scene, &CREATE_TARGET.facts)
    }
}

/// The authority of a system user who may do everything.
pub(crate) fn operator(scene: &Scene, operation: &'static Facts) -> Authority {
    Authority { operation, ..of_system(scene, &["SYSTEM_OWNER"]) }
}

fn gives(scene: &mut Scene, id: &str, context: &Owner, role: &str) {
    let held = Membership::new(USER, &place(), context.clone(), vec![role.into()]);
    scene.add(id, context, held).expect("it is new");
}

fn reason(done: Result<(), Refusal>) -> Result<(), Reason> {
    done.map_err(|refusal| Box::<Error>::from(refusal).reason())
}

fn checked(scene: &mut Scene) -> Result<(), Reason> {
    let authority = authority(scene, &CREATE_TARGET.facts);
    reason(scene.inspect(|turn| authority.check(turn)))
}

fn permitted(scene: &mut Scene, context: &Owner, exists: bool) -> Result<(), Reason> {
    let authority = authority(scene, &CREATE_TARGET.facts);
    reason(scene.inspect(|turn| authority.permit(turn, context, &Object::of_nobody("target", exists))))
}

#[test]
fn who_is_live_in_what_is_switched_on_may_act() {
    assert_eq!(checked(&mut scene()), Ok(()));
}

#[test]
fn who_or_what_is_switched_off_may_not() {
    type Change = fn(&mut Scene) -> Result<crate::turn::Decided, Refusal>;
    let cases: [(&str, Change, Reason); 8] = [
        ("a user who is off", |scene| scene.change::<User>(USER, Switch(false)), TokenInvalid),
        ("a user who is locked", |scene| scene.change::<User>(USER, Lock(true)), TokenInvalid),
        ("no user", |scene| scene.change::<User>(USER, Delete), TokenInvalid),
        (
            "an organization that is off",
            |scene| scene.change::<Organization>(ORGANIZATION, Switch(false)),
            TokenInvalid,
        ),
        ("no organization", |scene| scene.change::<Organization>(ORGANIZATION, Delete), TokenInvalid),
        ("an instance that is off", |scene| scene.change::<Instance>(INSTANCE, Switch(false)), InstanceInactive),
        ("no instance", |scene| scene.change::<Instance>(INSTANCE, Delete), InstanceInactive),
        ("a blocked instance", |scene| scene.change(INSTANCE, blocked()), InstanceBlocked),
    ];
    for (case, change, refused) in cases {
        let mut scene = scene();
        change(&mut scene).expect("it is there");
        assert_eq!(checked(&mut scene), Err(refused), "{case}");
        let operator = of_system(&scene, &["SYSTEM_OWNER"]);
        assert_eq!(reason(scene.inspect(|turn| operator.check(turn))), Ok(()), "{case}: an operator may");
    }
}

#[test]
fn a_deleted_personal_access_token_gives_nothing() {
    let mut scene = scene();
    let new = PersonalAccessToken { user_id: USER.into(), secret: Hashed::new("hash"), expires_at: i64::MAX };
    scene.add("8", &place(), new).expect("it is new");
    let token = Some(key::<PersonalAccessToken>("8"));
    let authority = Authority { token, ..authority(&scene, &CREATE_TARGET.facts) };
    assert_eq!(reason(scene.inspect(|turn| authority.check(turn))), Ok(()));
    scene.change::<PersonalAccessToken>("8", Delete).expect("it is there");
    assert_eq!(reason(scene.inspect(|turn| authority.check(turn))), Err(TokenInvalid));
    assert_eq!(checked(&mut scene), Ok(()), "a token of another kind is what it was");
}

#[test]
fn a_token_that_was_issued_before_all_sessions_ended_gives_nothing() {
    for (end, allowed) in [(Some(9), Ok(())), (Some(10), Err(TokenInvalid)), (Some(11), Err(TokenInvalid))] {
        let mut scene = Scene::logged_in(end);
        scene.draft.class = LogClass::Events;
        scene.switch(INSTANCE, true).expect("it was not set");
        assert_eq!(checked(&mut scene), allowed, "{end:?}");
    }
}

fn blocked() -> Command<Instance> {
    use domain::resource::instance::InstancePatch;
    Patch(InstancePatch { block: Some(true), ..InstancePatch::default() })
}

#[test]
fn the_nearest_flag_counts() {
    for (instance, system, allowed) in [
        (None, None, false),
        (None, Some(true), true),
        (None, Some(false), false),
        (Some(true), Some(false), true),
        (Some(false), Some(true), false),
    ] {
        let mut scene = Scene::new();
        for (place, flag) in [(INSTANCE, instance), (SYSTEM, system)] {
            if let Some(on) = flag {
                scene.switch(place, on).expect("it was not set");
            }
        }
        let operator = of_system(&scene, &["SYSTEM_OWNER"]);
        let checked = reason(scene.inspect(|turn| operator.check(turn)));
        let wanted = if allowed { Ok(()) } else { Err(FeatureDisabled) };
        assert_eq!(checked, wanted, "{instance:?} in the instance, {system:?} in the system");
        let without = Authority { operation: &SEARCH_SYSTEM_EVENTS.facts, ..operator };
        assert_eq!(reason(scene.inspect(|turn| without.check(turn))), Ok(()), "no flag is asked for");
    }
}

#[test]
fn roles_count_in_their_context_and_below() {
    let elsewhere = Owner::organization("4");
    for (held, everywhere, in_place) in [
        (&instance_owner(), Ok(()), Ok(())),
        (&Owner::system(), Ok(()), Ok(())),
        (&place(), Err(PermissionDenied), Ok(())),
        (&elsewhere, Err(PermissionDenied), Err(ResourceNotFound)),
    ] {
        let mut scene = scene();
        scene.add("4", &instance_owner(), Organization::new("Other")).expect("it is new");
        let role = if held.kind == OwnerType::Organization { "ORG_OWNER" } else { "IAM_OWNER" };
        gives(&mut scene, "8", held, role);
        let write_of_user = |scene: &mut Scene, context: &Owner| {
            let authority = authority(scene, &proto::operation::CREATE_USER.facts);
            reason(scene.inspect(|turn| authority.permit(turn, context, &Object::of_nobody("user", false))))
        };
        assert_eq!(write_of_user(&mut scene, &instance_owner()), everywhere, "{held:?}");
        assert_eq!(write_of_user(&mut scene, &place()), in_place, "{held:?}");
    }
}

#[test]
fn who_may_not_even_read_is_told_that_there_is_nothing() {
    let mut scene = scene();
    assert_eq!(permitted(&mut scene, &instance_owner(), true), Err(ResourceNotFound));
    assert_eq!(
        permitted(&mut scene, &instance_owner(), false),
        Err(PermissionDenied),
        "there is an instance for everybody"
    );
    assert_eq!(permitted(&mut scene, &place(), false), Err(ResourceNotFound));
    gives(&mut scene, "8", &instance_owner(), "IAM_OWNER_VIEWER");
    assert_eq!(permitted(&mut scene, &instance_owner(), true), Err(PermissionDenied), "it may read");
    assert_eq!(permitted(&mut scene, &place(), true), Err(PermissionDenied));
}

#[test]
fn where_there_is_nothing_nobody_is_permitted() {
    let mut scene = scene();
    gives(&mut scene, "8", &instance_owner(), "IAM_OWNER");
    assert_eq!(permitted(&mut scene, &place(), true), Ok(()));
    assert_eq!(permitted(&mut scene, &Owner::organization("9"), false), Err(ResourceNotFound));
    let system = of_system(&scene, &["IAM_OWNER"]);
    scene.change::<Instance>(INSTANCE, Delete).expect("it is there");
    assert_eq!(permitted(&mut scene, &instance_owner(), true), Err(ResourceNotFound));
    let target = Object::of_nobody("target", true);
    let permitted = reason(scene.inspect(|turn| system.permit(turn, &Owner::system(), &target)));
    assert_eq!(permitted, Ok(()), "the system is always there");
}

#[test]
fn a_permission_in_all_contexts_is_one_in_each() {
    let mut scene = scene();
    let other = Owner::organization("4");
    gives(&mut scene, "8", &place(), "ORG_OWNER");
    let caller = authority(&scene, &CREATE_TARGET.facts);
    let mut may = |contexts: &[Owner]| {
        let places: Vec<RolePlace> = contexts.iter().cloned().map(Into::into).collect();
        scene.inspect(|turn| caller.may_in_all(turn, "user.write", &places))
    };
    assert!(may(&[place()]) && may(&[]));
    assert!(!may(std::slice::from_ref(&other)) && !may(&[place(), other]) && !may(&[instance_owner()]));
}

#[test]
fn roles_in_a_part_of_a_context_hold_there_and_nowhere_else() {
    let mut scene = scene();
    let (part, other) = (Part::project("7"), Part::project("9"));
    let held = Membership::new(USER, &place(), place(), vec!["PROJECT_OWNER".into()]).within(part.clone());
    scene.add("8", &place(), held).expect("it is new");
    let caller = authority(&scene, &CREATE_TARGET.facts);
    let mut may = |context: Owner, parts: &[&Part], permission: &str| {
        let place = RolePlace { context, parts: parts.iter().copied().cloned().collect() };
        scene.inspect(|turn| caller.may_at(turn, permission, &place))
    };
    let same_id = Part::project_grant("7");
    assert!(may(place(), &[&part], "project.write") && may(place(), &[&other, &part], "project.app.read"));
    assert!(!may(place(), &[&part], "user.write"), "what the role does not give");
    assert!(!may(place(), &[], "project.write"), "in all of the context");
    assert!(!may(place(), &[&other], "project.write") && !may(place(), &[&same_id], "project.write"));
    for elsewhere in [Owner::organization("4"), instance_owner(), Owner::system()] {
        assert!(!may(elsewhere.clone(), &[&part], "project.write"), "in another context: {elsewhere:?}");
    }
}

#[test]
fn rights_above_the_instance_do_not_count_where_targets_may_have_spoken() {
    let mut scene = scene();
    gives(&mut scene, "8", &Owner::system(), "IAM_OWNER");
    for is_bounded in [false, true] {
        let caller = Authority { is_bounded, ..authority(&scene, &CREATE_TARGET.facts) };
        assert_eq!(scene.inspect(|turn| caller.may(turn, WRITE, &instance_owner())), !is_bounded);
    }
    gives(&mut scene, "9", &instance_owner(), "IAM_OWNER");
    let caller = Authority { is_bounded: true, ..authority(&scene, &CREATE_TARGET.facts) };
    assert!(scene.inspect(|turn| caller.may(turn, WRITE, &instance_owner())));
}

#[test]
fn a_system_user_has_the_roles_of_the_configuration() {
    let mut scene = scene();
    for (roles, may) in [(&["IAM_OWNER"][..], true), (&["IAM_OWNER_VIEWER"], false), (&[], false)] {
        let operator = of_system(&scene, roles);
        assert_eq!(scene.inspect(|turn| operator.may(turn, WRITE, &instance_owner())), may, "{roles:?}");
    }
}

#[test]
fn an_operation_without_a_permission_is_about_what_is_the_callers_own() {
    let mut scene = scene();
    let own = |user_id: Option<&str>| Object { user_id: user_id.map(str::to_owned), ..Object::of_nobody("user", true) };
    let operation = Box::leak(Box::new(Facts { permission: None, waived: Waived::Own, ..GET_USER.facts }));
    let caller = authority(&scene, operation);
    let mut permitted = |caller: &Authority, object: &Object| {
        reason(scene.inspect(|turn| caller.permit(turn, &instance_owner(), object)))
    };
    let gives = operation.gives(USER, Some(USER));
    let wanted = if gives { Ok(()) } else { Err(ResourceNotFound) };
    assert_eq!(permitted(&caller, &own(Some(USER))), wanted);
    assert_eq!(permitted(&caller, &own(Some("6"))), Err(ResourceNotFound));
    assert_eq!(permitted(&caller, &own(None)), Err(ResourceNotFound));
    let elsewhere = Authority { home: AggregateKey::of::<Standard<Instance>>("2", "2"), ..caller };
    assert_eq!(permitted(&elsewhere, &own(Some(USER))), Err(ResourceNotFound));
}

#[test]
fn an_operation_about_the_caller_takes_a_permission_on_others() {
    let mut scene = scene();
    let own = |user_id: &str| Object { user_id: Some(user_id.to_owned()), ..Object::of_nobody("user", true) };
    let caller = authority(&scene, &END_USER_SESSIONS.facts);
    let mut permitted = |caller: &Authority, object: &Object| {
        reason(scene.inspect(|turn| caller.permit(turn, &instance_owner(), object)))
    };
    assert_eq!(permitted(&caller, &own(USER)), Ok(()));
    assert_eq!(permitted(&caller, &own("6")), Err(ResourceNotFound));
    let elsewhere = Authority { home: AggregateKey::of::<Standard<Instance>>("2", "2"), ..caller };
    assert_eq!(permitted(&elsewhere, &own(USER)), Err(ResourceNotFound));
    gives(&mut scene, "8", &instance_owner(), "IAM_OWNER");
    let caller = authority(&scene, &END_USER_SESSIONS.facts);
    assert_eq!(reason(scene.inspect(|turn| caller.permit(turn, &instance_owner(), &own("6")))), Ok(()));
}

#[test]
fn a_caller_is_itself() {
    let scene = scene();
    let caller = authority(&scene, &CREATE_TARGET.facts);
    assert!(caller.is_caller(USER) && !caller.is_caller("6"));
}
