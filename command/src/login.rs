//! Checks passwords for logins. A try is counted before it is compared, so that nobody has more tries than allowed,
//! however many come at once; a name that does not exist takes the same work and gets the same answer as a wrong
//! password.

use base::{
    explain::explain,
    password::{dummy_hash, hash, is_hash_of, is_outdated, is_usual},
};
use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    rejection::Rejection,
    resource::{
        session::Session,
        user::{Human, Password, User, UserPatch},
    },
    setting::lockout::Lockout,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{
    call::Call,
    consistency::unavailable,
    error::{Error, Reason},
};
use eventlog::{
    log::LogFailure,
    record::AggregateKey,
    tries::{Counted, Counting},
};
use proto::session::check_user::Search;
use view::settings::instance_of;
use zeroize::Zeroizing;

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    existence::{self, organization_of_live},
    last_login::Login,
    named::{named, tries_hash},
    person_key::{self, key_unavailable},
    seat,
    trial::Trial,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::{Decide, Verdict, writer_unavailable},
};

/// The longest password that is hashed anew, in bytes: bcrypt compares no more, so the rest of a longer one was not
/// checked.
const MOST_RENEWED: usize = 72;
/// The number of keys under which tries with names that nobody of an instance has are counted.
const UNKNOWN: u16 = 4096;

/// The person whose password is given.
pub(crate) enum PasswordSubject {
    /// A person of an instance, by id or login name.
    Named(String, Search),
    /// The person of a session.
    OfSession(AggregateKey),
}

/// A person whose password was found right.
#[derive(Clone)]
pub(crate) struct ProvenPassword {
    pub(crate) user_id: String,
    /// The person, which names the key that seals what is personal.
    pub(crate) human: Human,
    pub(crate) password: Password,
}

impl ProvenPassword {
    /// Returns when the password was found right, if it still is the password of this user.
    pub(crate) fn decide(&self, turn: &mut Turn<'_>, user: &AggregateKey) -> Result<i64, Refusal> {
        let current = turn.get::<Standard<User>>(user);
        let has_it = current.resource().is_some_and(|user| user.password.as_ref() == Some(&self.password));
        if self.user_id != user.id || !has_it {
            return Err(writer_unavailable("the user was changed meanwhile: send the request again").into());
        }
        Ok(turn.now().as_millisecond())
    }
}

/// Returns the error for wrong credentials, which is the same whatever is wrong with them.
pub(crate) fn wrong() -> Error {
    let message = "no person with this login name and password may log in now";
    Error::new(Reason::CredentialsInvalid, message)
}

fn uncounted(failure: &LogFailure) -> Error {
    tracing::warn!(error = explain(failure), "login attempts cannot be counted");
    writer_unavailable("login attempts cannot be counted at the moment; try again later")
}

/// Checks a password and returns its person. A hash of another system, or one that takes less than new ones do, is
/// replaced.
///
/// # Errors
/// When the password is wrong, there were too many tries, or the caller may not check it.
pub(crate) async fn prove(
    commands: &Commands,
    call: &Call,
    whose: PasswordSubject,
    said: &str,
) -> Result<ProvenPassword, Error> {
    let said = Zeroizing::new(said.to_owned());
    let found = commands.seen_at_any_sequence(call, FindPasswordOwner(whose)).await?;
    prove_owner(commands, &Trial::of(call), found, said).await
}

/// Checks the password of a person who was looked up before.
pub(crate) async fn prove_owner(
    commands: &Commands,
    trial: &Trial,
    found: PasswordOwner,
    said: Zeroizing<String>,
) -> Result<ProvenPassword, Error> {
    let right = count_and_compare(commands, trial, &found, said.clone()).await?;
    let (Some(hash), Some(login)) = (right, found.login) else { return Err(wrong()) };
    let password = renewed(commands, trial, &login, hash, said).await;
    Ok(ProvenPassword { user_id: login.user.id, human: login.human, password })
}

/// Counts a try and returns the hash of the password if it is right; `None` if it is wrong.
///
/// # Errors
/// When there were too many tries, or the password cannot be checked.
pub(crate) async fn count_and_compare(
    commands: &Commands,
    trial: &Trial,
    PasswordOwner { tries, login }: &PasswordOwner,
    said: Zeroizing<String>,
) -> Result<Option<Zeroizing<String>>, Error> {
    let counted = match commands.tries.count(tries).await.map_err(|failure| uncounted(&failure))? {
        Counted::Try(counted) => counted,
        Counted::Late => {
            compare(commands, trial, None, said).await?;
            return Ok(None);
        }
        Counted::TooEarly(left) => {
            let message = "too many wrong passwords were tried: wait before you try again";
            return Err(Error::new(Reason::RateLimited, message).with("limit", "tries").retry_after(left));
        }
    };
    let most = login.as_ref().map_or(0, |login| most_tries(commands, &trial.instance_id, &login.owner));
    // Tries beyond the last one fail before they are compared: those that come at the same time, and those that
    // read the user before the lock.
    let compared = login.as_ref().filter(|_| most == 0 || counted.count <= most);
    match compare(commands, trial, compared, said).await {
        Ok(Some(hash)) => {
            if let Err(failure) = commands.tries.forget(&tries.key).await {
                tracing::warn!(error = explain(&failure), "tries before one that did not fail count");
            }
            Ok(Some(hash))
        }
        Ok(None) => {
            if let Some(login) = login.as_ref().filter(|_| most > 0 && counted.count >= most) {
                lock(commands, trial, login, counted.count).await;
            }
            Ok(None)
        }
        Err(error) => {
            if let Err(failure) = commands.tries.take_back(counted).await {
                tracing::warn!(error = explain(&failure), "a try that was not made counts");
            }
            Err(error)
        }
    }
}

