//! Contacts: addresses by which people are found beside their login names. The log contains the keyed hash of an
//! address, which a person refers to like objects refer to each other, so that a turn can look up who has it. Several
//! people may have the same one.

use super::{Human, User};
use crate::{
    claim::Claim,
    person::{Contact, Person},
    reference::{Link, Reference},
    secret::Hashed,
};

/// The kind of what contacts refer to. There are no such objects.
pub const CONTACT: &str = "contact";

/// A kind of contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The link by which people refer to a contact of this kind.
    pub link: Link,
}

/// E-mail addresses.
pub const EMAIL: Kind = Kind { link: Link { name: "email", to: CONTACT } };
/// Phone numbers.
pub const PHONE: Kind = Kind { link: Link { name: "phone", to: CONTACT } };

impl Kind {
    /// Whether a text may be a contact of this kind: nobody has to be looked up by anything else.
    pub fn is_plausible(&self, said: &str) -> bool {
        let is_number =
            |plain: &str| plain.strip_prefix('+').is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
        if *self == PHONE { is_number(&self.plain(said)) } else { said.contains('@') }
    }

    /// Returns the claim to hash for a contact, however it is written: case is ignored, and so are separators between
    /// the digits of a phone number.
    pub fn claim(&self, said: &str) -> Claim {
        Claim::folded(self.link.name, self.plain(said))
    }

    fn plain(&self, said: &str) -> String {
        let is_between = |char: char| *self == PHONE && (char.is_whitespace() || "-()./".contains(char));
        said.chars().filter(|char| !is_between(*char)).collect()
    }

    /// Returns the contact of this kind that a person has.
    pub fn of<'a>(&self, person: &'a Person) -> Option<&'a Contact> {
        if *self == EMAIL { person.email.as_ref() } else { person.phone.as_ref() }
    }

    fn named(&self, hash: &Hashed) -> Option<Reference> {
        hash.expose().filter(|hash| !hash.is_empty()).map(|hash| Reference::new(self.link, hash))
    }
}

impl User {
    /// The links by which people refer to their contacts.
    pub(super) const CONTACTS: [Link; 2] = [EMAIL.link, PHONE.link];
}

impl Human {
    /// Returns the contacts by which the person is found.
    pub fn contacts(&self) -> Vec<Reference> {
        [(EMAIL, &self.email_key), (PHONE, &self.phone_key)]
            .into_iter()
            .filter_map(|(kind, key)| kind.named(key))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let hashed = |kind: Kind, said| (kind.claim(said).kind, kind.claim(said).value);
        assert_eq!(hashed(PHONE, "+44 (1632) 960-123"), ("phone", "+441632960123".to_owned()));
        assert_eq!(hashed(EMAIL, "a-b@x.example"), ("email", "a-b@x.example".to_owned()));
        assert!(EMAIL.claim("A@x.example").folds, "case does not count");
        let may_be = |said| (EMAIL.is_plausible(said), PHONE.is_plausible(said));
        assert_eq!(["a+1@x", "+44 (1)", "a+1"].map(may_be), [(true, false), (false, true), (false, false)]);
    }

    #[test]
    fn a_person_has_at_most_one_contact_of_each_kind() {
        let contact = |value: &str| Some(Contact { value: value.to_owned(), is_verified: true });
        let values = |person: &Person| [EMAIL, PHONE].map(|kind| kind.of(person).map(|contact| contact.value.clone()));
        let ada = Person { email: contact("ada@example.com"), phone: contact("+441632960123"), ..Person::default() };
        assert_eq!(values(&ada), [Some("ada@example.com".to_owned()), Some("+441632960123".to_owned())]);
        assert_eq!(values(&Person::default()), [None, None]);
    }

    #[test]
    fn a_person_names_the_addresses_that_it_has_and_a_program_none() {
        let human = Human { email_key: Hashed::new("e"), phone_key: Hashed::new("p"), ..Human::default() };
        let named = [Reference::new(EMAIL.link, "e"), Reference::new(PHONE.link, "p")];
        assert_eq!((human.contacts(), Human::default().contacts()), (named.to_vec(), vec![]));
    }
}
