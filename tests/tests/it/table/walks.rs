//! The walks through the code name existing functions, and count correctly. The map of the code stays short.

use super::tidy::root;
use std::{collections::HashSet, fs, path::Path};

/// A line of a walk: a file, and the functions that are called there, in this order.
struct Step<'a> {
    file: &'a str,
    functions: Vec<&'a str>,
}

/// Returns the steps of each walk, and the stated number of them.
fn walks(text: &str) -> Vec<(Vec<Step<'_>>, &str)> {
    let mut found = vec![];
    for block in text.split("```walk\n").skip(1) {
        let (lines, rest) = block.split_once("```\n").expect("a block has an end");
        let steps = lines.lines().filter_map(|line| line.split_once(": ")).map(|(file, functions)| Step {
            file: file.trim(),
            functions: functions.split(", ").map(str::trim).collect(),
        });
        found.push((steps.collect(), rest.trim_start().lines().next().unwrap_or_default()));
    }
    found
}

/// Returns the source of a file as the walks name it, by its crate.
fn source(root: &Path, file: &str) -> String {
    let (package, path) = file.split_once('/').unwrap_or_else(|| panic!("{file} names no crate"));
    let of = |folder: &str| fs::read_to_string(root.join(folder).join("src").join(path)).ok();
    of(&format!("common/{package}")).or_else(|| of(package)).unwrap_or_else(|| panic!("there is no {file}"))
}

#[test]
fn walks_go_through_functions_that_there_are() {
    let root = root();
    let text = fs::read_to_string(root.join("docs/walks.md")).expect("it is there");
    let walks = walks(&text);
    assert_eq!(walks.len(), 2, "create a target, search targets");
    for (steps, said) in walks {
        let (mut functions, mut returns, mut files) = (0, 0, HashSet::new());
        for Step { file, functions: names } in &steps {
            let source = source(root, file);
            for name in names {
                let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("fn {name}<"));
                assert!(is_there, "{file} has no function {name}");
            }
            functions += names.len();
            returns += usize::from(!files.insert(*file));
        }
        let counted = format!("{functions} functions in {} files, {returns} returns", files.len());
        assert!(said.starts_with(&counted), "{counted}, not: {said}");
    }
}

#[test]
fn the_map_is_read_in_one_sitting() {
    let root = root();
    let lines = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there").lines().count();
    assert!(lines < 300, "ARCHITECTURE.md has {lines} lines: say in docs/ what is not about the whole");
}
