//! Ends all sessions of a person by one event of that person, however many there are. Sessions and tokens from before
//! the event count as ended from then on; the sessions themselves are removed afterwards.

use std::sync::Arc;

use domain::{
    resource::user::User,
    standard::{Command as Asked, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::session::{EndUserSessionsRequest, EndUserSessionsResponse};

use crate::{
    execute::{Command, Commands, Deciding},
    existence,
    standard::{details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(end)
}

async fn end(
    commands: Arc<Commands>,
    call: Call,
    request: EndUserSessionsRequest,
) -> Result<Answer<EndUserSessionsResponse>, Error> {
    let (key, id) = (key::<User>(&call, &request.id)?, request.id.clone());
    commands.execute(&call, &request, End { user: key }, move |decided, ()| details(&id, decided).into()).await
}

/// Ends all sessions of a user.
struct End {
    user: AggregateKey,
}

impl Command for End {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<User>>(&self.user);
        existence::require_existing(turn, &current)?;
        // Each session records the end of the log as of its creation: all that recorded this one or an earlier one end.
        let seen = turn.ends().events;
        Ok((deciding.decide(turn, current, Asked::EndSessions(seen))?, ()))
    }
}
