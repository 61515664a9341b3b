//! Consistency tokens: a write returns one, so that a read can wait for it.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base::{
    clock::since_start,
    explain::explain,
    metric::{Histogram, catalog::CONSISTENCY_WAIT},
    secret::{self, SymmetricKey},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::log_class::OfEach;
use http::HeaderMap;
use quick_cache::sync::Cache;
use tokio::time::Instant;
use view::keyring::{self, Keyring, Purpose, SYSTEM};

use crate::{
    error::{Error, Reason},
    freshness::{Consistency, Freshness},
    header::one,
};

/// The header and metadata key of tokens.
pub const HEADER: &str = "consistency-token";
const WAIT_HEADER: &str = "consistency-wait";
/// How long a read waits by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(2);
/// The longest that a read may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a node remembers the writes that it answered to a caller.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many callers a node remembers.
const CALLERS: usize = 100_000;

/// The version of tokens with a sequence of `EVENTS` only.
const OF_EVENTS: u8 = 1;
/// The version of tokens with a sequence of each log. Callers that have seen nothing of `SESSIONS` get none of these.
const OF_BOTH: u8 = 2;
/// The length of what precedes the sequences.
const HEAD: usize = 1 + 2 + 16 + 4;
const MAC: usize = 16;

/// The form of the tokens of the logs of one shard.
#[derive(Debug, Clone)]
pub struct Form {
    /// The shard.
    pub shard: u16,
    /// The id of the logs.
    pub log_id: [u8; 16],
    /// Grows when a copy of the log is promoted with a stated loss.
    pub incarnation: u32,
}

/// Makes and reads the tokens of the logs of one shard.
#[derive(Debug, Clone)]
pub struct Tokens {
    keyring: Keyring,
    form: Form,
    /// The last write that this node answered to a caller, by instance and caller.
    answered: Arc<Cache<Caller, Arc<Mutex<SeenWrites>>>>,
    /// The token that was made last: many reads in a row need the same one.
    last: Arc<Mutex<Option<Minted>>>,
}

/// The sequences of a token, and the token.
type Minted = (OfEach<u64>, String);

/// An instance and a caller.
type Caller = (String, String);

/// The newest writes that were answered to a caller, by log, and when.
#[derive(Debug, Default)]
struct SeenWrites {
    sequences: OfEach<u64>,
    /// By [`since_start`].
    at: Duration,
}

impl Tokens {
    /// The tokens of the logs with this id of 16 bytes.
    pub fn new(keyring: Keyring, shard: u16, log_id: &[u8], incarnation: u32) -> Self {
        let form = Form { shard, log_id: log_id.try_into().unwrap_or_default(), incarnation };
        Self { keyring, form, answered: Arc::new(Cache::new(CALLERS)), last: Arc::default() }
    }

    /// The keyring that tokens are signed with.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Makes the token of a write. The caller's next reads on this node wait for the write even without the token.
    pub async fn mint_for(
        &self,
        instance_id: &str,
        caller_id: &str,
        sequences: OfEach<u64>,
    ) -> Result<String, keyring::KeyringFailure> {
        self.answers(instance_id, caller_id, sequences);
        self.mint(sequences).await
    }

    fn answers(&self, instance_id: &str, caller_id: &str, sequences: OfEach<u64>) {
        let new = || Ok::<_, Infallible>(Arc::default());
        let Ok(known) = self.answered.get_or_insert_with(&caller(instance_id, caller_id), new);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer of an older write, such as a repeated one, must not hide a newer one.
        let sequences = known.sequences.zip(sequences).map(|(known, new)| known.max(new));
        *known = SeenWrites { sequences, at: since_start() };
    }

    /// The caller's last writes, while they are remembered; otherwise 0.
    fn answered(&self, instance_id: &str, caller_id: &str) -> OfEach<u64> {
        let Some(known) = self.answered.get(&caller(instance_id, caller_id)) else { return OfEach::default() };
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if since_start() < known.at + REMEMBERED { known.sequences } else { OfEach::default() }
    }

    /// Makes the token for a sequence of each log.
    pub async fn mint(&self, sequences: OfEach<u64>) -> Result<String, keyring::KeyringFailure> {
        if let Some((_, token)) = self.last().as_ref().filter(|(last, _)| *last == sequences) {
            return Ok(token.clone());
        }
        let key = self.keyring.key(SYSTEM, Purpose::Consistency).await?;
        let token = self.form.write(&key, sequences);
        *self.last() = Some((sequences, token.clone()));
        Ok(token)
    }

    fn last(&self) -> MutexGuard<'_, Option<Minted>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the sequences of a token of these logs.
    async fn read(&self, token: &str) -> Result<OfEach<u64>, Error> {
        let key = self.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(unavailable)?;
        let invalid =
            || Error::new(Reason::ConsistencyTokenInvalid, "the consistency token is not one of this platform");
        self.form.read(&key, token).ok_or_else(invalid)
    }
}

