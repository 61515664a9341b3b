//! Claims about a user (OpenID Connect Core 1.0, section 5.1), by the scopes that request them (section 5.4).

use domain::resource::user::User;
use serde_json::{Map, Value, json};
use view::directory::Principal;

use crate::scope::Scope;

/// The claims of the scope `profile` that are stored as a person's data.
const PROFILE: [&str; 12] = [
    "birthdate",
    "family_name",
    "gender",
    "given_name",
    "locale",
    "middle_name",
    "name",
    "nickname",
    "picture",
    "profile",
    "website",
    "zoneinfo",
];
/// All supported claims, as in the discovery document.
pub(crate) const SUPPORTED: [&str; 31] = [
    "act",
    "address",
    "amr",
    "at_hash",
    "aud",
    "auth_time",
    "azp",
    "birthdate",
    "client_id",
    "email",
    "email_verified",
    "exp",
    "family_name",
    "gender",
    "given_name",
    "iat",
    "iss",
    "locale",
    "middle_name",
    "name",
    "nickname",
    "nonce",
    "phone_number",
    "phone_number_verified",
    "picture",
    "preferred_username",
    "profile",
    "sid",
    "sub",
    "website",
    "zoneinfo",
];

/// Returns the claims of a user that scopes request.
pub(crate) fn of<'a>(user: &Principal, scopes: impl IntoIterator<Item = &'a Scope<'a>>) -> Map<String, Value> {
    scopes.into_iter().fold(Map::new(), |mut claims, scope| {
        claims.extend(of_scope(&user.user, scope));
        claims
    })
}

fn of_scope(user: &User, scope: &Scope<'_>) -> Map<String, Value> {
    let person = user.person();
    let named = |name: &str, value: Value| (name.to_owned(), value);
    match scope {
        Scope::Profile => {
            let Some(person) = person else {
                let name = if user.name.is_empty() { &user.username } else { &user.name };
                return Map::from_iter([named("name", json!(name)), named("preferred_username", json!(user.username))]);
            };
            let data = person.data.iter().filter(|(name, _)| PROFILE.contains(&name.as_str()));
            let data = data.map(|(name, value)| (name.clone(), value.clone()));
            let always = [named("name", json!(person.name())), named("preferred_username", json!(person.username))];
            data.chain(always).collect()
        }
        Scope::Email => {
            let email = person.and_then(|person| person.email.as_ref());
            let claims =
                email.map(|it| [named("email", json!(it.value)), named("email_verified", json!(it.is_verified))]);
            claims.into_iter().flatten().collect()
        }
        Scope::Phone => {
            let phone = person.and_then(|person| person.phone.as_ref());
            let verified = |is_verified| named("phone_number_verified", json!(is_verified));
            let claims = phone.map(|it| [named("phone_number", json!(it.value)), verified(it.is_verified)]);
            claims.into_iter().flatten().collect()
        }
        Scope::Address => {
            let address = person.and_then(|person| person.data.get("address"));
            address.map(|address| named("address", address.clone())).into_iter().collect()
        }
        _ => Map::new(),
    }
}
