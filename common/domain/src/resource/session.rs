//! Sessions: who a user was found to be, by which checks and when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::user::User;
use crate::{
    column::Column,
    context::OwnerType,
    log_class::LogClass,
    permission::Permissions,
    projection::Name,
    reference::{Link, Reference},
    rejection::Rejection,
    secret::Hashed,
    settings::Milliseconds,
    standard::Resource,
    user_agent::{PersonalUserAgent, UserAgentPatch},
};

/// The verbs for sessions, including linking them to an authorization request.
const VERBS: &[&str] = &["read", "write", "delete", "link"];
/// The longest lifetime of a session, in milliseconds.
pub const LONGEST_LIFE_MS: i64 = Milliseconds::days(90).0.cast_signed();
/// The most entries of metadata.
const MOST_METADATA: usize = 50;
/// The longest metadata in total, in bytes.
const LONGEST_METADATA: usize = 16 * 1024;

/// A session. It ages out with everything that it contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The user, once checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<CheckedUser>,
    /// When the password of that user was last checked, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_checked_at: Option<i64>,
    /// The metadata that an app stores in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The user agent of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<PersonalUserAgent>,
    /// The keyed hash of the secret part of its newest token.
    #[serde(flatten)]
    pub token: Hashed,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: i64,
}

/// The person of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedUser {
    /// The user.
    pub id: String,
    /// The user's organization.
    pub organization_id: String,
    /// When the user was last checked, in milliseconds since the Unix epoch.
    pub checked_at: i64,
    /// The sequence of the log that is retained for ever, as of which the check was made: later ends of sessions apply
    /// to it.
    pub seen: u64,
}

impl CheckedUser {
    /// Whether the session has ended with all others of this user.
    pub fn has_ended(&self, user: &User) -> bool {
        user.has_ended_sessions_since(self.seen)
    }
}

/// A partial update of a [`Session`].
#[derive(Debug, Clone)]
pub struct SessionPatch {
    /// The user that was checked.
    pub user: Option<CheckedUser>,
    /// See [`Session::password_checked_at`].
    pub password_checked_at: Option<i64>,
    /// Entries to set; an empty one is removed.
    pub metadata: BTreeMap<String, String>,
    /// See [`Session::user_agent`].
    pub user_agent: UserAgentPatch,
    /// See [`Session::expires_at`].
    pub expires_at: Option<i64>,
    /// The token to use if anything changes.
    pub token: Hashed,
}

/// The link from a session to its user.
pub const USER: Link = Link { name: "session", to: User::NAME };

/// The columns of the read model.
pub mod column {
    use super::Session;
    use crate::column::{Column, Lookup};

    /// The user; empty until one was checked.
    pub const USER_ID: Column<Session> =
        Column::text("user_id", |session: &Session| session.user_id().unwrap_or_default().to_owned())
            .filterable()
            .looked_up(Lookup::Instance);
    /// The organization of the user.
    pub const ORGANIZATION_ID: Column<Session> = Column::text("organization_id", |session: &Session| {
        session.user.as_ref().map(|user| user.organization_id.clone()).unwrap_or_default()
    })
    .looked_up(Lookup::Instance);
    /// The expiry.
    pub const EXPIRES_AT: Column<Session> =
        Column::integer("expires_at", |session: &Session| session.expires_at).looked_up(Lookup::System);
}

impl Session {
    /// Returns the id of the user.
    pub fn user_id(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.id.as_str())
    }
}

/// Returns metadata after setting entries, of which an empty one is removed.
pub fn with_entries(before: BTreeMap<String, String>, entries: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut after = before;
    after.extend(entries);
    after.retain(|_, value| !value.is_empty());
    after
}

impl Resource for Session {
    const NAME: &'static str = "session";
    const CLASS: LogClass = LogClass::Sessions;
    const COLUMNS: &'static [Column<Self>] = &[column::USER_ID, column::ORGANIZATION_ID, column::EXPIRES_AT];
    const ROWS: Option<Name> = Some(Name { name: "sessions", version: 3 });
    const INDEX: Option<Name> = Some(Name { name: "sessions_index", version: 2 });
    const EXPIRES_AT: Option<&'static Column<Self>> = Some(&column::EXPIRES_AT);
    const LINKS: &'static [Link] = &[USER];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(User::NAME, &column::USER_ID)];
    const PERMISSIONS: &'static [Permissions] =
        &[Permissions::new("session", VERBS).at(&[OwnerType::System, OwnerType::Instance])];
    type Patch = SessionPatch;

