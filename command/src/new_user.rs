//! Creates users. The id of a user is its client id, which no app may have either; and since the ids of people may be
//! chosen by callers, no id is known to be new before it was looked up.

use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{
        app::App,
        user::{Password, User},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::error::Error;
use eventlog::record::AggregateKey;

use crate::{
    authority::Object,
    execute::{Command, Deciding},
    password::Faults,
    turn::{Current, Decided, Refusal, Turn},
};

/// A user that is created.
pub(crate) struct NewUser {
    pub(crate) key: AggregateKey,
    pub(crate) owner: Owner,
    pub(crate) user: User,
    /// The password of a person, or what is wrong with it.
    pub(crate) password: Option<Result<Password, Faults>>,
}

impl Command for NewUser {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let unused = unused::<User>(turn, &self.key, &self.owner);
        deciding.permit(turn, &self.owner, &Object::of_nobody(User::NAME, false))?;
        let current = unused?;
        let password = self.password.clone().transpose().map_err(Error::from)?;
        let user = User { password, ..self.user.clone() };
        Ok((deciding.decide(turn, current, Asked::Create(user))?, ()))
    }
}

/// Returns a new user or app under an id that no user and no app has or ever had.
pub(crate) fn unused<R: Resource>(
    turn: &mut Turn<'_>,
    key: &AggregateKey,
    owner: &Owner,
) -> Result<Current<Standard<R>>, Refusal> {
    let AggregateKey { instance_id, id, .. } = key;
    let user = turn.get::<Standard<User>>(&AggregateKey::of::<Standard<User>>(instance_id, id)).head.version;
    let app = turn.get::<Standard<App>>(&AggregateKey::of::<Standard<App>>(instance_id, id)).head.version;
    if user > 0 || app > 0 {
        return Err(Rejection::AlreadyExists(R::NAME).into());
    }
    turn.unborn::<Standard<R>>(key, owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, key};

    #[test]
    fn an_id_that_a_user_or_an_app_ever_had_is_not_given_again() {
        let (mut scene, owner) = (Scene::new(), Owner::organization("2"));
        let is_unused = |scene: &mut Scene, id: &str| {
            let owner = owner.clone();
            scene.inspect(|turn| {
                let user = unused::<User>(turn, &key::<User>(id), &owner).is_ok();
                let app = unused::<App>(turn, &key::<App>(id), &owner).is_ok();
                (user, app, turn.lack().is_some())
            })
        };
        scene.add("7", &owner, User::default()).expect("it is new");
        assert_eq!(is_unused(&mut scene, "7"), (false, false, true));
        scene.change::<User>("7", Asked::Delete).expect("it is there");
        assert_eq!(is_unused(&mut scene, "7"), (false, false, true));
        assert_eq!(is_unused(&mut scene, "8"), (true, true, true), "what is not in memory is looked for");
    }
}
