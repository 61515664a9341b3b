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
        /// The texts by their names.
        texts
    } is {
        const NAME: &'static str = "text_settings";

        fn validate(after: &Chain<Self>) -> Result<(), Rejection> {
            let fits = after.own.as_ref().is_none_or(|own| bounded(&own.texts, MOST, BYTES));
            if fits { Ok(()) } else { Err(Rejection::invalid("settings.texts", BOUND)) }
        }
    }
}
