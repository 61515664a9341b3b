//! Languages: the default language of a context, and those that it is restricted to.

use crate::{
    properties::properties,
    rejection::{Rejection, Violation},
    settings::{Chain, Resolved},
};

/// The languages that the system has texts in, by their keys of ISO 639-1.
pub const SUPPORTED: [&str; 11] = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ar"];

properties! {
    /// The languages of one context.
    Languages / LanguagesChange {
        /// The language to use if none of the user's is available.
        default_language: String = SUPPORTED[0].to_owned();
        /// The available languages; never an empty list.
        restricted_languages: Vec<String> = SUPPORTED.map(str::to_owned).to_vec();
    } is {
        const NAME: &'static str = "language_settings";

        fn validate(after: &Chain<Self>) -> Result<(), Rejection> {
            let default = after.resolve(|languages| languages.default_language.as_ref()).value;
            let restricted = after.restricted_languages().value;
            let is_supported = |key: &String| SUPPORTED.contains(&key.as_str());
            let is_twice = |at: usize| restricted[..at].contains(&restricted[at]);
            let mut violations = vec![];
            let mut refuse = |field, rule| violations.push(Violation { field, rule });
            if !is_supported(default) {
                refuse("settings.default_language.key", RULE);
            }
            if !restricted.iter().all(is_supported) {
                refuse("settings.restricted_languages.languages", RULES);
            }
            if (0..restricted.len()).any(is_twice) {
                refuse("settings.restricted_languages.languages", "must not name a language twice");
            }
            if violations.is_empty() && !restricted.contains(default) {
                violations.push(Violation { field: "settings.default_language", rule: AMONG });
            }
            if violations.is_empty() { Ok(()) } else { Err(Rejection::Invalid(violations)) }
        }
    }
}

impl Chain<Languages> {
    /// Returns the available languages.
    pub fn restricted_languages(&self) -> Resolved<'_, Vec<String>> {
        self.resolve(|languages| languages.restricted_languages.as_ref())
    }

    /// Returns the language to use if none of the user's is available. It is always an available one: if a context
    /// above was restricted later, a default that is not available any more is skipped, for that of the next context
    /// above, and finally for the first available language.
    pub fn default_language(&self) -> Resolved<'_, String> {
        let restricted = self.restricted_languages();
        let is_there = |found: &Resolved<'_, String>| restricted.value.contains(found.value);
        let first = || Resolved { value: &restricted.value[0], owner: restricted.owner };
        self.values(|languages| languages.default_language.as_ref()).find(is_there).unwrap_or_else(first)
    }
}

