//! The columns of the read model of users.

use super::{Human, User};
use crate::{
    column::{Column, Lookup},
    person::{Contact, Person},
    secret::Hashed,
};

/// The user name.
pub const USERNAME: Column<User> =
    Column::text("username", |user: &User| user.username.clone()).filterable().looked_up(Lookup::Instance);
/// The display name.
pub const NAME: Column<User> =
    Column::text("name", |user: &User| user.person().map_or_else(|| user.name.clone(), Person::name)).filterable();
/// The type: [`HUMAN`] or [`SERVICE`].
pub const TYPE: Column<User> =
    Column::text("type", |user: &User| if user.human.is_some() { HUMAN } else { SERVICE }.to_owned()).filterable();
/// The given name of a person.
pub const GIVEN_NAME: Column<User> =
    Column::text("given_name", |user: &User| user.of_person(|it| it.text("given_name").to_owned())).filterable();
/// The family name.
pub const FAMILY_NAME: Column<User> =
    Column::text("family_name", |user: &User| user.of_person(|it| it.text("family_name").to_owned())).filterable();
/// The nickname.
pub const NICKNAME: Column<User> =
    Column::text("nickname", |user: &User| user.of_person(|it| it.text("nickname").to_owned())).filterable();
/// The e-mail address.
pub const EMAIL: Column<User> =
    Column::text("email", |user: &User| user.of_person(|it| contact(it.email.as_ref()))).filterable();
/// The phone number.
pub const PHONE: Column<User> =
    Column::text("phone", |user: &User| user.of_person(|it| contact(it.phone.as_ref()))).filterable();
/// The keyed hash of the e-mail address.
pub const EMAIL_KEY: Column<User> =
    Column::text("email_key", |user: &User| key(user, |human| &human.email_key)).looked_up(Lookup::Instance);
/// The keyed hash of the phone number.
pub const PHONE_KEY: Column<User> =
    Column::text("phone_key", |user: &User| key(user, |human| &human.phone_key)).looked_up(Lookup::Instance);
/// Whether it is switched on and not locked.
pub const IS_ACTIVE: Column<User> = Column::bool("is_active", User::is_live).filterable();

/// The type of a service user.
pub const SERVICE: &str = "service";
/// The type of a person.
pub const HUMAN: &str = "human";

fn contact(contact: Option<&Contact>) -> String {
    contact.map(|contact| contact.value.clone()).unwrap_or_default()
}

fn key(user: &User, of: fn(&Human) -> &Hashed) -> String {
    user.human.as_ref().and_then(|human| of(human).expose()).unwrap_or_default().to_owned()
}
