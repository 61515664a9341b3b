//! Positional trigrams: a phrase of them is a substring, so no match needs to be verified.
//!
//! Two sentinels stand before a text and two after it, and the trigram at position `i` begins with the `i`-th character
//! of the padded text. A pattern with sentinels is anchored; one without is found anywhere. Each trigram begins with the
//! tag of its column, so texts of different columns in one field never match each other's patterns.

use base::fault;
use tantivy::{
    Term,
    query::{AllQuery, PhraseQuery, Query, TermQuery},
    schema::{Field, IndexRecordOption},
    tokenizer::{Token, TokenStream, Tokenizer},
};

use crate::tag::Tag;

/// The name of the tokenizer in the schema.
pub(crate) const TOKENIZER: &str = "trigrams";

/// The version of the tokenizer; it changes with the terms of a text.
pub(crate) const VERSION: &str = "tagged trigrams 2+2, 1";

const START: char = '\u{2}';
const END: char = '\u{3}';
const SIZE: usize = 3;

/// Where in a text the needle must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// At the beginning.
    Start,
    /// At the end.
    End,
    /// Anywhere.
    Nowhere,
}

/// Whether a needle has no trigram of its own, but is not empty either.
pub(crate) fn is_short(needle: &str) -> bool {
    (1..SIZE).contains(&needle.chars().count())
}

/// Returns a query for the texts of a column that contain the needle at the anchor. The needle must be folded like the indexed
/// text. A needle that is too short to be looked up anywhere in a text is not searched for here.
pub(crate) fn query(field: Field, tag: Tag, needle: &str, anchor: Anchor) -> Box<dyn Query> {
    if needle.is_empty() || anchor == Anchor::Nowhere && is_short(needle) {
        return Box::new(AllQuery);
    }
    let (before, after) = match anchor {
        Anchor::Start => (2, 0),
        Anchor::End => (0, 2),
        Anchor::Nowhere => (0, 0),
    };
    let pattern = padded(needle, before, after);
    let terms: Vec<(usize, Term)> = cover(pattern.len() - SIZE + 1)
        .map(|at| (at, gram(tag, &pattern[at..at + SIZE])))
        .map(|(at, gram)| (at, Term::from_field_text(field, &gram.collect::<String>())))
        .collect();
    match <[_; 1]>::try_from(terms) {
        Ok([(_, term)]) => Box::new(TermQuery::new(term, IndexRecordOption::Basic)),
        Err(terms) => Box::new(PhraseQuery::new_with_offset(terms)),
    }
}

/// Returns the positions of trigrams that together cover every character of a pattern with this many trigrams.
fn cover(count: usize) -> impl Iterator<Item = usize> {
    let last = count - 1;
    (0..last).step_by(SIZE).chain(std::iter::once(last))
}

fn gram(tag: Tag, chars: &[char]) -> impl Iterator<Item = char> {
    std::iter::once(tag.char()).chain(chars.iter().copied())
}

fn padded(text: &str, before: usize, after: usize) -> Vec<char> {
    let starts = std::iter::repeat_n(START, before);
    starts.chain(text.chars()).chain(std::iter::repeat_n(END, after)).collect()
}

/// Splits a text, which begins with a tag, into its trigrams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trigrams;

/// The trigrams of one text.
#[derive(Debug)]
pub(crate) struct Stream {
    tag: Option<Tag>,
    padded: Vec<char>,
    next: usize,
    token: Token,
}

impl Tokenizer for Trigrams {
    type TokenStream<'a> = Stream;

    fn token_stream(&mut self, text: &str) -> Stream {
        let (tag, text) = Tag::split(text);
        fault::point_of("index.tokenizing", text);
        Stream { tag, padded: padded(text, 2, 2), next: 0, token: Token::default() }
    }
}

impl TokenStream for Stream {
    fn advance(&mut self) -> bool {
        let (Some(tag), Some(chars)) = (self.tag, self.padded.get(self.next..self.next + SIZE)) else { return false };
        self.token.reset();
        self.token.position = self.next;
        self.token.text.extend(gram(tag, chars));
        self.next += 1;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cover_touches_every_character() {
        for count in 1..30 {
            let touched: std::collections::BTreeSet<_> = cover(count).flat_map(|at| at..at + SIZE).collect();
            assert_eq!(touched.len(), count + SIZE - 1, "{count}");
        }
    }

    #[test]
    fn a_needle_is_short_that_has_one_or_two_characters() {
        let short = ["", "a", "äö", "abc", "abcd"].map(is_short);
        assert_eq!(short, [false, true, true, false, false]);
    }

    #[test]
    fn a_text_has_a_trigram_at_every_position() {
        let mut stream = Trigrams.token_stream("#ab");
        let mut grams = vec![];
        while let Some(token) = stream.next() {
            grams.push((token.position, token.text.clone()));
        }
        assert_eq!(grams.len(), 4);
        assert_eq!(grams[2], (2, format!("#ab{END}")));
    }
}
