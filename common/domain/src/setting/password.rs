//! The requirements on new passwords.

use crate::{
    properties::{properties, within},
    settings::Chain,
};

properties! {
    /// The requirements on new passwords in one context.
    Password / PasswordChange {
        /// The least number of characters.
        min_length: u64 = 10, within(10..=200, "must be 10 to 200");
        /// Whether an upper case letter is required.
        requires_uppercase: bool = false;
        /// Whether a lower case letter is required.
        requires_lowercase: bool = false;
        /// Whether a digit is required.
        requires_number: bool = false;
        /// Whether a character is required that is neither letter nor digit.
        requires_symbol: bool = false;
    } is {
        const NAME: &'static str = "password_settings";
    }
}

/// The longest password that can be chosen, in characters.
pub const LONGEST: usize = 200;

/// Whether a text can be a password at all, whatever the requirements.
pub fn is_possible(password: &str) -> bool {
    password.chars().count() <= LONGEST && !password.contains(char::is_control)
}

/// A requirement on new passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// At least this many characters.
    Length(u64),
    /// An upper case letter.
    Uppercase,
    /// A lower case letter.
    Lowercase,
    /// A digit.
    Number,
    /// A character that is neither letter nor digit.
    Symbol,
}

impl Rule {
    /// Whether a password meets it.
    pub fn is_met_by(self, password: &str) -> bool {
        let has = |is: fn(char) -> bool| password.chars().any(is);
        match self {
            Self::Length(least) => u64::try_from(password.chars().count()).unwrap_or(u64::MAX) >= least,
            Self::Uppercase => has(char::is_uppercase),
            Self::Lowercase => has(char::is_lowercase),
            Self::Number => has(char::is_numeric),
            Self::Symbol => has(|of| !of.is_alphanumeric()),
        }
    }

    /// Phrases the requirement to follow the name of a field.
    fn phrase(self) -> String {
        match self {
            Self::Length(least) => format!("must have at least {least} characters"),
            Self::Uppercase => "must have an upper case letter".into(),
            Self::Lowercase => "must have a lower case letter".into(),
            Self::Number => "must have a digit".into(),
            Self::Symbol => "must have a character that is neither letter nor digit".into(),
        }
    }
}

/// Returns the requirements on new passwords.
pub fn rules(chain: &Chain<Password>) -> Vec<Rule> {
    let asks = |property: fn(&Password) -> Option<&bool>, rule| chain.resolve(property).value.then_some(rule);
    let more = [
        asks(|it| it.requires_uppercase.as_ref(), Rule::Uppercase),
        asks(|it| it.requires_lowercase.as_ref(), Rule::Lowercase),
        asks(|it| it.requires_number.as_ref(), Rule::Number),
        asks(|it| it.requires_symbol.as_ref(), Rule::Symbol),
    ];
    let least = Rule::Length(*chain.resolve(|it| it.min_length.as_ref()).value);
    [least].into_iter().chain(more.into_iter().flatten()).collect()
}

/// Returns the requirements that a password does not meet, phrased to follow the name of its field.
pub fn lacks(chain: &Chain<Password>, password: &str) -> Vec<String> {
    rules(chain).into_iter().filter(|rule| !rule.is_met_by(password)).map(Rule::phrase).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_password_has_at_most_200_characters_and_none_that_controls() {
        for (password, is_it) in [
            ("", true),
            ("a b \u{e9} \u{1f980}", true),
            (&"\u{e9}".repeat(200), true),
            (&"\u{e9}".repeat(201), false),
            ("a\nb", false),
            ("a\0", false),
        ] {
            assert_eq!(is_possible(password), is_it, "{password:?}");
        }
    }

    #[test]
    fn a_requirement_is_met_by_characters_of_its_kind_alone() {
        let passwords = ["aaa", "\u{c9}", "7", " ", "-"];
        for (rule, expected) in [
            (Rule::Length(2), [true, false, false, false, false]),
            (Rule::Uppercase, [false, true, false, false, false]),
            (Rule::Lowercase, [true, false, false, false, false]),
            (Rule::Number, [false, false, true, false, false]),
            (Rule::Symbol, [false, false, false, true, true]),
        ] {
            assert_eq!(passwords.map(|password| rule.is_met_by(password)), expected, "{rule:?}");
        }
    }

    #[test]
    fn a_password_has_what_the_nearest_context_asks_for() {
        let chain = |own| Chain { own: Some(Arc::new(own)), above: vec![] };
        let anything = chain(Password::default());
        assert_eq!(lacks(&anything, "0123456789"), Vec::<String>::new());
        assert_eq!(lacks(&anything, "\u{e9}12345678"), ["must have at least 10 characters"]);
        let all = Password {
            min_length: Some(12),
            requires_uppercase: Some(true),
            requires_lowercase: Some(true),
            requires_number: Some(true),
            requires_symbol: Some(true),
        };
        let all = chain(all);
        assert_eq!(lacks(&all, "\u{c9}\u{e9}1 \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"), Vec::<String>::new());
        assert_eq!(
            lacks(&all, ""),
            [
                "must have at least 12 characters",
                "must have an upper case letter",
                "must have a lower case letter",
                "must have a digit",
                "must have a character that is neither letter nor digit",
            ]
        );
    }
}
