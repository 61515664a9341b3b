//! Just enough of XML to refuse text that is not XML, or that could harm its reader: document types, the only source of
//! entities, and deep nesting. Names, characters and namespaces are left to the reader.

/// The deepest nesting of elements.
const DEEPEST: usize = 100;

/// Returns the name of the outermost element, or the rule that the text breaks.
pub(super) fn root(text: &str) -> Result<&str, &'static str> {
    const BROKEN: &str = "must be well-formed XML";
    let mut rest = text.trim_start_matches('\u{feff}').trim();
    let (mut open, mut root): (Vec<&str>, Option<&str>) = (vec![], None);
    while let Some(at) = rest.find('<') {
        let is_outside = open.is_empty();
        if is_outside && !rest[..at].trim().is_empty() {
            return Err(BROKEN);
        }
        let tag = &rest[at..];
        let skipped =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].into_iter().find(|(begin, _)| tag.starts_with(begin));
        if let Some((begin, end)) = skipped {
            let length = tag[begin.len()..].find(end).ok_or(BROKEN)?;
            rest = &tag[begin.len() + length + end.len()..];
            continue;
        }
        if tag.starts_with("<!") {
            return Err("must not have a document type or entities");
        }
        let inside = &tag[1..end_of_tag(tag).ok_or(BROKEN)?];
        rest = &tag[inside.len() + 2..];
        let name =
            inside.trim_matches('/').split(|char: char| char.is_whitespace() || char == '/').next().unwrap_or_default();
        if name.is_empty() {
            return Err(BROKEN);
        }
        if inside.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(BROKEN);
            }
            continue;
        }
        if is_outside && root.replace(name).is_some() {
            return Err(BROKEN);
        }
        if !inside.ends_with('/') {
            open.push(name);
        }
        if open.len() > DEEPEST {
            return Err("must not be nested deeper than 100 elements");
        }
    }
    root.filter(|_| open.is_empty() && rest.trim().is_empty()).ok_or(BROKEN)
}

/// Returns where a tag ends: at the first `>` outside of attribute values.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.char_indices().skip(1).find_map(|(at, char)| {
        match (quote, char) {
            (None, '>') => return Some(Some(at)),
            (None, '<') => return Some(None),
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
        None
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_has_one_outermost_element() {
        for (text, name) in [
            ("<a/>", "a"),
            ("<?xml version=\"1.0\"?>\n<!-- <b> --><md:a x=\"1 > 0\" y='<'><b><![CDATA[</a>]]></b></md:a>\n", "md:a"),
            ("\u{feff}<a><b/>text<c d=\"e\"/></a >", "a"),
        ] {
            assert_eq!(root(text), Ok(name), "{text}");
        }
    }

    #[test]
    fn what_is_none_or_could_do_harm_is_refused() {
        for text in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>b",
            "b<a/>",
            "<a",
            "<a b=\"/>",
            "</a>",
            "<>",
            "<a><b</a>",
            "<a<b/>",
            "<a b<c='d'/>",
            "<!-- <a/>",
        ] {
            assert_eq!(root(text), Err("must be well-formed XML"), "{text}");
        }
        for text in [
            "<!DOCTYPE a><a/>",
            "<a><!ENTITY b \"c\"></a>",
            "<!doctype a [<!ENTITY b SYSTEM \"file:///c\">]><a>&b;</a>",
        ] {
            assert_eq!(root(text), Err("must not have a document type or entities"), "{text}");
        }
        let deep = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert_eq!((root(&deep(100)), root(&deep(101)).is_err()), (Ok("a"), true));
    }
}