impl Form {
    /// Writes the token for a sequence of each log, signed with a key.
    pub fn write(&self, key: &SymmetricKey, sequences: OfEach<u64>) -> String {
        let mut token = self.body(sequences);
        let mac = key.mac(&[&token]);
        token.extend_from_slice(&mac[..MAC]);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The sequences of a token, if it was written in this form and under this key.
    pub fn read(&self, key: &SymmetricKey, token: &str) -> Option<OfEach<u64>> {
        let bytes = URL_SAFE_NO_PAD.decode(token.trim()).ok()?;
        let (body, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        let (events, rest) = body.split_at_checked(HEAD)?.1.split_first_chunk()?;
        let sessions = if rest.is_empty() { &[0; 8] } else { rest.try_into().ok()? };
        let sequences = OfEach { events: *events, sessions: *sessions }.map(u64::from_be_bytes);
        let is_ours = secret::constant_time_eq(&key.mac(&[body])[..MAC], mac) && self.body(sequences) == body;
        is_ours.then_some(sequences)
    }

    fn body(&self, OfEach { events, sessions }: OfEach<u64>) -> Vec<u8> {
        let version = if sessions == 0 { OF_EVENTS } else { OF_BOTH };
        let (shard, incarnation) = (self.shard.to_be_bytes(), self.incarnation.to_be_bytes());
        let mut body = [&[version], &shard[..], &self.log_id, &incarnation, &events.to_be_bytes()].concat();
        if version == OF_BOTH {
            body.extend(sessions.to_be_bytes());
        }
        body
    }
}

impl Tokens {
    /// Adds what the node remembers of the caller to the requested consistency.
    pub(crate) fn with_own(
        &self,
        asked: OfEach<Consistency>,
        instance_id: &str,
        caller_id: &str,
    ) -> OfEach<Consistency> {
        asked.zip(self.answered(instance_id, caller_id)).map(|(asked, own)| Consistency { own, ..asked })
    }

    /// The consistency that the headers of a request ask for, of each log.
    pub(crate) async fn requested(&self, headers: &HeaderMap) -> Result<OfEach<Consistency>, Error> {
        let required = match one(headers, HEADER)? {
            None => OfEach::default(),
            Some(token) => self.read(token).await?,
        };
        let wait = match one(headers, WAIT_HEADER)? {
            None => DEFAULT_WAIT,
            Some(wait) => duration(wait).filter(|wait| *wait <= LONGEST_WAIT).ok_or_else(|| {
                Error::new(
                    Reason::InvalidRequest,
                    "Consistency-Wait must be a duration of at most 10s, as in 500ms or 3s",
                )
            })?,
        };
        let begun = Instant::now();
        Ok(required.map(|required| Consistency { required, own: 0, wait, begun }))
    }
}

fn caller(instance_id: &str, caller_id: &str) -> Caller {
    (instance_id.to_owned(), caller_id.to_owned())
}

/// Waits of reads that were as fresh as requested.
static REACHED: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["reached"]));
/// Waits of reads that were answered without the caller's own last write.
static GIVEN_UP: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["given_up"]));
/// Waits of reads that were refused.
static NOT_REACHED: LazyLock<&Histogram> = LazyLock::new(|| CONSISTENCY_WAIT.with(&["not_reached"]));

/// Counts a read that saw this sequence, or none. Reads that may be of any age are not counted.
pub fn waited(consistency: Consistency, processed: Option<u64>) {
    if consistency.newest_seen() == 0 {
        return;
    }
    let outcome = match consistency.rate(processed) {
        Freshness::TooOld => &NOT_REACHED,
        Freshness::WithoutOwn => &GIVEN_UP,
        Freshness::Enough => &REACHED,
    };
    outcome.record_time(consistency.begun.elapsed());
}

/// A duration as `500ms` or `3s`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// The error for a key that is unavailable.
#[expect(clippy::needless_pass_by_value, reason = "it is used with map_err")]
pub fn unavailable(failure: keyring::KeyringFailure) -> Error {
    match failure {
        keyring::KeyringFailure::WrongMasterKey => Error::internal(&failure),
        keyring::KeyringFailure::Absent { .. }
        | keyring::KeyringFailure::Lags
        | keyring::KeyringFailure::Database(_) => {
            tracing::warn!(error = %explain(&failure), "a data key is unavailable");
            let message = "the keys of the platform cannot be read at the moment";
            Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_sequence_of_each_log_and_who_has_seen_one_log_the_token_of_older_builds() {
        let (key, form) = (SymmetricKey::new([3; 32]), Form { shard: 0, log_id: [7; 16], incarnation: 1 });
        let of = |events, sessions| OfEach { events, sessions };
        for sequences in [of(0, 0), of(7, 0), of(7, 9), of(0, 9), of(u64::MAX, u64::MAX)] {
            let token = form.write(&key, sequences);
            assert_eq!(form.read(&key, &token), Some(sequences));
            let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
            let (version, length) = if sequences.sessions == 0 { (1, 47) } else { (2, 55) };
            assert_eq!((bytes[0], bytes.len()), (version, length));
            for other in [Form { shard: 1, ..form.clone() }, Form { incarnation: 2, ..form.clone() }] {
                assert_eq!(other.read(&key, &token), None);
            }
            assert_eq!(form.read(&SymmetricKey::new([4; 32]), &token), None);
        }
        let signed = |body: &[u8]| URL_SAFE_NO_PAD.encode([body, &key.mac(&[body])[..MAC]].concat());
        let genuine = form.body(of(7, 9));
        let nothing_seen = [&genuine[..HEAD], &[0; 16]].concat();
        for body in [&[][..], &genuine[..HEAD], &genuine[..HEAD + 12], &nothing_seen, &[&genuine[..], &[0]].concat()] {
            assert_eq!(form.read(&key, &signed(body)), None, "{} bytes", body.len());
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("3s"), Some(Duration::from_secs(3)));
        for malformed in ["", "3", "s", "-1s", "3 s", "3m", "99999999999999999999s"] {
            assert_eq!(duration(malformed), None, "{malformed}");
        }
    }
}
