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

#[cfg(test)]
mod tests {
    use domain::{
        person::{Contact, Person, Personal},
        resource::user::Human,
    };

    use super::*;

    const ALL: [Scope<'_>; 5] = [Scope::OpenId, Scope::Profile, Scope::Email, Scope::Phone, Scope::Address];

    fn claims(user: &User, scopes: &[Scope<'_>]) -> Value {
        let all = scopes.iter().flat_map(|scope| of_scope(user, scope));
        Value::Object(all.collect())
    }

    fn person(person: Person) -> User {
        let human = Human { personal: Some(Personal::Opened(Box::new(person))), ..Human::default() };
        User { human: Some(human), ..User::default() }
    }

    #[test]
    fn each_scope_gives_its_claims_of_a_person_and_no_others() {
        let address = json!({ "locality": "London" });
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace", "address": address, "shoe_size": 5 });
        let ada = person(Person {
            username: "ada".into(),
            data: serde_json::from_value(data).unwrap(),
            email: Some(Contact { value: "ada@example.com".into(), is_verified: true }),
            phone: Some(Contact { value: "+441234".into(), is_verified: false }),
        });
        for (scope, expected) in ALL.into_iter().zip([
            json!({}),
            json!({ "given_name": "Ada", "family_name": "Lovelace", "name": "Ada Lovelace", "preferred_username": "ada" }),
            json!({ "email": "ada@example.com", "email_verified": true }),
            json!({ "phone_number": "+441234", "phone_number_verified": false }),
            json!({ "address": address }),
        ]) {
            assert_eq!(claims(&ada, &[scope]), expected);
        }
        let data = json!({ "given_name": "Grace", "family_name": "Hopper" });
        let without = person(Person {
            username: "grace".into(),
            data: serde_json::from_value(data).unwrap(),
            ..Person::default()
        });
        let of_others = [Scope::Email, Scope::Phone, Scope::Address];
        assert_eq!(claims(&without, &of_others), json!({}), "what a person does not have is no claim");
    }

    #[test]
    fn a_service_user_has_a_name_alone() {
        let backend = User { username: "backend".into(), name: "Backend".into(), ..User::default() };
        assert_eq!(claims(&backend, &ALL), json!({ "name": "Backend", "preferred_username": "backend" }));
        let unnamed = User { name: String::new(), ..backend };
        assert_eq!(claims(&unnamed, &ALL), json!({ "name": "backend", "preferred_username": "backend" }));
    }
}
