//! Texts of pages. Each language of a context has settings of its own.

use crate::{
    properties::{bounded, properties},
    rejection::Rejection,
    settings::Chain,
};

const MOST: usize = 500;
const BYTES: usize = 64 * 1024;
const BOUND: &str = "must be at most 500 in a language, with their names at most 64 KiB";

properties! {
    /// The texts of one context in one language.
    Texts / TextsChange {} entries {
        /// The texts, by name.
        texts
    } is {
        const NAME: &'static str = "text_settings";

        fn validate(after: &Chain<Self>) -> Result<(), Rejection> {
            let fits = after.own.as_ref().is_none_or(|own| bounded(&own.texts, MOST, BYTES));
            if fits { Ok(()) } else { Err(Rejection::invalid("settings.texts", BOUND)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        settings::{Command, Entries, Event, Set, Settings},
        testing::given,
    };

    #[test]
    fn texts_are_bounded_in_number_and_in_total() {
        let names = |count: usize| (0..count).map(|number| (number.to_string(), "x".to_owned())).collect();
        let one = |length: usize| Entries::from([("a".to_owned(), "x".repeat(length))]);
        for (texts, fits) in
            [(names(500), true), (names(501), false), (one(64 * 1024 - 1), true), (one(64 * 1024), false)]
        {
            let change = texts.iter().map(|(name, text)| (name.clone(), Set::To(text.clone()))).collect();
            let command = Command::Change { change: TextsChange { texts: change }, above: vec![] };
            let asked = given::<Settings<Texts>>([]).when(command);
            if fits {
                asked.then([Event::Changed { to: Texts { texts }.into(), fields: vec!["texts".into()] }]);
            } else {
                asked.then_rejected(&Rejection::invalid("settings.texts", BOUND));
            }
        }
    }
}
