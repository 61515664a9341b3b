//! The texts of pages, in the supported languages. An instance or organization may have its own.

use std::{borrow::Cow, collections::BTreeMap, iter, sync::LazyLock};

use domain::{
    context::Owner,
    setting::{languages::Languages, texts::Texts},
};
use http::{HeaderMap, header};
use intl_pluralrules::{PluralCategory, PluralRuleType, PluralRules};
use unic_langid::LanguageIdentifier;
use view::settings::SettingsIndex;

/// A language that pages are in.
pub(crate) struct Language {
    /// The code (ISO 639-1).
    pub(crate) code: &'static str,
    /// The name of the language in itself.
    pub(crate) name: &'static str,
    /// The direction of writing, as in HTML.
    pub(crate) dir: &'static str,
    texts: BTreeMap<String, String>,
    plurals: Option<PluralRules>,
}

/// Code, name, direction and texts of each language.
const ALL: [(&str, &str, &str, &str); 11] = [
    ("en", "English", "ltr", include_str!("../texts/en.json")),
    ("de", "Deutsch", "ltr", include_str!("../texts/de.json")),
    ("fr", "Français", "ltr", include_str!("../texts/fr.json")),
    ("es", "Español", "ltr", include_str!("../texts/es.json")),
    ("it", "Italiano", "ltr", include_str!("../texts/it.json")),
    ("pt", "Português", "ltr", include_str!("../texts/pt.json")),
    ("nl", "Nederlands", "ltr", include_str!("../texts/nl.json")),
    ("pl", "Polski", "ltr", include_str!("../texts/pl.json")),
    ("ja", "日本語", "ltr", include_str!("../texts/ja.json")),
    ("zh", "中文", "ltr", include_str!("../texts/zh.json")),
    ("ar", "العربية", "rtl", include_str!("../texts/ar.json")),
];

static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let language = |(code, name, dir, texts): (&'static str, _, _, &str)| Language {
        code,
        name,
        dir,
        texts: serde_json::from_str(texts).unwrap_or_default(),
        plurals: code
            .parse::<LanguageIdentifier>()
            .ok()
            .and_then(|id| PluralRules::create(id, PluralRuleType::CARDINAL).ok()),
    };
    ALL.into_iter().map(language).collect()
});

/// Returns the language of a code, where there are texts in it. Everything after the first hyphen or underscore is
/// ignored (RFC 5646).
fn language(code: &str) -> Option<&'static Language> {
    let primary = code.split(['-', '_']).next().unwrap_or_default();
    LANGUAGES.iter().find(|language| language.code.eq_ignore_ascii_case(primary))
}

/// Returns the codes of the languages that pages of an instance may be in.
pub(crate) fn codes(settings: &SettingsIndex, instance_id: &str) -> Vec<&'static str> {
    let chain = settings.effective::<Languages>(instance_id, &Owner::instance(instance_id)).chain;
    let allowed = chain.restricted_languages().value;
    let is_allowed = |language: &&Language| allowed.iter().any(|code| code == language.code);
    LANGUAGES.iter().filter(is_allowed).map(|language| language.code).collect()
}

/// The texts of a page.
pub(crate) struct Words {
    pub(crate) language: &'static Language,
    /// The languages to choose from.
    pub(crate) languages: Vec<&'static Language>,
    own: BTreeMap<String, String>,
}

impl Words {
    /// Returns the texts of a page that belongs to no instance, in a language that its reader accepts.
    pub(crate) fn built_in(headers: &HeaderMap) -> Self {
        let accepted = accepted(headers);
        let language = accepted.iter().find_map(|code| language(code)).unwrap_or(&LANGUAGES[0]);
        Self { language, languages: vec![], own: BTreeMap::new() }
    }

    /// Returns the texts of a context of an instance, in the first wanted language that is allowed there, or else one
    /// that the reader accepts, or else the default.
    pub(crate) fn of<'a>(
        settings: &SettingsIndex,
        instance_id: &str,
        context: &Owner,
        wanted: impl IntoIterator<Item = &'a str>,
        headers: &HeaderMap,
    ) -> Self {
        let chain = settings.effective::<Languages>(instance_id, context).chain;
        let allowed = chain.restricted_languages().value;
        let usable = |code: &str| language(code).filter(|found| allowed.iter().any(|code| code == found.code));
        let (accepted, usual) = (accepted(headers), chain.default_language());
        let wanted = wanted.into_iter().find_map(usable);
        let accepted = || accepted.iter().find_map(|code| usable(code));
        let language = wanted.or_else(accepted).or_else(|| usable(usual.value)).unwrap_or(&LANGUAGES[0]);
        let texts = settings.effective_of::<Texts>(instance_id, context, language.code).chain;
        let own = texts.entries(|texts| &texts.texts);
        let own = own.into_iter().map(|(key, text)| (key.to_owned(), text.value.clone())).collect();
        Self { language, languages: allowed.iter().filter_map(|code| usable(code)).collect(), own }
    }

    /// Returns a text.
    pub(crate) fn get(&self, key: &str) -> &str {
        let texts = [&self.own, &self.language.texts, &LANGUAGES[0].texts];
        texts.into_iter().find_map(|texts| texts.get(key)).map_or("", String::as_str)
    }

    /// Returns a text with values for its placeholders.
    pub(crate) fn with(&self, key: &str, values: &[(&str, &str)]) -> String {
        filled(self.get(key), values, self.language)
    }

    /// Returns the plural form of a text for a number.
    pub(crate) fn count(&self, key: &str, count: u64) -> String {
        let category = self.language.plurals.as_ref().and_then(|rules| rules.select(count).ok());
        let of = |category: &str| Some(self.get(&format!("{key}.{category}"))).filter(|text| !text.is_empty());
        let text = category.and_then(|category| of(name(category))).or_else(|| of("other")).unwrap_or_default();
        filled(text, &[("count", &count.to_string())], self.language)
    }
}