    fn validate(&self) -> Result<(), Rejection> {
        if self.user_agent.as_ref().is_some_and(|it| it.opened().is_some()) {
            return Err(Rejection::Precondition("personal data must be sealed before it is written"));
        }
        let field = "session.metadata";
        let size: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        if self.metadata.len() > MOST_METADATA {
            return Err(Rejection::invalid(field, "must have at most 50 entries in all"));
        }
        if size > LONGEST_METADATA {
            return Err(Rejection::invalid(field, "must have at most 16,384 bytes in all"));
        }
        // Postgres does not permit U+0000 in texts.
        if self.metadata.values().any(|value| value.contains('\0')) {
            return Err(Rejection::invalid(field, "must not have the character U+0000"));
        }
        Ok(())
    }

    fn patched(self, patch: SessionPatch) -> Self {
        let token = patch.token;
        let after = Self {
            user: patch.user.or_else(|| self.user.clone()),
            password_checked_at: patch.password_checked_at.or(self.password_checked_at),
            metadata: with_entries(self.metadata.clone(), patch.metadata),
            user_agent: patch.user_agent.applied(self.user_agent.clone()),
            expires_at: patch.expires_at.unwrap_or(self.expires_at),
            token: self.token.clone(),
        };
        if after == self { self } else { Self { token, ..after } }
    }

    fn user<'a>(&'a self, _: &'a str) -> Option<&'a str> {
        self.user_id()
    }

