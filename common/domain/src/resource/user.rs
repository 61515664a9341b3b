//! Users: people, and programs that act in their own name.

pub mod column;
pub mod contact;
pub mod password;

use serde::{Deserialize, Serialize};

pub use self::password::Password;
use super::{active, app::oidc::TokenType};
use crate::{
    claim::Claim,
    client_secret::{ClientSecrets, Renewal},
    column::Column,
    permission::{Permissions, STANDARD},
    person::{Person, Personal},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    rejection::Rejection,
    secret::Hashed,
    standard::{Resource, States},
};

/// A user: a person or a program that can hold roles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name that a service user may authenticate with as `client_id`, besides its id; unique in its instance
    /// ignoring case, and not only digits. A person's is personal data: it is empty while that is sealed.
    pub username: String,
    /// The display name.
    #[serde(default)]
    pub name: String,
    /// What a service user is for.
    #[serde(default)]
    pub description: String,
    /// Whether its assertions may name the token endpoint as audience, instead of the issuer.
    #[serde(default)]
    pub allow_token_endpoint_audience: bool,
    /// The form of its access tokens, if chosen; JWTs otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_type: Option<TokenType>,
    /// The JWA name of the algorithm that signs its access tokens, if chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_alg: Option<String>,
    /// The JWA name of the algorithm that signs its ID tokens, if chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token_alg: Option<String>,
    /// The data of a person; `None` for a service user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human: Option<Human>,
    /// The password of a person, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// The client secrets of a service user.
    #[serde(flatten)]
    pub secrets: ClientSecrets,
    /// Whether the user is switched on.
    #[serde(default = "active")]
    pub is_active: bool,
    /// Whether the user is locked; only an active user can be.
    #[serde(default)]
    pub is_locked: bool,
    /// The sequence of the log as of which all sessions of a person were ended: sessions that were checked as of this
    /// sequence or an earlier one have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_end: Option<u64>,
}

/// The refusal of a password for a service user.
pub const ONLY_PEOPLE: Rejection = Rejection::Precondition("the user is a service user; only people have passwords");

/// The kind of claim for user names.
const USERNAME: &str = "username";

/// A person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Human {
    /// The schema that the data follows.
    pub schema_id: String,
    /// The personal data; `None` if the person's key was destroyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personal: Option<Personal>,
    /// The keyed hash of the user name, which makes it unique.
    #[serde(default)]
    pub username_key: Hashed,
    /// The keyed hash of the e-mail address, by which a person is found.
    #[serde(default)]
    pub email_key: Hashed,
    /// The keyed hash of the phone number, by which a person is found.
    #[serde(default)]
    pub phone_key: Hashed,
}

impl Human {
    /// Returns the personal data, if it is opened.
    pub fn person(&self) -> Option<&Person> {
        self.personal.as_ref().and_then(Personal::opened)
    }
}

impl User {
    /// Returns the personal data of a person, if it is opened.
    pub fn person(&self) -> Option<&Person> {
        self.human.as_ref().and_then(Human::person)
    }

    /// Whether all its sessions were ended after the log had been seen up to a sequence, with everything that was
    /// issued then.
    pub fn has_ended_sessions_since(&self, seen: u64) -> bool {
        self.sessions_end.is_some_and(|end| seen <= end)
    }

    /// Reads a text from the personal data, or returns an empty text.
    fn of_person(&self, read: impl FnOnce(&Person) -> String) -> String {
        self.person().map(read).unwrap_or_default()
    }

    /// Returns the claim that makes a user name unique.
    pub fn username_claim(username: &str) -> Claim {
        Claim::folded(USERNAME, username)
    }

    /// Checks that the user may have credentials of service users.
    ///
    /// # Errors
    /// If it is a person.
    fn insist_on_service(&self) -> Result<(), Rejection> {
        let message = "the user is a person; only service users have client secrets, keys and tokens of their own";
        if self.human.is_none() { Ok(()) } else { Err(Rejection::Precondition(message)) }
    }

    /// Checks that the user has nothing that only people may have.
    fn insist_on_person(&self) -> Result<(), Rejection> {
        if self.password.is_none() { Ok(()) } else { Err(ONLY_PEOPLE) }
    }

