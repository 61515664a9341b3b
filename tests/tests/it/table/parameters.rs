//! The rule about the parameters of functions: few, and no tuple among them that stands in for a struct.

use std::fs;

use super::tidy::{is_of_name, root, sources};

/// How many parameters a function has at most, beside `self`. Members of tuples count.
const MOST: usize = 5;

/// The functions whose parameters a trait of another crate prescribes, each with its file.
const FOREIGN: [(&str, &str); 1] = [("deploy/platform/src/telemetry/export.rs", "should_sample")];

/// A function, as its signature has it.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    /// The parameters beside `self`.
    parameters: Vec<Parameter<'a>>,
}

/// A parameter: its pattern, and its type where it has one.
#[derive(Debug, PartialEq, Eq)]
struct Parameter<'a> {
    pattern: &'a str,
    r#type: &'a str,
}

/// Replaces comments and the contents of literals by spaces, so that what is left can be searched for brackets.
fn code_of(text: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(char) = rest.chars().next() {
        let is_in_name = code.ends_with(is_of_name);
        let length = match char {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => end_of_text(rest),
            'r' if !is_in_name || code.ends_with('b') => raw_text(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            code.push(char);
            rest = &rest[char.len_utf8()..];
        } else {
            code.extend(rest[..length].chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        }
    }
    code
}

/// Returns the length of the string literal that a text begins with.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, char)| {
        let is_end = *char == '"' && !is_escaped;
        is_escaped = *char == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the length of the raw string literal that a text begins with.
fn raw_text(text: &str) -> Option<usize> {
    let after = text[1..].trim_start_matches('#');
    let hashes = text.len() - 1 - after.len();
    let contents = after.strip_prefix('"')?;
    let end = contents.find(&format!("\"{}", "#".repeat(hashes)))?;
    Some(text.len() - contents.len() + end + 1 + hashes)
}

/// Returns the length of the character literal that a text begins with; `None` where it begins with a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    let (second_at, second) = chars.next()?;
    let (end, _) = match (first, second) {
        // The character after the backslash may be a quote.
        ('\\', _) => chars.find(|(_, char)| *char == '\'')?,
        (_, '\'') => (second_at, second),
        _ => return None,
    };
    Some(end + 1)
}

/// Returns the parts of a text at the top level of brackets, as some characters there separate them.
fn split(text: &str, is_separator: impl Fn(&str, usize) -> bool) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (vec![], 0, 0_usize);
    for (at, char) in text.char_indices() {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            // An arrow closes nothing.
            '>' if text[..at].ends_with(['-', '=']) => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_separator(text, at) => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn by_comma(text: &str) -> Vec<&str> {
    split(text, |text, at| text[at..].starts_with(','))
}

/// Returns what is in the bracket that a text begins with, and what follows it.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, char) in text.char_indices() {
        match char {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if text[..at].ends_with(['-', '=']) => {}
            ')' | ']' | '}' | '>' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[1..at], &text[at + 1..]));
        }
    }
    None
}

/// Returns a pattern or a type without what borrows it.
fn unborrowed(mut text: &str) -> &str {
    loop {
        let mut rest = text.trim_start().trim_start_matches('&').trim_start();
        if let Some(lifetime) = rest.strip_prefix('\'') {
            rest = lifetime.trim_start_matches(is_of_name);
        }
        rest = rest.strip_prefix("mut ").unwrap_or(rest);
        if rest == text {
            return text;
        }
        text = rest;
    }
}

/// Returns the members of a tuple; `None` where it is none: `(dyn A + B)` has no comma.
fn members(text: &str) -> Option<Vec<&str>> {
    let text = unborrowed(text);
    let (inner, _) = text.starts_with('(').then(|| bracketed(text))??;
    let members = by_comma(inner);
    (members.len() > 1 || inner.trim_end().ends_with(',')).then_some(members)
}

