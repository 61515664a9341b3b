//! Reads of sessions.

use std::sync::Arc;

use api::standard::Readable;
use domain::{
    context::Owner,
    resource::{
        session::{CheckedUser, Session},
        user::User,
    },
    standard::Resource,
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use proto::{
    session::{GetSessionRequest, GetSessionResponse},
    shape::Get,
};

use crate::{Queries, get, standard};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(get).on(standard::search::<Session>)
}

/// Gets a session. One that ended with its user is not found, though its last event may still be to come.
async fn get(
    queries: Arc<Queries>,
    call: Call,
    request: GetSessionRequest,
) -> Result<Answer<GetSessionResponse>, Error> {
    let lives = |session: &Session| {
        let is_dead = |CheckedUser { id, organization_id, seen, .. }: &CheckedUser| {
            let organization = Owner::organization(organization_id);
            queries.ended.is_dead(&call.tenant.id, &organization, &[(User::NAME, id.as_str())], *seen)
        };
        !session.user.as_ref().is_some_and(is_dead)
    };
    let answer = |found| GetSessionRequest::response(Session::to_proto(&found));
    get::get(&queries, &call, &request.id, lives, answer).await
}
