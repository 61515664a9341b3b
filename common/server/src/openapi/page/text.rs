//! Text as HTML.

/// Escapes text for HTML, also within quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Formats one line of text, with code between backticks.
pub(super) fn inline(text: &str) -> String {
    let is_code = |place: usize| place % 2 == 1;
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(place, part)| match escape(part) {
        code if is_code(place) => format!("<code>{code}</code>"),
        plain => plain,
    });
    parts.collect()
}

/// Formats paragraphs.
pub(super) fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>", inline(paragraph))).collect()
}

/// Makes a name usable as a fragment of a URL.
pub(super) fn anchor(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_alphanumeric() || char == '_' { char } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
        assert_eq!(prose("one `<b>` two\n\nthree"), "<p>one <code>&lt;b&gt;</code> two</p><p>three</p>");
    }
}
