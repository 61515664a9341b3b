//! Sessions as they are read. Their devices are opened for that, with the keys of the people who use them.

use std::{sync::Arc, time::Duration};

use api::{session::shown_user_agent, standard::Shown};
use base::explain::explain;
use domain::{
    context::Owner,
    resource::{
        session::{CheckedUser, Session},
        user::User,
    },
    standard::Resource,
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use index::Hits;
use proto::{
    session::{GetSession, GetSessionRequest, GetSessionResponse, SearchSessionsRequest, SearchSessionsResponse},
    shape::{Get, Search},
};
use view::{
    persons::{OfSession, PersonFailure},
    rows::Found,
};

use crate::{Queries, standard};

/// Mounts what is read here.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(get).on(search)
}

/// One that ended with its user is not there, though its last event may still be to come.
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
    let Answer { message, status, metadata } = queries.get(&call, &request.id, lives, |found| found).await?;
    let shown = shown(&queries, &[message]).await?.pop().unwrap_or_default();
    Ok(Answer { message: GetSessionRequest::response(shown), status, metadata })
}

async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchSessionsRequest,
) -> Result<Answer<SearchSessionsResponse>, Error> {
    let (list, column) = standard::list::<Session>(&queries, &call, request);
    let answer = |details, hits: Hits<Session>| (details, hits.page);
    let Answer { message: (details, page), status, metadata } = queries.search(&call, list, answer).await?;
    let shown = shown(&queries, &page).await?;
    Ok(Answer { message: SearchSessionsRequest::response(details, column, shown), status, metadata })
}

/// Sessions with their devices.
async fn shown(queries: &Queries, page: &[Found<Session>]) -> Result<Vec<GetSession>, Error> {
    let mut shown: Vec<GetSession> = page.iter().map(Session::shown).collect();
    let sealed = page.iter().enumerate().filter_map(|(index, found)| {
        let user_id = found.state.user_id()?;
        let sealed = found.state.user_agent.as_ref()?;
        // It belongs to its instance, also where all instances are searched.
        Some((index, OfSession { instance_id: &found.owner.id, session_id: &found.id, user_id, sealed }))
    });
    let (indexes, sealed): (Vec<usize>, Vec<OfSession<'_>>) = sealed.unzip();
    let opened = queries.persons.user_agents(&sealed).await.map_err(|failure| unreadable(&failure))?;
    for (index, agent) in indexes.into_iter().zip(opened) {
        shown[index].user_agent = agent.and_then(shown_user_agent);
    }
    Ok(shown)
}

fn unreadable(failure: &PersonFailure) -> Error {
    tracing::warn!(error = explain(failure), "the devices of sessions cannot be read");
    let message = "the keys of people cannot be had at the moment";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}
