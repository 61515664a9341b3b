//! The key of an existing person, or why it is not available.

use domain::{person::Personal, rejection::Rejection, resource::user::Human};
use edge::{consistency::unavailable, error::Error};
use view::persons::{PersonFailure, PersonKey};

use crate::{execute::Commands, writer::writer_unavailable};

/// Returns the key of a person, and what is sealed with it.
///
/// # Errors
/// When the key was destroyed, or is not available now.
pub(crate) async fn key_of_person<'a>(
    commands: &Commands,
    instance_id: &str,
    id: &str,
    human: &'a Human,
) -> Result<(PersonKey, &'a str), Error> {
    let destroyed = Rejection::Precondition("the personal data of the user was destroyed");
    let Some(Personal::Sealed(sealed)) = &human.personal else { return Err(destroyed.into()) };
    let key = commands.persons.key(instance_id, id, sealed).await.map_err(key_unavailable)?.ok_or(destroyed)?;
    Ok((key, sealed))
}

/// Returns the error for a key of a person that is not available now.
pub(crate) fn key_unavailable(failure: PersonFailure) -> Error {
    match failure {
        PersonFailure::Keyring(failure) => unavailable(failure),
        failure => {
            tracing::warn!(error = base::explain::explain(&failure), "the key of a person is unavailable");
            writer_unavailable("the key of the person is unavailable")
        }
    }
}