    /// Whether the user may do anything at all.
    pub fn is_live(&self) -> bool {
        self.is_active && !self.is_locked
    }

    /// Whether only the platform reads its access tokens.
    pub fn has_opaque_tokens(&self) -> bool {
        self.access_token_type == Some(TokenType::Opaque)
    }
}

/// A partial update of a [`User`].
#[derive(Debug, Clone, Default)]
pub struct UserPatch {
    /// See [`User::username`].
    pub username: Option<String>,
    /// See [`User::name`].
    pub name: Option<String>,
    /// See [`User::description`].
    pub description: Option<String>,
    /// See [`User::allow_token_endpoint_audience`].
    pub allow_token_endpoint_audience: Option<bool>,
    /// See [`User::access_token_type`].
    pub access_token_type: Option<TokenType>,
    /// See [`User::access_token_alg`]; an inner `None` resets it.
    pub access_token_alg: Option<Option<String>>,
    /// See [`User::id_token_alg`].
    pub id_token_alg: Option<Option<String>>,
    /// A new secret takes over.
    pub renewal: Option<Renewal>,
    /// The data of a person, replacing the previous one.
    pub human: Option<Human>,
    /// The new password.
    pub password: Option<Password>,
}

impl Resource for User {
    const NAME: &'static str = "user";
    const COLUMNS: &'static [Column<Self>] = &[
        column::USERNAME,
        column::NAME,
        column::IS_ACTIVE,
        column::TYPE,
        column::GIVEN_NAME,
        column::FAMILY_NAME,
        column::NICKNAME,
        column::EMAIL,
        column::PHONE,
        column::EMAIL_KEY,
        column::PHONE_KEY,
    ];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name { name: "users_index", version: 3 });
    const STATES: States = States::Lockable;
    const LINKS: &'static [Link] = &Self::CONTACTS;
    const PERMISSIONS: &'static [Permissions] =
        &[Permissions::new("user", STANDARD), Permissions::new("user.credential", &["write"])];
    type Patch = UserPatch;

    fn validate(&self) -> Result<(), Rejection> {
        let Some(human) = &self.human else { return self.insist_on_person() };
        if human.person().is_some() || !self.username.is_empty() {
            return Err(Rejection::Precondition("personal data must be sealed before it is written"));
        }
        let of_service = Self { is_active: self.is_active, is_locked: self.is_locked, ..Self::default() };
        if of_service == (Self { human: None, password: None, sessions_end: None, ..self.clone() }) {
            Ok(())
        } else {
            self.insist_on_service()
        }
    }

    fn patched(self, patch: UserPatch) -> Self {
        Self {
            username: patch.username.unwrap_or(self.username),
            name: patch.name.unwrap_or(self.name),
            description: patch.description.unwrap_or(self.description),
            allow_token_endpoint_audience: patch
                .allow_token_endpoint_audience
                .unwrap_or(self.allow_token_endpoint_audience),
            access_token_type: patch.access_token_type.or(self.access_token_type),
            access_token_alg: patch.access_token_alg.unwrap_or(self.access_token_alg),
            id_token_alg: patch.id_token_alg.unwrap_or(self.id_token_alg),
            secrets: match patch.renewal {
                Some(renewal) => self.secrets.renewed(renewal),
                None => self.secrets,
            },
            human: patch.human.or(self.human),
            password: patch.password.or(self.password),
            ..self
        }
    }

    fn user<'a>(&'a self, id: &'a str) -> Option<&'a str> {
        Some(id)
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }

    fn lock(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_locked)
    }

    fn sessions_end(&mut self) -> Option<&mut Option<u64>> {
        self.human.is_some().then_some(&mut self.sessions_end)
    }

    fn claims(&self) -> Vec<Claim> {
        match &self.human {
            None => vec![Self::username_claim(&self.username)],
            Some(human) => human.username_key.expose().map(|hash| Claim::hashed(USERNAME, hash)).into_iter().collect(),
        }
    }

    fn references(&self) -> Vec<Reference> {
        self.human.as_ref().map(Human::contacts).unwrap_or_default()
    }

    fn may_hold(&self) -> Result<(), Rejection> {
        self.insist_on_service()
    }
}

