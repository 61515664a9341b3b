//! Preconditions of writes on the object that they change: `If-Match` (RFC 9110, section 13.1.1).

use http::HeaderMap;
use proto::operation::Facts;

/// The sequences that an object may have for a write to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Any sequence, if the object exists.
    Any,
    /// One of these; none if no tag of the list is valid.
    OneOf(Vec<u64>),
}

impl IfMatch {
    /// Reads the precondition of a request; reads have none.
    pub(crate) fn of(operation: &Facts, headers: &HeaderMap) -> Option<Self> {
        if operation.only_reads() || !headers.contains_key("if-match") {
            return None;
        }
        let lines = headers.get_all("if-match").iter().filter_map(|line| line.to_str().ok());
        let tags: Vec<_> = lines.flat_map(tags).collect();
        if tags == ["*"] { Some(Self::Any) } else { Some(Self::OneOf(tags.into_iter().filter_map(sequence).collect())) }
    }

    /// Whether an object with this sequence may be changed; one that does not exist meets no condition.
    pub fn has(&self, sequence: Option<u64>) -> bool {
        match self {
            Self::Any => sequence.is_some(),
            Self::OneOf(sequences) => sequence.is_some_and(|sequence| sequences.contains(&sequence)),
        }
    }

    /// Encodes the condition: the same bytes for the same condition.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Any => b"*".to_vec(),
            Self::OneOf(sequences) if sequences.is_empty() => b"-".to_vec(),
            Self::OneOf(sequences) => sequences.iter().flat_map(|sequence| sequence.to_be_bytes()).collect(),
        }
    }
}

/// Whether `If-None-Match` names an entity tag or all (RFC 9110, section 13.1.2); strong and weak ones are the same
/// here.
pub fn none_match_has(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all("if-none-match").iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(tags).any(|given| given == "*" || given.trim_start_matches("W/") == tag.trim_start_matches("W/"))
}

/// Splits a list into its tags, which may contain commas.
fn tags(mut line: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    while !line.is_empty() {
        let mut is_quoted = false;
        let end = line.find(|char| {
            is_quoted ^= char == '"';
            char == ',' && !is_quoted
        });
        let (tag, rest) = end.map_or((line, ""), |end| (&line[..end], &line[end + 1..]));
        tags.push(tag.trim());
        line = rest;
    }
    tags.retain(|tag| !tag.is_empty());
    tags
}

/// The sequence of a tag: quoted as in the answer, weak as in a compressed answer, or bare.
fn sequence(tag: &str) -> Option<u64> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    let digits = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use proto::operation::{DEACTIVATE_USER, DELETE_TARGET, GET_TARGET, PATCH_TARGET, PUT_EXECUTION, SEARCH_TARGETS};

    use super::*;

    fn parse(lines: &[&str]) -> Option<IfMatch> {
        let name = http::HeaderName::from_static("if-match");
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name.clone(), http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        for reading in [&GET_TARGET.facts, &SEARCH_TARGETS.facts] {
            assert_eq!(IfMatch::of(reading, &headers), None);
        }
        let asked = IfMatch::of(&PATCH_TARGET.facts, &headers);
        for writing in [&DELETE_TARGET.facts, &PUT_EXECUTION.facts, &DEACTIVATE_USER.facts] {
            assert_eq!(IfMatch::of(writing, &headers), asked);
        }
        asked
    }

    #[test]
    fn a_list_of_tags_names_sequences() {
        for (lines, sequences) in [
            (&["\"42\""][..], &[42][..]),
            (&["42"], &[42]),
            (&["W/\"42\""], &[42]),
            (&["\"1\", W/\"2\" ,3"], &[1, 2, 3]),
            (&["\"1\"", "\"2\""], &[1, 2]),
            (&["\"a,7,b\", \"8\""], &[8]),
            (&["abc", "\"-1\"", "\"18446744073709551616\"", "+1", "\"", "ü"], &[]),
            (&[""], &[]),
            (&["*, \"1\""], &[1]),
        ] {
            assert_eq!(parse(lines), Some(IfMatch::OneOf(sequences.to_vec())), "{lines:?}");
        }
        assert_eq!(parse(&[" * "]), Some(IfMatch::Any));
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn a_condition_is_told_from_none_and_from_others() {
        let conditions = [IfMatch::Any, IfMatch::OneOf(vec![]), IfMatch::OneOf(vec![1]), IfMatch::OneOf(vec![1, 2])];
        let bytes = conditions.each_ref().map(IfMatch::to_bytes);
        for (index, one) in bytes.iter().enumerate() {
            assert!(!one.is_empty() && !bytes[..index].contains(one));
        }
        let has_7 = |condition: IfMatch| condition.has(Some(7));
        assert!(has_7(IfMatch::Any) && !has_7(IfMatch::OneOf(vec![])) && has_7(IfMatch::OneOf(vec![1, 7])));
        assert!(!IfMatch::Any.has(None) && !IfMatch::OneOf(vec![0]).has(None), "it is not there");
    }

    #[test]
    fn a_page_that_a_browser_has_is_recognised_by_any_of_its_tags() {
        let has = |line: &'static str| {
            let name = http::HeaderName::from_static("if-none-match");
            none_match_has(&HeaderMap::from_iter([(name, http::HeaderValue::from_static(line))]), "\"a\"")
        };
        assert!(["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"].into_iter().all(has));
        assert!(!["\"b\"", "a", "", "W/\"b\""].into_iter().any(has));
        assert!(none_match_has(
            &HeaderMap::from_iter([(http::header::IF_NONE_MATCH, "\"a\"".parse().unwrap())]),
            "W/\"a\""
        ));
    }
}
