//! What a turn reads, writes and refuses, without a log.

use std::mem;

use domain::{
    context::{Owner, OwnerType},
    resource::{
        instance::Instance,
        membership::Membership,
        organization::{Organization, OrganizationPatch},
        user::User,
    },
    standard::{self, Command, Standard},
};
use edge::error::Reason;
use eventlog::record::{Answer, Position, Recorded};
use view::{checkpoint::Checkpoint, history::Snapshot};

use super::*;
use crate::scene::{INSTANCE, Scene, cause, key};

fn organization(name: &str) -> Organization {
    Organization::new(name)
}

fn reason(refusal: Refusal) -> Reason {
    Box::<Error>::from(refusal).reason()
}

fn instance_owner() -> Owner {
    Owner::instance(INSTANCE)
}

/// A scene where the instance is there.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.add(INSTANCE, &Owner::system(), Instance::new("Instance", "7")).expect("it is new");
    scene
}

fn renamed(name: &str) -> Command<Organization> {
    Command::Patch(OrganizationPatch { name: Some(name.into()), ..OrganizationPatch::default() })
}

#[test]
fn what_is_not_in_memory_counts_as_absent_and_is_noted() {
    let mut scene = Scene::new();
    scene.inspect(|turn| {
        assert!(turn.get::<Standard<User>>(&key::<User>("5")).resource().is_none());
        assert_eq!(turn.holder(&[3; 32]), None);
        assert!(turn.answer(&"command".into()).is_none());
        let Some(Lack::Missing(needs)) = turn.lack() else { panic!("it lacks something") };
        assert_eq!(needs.aggregates, [key::<User>("5")]);
        assert_eq!(needs.claims, [[3; 32]]);
        assert_eq!(needs.commands, [Bytes::from("command")]);
        assert!(turn.lack().is_none(), "it is said once");
    });
}

#[test]
fn who_refers_is_lacked_until_it_is_known_and_nobody_refers_to_what_is_new() {
    let mut scene = scene();
    scene.inspect(|turn| {
        turn.referrers(&key::<User>("5"), domain::resource::membership::USER);
        let Some(Lack::Missing(needs)) = turn.lack() else { panic!("it lacks something") };
        assert_eq!(needs.referrers.len(), 1);
    });
    scene.add("5", &Owner::organization("3"), User::default()).expect("it is new");
    scene.inspect(|turn| {
        turn.referrers(&key::<User>("5"), domain::resource::membership::USER);
        assert!(turn.lack().is_none());
    });
}

#[test]
fn objects_are_counted_with_what_the_command_and_the_record_create_and_remove() {
    let mut scene = scene();
    let limits: ObjectLimits = "organization=2".parse().expect("it is a limit");
    let create = |turn: &mut Turn<'_>, keys: &ClaimKeys, id: &str| {
        let current = turn.unborn::<Standard<Organization>>(&key::<Organization>(id), &instance_owner())?;
        turn.append(current, &[standard::Event::Added(organization(id).into())], keys, &cause())
    };
    let in_turn = |scene: &mut Scene, act: &dyn Fn(&mut Turn<'_>, &ClaimKeys) -> Result<Decided, Refusal>| {
        let mut turn = Turn::new(&mut scene.memory, &mut scene.draft, scene.now).within(&limits);
        let done = act(&mut turn, &scene.keys).map(drop).map_err(reason);
        let counts = mem::take(&mut turn.missing.counts);
        if done.is_ok() && counts.is_empty() {
            turn.finish(usize::MAX).expect("it fits");
        }
        (done, counts)
    };
    let (_, lacked) = in_turn(&mut scene, &|turn, keys| create(turn, keys, "3"));
    let [counted] = &lacked[..] else { panic!("it lacks their number") };
    let position = Position { sequence: 10, ..Position::default() };
    let checkpoint = Checkpoint { epoch: 1, position, committed_at: scene.now };
    let checkpoints = OfEach { events: checkpoint, sessions: checkpoint };
    let (aggregates, claims, referrers, commands) = Default::default();
    let counts = [(counted.clone(), 0)].into();
    scene.memory.learn(Snapshot { checkpoints, aggregates, claims, referrers, counts, commands });

    let two = |turn: &mut Turn<'_>, keys: &ClaimKeys| create(turn, keys, "3").and_then(|_| create(turn, keys, "4"));
    assert_eq!(in_turn(&mut scene, &two).0, Ok(()));
    assert_eq!(in_turn(&mut scene, &|turn, keys| create(turn, keys, "5")).0, Err(Reason::ObjectLimit));
    let replace = |turn: &mut Turn<'_>, keys: &ClaimKeys| {
        let current = turn.get::<Standard<Organization>>(&key::<Organization>("3"));
        turn.append(current, &[standard::Event::Removed], keys, &cause())?;
        create(turn, keys, "5")
    };
    assert_eq!(in_turn(&mut scene, &replace).0, Ok(()));
    assert_eq!(in_turn(&mut scene, &|turn, keys| create(turn, keys, "6")).0, Err(Reason::ObjectLimit));
}

