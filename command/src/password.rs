//! Sets passwords of people: they are compared, hashed and sealed before the turn, in which there is only ciphertext.
//! What is wrong with them is reported in the turn, after the check of permissions, and only if the same command was
//! not done before.

use base::{
    clock,
    password::{hash, hash_fault, is_guessable, prepared},
};
use domain::{
    context::Owner,
    person::Person,
    rejection::Rejection,
    resource::user::{ONLY_PEOPLE, Password, User, UserPatch},
    setting::password::{self, lacks},
    standard::{Command as Asked, Resource, Standard},
};
use edge::{
    call::Call,
    error::{Error, FieldFault, Reason},
};
use eventlog::record::AggregateKey;
use proto::{
    user::{NewPassword, SetPassword, new_password::Kind},
    wellknown::Timestamp,
};
use view::{persons::PersonKey, settings::instance_of};
use zeroize::Zeroizing;

use crate::{
    escalation::permit_user,
    execute::{Command, Commands, Deciding},
    holder::{PAST, end},
    login::{self, PasswordOwner, find},
    person_key::{self, key_unavailable},
    seat,
    trial::Trial,
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// The rule that a password breaks which is easy to guess.
pub(crate) const GUESSABLE: &str = "must not be common or easy to guess";

const CURRENT: &str = "password.current_password";
const NO_CURRENT: &str = "is required to change your own password";
const NOT_CURRENT: &str = "is not the current password of the person";
const NEW: &str = "password.new_password";
const SAME: &str = "must differ from the current one";

/// What is wrong with a password.
#[derive(Clone)]
pub(crate) struct Faults {
    field: &'static str,
    pub(crate) rules: Vec<String>,
}

impl Faults {
    fn one(field: &'static str, rule: &str) -> Self {
        Self { field, rules: vec![rule.to_owned()] }
    }
}

impl From<Faults> for Error {
    fn from(Faults { field, rules }: Faults) -> Self {
        Self::of_fields(Reason::InvalidRequest, rules.into_iter().map(|rule| FieldFault::new(field, rule)).collect())
    }
}

/// The hash of a password, or what is wrong with it.
type Hashed = Result<Zeroizing<String>, Faults>;

/// Returns the first password of a person as it is stored, or what is wrong with it.
pub(crate) async fn first_password(
    commands: &Commands,
    call: &Call,
    sealing: &PersonKey,
    person: &Person,
    new: &NewPassword,
) -> Result<Result<Password, Faults>, Error> {
    let hashed = match &new.kind {
        Some(Kind::Hash(hash)) => match hash_fault(hash) {
            Some(fault) => Err(Faults::one("user.human.password.hash", fault)),
            None => Ok(Zeroizing::new(hash.clone())),
        },
        Some(Kind::Password(password)) => {
            let chosen = Chosen {
                password: password.clone().into(),
                person: person.clone(),
                field: "user.human.password.password",
            };
            hash_of(commands, &call.tenant.id, &call.context, chosen).await?
        }
        // Such a request was refused before.
        None => Err(Faults::one("user.human.password", "is required")),
    };
    let terms = Terms::of("user.human.password.expiration_date", new.change_required, new.expiration_date);
    Ok(hashed.and_then(|hash| Ok(sealed_password(sealing, &hash, terms?))))
}

/// Returns the new password of a person; `None` if the caller may not set it, or there is no such person.
pub(crate) async fn another_password(
    commands: &Commands,
    call: &Call,
    key: &AggregateKey,
    asked: &SetPassword,
) -> Result<Option<Another>, Error> {
    let Some(seen) = commands.seen_ahead(call, LookAtUser(key.clone())).await? else { return Ok(None) };
    let (User { human: Some(human), password: before, .. }, owner, Some(found)) = seen else { return Ok(None) };
    let (sealing, sealed) = person_key::key_of_person(commands, &call.tenant.id, &key.id, &human).await?;
    let person = sealing.open(sealed).map_err(key_unavailable)?;
    if asked.current_password.is_none() && call.is_own(Some(&key.id)) {
        return Ok(Some(Another { before, new: Err(Faults::one(CURRENT, NO_CURRENT)) }));
    }
    if let Some(said) = &asked.current_password {
        if login::count_and_compare(commands, &Trial::of(call), &found, said.clone().into()).await?.is_none() {
            return Ok(Some(Another { before, new: Err(Faults::one(CURRENT, NOT_CURRENT)) }));
        }
        if prepared(said) == prepared(&asked.new_password) {
            return Ok(Some(Another { before, new: Err(Faults::one(NEW, SAME)) }));
        }
    }
    let chosen = Chosen { password: asked.new_password.clone().into(), person: person.into_known(), field: NEW };
    let hashed = hash_of(commands, &call.tenant.id, &owner, chosen).await?;
    let terms = Terms::of("password.expiration_date", asked.change_required, asked.expiration_date);
    Ok(Some(Another { before, new: hashed.and_then(|hash| Ok(sealed_password(&sealing, &hash, terms?))) }))
}

/// Checks a password that was chosen for a person of a context, and hashes it.
pub(crate) async fn hash_of(
    commands: &Commands,
    instance_id: &str,
    context: &Owner,
    Chosen { password, person, field }: Chosen,
) -> Result<Hashed, Error> {
    let password = prepared(&password);
    let of = instance_of(instance_id, context);
    let rules = lacks(&commands.settings.effective::<password::Password>(of, context).chain, &password);
    if !rules.is_empty() {
        return Ok(Err(Faults { field, rules }));
    }
    let hashing = move || {
        if is_guessable(&password, &person.texts()) {
            return Err(Faults::one(field, GUESSABLE));
        }
        Ok(hash(&password))
    };
    seat::hash(commands, instance_id, hashing).await
}

/// A password that somebody has chosen for a person.
pub(crate) struct Chosen {
    pub(crate) password: Zeroizing<String>,
    pub(crate) person: Person,
    /// The field of the request that contains it.
    pub(crate) field: &'static str,
}

/// How long a password is valid, and whether it must be changed at the first login.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    pub(crate) is_change_required: bool,
    pub(crate) expires_at: Option<i64>,
}

