use domain::{
    context::Owner,
    resource::{organization::Organization, user::User},
    standard::{Command, Event, Standard},
};
use edge::error::Reason;
use tokio::sync::oneshot;

use super::*;
use crate::{
    scene::{INSTANCE, Scene, cause, key},
    turn::{ClaimKeys, Draft},
    writer::{Decide, Origin, submission::TypedSubmission, ticket::Shared},
};

/// A command that reads, writes and then panics.
struct Panics {
    keys: ClaimKeys,
    /// The id of the user that it reads, if it does.
    reads: Option<&'static str>,
}

impl Decide for Panics {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        if let Some(id) = self.reads {
            turn.get::<Standard<User>>(&key::<User>(id));
        }
        let current = turn.unborn::<Standard<Organization>>(&key::<Organization>("5"), &Owner::instance(INSTANCE))?;
        turn.append(current, &[Event::Added(Organization::new("Five").into())], &self.keys, &cause())?;
        panic!("it was written carelessly");
    }
}

fn rule_on(scene: &mut Scene, reads: Option<&'static str>) -> Ruling {
    let origin = Origin { operation: "Panics", instance_id: INSTANCE.into(), bytes: 0 };
    let (_, held) = Shared::new().enter(&origin, None).expect("there is room");
    let command = Panics { keys: scene.keys.clone(), reads };
    let task = Box::new(TypedSubmission { command, once: None, outcome: None, caller: oneshot::channel().0 });
    let mut submission = Submission { held, task, origin, rounds: 0 };
    let now = scene.now;
    scene.inspect(|turn| rule(&mut submission, turn, now))
}

#[test]
fn a_command_that_panics_is_refused_and_leaves_nothing() {
    let mut scene = Scene::new();
    // So that it is known that the name is free.
    scene.add("4", &Owner::instance(INSTANCE), Organization::new("Five")).expect("it is new");
    scene.change::<Organization>("4", Command::Delete).expect("it is there");
    scene.draft = Draft::default();
    let Ruling::Refused(refusal) = rule_on(&mut scene, None) else { panic!("it is refused") };
    assert_eq!(Box::<Error>::from(refusal).reason(), Reason::Internal);
    assert!(scene.draft.is_empty());
    let added = scene.add("5", &Owner::instance(INSTANCE), Organization::new("Five"));
    assert!(added.is_ok_and(|decided| decided.is_new), "nothing of it is there");
}

#[test]
fn a_panic_that_rests_on_too_little_is_no_verdict() {
    let Ruling::Lacking(Lack::Missing(needs)) = rule_on(&mut Scene::new(), Some("7")) else {
        panic!("it lacks something")
    };
    assert!(needs.aggregates.contains(&key::<User>("7")));
}