/// Returns after how many wrong passwords a user of a context is locked; 0 for never.
fn most_tries(commands: &Commands, instance_id: &str, owner: &Owner) -> u64 {
    let settings = commands.settings.effective::<Lockout>(instance_of(instance_id, owner), owner);
    *settings.chain.resolve(|it| it.max_password_attempts.as_ref()).value
}

/// Returns the hash of a person's password, if the given one is right. Without a person it compares the hash of the
/// last one who logged in, so that it takes as long, and ignores the result.
async fn compare(
    commands: &Commands,
    trial: &Trial,
    login: Option<&Login>,
    said: Zeroizing<String>,
) -> Result<Option<Zeroizing<String>>, Error> {
    let kept = match login {
        Some(login) => stored_hash(commands, login).await?,
        None => None,
    };
    let (Some(login), Some(kept)) = (login, kept) else {
        let another = commands.last_login.last();
        let kept = match &another {
            Some(login) => stored_hash(commands, login).await.ok().flatten(),
            None => None,
        };
        let compare = move || is_hash_of(kept.as_ref().map_or_else(|| dummy_hash(), |kept| kept.as_str()), &said);
        seat::hash(commands, &trial.instance_id, compare).await?;
        return Ok(None);
    };
    let right = seat::hash(commands, &trial.instance_id, move || is_hash_of(&kept, &said).then_some(kept)).await?;
    // A hash of another system, or of another cost, takes another time.
    if right.as_ref().is_some_and(|kept| is_usual(kept)) {
        commands.last_login.remember(login);
    }
    Ok(right)
}