#[test]
fn a_turn_that_lacks_nothing_says_so() {
    let mut scene = scene();
    scene.inspect(|turn| {
        assert!(turn.get::<Standard<Instance>>(&key::<Instance>(INSTANCE)).resource().is_some());
        assert!(turn.lack().is_none());
    });
}

#[test]
fn an_aggregate_that_was_cached_as_another_type_cannot_be_read() {
    let mut scene = scene();
    scene.inspect(|turn| {
        let read = turn.get::<Standard<Organization>>(&key::<Instance>(INSTANCE));
        assert!(read.resource().is_none());
        assert!(matches!(turn.lack(), Some(Lack::Unreadable(_))));
    });
}

#[test]
fn what_was_written_is_read_in_the_next_turn() {
    let mut scene = scene();
    scene.now = Timestamp::from_second(5).expect("it is a time");
    let made = scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    assert_eq!((made.sequence, made.is_new, made.changed_at), (12, true, scene.now));
    assert_eq!(
        (made.aggregate_type, &made.owner, &made.place),
        ("organization", &instance_owner(), &Some(instance_owner().into()))
    );
    scene.now = Timestamp::from_second(6).expect("it is a time");
    let changed = scene.change("3", renamed("Other")).expect("it is there");
    assert_eq!((changed.sequence, changed.is_new, changed.changed_at), (13, false, scene.now));
    scene.inspect(|turn| {
        let current = turn.get::<Standard<Organization>>(&key::<Organization>("3"));
        assert_eq!(current.resource().map(|found| found.name.as_str()), Some("Other"));
        assert_eq!((current.head.version, current.head.sequence), (2, 13));
        assert_eq!(current.head.created_at, Timestamp::from_second(5).expect("it is a time"));
        assert_eq!(current.owner().ok(), Some(&instance_owner()));
    });
}

