//! By which addresses people are found beside their login names. The log has an address as its keyed hash, which a person names as objects
//! name each other: so the turn can ask who has it. Several may have the same one.

use super::{Human, User};
use crate::{
    claim::Claim,
    reference::{Link, Reference},
    secret::Hashed,
};

/// What addresses are among the kinds of what is named. There are no such objects.
pub const CONTACT: &str = "contact";

/// A kind of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// As what everybody names one who has it.
    pub of_anybody: Link,
    /// As what whoever is known to have it names it, too.
    pub verified: Link,
}

/// E-mail addresses.
pub const EMAIL: Kind = Kind::new("email", "verified_email");
/// Phone numbers.
pub const PHONE: Kind = Kind::new("phone", "verified_phone");

impl Kind {
    const fn new(of_anybody: &'static str, verified: &'static str) -> Self {
        Self { of_anybody: Link { name: of_anybody, to: CONTACT }, verified: Link { name: verified, to: CONTACT } }
    }

    /// What is hashed of one, however somebody writes it: case does not count, nor what stands between the digits of a phone number.
    pub fn hashed(&self, said: &str) -> Claim {
        let is_between = |char: char| *self == PHONE && (char.is_whitespace() || "-()./".contains(char));
        let plain: String = said.chars().filter(|char| !is_between(*char)).collect();
        Claim::folded(self.of_anybody.name, plain)
    }

    fn named(&self, hash: &Hashed, is_verified: bool) -> impl Iterator<Item = Reference> {
        let links = [Some(self.of_anybody), is_verified.then_some(self.verified)];
        let hash = hash.expose().filter(|hash| !hash.is_empty()).map(str::to_owned);
        hash.into_iter().flat_map(move |hash| links.into_iter().flatten().map(move |link| Reference::new(link, &hash)))
    }
}

impl User {
    /// The links by which people name their addresses.
    pub(super) const CONTACTS: [Link; 4] = [EMAIL.of_anybody, EMAIL.verified, PHONE.of_anybody, PHONE.verified];
}

impl Human {
    /// The addresses by which it is found.
    pub(super) fn contacts(&self) -> Vec<Reference> {
        let email = EMAIL.named(&self.email_key, self.is_email_verified);
        email.chain(PHONE.named(&self.phone_key, self.is_phone_verified)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let hashed = |kind: Kind, said| (kind.hashed(said).kind, kind.hashed(said).value);
        assert_eq!(hashed(PHONE, "+44 (1632) 960-123"), ("phone", "+441632960123".to_owned()));
        assert_eq!(hashed(EMAIL, "a-b@x.example"), ("email", "a-b@x.example".to_owned()));
        assert!(EMAIL.hashed("A@x.example").folds, "case does not count");
    }

    #[test]
    fn a_person_names_the_addresses_that_it_has_and_a_program_none() {
        let human = Human {
            email_key: Hashed::new("e"),
            phone_key: Hashed::new("p"),
            is_email_verified: true,
            ..Human::default()
        };
        let of = |human: &Human| human.contacts().into_iter().map(|it| (it.link.name, it.id)).collect::<Vec<_>>();
        let expected = [("email", "e"), ("verified_email", "e"), ("phone", "p")];
        assert_eq!(of(&human), expected.map(|(name, id)| (name, id.to_owned())));
        assert_eq!(of(&Human::default()), []);
    }
}