    fn references(&self) -> Vec<Reference> {
        self.user_id().map(|id| Reference::new(USER, id)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        aggregate::Aggregate,
        catalog::without_secrets,
        context::Owner,
        secret::Sealed,
        standard::{Command, Event, Standard},
        testing::{assert_columns, given},
        user_agent::UserAgent,
        with_unknown::WithUnknown,
    };

    fn session() -> Session {
        let (token, metadata) = (Hashed::new("first"), BTreeMap::new());
        Session { user: None, password_checked_at: None, metadata, user_agent: None, token, expires_at: 10 }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is what a session has")]
    fn sealed(text: &str) -> Option<PersonalUserAgent> {
        Some(PersonalUserAgent::Sealed(Sealed::new(text)))
    }

    fn checked(checked_at: i64) -> CheckedUser {
        CheckedUser { id: "7".into(), organization_id: "2".into(), checked_at, seen: 5 }
    }

    fn entries(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn patch() -> SessionPatch {
        let (token, metadata) = (Hashed::new("second"), BTreeMap::new());
        let user_agent = UserAgentPatch::Keep;
        SessionPatch { user: None, password_checked_at: None, metadata, user_agent, expires_at: None, token }
    }

    fn patched(patch: SessionPatch, to: Session, fields: &[&str]) {
        let fields = fields.iter().map(|&field| field.to_owned()).collect();
        let added = Event::Added(Session { metadata: entries(&[("a", "1"), ("b", "2")]), ..session() }.into());
        given::<Standard<Session>>([added])
            .when(Command::Patch(patch))
            .then([Event::Changed { to: WithUnknown::from(to), fields }]);
    }

    #[test]
    fn it_is_found_by_its_user_and_stands_on_that_without_being_named_in_the_other_log() {
        assert_columns(&session(), &json!({ "user_id": "", "organization_id": "", "expires_at": 10 }));
        let of_user = Session { user: Some(checked(1)), ..session() };
        assert_columns(&of_user, &json!({ "user_id": "7", "organization_id": "2", "expires_at": 10 }));
        assert_eq!((session().references(), of_user.references()), (vec![], vec![Reference::new(USER, "7")]));
        assert_eq!(of_user.user("3"), Some("7"));
        let (state, owner) = (Some(of_user.into()), Owner::instance("1"));
        assert_eq!(Standard::<Session>::references(&state, &owner), []);
        assert_eq!(
            Standard::<Session>::names(&state, &owner),
            [Reference::new(Link::INSTANCE, "1"), Reference::new(USER, "7")]
        );
    }

    #[test]
    fn with_a_change_it_has_another_token_and_without_one_no_event() {
        let before = || Session { metadata: entries(&[("a", "1"), ("b", "2")]), ..session() };
        let second = || Session { token: Hashed::new("second"), ..before() };
        patched(
            SessionPatch { user: Some(checked(3)), ..patch() },
            Session { user: Some(checked(3)), ..second() },
            &["secret", "user"],
        );
        patched(
            SessionPatch { password_checked_at: Some(4), ..patch() },
            Session { password_checked_at: Some(4), ..second() },
            &["secret", "password_checked_at"],
        );
        patched(
            SessionPatch { expires_at: Some(20), ..patch() },
            Session { expires_at: 20, ..second() },
            &["expires_at", "secret"],
        );
        patched(
            SessionPatch { metadata: entries(&[("a", ""), ("b", "3"), ("c", "")]), ..patch() },
            Session { metadata: entries(&[("b", "3")]), ..second() },
            &["metadata", "secret"],
        );
        patched(
            SessionPatch { user_agent: UserAgentPatch::Set(Sealed::new("x")), ..patch() },
            Session { user_agent: sealed("x"), ..second() },
            &["secret", "user_agent"],
        );
        let same = SessionPatch { metadata: entries(&[("a", "1"), ("c", "")]), expires_at: Some(10), ..patch() };
        let none = SessionPatch { user_agent: UserAgentPatch::Clear, ..patch() };
        for nothing in [patch(), same, none] {
            given::<Standard<Session>>([Event::Added(before().into())]).when(Command::Patch(nothing)).then([]);
        }
    }

    #[test]
    fn the_user_agent_is_told_to_nobody_and_stays_where_nothing_is_said_of_it() {
        let before = Session { user_agent: sealed("x"), ..session() };
        let written = serde_json::to_value(&before).unwrap();
        assert_eq!(written["user_agent"], json!({ "sealed": "x" }));
        assert_eq!(serde_json::from_value::<Session>(written.clone()).unwrap(), before);
        let mut told = written;
        without_secrets(&mut told);
        assert_eq!(told, json!({ "user_agent": {}, "expires_at": 10 }));
        let after = before.clone().patched(SessionPatch { expires_at: Some(20), ..patch() });
        assert_eq!(after.user_agent, before.user_agent);
        let cleared = before.clone().patched(SessionPatch { user_agent: UserAgentPatch::Clear, ..patch() });
        assert_eq!((cleared.user_agent, cleared.token), (None, Hashed::new("second")));
        let agent = UserAgent { ip: "192.0.2.7".to_owned(), ..UserAgent::default() };
        let clear = Session { user_agent: Some(PersonalUserAgent::Opened(agent.into())), ..session() };
        let sealed_first = Rejection::Precondition("personal data must be sealed before it is written");
        assert_eq!((before.validate(), clear.validate()), (Ok(()), Err(sealed_first)));
    }

    #[test]
    fn it_ends_with_all_others_that_were_made_before() {
        let of_person = |sessions_end| User { sessions_end, ..User::default() };
        let session = |seen| CheckedUser { seen, ..checked(1) };
        assert_eq!([6, 7, 8].map(|seen| session(seen).has_ended(&of_person(Some(7)))), [true, true, false]);
        assert!(!session(0).has_ended(&of_person(None)), "they were never ended");
    }

    #[test]
    fn metadata_is_bounded() {
        let of = |metadata| Session { metadata, ..session() }.validate();
        let many = |count: usize| (0..count).map(|number| (number.to_string(), "x".to_owned())).collect();
        assert_eq!(of(many(50)), Ok(()));
        let rule = |rule: &'static str| Err(Rejection::invalid("session.metadata", rule));
        assert_eq!(of(many(51)), rule("must have at most 50 entries in all"));
        assert_eq!(of(entries(&[("a", &"ä".repeat(8191)), ("b", "")])), Ok(()));
        assert_eq!(of(entries(&[("a", &"ä".repeat(8192))])), rule("must have at most 16,384 bytes in all"));
        assert_eq!(of(entries(&[("a", "b\0")])), rule("must not have the character U+0000"));
    }
}