/// Replaces the placeholders of a text. Values are not searched for placeholders.
fn filled(text: &str, values: &[(&str, &str)], language: &Language) -> String {
    let mut filled = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let named = after.split_once('}').and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(given, _)| *given == name)?;
            Some((*value, after))
        });
        match named {
            Some((value, after)) => {
                filled.push_str(&isolated(value, language));
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Returns a value for a text whose order it must not change, whatever the direction that the value is read in (Unicode
/// Standard Annex #9, section 2.4).
fn isolated<'a>(value: &'a str, language: &Language) -> Cow<'a, str> {
    if language.dir == "ltr" && value.is_ascii() {
        return value.into();
    }
    // A value with formatting characters of its own could end the isolation.
    let plain = value.chars().filter(|char| !matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
    iter::once('\u{2068}').chain(plain).chain(iter::once('\u{2069}')).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is an enum without content that is not Copy")]
fn name(category: PluralCategory) -> &'static str {
    match category {
        PluralCategory::ZERO => "zero",
        PluralCategory::ONE => "one",
        PluralCategory::TWO => "two",
        PluralCategory::FEW => "few",
        PluralCategory::MANY => "many",
        PluralCategory::OTHER => "other",
    }
}

/// Returns the languages that the reader of a page accepts, the most preferred first (RFC 9110, section 12.5.4).
fn accepted(headers: &HeaderMap) -> Vec<String> {
    let line = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let weighed = line.split(',').take(32).filter_map(|range| {
        let (code, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight: f32 = weight.trim().strip_prefix("q=")?.parse().ok()?;
        (weight > 0.0).then(|| (code.trim().to_owned(), weight))
    });
    let mut weighed: Vec<_> = weighed.collect();
    weighed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    weighed.into_iter().map(|(code, _)| code).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::setting::languages::SUPPORTED;

    use super::*;

    /// Returns the names of the placeholders in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
    }

    /// A key without its category, where it has one.
    fn stem(key: &str) -> &str {
        let is_category = |last: &str| ["zero", "one", "two", "few", "many", "other"].contains(&last);
        let counted = key.starts_with("change.length.");
        key.rsplit_once('.').filter(|(_, last)| counted && is_category(last)).map_or(key, |(stem, _)| stem)
    }

    #[test]
    fn each_language_has_each_text_with_the_same_values() {
        assert_eq!(LANGUAGES.iter().map(|language| language.code).collect::<Vec<_>>(), SUPPORTED);
        let english = &LANGUAGES[0].texts;
        assert!(english.len() > 50, "they are read");
        let stems: BTreeSet<_> = english.keys().map(|key| stem(key)).collect();
        for Language { code, texts, .. } in LANGUAGES.iter() {
            assert_eq!(texts.keys().map(|key| stem(key)).collect::<BTreeSet<_>>(), stems, "{code}");
            for (key, text) in texts {
                let expected = english.get(key).or_else(|| english.get(&format!("{}.other", stem(key))));
                assert_eq!(names(text), names(expected.map_or("", String::as_str)), "{code} {key}");
                assert!(!text.is_empty() && text.chars().count() <= 160, "{code} {key}");
            }
        }
    }

    #[test]
    fn each_language_has_each_form_of_what_is_counted() {
        for language in LANGUAGES.iter() {
            let rules = language.plurals.as_ref().unwrap_or_else(|| panic!("{} counts", language.code));
            for count in 1..=200_u64 {
                let category = name(rules.select(count).unwrap());
                assert!(language.texts.contains_key(&format!("change.length.{category}")), "{} {count}", language.code);
            }
        }
        let words = |code: &str| Words { language: language(code).unwrap(), languages: vec![], own: BTreeMap::new() };
        assert_eq!(words("en").count("change.length", 1), "Password must have 1 character or more");
        assert_eq!(words("en").count("change.length", 10), "Password must have 10 characters or more");
        assert_ne!(words("pl").count("change.length", 3), words("pl").count("change.length", 5).replace('5', "3"));
    }

    #[test]
    fn a_value_is_never_read_as_a_name() {
        let filled = |text, values| filled(text, values, &LANGUAGES[0]);
        assert_eq!(filled("{a} and {b}", &[("a", "{b}"), ("b", "{a}")]), "{b} and {a}");
        assert_eq!(filled("{none} {a", &[("a", "1")]), "{none} {a");
        assert_eq!(filled("", &[]), "");
    }

    #[test]
    fn a_value_does_not_change_the_order_of_the_text_around_it() {
        let shown = |value: &str, code| filled("{app} asks", &[("app", value)], language(code).unwrap());
        assert_eq!(shown("Shop", "en"), "Shop asks");
        assert_eq!(shown("Shop", "ar"), "\u{2068}Shop\u{2069} asks");
        assert_eq!(shown("חנות", "en"), "\u{2068}חנות\u{2069} asks");
        for control in "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars() {
            assert_eq!(shown(&format!("{control}Shop"), "en"), "\u{2068}Shop\u{2069} asks");
        }
    }

    #[test]
    fn the_dearest_language_is_taken_that_there_is() {
        let read = |line: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, line.parse().unwrap())]);
            Words::built_in(&headers).language.code
        };
        assert_eq!(read("de-AT, en;q=0.8"), "de");
        assert_eq!(read("sv, en;q=0.5, fr-CA;q=0.9, *;q=0.1"), "fr");
        assert_eq!([read("sv"), read(""), read("de;q=0, ;;,q"), read("AR")], ["en", "en", "en", "ar"]);
    }
}
