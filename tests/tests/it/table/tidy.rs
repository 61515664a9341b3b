//! Rules of style that no lint knows.

use std::{
    fs,
    path::{Path, PathBuf},
};

const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 60;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The functions that are too long, told by how rustfmt indents.
fn long_functions(text: &str) -> Vec<String> {
    let (mut long, mut open): (Vec<String>, Vec<(usize, usize, &str)>) = (vec![], vec![]);
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let is_function = words.starts_with("fn ") || words.contains(" fn ") && words.starts_with(['p', 'a', 'c']);
        if is_function && !words.ends_with(';') {
            open.push((indent, number, words));
        }
        if words.starts_with('}')
            && let Some((_, begin, name)) = open.pop_if(|(at, ..)| *at == indent)
            && number - begin + 1 > LONGEST_FUNCTION
        {
            long.push(format!("{} lines: {name}", number - begin + 1));
        }
    }
    long
}

#[test]
fn files_and_functions_are_short_and_files_say_what_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace");
    let mut found = vec![];
    sources(root, &mut found);
    assert!(found.len() > 100, "the sources are looked at");
    let mut faults = vec![];
    for path in found {
        let text = fs::read_to_string(&path).expect("sources are text");
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if text.lines().count() > LONGEST_FILE {
            faults.push(format!("{name}: more than {LONGEST_FILE} lines"));
        }
        if !text.starts_with("//!") && !name.ends_with("/tests.rs") {
            faults.push(format!("{name}: does not say what it is"));
        }
        faults.extend(long_functions(&text).into_iter().map(|long| format!("{name}: {long}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
