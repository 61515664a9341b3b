//! Fields that are at fault, named as in the proto file over gRPC, and as in JSON over HTTP. All positions of fields
//! are made of paths here, so that no text has to be searched for names.

use std::borrow::Cow;

use proto::{Rule, Violation};

/// Which names of fields are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The names in the proto file.
    Proto,
    /// The names in JSON.
    Json,
}

/// The position of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Path {
    /// The known part, in the names of the proto file: `filters[0].name`.
    known: Box<str>,
    /// The rest, which is a name of the client's own and is returned as it was sent.
    sent: Option<Box<str>>,
}

/// A field that is at fault, with the rule that it breaks, and the sentence for people.
#[derive(Debug)]
pub struct FieldFault {
    path: Path,
    rule: Rule,
    sentence: Sentence,
}

/// The sentence about a field for people.
#[derive(Debug)]
enum Sentence {
    /// Its path and its rule.
    Rule,
    /// The path between these texts.
    Around(Cow<'static, str>, &'static str),
    /// A text that does not name the field.
    Plain(&'static str),
}

impl FieldFault {
    /// A field that breaks a rule, by its path in the names of the proto file.
    pub fn new(path: impl Into<String>, rule: impl Into<Rule>) -> Self {
        Self::at(Path { known: path.into().into(), sent: None }, rule.into())
    }

    /// A name that is not a field, in the message at a path: empty for the request itself.
    pub fn unknown(within: String, sent: String, rule: &'static str) -> Self {
        Self::at(Path { known: within.into(), sent: Some(sent.into()) }, rule.into())
    }

    fn at(path: Path, rule: Rule) -> Self {
        Self { path, rule, sentence: Sentence::Rule }
    }

    /// Sets the sentence to the path between two texts.
    #[must_use]
    pub fn worded(self, before: impl Into<Cow<'static, str>>, after: &'static str) -> Self {
        Self { sentence: Sentence::Around(before.into(), after), ..self }
    }

    /// Sets the sentence to a text without the path.
    #[must_use]
    pub(crate) fn worded_plainly(self, sentence: &'static str) -> Self {
        Self { sentence: Sentence::Plain(sentence), ..self }
    }

    /// The path, in the names of the proto file as far as it is known.
    pub(crate) fn path(&self) -> String {
        self.field(Names::Proto)
    }

    pub(super) fn field(&self, names: Names) -> String {
        let known = named(&self.path.known, names);
        match &self.path.sent {
            None => known.into_owned(),
            Some(sent) if known.is_empty() => sent.to_string(),
            Some(sent) => format!("{known}.{sent}"),
        }
    }

    pub(super) fn description(&self, names: Names) -> String {
        match &self.rule {
            Rule::Text(text) => text.clone(),
            Rule::OneOf(members) => Rule::one_of(&named(members, names)),
        }
    }

    pub(super) fn sentence(&self, names: Names) -> String {
        match &self.sentence {
            Sentence::Rule => format!("{} {}", self.field(names), self.description(names)),
            Sentence::Around(before, after) => format!("{before}{}{after}", self.field(names)),
            Sentence::Plain(sentence) => (*sentence).to_owned(),
        }
    }
}

impl From<Violation> for FieldFault {
    fn from(Violation { field, rule }: Violation) -> Self {
        Self::new(field, rule)
    }
}

/// Converts a path or a list of names of the proto file: `service_user.name` is `serviceUser.name` in JSON.
fn named(path: &str, names: Names) -> Cow<'_, str> {
    if names == Names::Proto || !path.contains('_') {
        return Cow::Borrowed(path);
    }
    let mut name = String::with_capacity(path.len());
    let (mut is_word, mut is_key) = (false, false);
    for char in path.chars() {
        match char {
            '_' if !is_key => is_word = true,
            char => {
                // Brackets hold an index or a key of the client's own.
                is_key = char == '[' || is_key && char != ']';
                name.push(if is_word { char.to_ascii_uppercase() } else { char });
                is_word = false;
            }
        }
    }
    Cow::Owned(name)
}
