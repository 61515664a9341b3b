//! The rule about names: words that tell a stranger nothing name neither types nor functions nor files.

use std::{ffi::OsStr, fs};

use super::tidy::{is_of_name, root, sources};

/// Words that misled readers. A part of a longer name may be one of them.
const WORDS: [&str; 45] = [
    "asked", "behind", "beside", "book", "brought", "face", "found", "goes", "hear", "heard", "hears", "held", "here",
    "insist", "kept", "known", "lane", "let_in", "lets_in", "look", "looks", "made", "meant", "powers", "reach",
    "reaches", "said", "say", "says", "seen", "shelf", "shown", "stand", "standing", "stands", "tell", "tells",
    "there", "thing", "told", "wanted", "way", "who", "whole", "whose",
];

/// Returns the names of the types and functions that a source declares.
fn declared(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let mut words = line.trim_start().split(' ');
        let name = words.find(|word| !is_modifier(word)).filter(|word| is_declaration(word)).and(words.next())?;
        Some(&name[..name.find(|char| !is_of_name(char)).unwrap_or(name.len())])
    })
}

fn is_modifier(word: &str) -> bool {
    word.starts_with("pub") || ["async", "const", "unsafe", "default"].contains(&word) || word.ends_with(')')
}

fn is_declaration(word: &str) -> bool {
    ["fn", "struct", "enum", "trait", "type", "mod", "union"].contains(&word)
}

#[test]
fn a_declaration_is_recognised() {
    let source = "fn a() {\n    pub(super) async fn b<T>(\npub enum C {\n// fn d\nmod e;\npub(in crate::x) struct F(u8);\nlet f = fn_of;";
    assert_eq!(declared(source).collect::<Vec<_>>(), ["a", "b", "C", "e", "F"]);
}

#[test]
fn no_name_is_a_word_that_says_nothing() {
    let mut found = vec![];
    sources(root(), &mut found);
    assert!(found.len() > 100, "the sources are looked at");
    let mut faults = vec![];
    for path in found {
        let text = fs::read_to_string(&path).expect("sources are text");
        let file = path.file_stem().and_then(OsStr::to_str);
        let names = declared(&text).chain(file).filter(|name| WORDS.contains(&name.to_ascii_lowercase().as_str()));
        faults.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(faults.is_empty(), "these names say nothing:\n{}", faults.join("\n"));
}
