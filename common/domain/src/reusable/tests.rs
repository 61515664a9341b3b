use super::*;
use crate::{
    reference::Reference,
    resource::idp::Idp,
    standard::{Command, Event},
    testing::given,
};

fn contexts() -> [Owner; 3] {
    [Owner::system(), Owner::instance("1"), Owner::organization("2")]
}

#[test]
fn a_resource_is_there_in_its_own_context_and_in_all_below_it() {
    let [system, instance, organization] = contexts();
    let other = Owner::organization("3");
    let at = |owner: &Owner, context: &Owner| path(owner, context, "1");
    assert_eq!(at(&system, &organization), Some(vec![instance.clone(), organization.clone()]));
    assert_eq!(at(&system, &instance), Some(vec![instance.clone()]));
    assert_eq!(at(&instance, &other), Some(vec![other.clone()]));
    for (owner, context) in [
        (&system, &system),
        (&instance, &instance),
        (&organization, &organization),
        (&organization, &instance),
        (&organization, &system),
        (&instance, &system),
    ] {
        assert_eq!(at(owner, context), Some(vec![]), "its own context, and from above: {owner:?}, {context:?}");
    }
    assert_eq!((at(&organization, &other), at(&Owner::instance("9"), &other)), (None, None));
}

#[test]
fn the_nearest_policy_that_is_not_inherit_decides() {
    let [system, instance, organization] = contexts();
    let all = [Policy::Activate, Policy::Deactivate, Policy::Inherit];
    for own in [true, false] {
        for (above, below) in all.iter().flat_map(|above| all.map(|below| (*above, below))) {
            let policy = |context: &Owner| if *context == instance { above } else { below };
            let seen = |path: &[Owner]| ContextState::at(&system, own, path, policy);
            let in_instance = if above == Policy::Inherit { own } else { above == Policy::Activate };
            let in_organization = if below == Policy::Inherit { in_instance } else { below == Policy::Activate };
            let home = ContextState { is_active: own, policy: None, parent: None };
            assert_eq!(seen(&[]), home);
            let parent = Some((system.clone(), own));
            let middle = ContextState { is_active: in_instance, policy: Some(above), parent };
            assert_eq!(seen(std::slice::from_ref(&instance)), middle);
            let parent = Some((instance.clone(), in_instance));
            let end = ContextState { is_active: in_organization, policy: Some(below), parent };
            assert_eq!(seen(&[instance.clone(), organization.clone()]), end);
        }
    }
}

#[test]
fn where_no_context_is_named_the_own_one_is_meant_unless_that_is_the_system() {
    let [system, instance, organization] = contexts();
    assert_eq!(home(&organization, "1"), organization);
    assert_eq!([home(&instance, "1"), home(&system, "1")], [instance.clone(), instance]);
}

#[test]
fn a_policy_names_its_resource_and_goes_with_it() {
    let policy = StatePolicy::<Idp>::new("7", &Owner::instance("1"), Policy::Activate);
    let link = Link { name: "policy", to: "idp" };
    assert_eq!(policy.references(), [Reference::new(link, "7")]);
    given::<crate::standard::Standard<StatePolicy<Idp>>>([Event::Added(policy.into())])
        .when(Command::Unlink(Reference::new(link, "7")))
        .then([Event::Removed]);
    let of_system = StatePolicy::<Idp>::new("7", &Owner::system(), Policy::Activate);
    assert_eq!(of_system.references(), [], "the system is in no instance");
    let id = StatePolicy::<Idp>::id("7", "2");
    assert_eq!((id.as_str(), StatePolicy::<Idp>::resource_of(&id)), ("7.2", "7"));
}

#[test]
fn policies_are_the_same_only_if_all_members_are() {
    let of = |id: &str, owner: &Owner, policy| StatePolicy::<Idp>::new(id, owner, policy);
    let [system, instance, _] = contexts();
    let same = of("7", &instance, Policy::Activate);
    assert_eq!(same.clone(), same);
    for different in [
        of("8", &instance, Policy::Activate),
        of("7", &instance, Policy::Deactivate),
        of("7", &system, Policy::Activate),
    ] {
        assert_ne!(different, same);
        assert_eq!(different.clone(), different);
    }
    assert_eq!(format!("{same:?}"), "Activate on 7");
}

#[test]
fn a_policy_is_replaced_and_set_again_without_an_event() {
    let policy = |policy| StatePolicy::<Idp>::new("7", &Owner::instance("1"), policy);
    let added = Event::Added(policy(Policy::Activate).into());
    let to = policy(Policy::Inherit);
    let changed = Event::Changed { to: to.clone().into(), fields: vec!["policy".into()] };
    given::<crate::standard::Standard<StatePolicy<Idp>>>([added.clone()])
        .when(Command::Put(to.clone()))
        .then([changed.clone()]);
    given::<crate::standard::Standard<StatePolicy<Idp>>>([added, changed]).when(Command::Put(to)).then([]);
}
