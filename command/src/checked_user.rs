//! The check of a person in a session, and whether the session has ended since.

use domain::{
    resource::{session::CheckedUser, user::User},
    standard::Standard,
};
use eventlog::record::AggregateKey;

use crate::turn::Turn;

/// Returns the check of a user of an organization at this moment.
pub(crate) fn checked_now(turn: &Turn<'_>, id: &str, organization_id: String) -> CheckedUser {
    let (checked_at, seen) = (turn.now().as_millisecond(), turn.ends().events);
    CheckedUser { id: id.to_owned(), organization_id, checked_at, seen }
}

/// Whether the session in which a person was checked has ended with all others of that person, or with the person. The
/// session itself is removed a moment later, by another command.
pub(crate) fn has_ended(turn: &mut Turn<'_>, instance_id: &str, checked: &CheckedUser) -> bool {
    let user = AggregateKey::of::<Standard<User>>(instance_id, checked.id.as_str());
    turn.get::<Standard<User>>(&user).resource().is_none_or(|user| checked.has_ended(user))
}

#[cfg(test)]
mod tests {
    use domain::resource::session::Session;

    use super::*;
    use crate::scene::{self, ENDS, INSTANCE, Scene, key};

    #[test]
    fn a_session_ends_with_all_others_and_with_its_person() {
        for (end, lives) in ENDS {
            let mut scene = Scene::logged_in(end);
            let has_ended = scene.inspect(|turn| {
                let session = turn.get::<Standard<Session>>(&key::<Session>(scene::SESSION));
                let checked = session.resource().and_then(|session| session.user.clone()).expect("it is of a person");
                let nobody = CheckedUser { id: "8".to_owned(), ..checked.clone() };
                [checked, nobody].map(|checked| has_ended(turn, INSTANCE, &checked))
            });
            assert_eq!(has_ended, [!lives, true], "{end:?}");
        }
    }
}
