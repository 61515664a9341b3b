//! Converts sessions to the API. Their tokens are never shown.

use domain::{
    resource::session::{CheckedUser, Session, column},
    user_agent::{PersonalUserAgent, UserAgent},
};
use index::{Filter, Method, SortKey};
use jiff::Timestamp;
use proto::{
    session::{
        Factors, GetSession, GetSessionRequest, HeaderValues, PasswordFactor, SearchSessionsRequest, SessionFieldName,
        UserFactor, session_search_filter::Filter as Wanted,
    },
    wellknown::Duration,
};
use view::rows::StoredResource;

use crate::{details, duration::milliseconds, standard::Readable};

impl Readable for Session {
    type Get = GetSessionRequest;
    type Search = SearchSessionsRequest;

    fn key(column: SessionFieldName) -> SortKey<Self> {
        match column {
            SessionFieldName::Unspecified | SessionFieldName::CreationDate => SortKey::Created,
            SessionFieldName::Id => SortKey::Id,
            SessionFieldName::ChangeDate => SortKey::Changed,
            SessionFieldName::ExpirationDate => SortKey::Column(&column::EXPIRES_AT),
            SessionFieldName::UserId => SortKey::Column(&column::USER_ID),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::UserId(id) => Filter::text(&column::USER_ID, Method::Equals, id),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetSession {
        let Self { user, password_checked_at, metadata, user_agent, expires_at, .. } = found.state.clone();
        let password = password_checked_at.map(|at| PasswordFactor { verified_at: time(at) });
        GetSession {
            details: Some(details::of(found)),
            factors: Some(Factors { user: user.map(user_factor), password }),
            metadata,
            expiration_date: time(expires_at),
            user_agent: user_agent.as_ref().and_then(PersonalUserAgent::opened).map(user_agent_to_proto),
        }
    }
}

/// Converts a user agent from the API.
pub fn user_agent(message: proto::session::UserAgent) -> UserAgent {
    let proto::session::UserAgent { fingerprint_id, ip, description, header } = message;
    let header = header.into_iter().map(|(name, HeaderValues { values })| (name, values)).collect();
    UserAgent { fingerprint_id, ip, description, header }
}

/// Converts a user agent to the API.
fn user_agent_to_proto(user_agent: &UserAgent) -> proto::session::UserAgent {
    let UserAgent { fingerprint_id, ip, description, header } = user_agent.clone();
    let header = header.into_iter().map(|(name, values)| (name, HeaderValues { values })).collect();
    proto::session::UserAgent { fingerprint_id, ip, description, header }
}

/// Converts the lifetime of a session to milliseconds.
pub fn lifetime(lifetime: Duration) -> i64 {
    i64::try_from(milliseconds(lifetime)).unwrap_or(i64::MAX)
}

fn user_factor(CheckedUser { id, organization_id, checked_at, .. }: CheckedUser) -> UserFactor {
    UserFactor { id, organization_id, verified_at: time(checked_at) }
}

fn time(milliseconds: i64) -> Option<proto::wellknown::Timestamp> {
    Timestamp::from_millisecond(milliseconds).ok().map(Into::into)
}