/// Returns the hash of a person's password; `None` if the key of the person was destroyed.
async fn stored_hash(
    commands: &Commands,
    Login { user, human, password, .. }: &Login,
) -> Result<Option<Zeroizing<String>>, Error> {
    match person_key::key_of_person(commands, &user.instance_id, &user.id, human).await {
        Ok((sealing, _)) => sealing.open_password(&password.hash).map(Some).map_err(key_unavailable),
        Err(error) if error.reason() == Reason::PreconditionFailed => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the password as it is stored from now on, with a new hash if the current one is outdated.
async fn renewed(
    commands: &Commands,
    trial: &Trial,
    login: &Login,
    kept: Zeroizing<String>,
    said: Zeroizing<String>,
) -> Password {
    let before = login.password.clone();
    if !is_outdated(&kept) || said.len() > MOST_RENEWED {
        return before;
    }
    match renew(commands, trial, login, said).await {
        Ok(renewed) => renewed.unwrap_or(before),
        Err(error) => {
            tracing::warn!(reason = error.reason().name(), "a hash of another system is replaced another time");
            before
        }
    }
}

async fn renew(
    commands: &Commands,
    trial: &Trial,
    login: &Login,
    said: Zeroizing<String>,
) -> Result<Option<Password>, Error> {
    let hash = seat::hash(commands, &trial.instance_id, move || hash(&said)).await?;
    let (sealing, _) =
        person_key::key_of_person(commands, &login.user.instance_id, &login.user.id, &login.human).await?;
    let renewed = Password { hash: sealing.seal_password(&hash), ..login.password.clone() };
    let patch = UserPatch { password: Some(renewed.clone()), ..UserPatch::default() };
    Ok(follow(commands, trial, login, Asked::Patch(patch)).await?.then_some(renewed))
}

async fn lock(commands: &Commands, trial: &Trial, login: &Login, tries: u64) {
    match follow(commands, trial, login, Asked::Lock(true)).await {
        Ok(true) => tracing::info!(user = login.user.id, tries, "a user is locked after wrong passwords"),
        Ok(false) => {}
        // The next try finds the limit reached, too.
        Err(error) => tracing::warn!(reason = error.reason().name(), "a user cannot be locked at the moment"),
    }
}

/// Applies what follows from a try to a person, if the password still is the same; returns whether it was applied.
async fn follow(commands: &Commands, trial: &Trial, login: &Login, asked: Asked<User>) -> Result<bool, Error> {
    let keys = ClaimKeys::of(&commands.keyring, &trial.instance_id).await.map_err(unavailable)?;
    let (cause, origin) = (trial.cause.clone(), trial.origin());
    let (user, password) = (login.user.clone(), login.password.clone());
    match commands.writer.submit(origin, Follow { user, password, asked, keys, cause }, None).await? {
        Verdict::Decided(_, follows) => Ok(follows),
        Verdict::Replayed(_) => Ok(false),
    }
}

/// The consequence of a try.
struct Follow {
    user: AggregateKey,
    /// The password that the user must still have.
    password: Password,
    asked: Asked<User>,
    keys: ClaimKeys,
    cause: Cause,
}

impl Decide for Follow {
    /// Whether the consequence was applied.
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let current = turn.get::<Standard<User>>(&self.user);
        if !current.resource().is_some_and(|user| user.is_live() && user.password.as_ref() == Some(&self.password)) {
            return Ok((turn.nothing_decided(User::NAME), false));
        }
        let events = Standard::<User>::decide(&current.state, self.asked.clone())?;
        Ok((turn.append(current, &events, &self.keys, &self.cause)?, true))
    }
}

/// Looks up the person whose password is given.
struct FindPasswordOwner(PasswordSubject);

/// The person whose password is given, as it was found.
pub(crate) struct PasswordOwner {
    tries: Counting,
    /// `None` if there is nobody with a password who may log in.
    login: Option<Login>,
}

impl Command for FindPasswordOwner {
    type Outcome = PasswordOwner;

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, PasswordOwner), Refusal> {
        let (instance_id, key, said) = match &self.0 {
            PasswordSubject::Named(instance_id, search) => {
                deciding.permit(turn, &Owner::instance(instance_id), &Object::of_nobody(Session::NAME, false))?;
                let found = find_by_name(turn, &deciding.keys, instance_id, search)?;
                return Ok((turn.nothing_decided(Session::NAME), found));
            }
            PasswordSubject::OfSession(session) => {
                let current = turn.get::<Standard<Session>>(session);
                existence::require_existing(turn, &current)?;
                let found = current.resource().ok_or(Rejection::NotFound(Session::NAME))?;
                deciding.permit_on(turn, &current)?;
                let rule = "is required, since the session has no user yet";
                let id = found.user_id().ok_or_else(|| Rejection::invalid("session.checks.user", rule))?;
                let key = AggregateKey::of::<Standard<User>>(&*session.instance_id, id);
                (&session.instance_id, key, deciding.keys.instance.mac(&[b"id", id.as_bytes()]))
            }
        };
        let found = find(turn, &deciding.keys, &key)?.unwrap_or_else(|| unknown_owner(instance_id, &said));
        Ok((turn.nothing_decided(Session::NAME), found))
    }
}

/// Looks up a person by its id or login name; for a name that nobody has, only the tries are returned.
pub(crate) fn find_by_name(
    turn: &mut Turn<'_>,
    keys: &ClaimKeys,
    instance_id: &str,
    search: &Search,
) -> Result<PasswordOwner, Refusal> {
    let said = tries_hash(keys, search);
    let found = match named(turn, keys, instance_id, search) {
        Some(key) => find(turn, keys, &key)?,
        None => None,
    };
    Ok(found.unwrap_or_else(|| unknown_owner(instance_id, &said)))
}

/// Returns the tries of a name that nobody has. Many names share a key to count under, where each is counted for
/// itself, as an existing person is.
fn unknown_owner(instance_id: &str, said: &[u8; 32]) -> PasswordOwner {
    let place = u16::from_be_bytes([said[0], said[1]]) % UNKNOWN;
    let (key, of) = (format!("{instance_id}.unknown.{place}"), hex::encode(&said[2..18]));
    PasswordOwner { tries: Counting { key, of, since: 0, begins: false }, login: None }
}

/// Looks up the tries and the login of a person: tries of a person who may not log in are counted, too, but there is no
/// login.
pub(crate) fn find(
    turn: &mut Turn<'_>,
    keys: &ClaimKeys,
    key: &AggregateKey,
) -> Result<Option<PasswordOwner>, Refusal> {
    let current = turn.get::<Standard<User>>(key);
    let is_live = existence::is_there::<User>(turn, key) && organization_of_live(turn, &current)?.is_some();
    let Some(User { human: Some(human), password, .. }) = current.resource().cloned() else { return Ok(None) };
    let (user, owner) = (key.clone(), current.owner()?.clone());
    let now = turn.now().as_millisecond();
    let login = password.filter(|password| is_live && !password.has_expired(now)).map(|password| Login {
        user,
        owner,
        human,
        password,
    });
    // Counted by the id, so that all names of a person lead to it. Any change of a person who may log in starts the
    // count anew, such as an unlock or another password; a lock does not.
    let place = hex::encode(keys.instance.mac(&[b"tries", key.id.as_bytes()]));
    let (key, since) = (format!("{}.{place}", key.instance_id), current.head.sequence);
    Ok(Some(PasswordOwner { tries: Counting { key, of: String::new(), since, begins: is_live }, login }))
}