impl<'a> Parameter<'a> {
    fn of(text: &'a str) -> Self {
        let mut text = text;
        while let Some((_, after)) = text.strip_prefix('#').and_then(bracketed) {
            text = after.trim_start();
        }
        let is_colon = |text: &str, at: usize| {
            text[at..].starts_with(':') && !text[at..].starts_with("::") && !text[..at].ends_with(':')
        };
        match split(text, is_colon)[..] {
            [pattern, r#type] => Self { pattern, r#type },
            _ => Self { pattern: text, r#type: "" },
        }
    }

    fn is_self(&self) -> bool {
        unborrowed(self.pattern) == "self"
    }

    /// Returns how many members it has; `None` where it is no tuple.
    fn members(&self) -> Option<usize> {
        members(self.r#type).or_else(|| members(self.pattern)).map(|members| members.len())
    }
}

/// Returns the functions in code without comments and literals.
fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = vec![];
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(is_of_name) {
            continue;
        }
        let rest = code[at + 3..].trim_start();
        let (name, rest) = rest.split_at(rest.find(|char| !is_of_name(char)).unwrap_or(rest.len()));
        let rest = if rest.starts_with('<') { bracketed(rest).map_or("", |(_, after)| after) } else { rest };
        let Some((list, _)) = rest.starts_with('(').then(|| bracketed(rest)).flatten() else { continue };
        let parameters = by_comma(list).into_iter().map(Parameter::of).filter(|it| !it.is_self()).collect();
        found.push(Function { name, line: code[..at].matches('\n').count() + 1, parameters });
    }
    found
}

impl Function<'_> {
    /// Returns how it breaks the rule. In `tests/`, tuples are looked at only to be counted.
    fn fault(&self, is_test: bool) -> Option<String> {
        let count: usize = self.parameters.iter().map(|it| it.members().unwrap_or(1)).sum();
        let has_tuple = self.parameters.len() > 1 && self.parameters.iter().any(|it| it.members().is_some());
        if count > MOST {
            Some(format!("{} has {count} parameters", self.name))
        } else {
            (has_tuple && !is_test).then(|| format!("{} has a tuple beside another parameter", self.name))
        }
    }
}

#[test]
fn functions_take_at_most_five_parameters_and_no_tuple_beside_another() {
    let root = root();
    let (mut found, mut looked_at, mut excused, mut faults) = (vec![], 0, 0, vec![]);
    sources(root, &mut found);
    found.sort();
    for path in found {
        let code = code_of(&fs::read_to_string(&path).expect("sources are text"));
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for function in functions(&code) {
            looked_at += 1;
            let Some(fault) = function.fault(file.starts_with("tests/")) else { continue };
            if FOREIGN.contains(&(&file, function.name)) {
                excused += 1;
            } else {
                faults.push(format!("{file}:{}: {fault}", function.line));
            }
        }
    }
    assert!(looked_at > 3000, "the functions are looked at: {looked_at}");
    assert_eq!(excused, FOREIGN.len(), "each exception is needed");
    assert!(faults.is_empty(), "what belongs together is a struct:\n{}", faults.join("\n"));
}

#[test]
fn parameters_are_found_in_any_form_of_signature() {
    let faults = |source: &str, is_test| -> Vec<String> {
        functions(&code_of(source)).iter().filter_map(|function| function.fault(is_test)).collect()
    };
    for fine in [
        "fn a(&self, a: A, b: B, c: C, d: D, e: E) {}",
        "fn a((a, b): (A, B)) {}",
        "fn a(&self, (a, b): &(A, B)) {}",
        "pub async fn a<F: Fn(A, B) -> C, const N: usize>(f: F, b: HashMap<A, (B, C)>, c: &[(A, B)]) {}",
        "fn a(f: &(dyn Fn(A, B, C, D, E, F) -> G + Sync), g: impl Fn((A, B)) -> C, unit: ()) {}",
        "fn a(B { c, d, e, f, g, h }: B, i: I) {} // fn b((a, b): (A, B), c: C)",
        "fn a(a: fn(A, B, C, D, E, F) -> G, b: [A; 2], r#type: &'static str) { \"fn b((a, b): (A, B), c: C)\" }",
        "let a: fn((A, B), C) = b; let c = '\"'; let d = r#\"fn a((b, c): (B, C), d: D)\"#; let e = '\\'';",
    ] {
        assert_eq!(faults(fine, false), [""; 0], "{fine}");
    }
    for (many, count) in [
        ("fn a(a: A, b: B, c: C, d: D, e: E, f: F) {}", 6),
        ("fn a(\n    &mut self,\n    (a, b): (A, B),\n    c: Vec<(C, D)>,\n    d: (A, B, C),\n) {}", 6),
        ("fn a<'a>(#[b] a: A, b: B, c: C, d: D, e: E,\n mut f: F) where A: B {}", 6),
        ("fn a((a, b, c, d, e, f): A) {}", 6),
    ] {
        assert_eq!(faults(many, true), [format!("a has {count} parameters")], "{many}");
    }
    for tuple in [
        "fn a(&self, (a, b): (A, B), c: C) {}",
        "fn a(a: &'a mut (A, B), c: C) {}",
        "fn a(a: A, of: &(&'static str, String)) {}",
        "fn a(a: A, (b, c): B) {}",
        "fn a((a, b) in all(), c in 0..1_usize) {}",
    ] {
        assert_eq!(faults(tuple, false), ["a has a tuple beside another parameter"], "{tuple}");
        assert_eq!(faults(tuple, true), [""; 0], "{tuple}");
    }
    let two = code_of("\n/* fn a() */ fn b() {}\nconst fn c(a: A) -> fn(B) {}\n");
    let [b, c] = &functions(&two)[..] else { panic!("there are two") };
    assert_eq!(
        [(b.name, b.line, b.parameters.len()), (c.name, c.line, c.parameters.len())],
        [("b", 2, 0), ("c", 3, 1)]
    );
}
