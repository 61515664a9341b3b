//! What a new password must have.

use crate::{
    properties::{properties, within},
    settings::Chain,
};

properties! {
    /// What new passwords in one context must have.
    Password / PasswordChange {
        /// The least number of characters.
        min_length: u64 = 10, within(10..=200, "must be 10 to 200");
        /// There must be an upper case letter.
        requires_uppercase: bool = false;
        /// There must be a lower case letter.
        requires_lowercase: bool = false;
        /// There must be a digit.
        requires_number: bool = false;
        /// There must be a character that is neither letter nor digit.
        requires_symbol: bool = false;
    } is {
        const NAME: &'static str = "password_settings";
    }
}

/// What a password lacks of what new ones must have, in words that follow the name of its field.
pub fn lacks(chain: &Chain<Password>, password: &str) -> Vec<String> {
    let has = |is: fn(char) -> bool| password.chars().any(is);
    let least = *chain.resolve(|it| it.min_length.as_ref()).value;
    let is_short = u64::try_from(password.chars().count()).unwrap_or(u64::MAX) < least;
    let asks = |property: fn(&Password) -> Option<&bool>| *chain.resolve(property).value;
    let rules = [
        (is_short, format!("must have at least {least} characters")),
        (
            asks(|it| it.requires_uppercase.as_ref()) && !has(char::is_uppercase),
            "must have an upper case letter".into(),
        ),
        (asks(|it| it.requires_lowercase.as_ref()) && !has(char::is_lowercase), "must have a lower case letter".into()),
        (asks(|it| it.requires_number.as_ref()) && !has(char::is_numeric), "must have a digit".into()),
        (
            asks(|it| it.requires_symbol.as_ref()) && !has(|of| !of.is_alphanumeric()),
            "must have a character that is neither letter nor digit".into(),
        ),
    ];
    rules.into_iter().filter(|(is_lacking, _)| *is_lacking).map(|(_, rule)| rule).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

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
