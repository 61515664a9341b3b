//! Rules of fields. The proto files define the rules of each field; the code that applies them is generated.

use std::{
    fmt::{self, Write},
    sync::LazyLock,
};

use regex_lite::Regex;
use url::Url;

use crate::wellknown::{Duration, Timestamp};

/// The most violations that are reported: a request with more is something else altogether.
pub const MOST_VIOLATIONS: usize = 20;

/// A message with rules for its fields.
pub trait Validate {
    /// Adds violations, including those of nested messages, until there are [`MOST_VIOLATIONS`]. `path` is the path of
    /// the message, empty at the top.
    fn validate(&self, path: &str, violations: &mut Vec<Violation>);
}

/// A request that may name a context.
pub trait Contextual {
    /// Returns the context that it names.
    fn context(&self) -> Option<&crate::object::RequestContext> {
        None
    }
}

/// A field that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, in the names of the proto file: `filters[0].name.name`.
    pub field: String,
    /// The rule that it breaks.
    pub rule: Rule,
}

/// A rule of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The rule in words that follow the name of the field.
    Text(String),
    /// One of these fields has to be set: their names in the proto file, with commas.
    OneOf(&'static str),
}

impl Rule {
    /// Returns the message where one of several fields has to be set, by their names.
    pub fn one_of(members: &str) -> String {
        format!("is required: one of {members}")
    }
}

impl From<&str> for Rule {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Rule {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::OneOf(members) => formatter.write_str(&Self::one_of(members)),
        }
    }
}

impl Violation {
    /// Returns the violation of a rule by a field.
    pub fn new(field: impl Into<String>, rule: impl Into<Rule>) -> Self {
        Self { field: field.into(), rule: rule.into() }
    }

    /// Whether this violation only follows from a field of this path that could not be read: it concerns that field,
    /// one inside it, or a oneof that the field belongs to.
    pub fn follows_from(&self, unread: &str) -> bool {
        let is_inside = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let is_one_of = |members: &str| {
            let (parent, member) = unread.rsplit_once('.').unwrap_or(("", unread));
            let of = self.field.rsplit_once('.').map_or("", |(parent, _)| parent);
            parent == of && members.split(", ").any(|name| name == member)
        };
        self.field.strip_prefix(unread).is_some_and(is_inside)
            || matches!(self.rule, Rule::OneOf(members) if is_one_of(members))
    }
}

/// A regular expression, compiled when it is first used.
pub(crate) type Pattern = LazyLock<Regex>;

/// Compiles a pattern of a proto file.
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the build has compiled every pattern of the proto files")
}

/// The pattern of keys of maps, which also have at most 100 characters.
pub const KEY: &str = "^[a-z0-9]+([._-][a-z0-9]+)*$";

/// The rules of a string.
pub(crate) struct Text {
    pub(crate) min_len: usize,
    pub(crate) max_len: Option<usize>,
    pub(crate) uri: bool,
    pub(crate) http_url: bool,
    /// The pattern, with what it requires in words.
    pub(crate) pattern: Option<(&'static Pattern, &'static str)>,
    pub(crate) no_control: bool,
}

/// The rules of a duration.
pub(crate) struct Span {
    pub(crate) gt_zero: bool,
    pub(crate) non_negative: bool,
    pub(crate) max_seconds: Option<i64>,
}