impl Terms {
    /// Reads the terms of a request. An expiration in the past is a fault of this field.
    fn of(field: &'static str, is_change_required: bool, expires: Option<Timestamp>) -> Result<Self, Faults> {
        let expires_at = expires.map(|expires| end(field, Some(expires))).transpose();
        let expires_at = expires_at.map_err(|_| Faults::one(field, PAST))?;
        Ok(Self { is_change_required, expires_at })
    }
}

/// Returns a password as it is stored.
pub(crate) fn sealed_password(sealing: &PersonKey, hash: &str, terms: Terms) -> Password {
    let (hash, changed_at) = (sealing.seal_password(hash), clock::now().as_millisecond());
    let Terms { is_change_required, expires_at } = terms;
    Password { hash, changed_at, is_change_required, expires_at }
}

/// Reads a user, its owner, and what its password is compared with, for a caller who may act as the user. Writes
/// nothing.
struct LookAtUser(AggregateKey);

impl Command for LookAtUser {
    type Outcome = (User, Owner, Option<PasswordOwner>);

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Self::Outcome), Refusal> {
        let current = turn.get::<Standard<User>>(&self.0);
        let user = current.resource().ok_or(Rejection::NotFound(User::NAME))?.clone();
        permit_user(turn, deciding, &current, true)?;
        let seen = (user, current.owner()?.clone(), find(turn, &deciding.keys, &self.0)?);
        Ok((deciding.change_nothing(turn, current)?, seen))
    }
}

/// A change of a password.
pub(crate) struct Another {
    /// The password that was seen before the turn.
    before: Option<Password>,
    /// The new password, or what is wrong with it.
    new: Result<Password, Faults>,
}

/// Gives a person another password.
pub(crate) struct SetAnother {
    pub(crate) key: AggregateKey,
    /// `None` where no person was seen.
    pub(crate) another: Option<Another>,
}

impl Command for SetAnother {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<User>>(&self.key);
        let mut patch = UserPatch::default();
        if let Some(user) = current.resource() {
            permit_user(turn, deciding, &current, true)?;
            deciding.compare(&current)?;
            if user.human.is_none() {
                return Err(ONLY_PEOPLE.into());
            }
            let Some(another) = self.another.as_ref().filter(|another| another.before == user.password) else {
                return Err(writer_unavailable("the user was changed meanwhile: send the request again").into());
            };
            patch.password = Some(another.new.clone().map_err(Error::from)?);
        }
        Ok((deciding.decide(turn, current, Asked::Patch(patch))?, ()))
    }
}