#[cfg(test)]
mod people;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        client_secret::Previous,
        rejection::Rejection,
        secret::Hashed,
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, assert_switches, given},
    };

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        let user = User {
            username: "robot".into(),
            name: "Robot".into(),
            description: "builds".into(),
            allow_token_endpoint_audience: false,
            access_token_type: Some(TokenType::Jwt),
            access_token_alg: Some("RS256".into()),
            id_token_alg: None,
            secrets: ClientSecrets {
                newest: Hashed::new("hash"),
                previous: Some(Previous { secret: Hashed::new("older"), valid_until: 10 }),
            },
            is_active: true,
            is_locked: false,
            ..User::default()
        };
        let columns = json!({
            "username": "robot", "name": "Robot", "is_active": true, "type": "service", "given_name": "", "family_name": "",
            "nickname": "", "email": "", "phone": "", "email_key": "", "phone_key": "",
        });
        assert_columns(&user, &columns);
        let patch = UserPatch::default;
        let renewal = Some(Renewal { secret: Hashed::new("newer"), previous_until: None });
        let patches = vec![
            (UserPatch { username: Some("b".into()), ..patch() }, json!({ "username": "b" })),
            (UserPatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
            (UserPatch { description: Some("b".into()), ..patch() }, json!({ "description": "b" })),
            (
                UserPatch { allow_token_endpoint_audience: Some(true), ..patch() },
                json!({ "allow_token_endpoint_audience": true }),
            ),
            (
                UserPatch { access_token_type: Some(TokenType::Opaque), ..patch() },
                json!({ "access_token_type": "opaque" }),
            ),
            (UserPatch { access_token_alg: Some(None), ..patch() }, json!({ "access_token_alg": null })),
            (UserPatch { id_token_alg: Some(Some("ES384".into())), ..patch() }, json!({ "id_token_alg": "ES384" })),
            (UserPatch { renewal, ..patch() }, json!({ "secret": "newer", "previous": null })),
        ];
        assert_patches(&user, patches, &["is_active", "is_locked"]);
        assert_switches(&user);
        assert_eq!(user.user("7"), Some("7"), "a user belongs to itself");
        assert_eq!(user.claims(), [Claim::folded("username", "robot")]);
    }

    #[test]
    fn access_tokens_are_opaque_only_if_that_was_chosen() {
        for (access_token_type, is_opaque) in
            [(None, false), (Some(TokenType::Jwt), false), (Some(TokenType::Opaque), true)]
        {
            let user = User { access_token_type, ..User::default() };
            assert_eq!(user.has_opaque_tokens(), is_opaque, "{access_token_type:?}");
        }
    }

    #[test]
    fn only_an_active_user_is_locked_or_acted_as() {
        let user = |is_active, is_locked| User { username: "robot".into(), is_active, is_locked, ..User::default() };
        let (active, locked, inactive) = (user(true, false), user(true, true), user(false, false));
        let acting = || Command::Impersonate("8".to_owned());
        let cases = [
            (&active, acting(), Ok(Event::Impersonated { to: active.clone().into(), client_id: "8".into() })),
            (&locked, acting(), Err("it is not active and cannot be impersonated")),
            (&inactive, acting(), Err("it is not active and cannot be impersonated")),
            (&active, Command::Lock(true), Ok(Event::Locked(locked.clone().into()))),
            (&locked, Command::Lock(false), Ok(Event::Unlocked(active.clone().into()))),
            (&locked, Command::Switch(false), Ok(Event::Deactivated(inactive.clone().into()))),
            (&locked, Command::Lock(true), Err("it is locked already")),
            (&active, Command::Lock(false), Err("it is not locked")),
            (&inactive, Command::Lock(false), Err("it is not locked")),
            (&inactive, Command::Lock(true), Err("it is inactive and cannot be locked")),
            (&locked, Command::Switch(true), Err("it is active already")),
        ];
        for (before, asked, outcome) in cases {
            let deciding = given::<Standard<User>>([Event::Added(before.clone().into())]).when(asked);
            match outcome {
                Ok(event) => deciding.then([event]),
                Err(reason) => deciding.then_rejected(&Rejection::Precondition(reason)),
            }
        }
        let live = [&active, &locked, &inactive, &user(false, true)].map(User::is_live);
        assert_eq!(live, [true, false, false, false]);
    }
}