/// Collects the violations of one message.
pub(crate) struct Check<'a> {
    path: &'a str,
    violations: &'a mut Vec<Violation>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(path: &'a str, violations: &'a mut Vec<Violation>) -> Self {
        Self { path, violations }
    }

    /// Whether the most violations were found.
    pub(crate) fn is_full(&self) -> bool {
        self.violations.len() >= MOST_VIOLATIONS
    }

    pub(crate) fn text(&mut self, field: &str, value: &str, rules: &Text) {
        let length = value.chars().count();
        if length < rules.min_len || rules.max_len.is_some_and(|max| length > max) {
            self.refuse(field, characters(rules));
        } else if rules.no_control && value.contains(|c| c < ' ') {
            self.refuse(field, "must not contain control characters (U+0000 to U+001F)");
        } else if rules.uri && fluent_uri::Uri::parse(value).is_err() {
            self.refuse(field, "must be an absolute URI");
        } else if rules.http_url && !is_http_url(value) {
            self.refuse(field, "must be an http or https URL with a host, and without user or password");
        } else if let Some((_, rule)) = rules.pattern.filter(|(pattern, _)| !pattern.is_match(value)) {
            self.refuse(field, rule);
        }
    }

    pub(crate) fn must_be_true(&mut self, field: &str, value: bool) {
        if !value {
            self.refuse(field, "must be true");
        }
    }

    /// Checks an enum; `values` are the names of the allowed values.
    pub(crate) fn defined(&mut self, field: &str, known: bool, unset: bool, values: &str) {
        if !known || unset {
            self.refuse(field, format!("must be one of {values}"));
        }
    }

    pub(crate) fn duration(&mut self, field: &str, value: Duration, rules: &Span) {
        let below = (rules.gt_zero && value <= Duration::ZERO) || (rules.non_negative && value < Duration::ZERO);
        let above = rules.max_seconds.is_some_and(|max| value > Duration::from_seconds(max));
        if !value.is_valid() {
            self.refuse(field, "must be a duration of at most 10000 years");
        } else if below || above {
            self.refuse(field, span(rules));
        }
    }

    pub(crate) fn items(&mut self, field: &str, count: usize, max: usize) {
        if count > max {
            self.refuse(field, format!("must have at most {max} items"));
        }
    }

    /// Checks a key of a map, and returns whether it is a name.
    pub(crate) fn key(&mut self, field: &str, key: &str) -> bool {
        static NAME: Pattern = Pattern::new(|| pattern(KEY));
        let is_name = key.len() <= 100 && NAME.is_match(key);
        if !is_name {
            self.refuse(field, format!("must have keys of 1 to 100 characters that match {KEY}"));
        }
        is_name
    }

    pub(crate) fn missing(&mut self, field: &str) {
        self.refuse(field, "is required");
    }

    pub(crate) fn none_of(&mut self, oneof: &str, members: &'static str) {
        self.refuse(oneof, Rule::OneOf(members));
    }

    pub(crate) fn message(&mut self, field: &str, value: &impl Validate) {
        let path = self.at(field);
        value.validate(&path, self.violations);
    }

    fn refuse(&mut self, field: &str, rule: impl Into<Rule>) {
        if self.is_full() {
            return;
        }
        let field = self.at(field);
        self.violations.push(Violation::new(field, rule));
    }

    fn at(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }
}

/// Recursive messages are boxed.
impl<V: Validate> Validate for Box<V> {
    fn validate(&self, path: &str, violations: &mut Vec<Violation>) {
        (**self).validate(path, violations);
    }
}

impl Validate for Timestamp {
    fn validate(&self, path: &str, violations: &mut Vec<Violation>) {
        if !self.is_valid() {
            violations.push(Violation::new(path, "must be a time in the years 1 to 9999"));
        }
    }
}

/// Whether a URL can be called by both parsers: that of the RFC, and the one of HTTP clients (WHATWG).
fn is_http_url(value: &str) -> bool {
    let has_host = |uri: &fluent_uri::Uri<&str>| {
        let authority = uri.authority();
        authority.is_some_and(|authority| !authority.host().is_empty() && authority.userinfo().is_none())
    };
    let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host() && url.port() != Some(0);
    fluent_uri::Uri::parse(value).is_ok_and(|uri| has_host(&uri)) && Url::parse(value).is_ok_and(|url| is_http(&url))
}

fn characters(rules: &Text) -> String {
    match (rules.min_len, rules.max_len) {
        (0, Some(max)) => format!("must have at most {max} characters"),
        (min, Some(max)) => format!("must have {min} to {max} characters"),
        (min, None) => format!("must have at least {min} characters"),
    }
}

fn span(rules: &Span) -> String {
    let mut text = String::from("must be ");
    text.push_str(if rules.gt_zero { "longer than 0s" } else { "0s or longer" });
    if let Some(max) = rules.max_seconds {
        let _ = write!(text, " and at most {max}s");
    }
    text
}

#[cfg(test)]
mod tests;
