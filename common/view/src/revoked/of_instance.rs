//! The revocations of an instance, until the tokens would have expired.

use std::collections::HashMap;

/// How many revocations of single tokens an instance may have that have not expired. Beyond that, all tokens of a user
/// and a client are revoked together, which takes one entry.
pub const MOST_SINGLE: usize = 10_000;
/// How many of them one client may have, so that it leaves room for the others of its instance.
pub const MOST_OF_CLIENT: usize = 1000;

/// How many sessions of an instance are remembered to have ended.
const MOST_SESSIONS: usize = 1_000_000;

/// How many milliseconds the clocks of nodes may differ.
pub(super) const CLOCKS: i64 = 60_000;

/// What identifies a token that may be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenId {
    /// Its id.
    pub id: String,
    /// The user that it was issued for.
    pub user_id: String,
    /// The client that it was issued to.
    pub client_id: String,
    /// The session that it was issued in, where a person has logged in.
    pub session_id: Option<String>,
    /// The id of what it was issued for, such as a code.
    pub grant_id: Option<String>,
    /// The sequence of the log that its issuer had seen.
    pub sequence: u64,
    /// When it was issued, in seconds since the Unix epoch.
    pub issued_at: i64,
}

/// The revocations of an instance.
#[derive(Debug, Default)]
pub(super) struct OfInstance {
    /// Single tokens by their ids, and all tokens that were issued for a code or the like, by its id.
    pub(super) single: HashMap<String, Single>,
    /// How many of them each client has.
    pub(super) of_clients: HashMap<String, usize>,
    /// All tokens that a client got for a user, by user and client.
    pub(super) all: HashMap<(String, String), All>,
    /// Sessions that have ended, and until when that is remembered.
    sessions: HashMap<String, i64>,
    /// All tokens of earlier sessions, where too many sessions have ended.
    of_sessions: All,
}

/// The revocation of a single token. Times are in milliseconds since the Unix epoch.
#[derive(Debug)]
pub(super) struct Single {
    pub(super) client_id: String,
    /// The time until which it is remembered.
    pub(super) until: i64,
}

/// The last revocation of all tokens of some kind.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) sequence: u64,
    pub(super) at: i64,
    /// The time until which it is remembered.
    pub(super) until: i64,
}

impl All {
    /// Whether a token is one of those that were revoked. If the log was begun anew, the sequence that its issuer had
    /// seen means nothing, but the time of its issue does.
    fn covers(&self, token: &TokenId) -> bool {
        self.sequence > token.sequence || self.at > token.issued_at.saturating_mul(1000).saturating_add(CLOCKS)
    }
}

impl OfInstance {
    pub(super) fn has(&self, token: &TokenId) -> bool {
        let of_all = || self.all.get(&(token.user_id.clone(), token.client_id.clone()));
        let is_single = |id: &String| self.single.contains_key(id);
        is_single(&token.id)
            || token.grant_id.as_ref().is_some_and(is_single)
            || token.session_id.as_ref().is_some_and(|id| self.has_session_ended(id) || self.of_sessions.covers(token))
            || of_all().is_some_and(|all| all.covers(token))
    }

    /// Whether a session has ended, of those that are remembered one by one.
    pub(super) fn has_session_ended(&self, id: &str) -> bool {
        self.sessions.contains_key(id)
    }

    /// Remembers that a session has ended. Beyond the limit, all tokens of earlier sessions end: people log in anew.
    pub(super) fn end_session(&mut self, id: &str, last: &All) {
        if self.sessions.len() >= MOST_SESSIONS && !self.sessions.contains_key(id) {
            self.sessions.clear();
            self.of_sessions = All { ..*last };
        }
        self.sessions.insert(id.to_owned(), last.until);
    }

    /// Whether the instance, or this client, has as many unexpired revocations of single tokens as it may have.
    pub(super) fn is_full(&self, client_id: &str, now: i64) -> bool {
        let of_client = self.of_clients.get(client_id).copied().unwrap_or_default();
        if self.single.len() < MOST_SINGLE && of_client < MOST_OF_CLIENT {
            return false;
        }
        // Some may have expired, and are forgotten later.
        let living = || self.single.values().filter(|single| single.until > now);
        let of_client = living().filter(|single| single.client_id == client_id);
        living().count() >= MOST_SINGLE || of_client.count() >= MOST_OF_CLIENT
    }

    pub(super) fn is_empty(&self) -> bool {
        self.single.is_empty() && self.all.is_empty() && self.sessions.is_empty() && self.of_sessions.until == 0
    }

    pub(super) fn revoke(&mut self, token_id: &str, single: Single) {
        let client_id = single.client_id.clone();
        if self.single.insert(token_id.to_owned(), single).is_none() {
            *self.of_clients.entry(client_id).or_default() += 1;
        }
    }

    pub(super) fn revoke_all(&mut self, user_id: String, client_id: String, last: &All) {
        let all = self.all.entry((user_id, client_id)).or_default();
        *all = All {
            sequence: all.sequence.max(last.sequence),
            at: all.at.max(last.at),
            until: all.until.max(last.until),
        };
    }

    #[cfg(test)]
    pub(super) fn remembered_sessions(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn forget(&mut self, now: i64) {
        self.single.retain(|_, single| single.until > now);
        self.all.retain(|_, all| all.until > now);
        self.sessions.retain(|_, until| *until > now);
        if self.of_sessions.until <= now {
            self.of_sessions = All::default();
        }
        self.of_clients.clear();
        for single in self.single.values() {
            *self.of_clients.entry(single.client_id.clone()).or_default() += 1;
        }
    }
}