#[test]
fn an_event_says_all_that_is_known_of_it() {
    let mut scene = scene();
    scene.now = Timestamp::from_second(5).expect("it is a time");
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    scene.change("3", renamed("Other")).expect("it is there");
    let [.., added, changed] = scene.events() else { panic!("there are two") };
    assert_ne!(added.id, changed.id);
    assert_eq!((added.version, changed.version), (1, 2));
    assert_eq!((&*added.r#type, &*changed.r#type), ("organization.added", "organization.changed"));
    for event in [added, changed] {
        assert_eq!(
            (&*event.instance_id, &*event.aggregate_type, &*event.aggregate_id),
            (INSTANCE, "organization", "3")
        );
        assert_eq!((event.owner_type, &*event.owner_id), (owner_type(OwnerType::Instance), INSTANCE));
        assert_eq!((&*event.actor, &event.command_id), ("somebody", &cause().command_id));
        assert_eq!((&*event.trace_context, &*event.causation_id), ("trace", "cause"));
        assert_eq!(event.created_at, scene.now.as_microsecond());
    }
    assert_eq!((added.claims_taken.len(), added.claims_released.len()), (1, 0));
    assert_eq!((changed.claims_taken.len(), changed.claims_released.len()), (1, 1));
    assert_eq!(changed.claims_released, added.claims_taken);
}

#[test]
fn no_change_is_no_event() {
    let mut scene = scene();
    let made = scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    let count = scene.events().len();
    let same = scene.change("3", renamed("Acme")).expect("it is there");
    assert_eq!((same.sequence, same.is_new, scene.events().len()), (made.sequence, false, count));
}

#[test]
fn what_was_removed_and_comes_again_is_new() {
    let mut scene = scene();
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    scene.change::<Organization>("3", Command::Delete).expect("it is there");
    scene.now = Timestamp::from_second(9).expect("it is a time");
    let again = scene.change("3", Command::Put(organization("Acme"))).expect("the name is free again");
    assert!(again.is_new);
    assert_eq!(scene.events().last().map(|event| (event.version, event.created_at)), Some((3, 9_000_000)));
}

#[test]
fn an_id_is_given_once() {
    let mut scene = scene();
    scene.add("3", &instance_owner(), organization("Acme")).expect("it is new");
    let refused = scene.add("3", &instance_owner(), organization("Other")).expect_err("it was used");
    assert_eq!(reason(refused), Reason::ResourceExists);
    scene.change::<Organization>("3", Command::Delete).expect("it is there");
    assert!(scene.add("3", &instance_owner(), organization("Other")).is_err(), "not even after its end");
    scene.memory.aggregates.insert(key::<Organization>("4"), Entry::Loaded(vec![]));
    scene.add("4", &instance_owner(), organization("Other")).expect("history knows that it was never used");
}

#[test]
fn a_name_is_held_by_one_until_that_lets_it_go() {
    let mut scene = scene();
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    let refused = scene.add("4", &instance_owner(), organization("ACME")).expect_err("case does not count");
    assert_eq!(reason(refused), Reason::ResourceExists);
    scene.change("3", renamed("acme")).expect("it is its own");
    scene.change("3", renamed("Other")).expect("that is free");
    scene.add("4", &instance_owner(), organization("Acme")).expect("the name was let go");
}

#[test]
fn what_a_turn_has_changed_counts_in_it() {
    let mut scene = scene();
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    let exchanged = scene.turn(|turn, keys| {
        let current = turn.get::<Standard<Organization>>(&key::<Organization>("3"));
        let first = turn.append(current, &[standard::Event::Removed], keys, &cause())?;
        let current = turn.unborn::<Standard<Organization>>(&key::<Organization>("4"), &instance_owner())?;
        let added = standard::Event::Added(organization("Acme").into());
        let second = turn.append(current, &[added], keys, &cause())?;
        Ok((first.sequence, second.sequence))
    });
    assert_eq!(exchanged.ok(), Some((13, 14)), "each has the sequence behind what is pending");
}

#[test]
fn two_of_one_command_do_not_have_one_name() {
    let mut scene = scene();
    let founded = scene.turn(|turn, keys| {
        let place = Owner::organization("3");
        let current = turn.unborn::<Standard<Organization>>(&key::<Organization>("3"), &instance_owner())?;
        turn.append(current, &[standard::Event::Added(organization("Acme").into())], keys, &cause())?;
        let mut second = Ok(());
        for (id, username) in [("5", "ada"), ("6", "ADA")] {
            let current = turn.unborn::<Standard<User>>(&key::<User>(id), &place)?;
            let user = User { username: username.into(), ..User::default() };
            second = turn.append(current, &[standard::Event::Added(user.into())], keys, &cause()).map(drop);
        }
        second
    });
    assert_eq!(
        reason(founded.expect_err("the other is in the same organization, which is new too")),
        Reason::ResourceExists
    );
}

#[test]
fn what_was_held_in_what_is_gone_is_free() {
    let mut scene = scene();
    let place = Owner::organization("3");
    let user = || User { username: "robot".into(), ..User::default() };
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    scene.add("5", &place, user()).expect("the name is free");
    let refused = scene.add("6", &instance_owner(), user()).expect_err("the other is there");
    assert_eq!(reason(refused), Reason::ResourceExists);
    scene.change::<Organization>("3", Command::Delete).expect("it is there");
    scene.add("6", &instance_owner(), user()).expect("the other went with its organization");

    scene.change::<Instance>(INSTANCE, Command::Delete).expect("it is there");
    scene.add("7", &instance_owner(), user()).expect("all went with the instance");
}

#[test]
fn a_claim_is_not_taken_from_something_of_another_kind() {
    let mut scene = scene();
    let claims = hash_all(&Standard::<Organization>::claims(&Some(organization("Acme").into())), &scene.keys);
    for claim in claims {
        scene.memory.claims.insert(claim, Some(key::<User>("5")));
    }
    scene.change::<Instance>(INSTANCE, Command::Delete).expect("it is there");
    assert!(scene.add("3", &instance_owner(), organization("Acme")).is_err());
}

#[test]
fn references_are_noted_in_the_last_event_and_change_who_refers() {
    let mut scene = scene();
    let place = Owner::organization("3");
    scene.add("5", &place, User::default()).expect("it is new");
    let held = Membership::new("5", &place, instance_owner(), vec!["IAM_OWNER".into()]);
    let before =
        scene.inspect(|turn| format!("{:?}", turn.referrers(&key::<User>("5"), domain::resource::membership::USER)));
    scene.add("8", &instance_owner(), held).expect("it is new");
    let taken = scene.events().last().map(|event| (event.references_taken.len(), event.references_released.len()));
    assert_eq!(taken, Some((3, 0)));
    let with =
        scene.inspect(|turn| format!("{:?}", turn.referrers(&key::<User>("5"), domain::resource::membership::USER)));
    assert_ne!(before, with);
    scene.change::<Membership>("8", Command::Delete).expect("it is there");
    let released = scene.events().last().map(|event| (event.references_taken.len(), event.references_released.len()));
    assert_eq!(released, Some((0, 3)));
    let after =
        scene.inspect(|turn| format!("{:?}", turn.referrers(&key::<User>("5"), domain::resource::membership::USER)));
    assert_eq!(before, after);
}

#[test]
fn what_is_left_to_sweep_is_noted_in_the_last_event() {
    let mut scene = scene();
    scene.add("3", &instance_owner(), organization("Acme")).expect("the name is free");
    assert!(scene.events().iter().all(|event| !event.unswept));
    let done = scene.turn(|turn, keys| {
        let current = turn.get::<Standard<Organization>>(&key::<Organization>("3"));
        turn.append(current, &[standard::Event::Removed], keys, &cause())?;
        turn.leave_to_sweep(&key::<Organization>("4"));
        assert!(!turn.appended[0].events[0].unswept, "that is another");
        turn.leave_to_sweep(&key::<Organization>("3"));
        Ok(())
    });
    assert!(done.is_ok() && scene.events().last().is_some_and(|event| event.unswept));
}

#[test]
fn a_command_that_is_larger_than_a_record_is_refused_and_leaves_nothing() {
    let mut scene = scene();
    let (bytes, count) = (scene.draft.bytes, scene.events().len());
    assert!(bytes > 0);
    let mut size = 0;
    let mut finish = |limit: Option<usize>| {
        let mut turn = Turn::new(&mut scene.memory, &mut scene.draft, scene.now);
        let current = turn.unborn::<Standard<Organization>>(&key::<Organization>("3"), &instance_owner())?;
        turn.append(current, &[standard::Event::Added(organization("Acme").into())], &scene.keys, &cause())?;
        size = written_bytes(&turn.appended[0].events[0]);
        turn.finish(limit.unwrap_or(size))
    };
    assert_eq!(finish(Some(100)).map_err(reason), Err(Reason::CommandTooLarge));
    finish(None).expect("it just fits");
    assert!(size > 140, "all of its fields count");
    assert_eq!((scene.draft.bytes, scene.events().len()), (bytes + size, count + 1));
}

#[test]
fn a_command_of_the_platform_is_decided_at_the_end_of_the_log() {
    let mut scene = Scene::new();
    let decided = scene.inspect(|turn| turn.nothing_decided("user"));
    assert_eq!((decided.aggregate_type, decided.sequence, decided.is_new), ("user", 10, false));
}

#[test]
fn a_draft_that_says_nothing_is_empty() {
    let event = Draft { events: vec![Event::default()], ..Draft::default() };
    let answer = Draft { answers: vec![Answer::default()], ..Draft::default() };
    let permits = Draft { purged_to: 1, ..Draft::default() };
    assert!(Draft::default().is_empty() && !event.is_empty() && !answer.is_empty() && !permits.is_empty());
}

#[test]
fn what_nobody_owns_cannot_be_written() {
    let mut scene = Scene::new();
    let written = scene.turn(|turn, keys| {
        let current = turn.get::<Standard<User>>(&key::<User>("5"));
        turn.append(current, &[standard::Event::Added(User::default().into())], keys, &cause())
    });
    assert_eq!(written.map_err(reason).err(), Some(Reason::Internal));
}

#[test]
fn a_memory_that_forgets_knows_nothing() {
    let mut scene = scene();
    scene.memory.remember_answers(&[Answer { command_id: "command".into(), ..Answer::default() }], scene.now);
    assert!(scene.inspect(|turn| turn.answer(&"command".into()).is_some()));
    scene.memory.forget();
    scene.inspect(|turn| {
        assert!(turn.answer(&"command".into()).is_none());
        assert!(turn.get::<Standard<Instance>>(&key::<Instance>(INSTANCE)).resource().is_none());
        let Some(Lack::Missing(needs)) = turn.lack() else { panic!("it lacks something") };
        assert_eq!((needs.aggregates.len(), needs.commands.len()), (1, 1));
    });
}

#[test]
fn of_what_is_damaged_the_last_event_is_known() {
    let event = |r#type: &str, payload: &str| {
        let event = Event { r#type: r#type.to_owned(), payload: payload.to_owned().into(), ..Event::default() };
        Arc::new(Recorded { sequence: 1, committed_at: Timestamp::UNIX_EPOCH, event })
    };
    let mut scene = scene();
    let mut end = |events| {
        scene.memory.aggregates.insert(key::<Organization>("4"), Entry::Loaded(events));
        scene.inspect(|turn| turn.end_of_damaged::<Standard<Organization>>(&key::<Organization>("4")))
    };
    let damaged = || event("organization.added", "{");
    assert_eq!(end(vec![damaged()]).as_deref(), Some("organization.added"));
    assert_eq!(end(vec![damaged(), event("organization.removed", "{}")]).as_deref(), Some("organization.removed"));
    assert_eq!(end(vec![event("organization.painted", "{}")]), None, "a newer build reads it");
    assert_eq!(end(vec![]), None);
}
