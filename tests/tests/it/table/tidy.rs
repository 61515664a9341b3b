//! Rules of style that no lint covers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 60;

/// Returns the folder of the workspace.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace")
}

/// Collects the Rust sources in a folder and below it.
pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the functions that are too long, recognised by the indentation of rustfmt.
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
    let root = root();
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

/// A module, by its path from the root of its crate; the root has none.
type Module = Vec<String>;

/// Finds the paths of a tree such as `crate::a::{b, c::D}`, and returns what follows it.
fn expand<'a>(mut rest: &'a str, mut path: Module, found: &mut Vec<Module>) -> &'a str {
    loop {
        let (name, after) = rest.split_at(rest.find(|char: char| !is_of_name(char)).unwrap_or(rest.len()));
        path.push(name.to_owned());
        let Some(after) = after.strip_prefix("::") else {
            found.push(path);
            return after;
        };
        rest = after;
        let Some(mut list) = rest.strip_prefix('{') else { continue };
        loop {
            list = list.trim_start_matches(|char: char| char.is_whitespace() || char == ',');
            if list.is_empty() || list.starts_with('}') {
                return list.strip_prefix('}').unwrap_or_default();
            }
            list = expand(list, path.clone(), found);
            list = &list[list.find([',', '}']).unwrap_or(list.len())..];
        }
    }
}

pub(super) fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns the paths of a source into its own crate. Comments and unit tests do not count as dependencies.
fn own_paths(source: &str) -> Vec<Module> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default().lines();
    let code: String = code.filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let mut found = vec![];
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if !code[..at].ends_with(|char: char| is_of_name(char) || char == ':') {
                expand(&code[at..], vec![], &mut found);
            }
        }
    }
    found
}

/// Returns the module that a path leads to from another one.
fn led_to<'a>(from: &Module, path: &Module, modules: &'a BTreeMap<Module, String>) -> Option<&'a Module> {
    let up = path.iter().take_while(|name| *name == "super").count();
    let base = if up > 0 { &from[..from.len().saturating_sub(up)] } else { &[] };
    let mut to = [base, &path[up.max(1)..]].concat();
    while !modules.contains_key(&to) {
        to.pop()?;
    }
    modules.get_key_value(&to).map(|(module, _)| module)
}

/// Returns the sources of the crate or program with its root in this folder, by module.
fn modules(root: &Path) -> BTreeMap<Module, String> {
    let mut found = vec![];
    sources(root, &mut found);
    let with_name = |path: PathBuf| {
        let name = path.strip_prefix(root).ok()?.with_extension("").display().to_string();
        let is_root = matches!(name.as_str(), "lib" | "main");
        let module = if is_root { vec![] } else { name.split('/').map(str::to_owned).collect() };
        let is_test = module.iter().any(|name| name == "tests");
        (!is_test).then(|| (module, fs::read_to_string(&path).expect("sources are text")))
    };
    found.into_iter().filter_map(with_name).collect()
}

/// Returns the files that each file depends on. A module depends on everything inside it; that may depend on the module
/// that it is a part of, which does not count: they are one thing in several files.
fn takes(modules: &BTreeMap<Module, String>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let mut takes: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (from, source) in modules {
        let paths = own_paths(source);
        let to = paths.iter().filter_map(|path| led_to(from, path, modules)).filter(|to| !from.starts_with(to));
        takes.entry(from).or_default().extend(to);
        if let Some((_, parent)) = from.split_last()
            && let Some((parent, _)) = modules.get_key_value(parent).filter(|(parent, _)| !parent.is_empty())
        {
            takes.entry(parent).or_default().insert(from);
        }
    }
    takes
}

/// Returns the files that depend on each other, directly or indirectly.
fn circles(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let takes = takes(modules);
    let reached = |from| {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(takes.get(module).into_iter().flatten().filter(|to| found.insert(**to)));
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = modules.keys().map(|from| (from, reached(from))).collect();
    let circle = |from: &&Module| -> BTreeSet<&Module> {
        reached[from].iter().copied().filter(|to| reached[to].contains(from)).collect()
    };
    let circles: BTreeSet<_> = modules.keys().map(|from| circle(&from)).filter(|circle| circle.len() > 1).collect();
    let told = |circle: &BTreeSet<&Module>| circle.iter().map(|module| module.join("::")).collect::<Vec<_>>();
    circles.iter().map(|circle| told(circle).join(", ")).collect()
}

#[test]
fn no_files_take_from_each_other() {
    let root = root();
    let mut found = vec![];
    sources(root, &mut found);
    let is_root = |path: &&PathBuf| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let roots: Vec<&Path> = found.iter().filter(is_root).filter_map(|path| path.parent()).collect();
    assert!(roots.len() > 10, "the crates are looked at");
    let told = |folder: &&Path| {
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        circles(&modules(folder)).into_iter().map(move |pair| format!("{name}: {pair}"))
    };
    let circles: Vec<String> = roots.iter().flat_map(told).collect();
    assert!(
        circles.is_empty(),
        "files take from each other; what both need has a place of its own:\n{}",
        circles.join("\n")
    );
}

#[test]
fn a_circle_is_found_in_any_form_of_path() {
    let of = |sources: &[(&str, &str)]| {
        let module = |name: &str| name.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        circles(&sources.iter().map(|(name, source)| (module(name), (*source).to_owned())).collect())
    };
    let one = ("a", "use crate::{b::{self, C}, d};\n");
    assert_eq!(of(&[one, ("b", "fn c() { super::a::e() }\n"), ("", "use crate::a;")]), ["a, b"]);
    assert_eq!(of(&[one, ("b::c", "use super::super::a;\n"), ("b", "")]), ["a, b, b::c"], "by way of what is in b");
    assert_eq!(
        of(&[one, ("b", "use crate::c;\n"), ("c", "use crate::e;\n"), ("e", "use crate::a;\n")]),
        ["a, b, c, e"]
    );
    assert_eq!(
        of(&[one, ("b", "use crate::c;\n"), ("c", ""), ("d", "use crate::c;\n")]),
        [""; 0],
        "nothing comes back"
    );
    assert_eq!(of(&[one, ("b", "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n")]), [""; 0]);
    assert_eq!(of(&[("a", "use crate::a::b::C;\n"), ("a::b", "use super::D;\n")]), [""; 0], "they are one thing");
}

/// The calls by which a test reports that something is missing.
const SKIPS: [&str; 4] = ["tools::skip(", "tools::skip_unless_root(", "Chromium::", "\"SKIPPED: "];

#[test]
fn what_may_be_skipped_is_seen_to_be_skipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let runs = include_str!("../../../../.config/nextest.toml");
    let mut found = vec![];
    sources(&folder, &mut found);
    found.retain(|path| {
        let text = fs::read_to_string(path).expect("sources are text");
        !path.ends_with("table/tidy.rs") && SKIPS.iter().any(|skips| text.contains(skips))
    });
    assert!(found.len() > 5, "some tests need what is not part of the platform: {found:?}");
    for path in found {
        let module = path.strip_prefix(&folder).unwrap_or(&path).with_extension("").display().to_string();
        let module = module.replace('/', "::");
        // Some of its tests, all of them, or all of a module around it.
        let around = module.rmatch_indices("::").map(|(end, _)| format!("test(/^{}::/)", &module[..end]));
        let is_shown = around.chain([format!("test(/^{module}::")]).any(|shown| runs.contains(&shown));
        assert!(is_shown, "nextest shows what the tests of {module} say");
    }
}