/// The rule lists the languages; a test compares it with [`SUPPORTED`].
const RULE: &str = "must be one of en, de, fr, es, it, pt, nl, pl, ja, zh, ar";
const RULES: &str = "must each be one of en, de, fr, es, it, pt, nl, pl, ja, zh, ar";
const AMONG: &str = "must be among the restricted languages in effect in the context: set both at once, or reset one";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        context::Owner,
        settings::{Command, Event, Set, Settings},
        testing::given,
    };

    fn to(default: Option<&str>, restricted: Option<&[&str]>) -> Languages {
        let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        Languages { default_language: default.map(str::to_owned), restricted_languages: restricted.map(list) }
    }

    fn set(default: Option<&str>, restricted: Option<&[&str]>) -> LanguagesChange {
        let Languages { default_language, restricted_languages } = to(default, restricted);
        LanguagesChange {
            default_language: default_language.map(Set::To),
            restricted_languages: restricted_languages.map(Set::To),
        }
    }

    fn above(instance: Languages) -> Vec<(Owner, Option<Arc<Languages>>)> {
        vec![(Owner::instance("1"), Some(Arc::new(instance))), (Owner::system(), None)]
    }

    fn ask(change: LanguagesChange, instance: Languages) -> Command<Languages> {
        Command::Change { change, above: above(instance) }
    }

    fn changed(to: Languages, fields: &[&str]) -> Event<Languages> {
        Event::Changed { to: to.into(), fields: fields.iter().map(|field| (*field).to_owned()).collect() }
    }

    fn refused(field: &'static str, rule: &'static str) -> Rejection {
        Rejection::invalid(field, rule)
    }

    #[test]
    fn the_rules_name_what_is_supported() {
        let all = SUPPORTED.join(", ");
        assert_eq!((RULE, RULES), (&*format!("must be one of {all}"), &*format!("must each be one of {all}")));
    }

    #[test]
    fn both_are_set_at_once_and_reset_alone() {
        let both = changed(to(Some("de"), Some(&["fr", "de"])), &["default_language", "restricted_languages"]);
        let none = || to(None, None);
        given::<Settings<Languages>>([]).when(ask(set(Some("de"), Some(&["fr", "de"])), none())).then([both.clone()]);
        given::<Settings<Languages>>([both.clone()]).when(ask(set(Some("de"), None), none())).then([]);
        let reset = LanguagesChange { restricted_languages: Some(Set::Reset), ..LanguagesChange::default() };
        let after = changed(to(Some("de"), None), &["restricted_languages"]);
        given::<Settings<Languages>>([both.clone()]).when(ask(reset, none())).then([after]);
        let reset = LanguagesChange { default_language: Some(Set::Reset), ..LanguagesChange::default() };
        given::<Settings<Languages>>([both])
            .when(ask(reset, none()))
            .then_rejected(&refused("settings.default_language", AMONG));
    }

    #[test]
    fn a_language_must_be_supported_and_named_once() {
        let none = || to(None, None);
        let when = |change| given::<Settings<Languages>>([]).when(ask(change, none()));
        when(set(Some("xx"), None)).then_rejected(&refused("settings.default_language.key", RULE));
        let list = "settings.restricted_languages.languages";
        when(set(None, Some(&["en", "xx"]))).then_rejected(&refused(list, RULES));
        when(set(None, Some(&["en", "de", "en"]))).then_rejected(&refused(list, "must not name a language twice"));
    }

    #[test]
    fn the_default_is_compared_with_what_is_inherited() {
        let when = |change, instance| given::<Settings<Languages>>([]).when(ask(change, instance));
        let among = refused("settings.default_language", AMONG);
        when(set(Some("fr"), None), to(None, Some(&["en", "de"]))).then_rejected(&among);
        when(set(None, Some(&["en", "de"])), to(Some("fr"), None)).then_rejected(&among);
        when(set(None, Some(&["de"])), to(None, None)).then_rejected(&among);
        let good = changed(to(Some("fr"), None), &["default_language"]);
        when(set(Some("fr"), None), to(None, Some(&["en", "fr"]))).then([good]);
        let good = changed(to(None, Some(&["de", "fr"])), &["restricted_languages"]);
        when(set(None, Some(&["de", "fr"])), to(Some("fr"), None)).then([good]);
    }

    #[test]
    fn what_is_no_longer_among_them_is_passed_over() {
        let find = |own: Languages, instance: Languages| {
            let chain = Chain { own: Some(Arc::new(own)), above: above(instance) };
            let found = chain.default_language();
            (found.value.clone(), found.owner.cloned())
        };
        let (instance, system) = (Some(Owner::instance("1")), Some(Owner::system()));
        let later = to(Some("fr"), Some(&["fr", "en"]));
        assert_eq!(find(to(Some("de"), None), later), ("fr".into(), instance), "that of the context above");
        assert_eq!(find(to(None, Some(&["de", "en"])), to(Some("fr"), None)), ("en".into(), system), "and above that");
        let own = to(None, Some(&["de", "it"]));
        assert_eq!(find(own, to(Some("fr"), None)), ("de".into(), None), "and the first of those that there are");
    }

    #[test]
    fn a_write_that_changes_nothing_succeeds_whatever_holds_above() {
        let before = changed(to(Some("de"), None), &["default_language"]);
        let later = || to(Some("fr"), Some(&["fr", "en"]));
        let same = ask(set(Some("de"), None), later());
        given::<Settings<Languages>>([before.clone()]).when(same).then([]);
        let reset = LanguagesChange { default_language: Some(Set::Reset), ..LanguagesChange::default() };
        let after = changed(to(None, None), &["default_language"]);
        given::<Settings<Languages>>([before]).when(ask(reset, later())).then([after]);
    }
}
