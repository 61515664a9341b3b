//! Somebody new, described in a few words: by the person who sets a platform up, founds an instance, or registers on a
//! page.

use std::fmt;

use serde::Deserialize;

use crate::person::{Contact, Person};

/// The longest value of a member, in characters.
pub const LONGEST: usize = 200;

/// A new person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Newcomer {
    /// The name that the person logs in with.
    pub username: String,
    /// The given name.
    pub given_name: String,
    /// The family name.
    pub family_name: String,
    /// The e-mail address of the person.
    pub email: Option<String>,
}

/// A member that breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flaw {
    /// The name of the member.
    pub field: &'static str,
    /// The rule that it breaks.
    pub rule: Rule,
}

/// The rules for members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It must be present, and not too long.
    Length,
    /// It must be one line of text.
    Line,
    /// It must not look like an id.
    NotDigits,
    /// It must be an e-mail address.
    Address,
    /// It must not be used by somebody else.
    Free,
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::Length => "must have 1 to 200 characters",
            Rule::Line => "must not have control characters",
            Rule::NotDigits => "must not consist of digits only, like an id",
            Rule::Address => "must be an e-mail address",
            Rule::Free => "must differ from the names of the service users",
        };
        write!(formatter, "{} {rule}", self.field)
    }
}

impl Default for Newcomer {
    fn default() -> Self {
        let [username, given_name, family_name] = ["admin", "First", "Admin"].map(str::to_owned);
        Self { username, given_name, family_name, email: None }
    }
}

impl Newcomer {
    /// Returns the flaws, at most one per member.
    pub fn flaws(&self) -> Vec<Flaw> {
        let Self { username, given_name, family_name, email } = self;
        let is_id = |username: &str| username.bytes().all(|byte| byte.is_ascii_digit());
        let of_name = broken(username).or_else(|| is_id(username).then_some(Rule::NotDigits));
        let of_address = email.as_ref().filter(|email| !is_address(email)).map(|_| Rule::Address);
        let rules = [
            ("given_name", broken(given_name)),
            ("family_name", broken(family_name)),
            ("email", of_address),
            ("username", of_name),
        ];
        rules.into_iter().filter_map(|(field, rule)| Some(Flaw { field, rule: rule? })).collect()
    }

    /// Returns the person.
    pub fn person(self) -> Person {
        let data = [("given_name", self.given_name), ("family_name", self.family_name)];
        Person {
            username: self.username,
            data: data.map(|(name, text)| (name.to_owned(), text.into())).into_iter().collect(),
            email: self.email.map(|value| Contact { value, is_verified: false }),
            phone: None,
        }
    }
}

/// Returns the rule that a text breaks that must be one line.
fn broken(text: &str) -> Option<Rule> {
    if !(1..=LONGEST).contains(&text.chars().count()) {
        return Some(Rule::Length);
    }
    text.contains(char::is_control).then_some(Rule::Line)
}

fn is_address(email: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.contains('@') && !part.contains(char::is_whitespace);
    broken(email).is_none() && email.split_once('@').is_some_and(|(local, domain)| is_part(local) && is_part(domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::person::violations;

    fn flaws(change: impl Fn(&mut Newcomer)) -> Vec<(&'static str, Rule)> {
        let mut newcomer = Newcomer { email: Some("ada@example.com".into()), ..Newcomer::default() };
        change(&mut newcomer);
        newcomer.flaws().into_iter().map(|flaw| (flaw.field, flaw.rule)).collect()
    }

    #[test]
    fn what_the_api_would_refuse_is_a_flaw() {
        assert_eq!(flaws(|_| {}), []);
        assert_eq!(flaws(|it| it.email = None), []);
        assert_eq!(flaws(|it| it.username = "007".into()), [("username", Rule::NotDigits)]);
        assert_eq!(flaws(|it| it.username = String::new()), [("username", Rule::Length)]);
        assert_eq!(flaws(|it| it.username = "1".repeat(201)), [("username", Rule::Length)], "one flaw of each");
        let two = flaws(|it| (it.given_name, it.family_name) = ("a\nb".into(), "a".repeat(201)));
        assert_eq!(two, [("given_name", Rule::Line), ("family_name", Rule::Length)]);
        for wrong in ["", "ada", "@example.com", "ada@", "ada@b@c", "a da@example.com"] {
            assert_eq!(flaws(|it| it.email = Some(wrong.into())), [("email", Rule::Address)], "{wrong}");
        }
    }

    #[test]
    fn a_flaw_is_told_in_words() {
        for (rule, words) in [
            (Rule::Length, "username must have 1 to 200 characters"),
            (Rule::Line, "username must not have control characters"),
            (Rule::NotDigits, "username must not consist of digits only, like an id"),
            (Rule::Address, "username must be an e-mail address"),
            (Rule::Free, "username must differ from the names of the service users"),
        ] {
            assert_eq!(Flaw { field: "username", rule }.to_string(), words);
        }
    }

    #[test]
    fn what_has_no_flaw_is_a_person_of_the_schema() {
        for name in ["Ada", "\u{1f980}", &"a".repeat(200)] {
            let newcomer =
                Newcomer { given_name: name.to_owned(), family_name: name.to_owned(), ..Newcomer::default() };
            assert_eq!(newcomer.flaws(), []);
            assert!(violations(&newcomer.person().data).is_empty(), "{name}");
        }
    }
}
