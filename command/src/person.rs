//! Creates and changes people: personal data is checked and sealed before the turn, in which there is only ciphertext.

use api::user::NewPerson;
use base::secret::SymmetricKey;
use domain::{
    person::{Person, SCHEMA, violations},
    rejection::Rejection,
    resource::user::{
        Human, User,
        contact::{EMAIL, Kind, PHONE},
    },
    standard::Standard,
    with_unknown::WithUnknown,
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::unavailable,
    error::{Error, FieldFault, Reason},
};
use eventlog::record::AggregateKey;
use proto::user::{CreateUserRequest, CreateUserResponse, PatchUserRequest};
use view::{
    keyring::{Purpose, hashed_claim},
    persons::PersonKey,
    settings::instance_of,
};

use crate::{
    execute::Commands,
    new_user::NewUser,
    password,
    person_key::{self, key_unavailable},
    standard::details,
};

/// The longest name chosen by a caller that an answer repeats, in characters.
const LONGEST_NAME: usize = 200;

/// What an unknown schema is called in an answer.
const SCHEMA_NAME: &str = "user schema";

/// Creates a person, under an id that the caller may give.
pub(crate) async fn create_person(
    commands: &Commands,
    call: &Call,
    request: &CreateUserRequest,
    NewPerson { person, schema_id, password }: NewPerson,
) -> Result<Answer<CreateUserResponse>, Error> {
    if !["", SCHEMA].contains(&schema_id.as_str()) {
        return Err(Rejection::NotFound(SCHEMA_NAME).into());
    }
    check(&person)?;
    let id = if request.user_id.is_empty() { commands.ids.next() } else { request.user_id.clone() };
    let sealing = commands.persons.create(&call.tenant.id, &id).await.map_err(key_unavailable)?;
    let person = WithUnknown::from(person);
    let human = seal(commands, &call.tenant.id, &sealing, &person).await?;
    let password = match &password {
        Some(password) => Some(password::first_password(commands, call, &sealing, &person, password).await?),
        None => None,
    };
    let key = AggregateKey::of::<Standard<User>>(instance_of(&call.tenant.id, &call.context), &id);
    let user = User { human: Some(human), is_active: true, ..User::default() };
    let command = NewUser { key, owner: call.context.clone(), user, password };
    commands.execute(call, request, command, move |decided, ()| details(&id, decided).into()).await
}

/// Returns a person as the caller may see it, whatever sequence the request names; `None` if it may not, or there
/// is none.
pub(crate) async fn find_visible(commands: &Commands, call: &Call, key: &AggregateKey) -> Option<Human> {
    commands.read_ahead::<User>(call, key).await.ok().flatten().and_then(|user| user.human)
}

/// Returns a person after the changes of a request, sealed; `None` if there are none.
pub(crate) async fn changed_person(
    commands: &Commands,
    call: &Call,
    id: &str,
    human: &Human,
    request: &PatchUserRequest,
) -> Result<Option<Changed>, Error> {
    let (sealing, sealed) = person_key::key_of_person(commands, &call.tenant.id, id, human).await?;
    let before = sealing.open(sealed).map_err(key_unavailable)?;
    let after = before.clone().map(|person| api::user::changed(person, request));
    if before == after {
        return Ok(None);
    }
    check(&after)?;
    let sealed = seal(commands, &call.tenant.id, &sealing, &after).await?;
    let reached = |person: &Person| (person.username.clone(), person.email.clone(), person.phone.clone());
    let gives_power = reached(&before) != reached(&after);
    let human = Human { schema_id: human.schema_id.clone(), ..sealed };
    Ok(Some(Changed { human, gives_power }))
}

/// Seals a person as events store it.
pub(crate) async fn seal(
    commands: &Commands,
    instance_id: &str,
    sealing: &PersonKey,
    person: &WithUnknown<Person>,
) -> Result<Human, Error> {
    let claims = commands.keyring.key(instance_id, Purpose::Claim).await.map_err(unavailable)?;
    Ok(sealed(&claims, sealing, person))
}

/// Seals a person as events store it, who is found by hashes under the instance's key for claims.
pub(crate) fn sealed(claims: &SymmetricKey, sealing: &PersonKey, person: &WithUnknown<Person>) -> Human {
    let found_by = |kind: Kind| {
        kind.of(person).map(|contact| hashed_claim(claims, &kind.claim(&contact.value))).unwrap_or_default()
    };
    Human {
        schema_id: SCHEMA.to_owned(),
        personal: Some(sealing.seal(person)),
        username_key: hashed_claim(claims, &User::username_claim(&person.username)),
        email_key: found_by(EMAIL),
        phone_key: found_by(PHONE),
    }
}

/// A person after a change, sealed.
pub(crate) struct Changed {
    pub(crate) human: Human,
    /// Whether a name or an address of the person was changed.
    pub(crate) gives_power: bool,
}

/// Refuses data that break the schema.
fn check(person: &Person) -> Result<(), Error> {
    let fault = |(path, rule): (String, &'static str)| {
        let path = path.chars().take(LONGEST_NAME).collect();
        FieldFault::unknown("user.human.data".to_owned(), path, rule)
    };
    let faults: Vec<_> = violations(&person.data).into_iter().take(proto::MOST_VIOLATIONS).map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::of_fields(Reason::InvalidRequest, faults)) }
}
