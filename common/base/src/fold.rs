//! The one case folding of the platform: simple folding (Unicode `CaseFolding`, C and S), code point by code point.
//!
//! Folding depends on nothing around a code point and does not normalise, so a folded fragment is always a fragment of
//! the folded text. It is used when writing and when querying; SQL never folds.

/// Returns the version of the Unicode tables, with which folding may change.
pub fn version() -> Vec<u8> {
    let (major, minor, patch) = unicode_case_mapping::UNICODE_VERSION;
    [major, minor, patch].map(u64::to_be_bytes).concat()
}

/// Folds every code point on its own.
pub fn fold(text: &str) -> String {
    text.chars().map(fold_char).collect()
}

fn fold_char(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    unicode_case_mapping::case_folded(char).and_then(|folded| char::from_u32(folded.get())).unwrap_or(char)
}

#[cfg(test)]
mod tests {
    use super::{fold, version};

    #[test]
    fn folds_without_context_and_one_to_one() {
        for (text, folded) in [
            ("ACME", "acme"),
            ("ΟΔΟΣ", "οδοσ"),
            ("οδος", "οδοσ"),
            ("İ", "İ"),
            ("ẞ", "ß"),
            ("\u{212A}", "k"),
            ("ſ", "s"),
            ("ﬁ", "ﬁ"),
            ("Straße", "straße"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }

    #[test]
    fn the_version_is_that_of_the_tables() {
        let version = version();
        let numbers =
            version.chunks(8).map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        let (major, minor, patch) = unicode_case_mapping::UNICODE_VERSION;
        assert_eq!(numbers.collect::<Vec<_>>(), [major, minor, patch]);
    }
}
