//! The configuration file: flags as TOML. The command line and the environment take precedence.
//!
//! One file may serve all roles: each reads the settings that it has. The values become arguments before the command
//! line is parsed, so that they are checked like arguments.

use std::{env, ffi::OsString, fs, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use toml::Value;

use crate::{Failure, cli::Cli};

const FLAG: &str = "--config";
const VARIABLE: &str = "PLATFORM_CONFIG";

/// Reads the command line, with the configuration file that it names. An error in the command line ends the process.
pub(crate) fn parse() -> Result<Cli, Failure> {
    let given: Vec<OsString> = env::args_os().collect();
    let Some(file) = file(&given) else { return Ok(read(given).unwrap_or_else(|error| error.exit())) };
    let file = Path::new(&file);
    let failure = |error: &dyn std::fmt::Display| format!("the configuration file {}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failure(&error))?;
    // The `Display` of the error shows the line, which may hold a secret.
    let values: toml::Table = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        failure(&format_args!("line {line} is not valid TOML: {}", error.message()))
    })?;
    let is_set = |variable: &str| env::var_os(variable).is_some();
    let all = with_file(given, &values, &Cli::command(), is_set).map_err(|error| failure(&error))?;
    Ok(read(all).unwrap_or_else(|error| {
        let hint = format!("note: the values of {} count too\n", file.display());
        if error.use_stderr() {
            crate::output::notice(hint);
        }
        error.exit()
    }))
}

/// The flags that processes of one role, and `setup`, require, while standalone has servers and a key of its own.
const NEEDED: [(&str, &[&str]); 5] = [
    ("command", &["nats_url", "master_key_file"]),
    ("query", &["nats_url", "master_key_file"]),
    ("oidc", &["nats_url", "master_key_file"]),
    ("projector", &["nats_url"]),
    ("setup", &["nats_url"]),
];

/// Returns the command line with required flags, so that missing ones are reported at once.
fn command_line() -> Command {
    NEEDED.iter().fold(Cli::command(), |root, (name, needed)| {
        root.mut_subcommand(name, |command| {
            needed.iter().fold(command, |command, id| command.mut_arg(id, |argument| argument.required(true)))
        })
    })
}

fn read(given: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut root = command_line();
    let matches = root.try_get_matches_from_mut(given)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut root))
}

/// Returns the file that the command line names, or the environment.
fn file(given: &[OsString]) -> Option<OsString> {
    let mut words = given.iter().skip(1);
    while let Some(word) = words.next() {
        if word == FLAG {
            return words.next().cloned();
        }
        if let Some(file) = word.to_str().and_then(|word| word.strip_prefix(FLAG)?.strip_prefix('=')) {
            return Some(file.into());
        }
    }
    env::var_os(VARIABLE)
}

/// Returns the command line, with the file's values as arguments of the subcommand before those that were given.
fn with_file(
    mut given: Vec<OsString>,
    values: &toml::Table,
    root: &Command,
    is_set: impl Fn(&str) -> bool,
) -> Result<Vec<OsString>, String> {
    let known = flags(root);
    let unknown: Vec<String> =
        values.keys().filter(|key| !known.contains(key)).map(|key| suggestion(key, &known)).collect();
    if !unknown.is_empty() {
        return Err(format!("there is no setting {}; there are {}", unknown.join(", nor "), known.join(", ")));
    }
    let (command, place) = subcommand(root, &given);
    let mut arguments = vec![];
    let is_given = |argument: &Arg| {
        let is_it = |word: &OsString| {
            let word = word.to_string_lossy();
            word.strip_prefix("--").is_some_and(|word| word.split('=').next() == argument.get_long())
        };
        given.iter().any(is_it) || argument.get_env().and_then(|variable| variable.to_str()).is_some_and(&is_set)
    };
    for argument in command.get_arguments() {
        let Some((name, value)) = argument.get_long().and_then(|name| values.get_key_value(name)) else { continue };
        let excludes = |other: &&Arg| {
            let excludes = |one: &Arg, other: &Arg| {
                command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
            };
            excludes(argument, other) || excludes(other, argument)
        };
        // A given flag also replaces values of the file that conflict with it.
        if is_given(argument) || command.get_arguments().filter(excludes).any(is_given) {
            continue;
        }
        let flag = format!("--{name}");
        match (argument.get_action(), value) {
            (ArgAction::SetTrue, Value::Boolean(true)) => arguments.push(flag.into()),
            (ArgAction::SetTrue, Value::Boolean(false)) => {}
            (ArgAction::Set, Value::String(text)) => arguments.push(format!("{flag}={text}").into()),
            (ArgAction::Set, Value::Integer(number)) => arguments.push(format!("{flag}={number}").into()),
            (ArgAction::SetTrue, _) => return Err(format!("{name} must be true or false")),
            _ => return Err(format!("{name} must be a string or a number")),
        }
    }
    given.splice(place..place, arguments);
    Ok(given)
}

/// Returns the name of an unknown setting, with the one that was probably meant.
fn suggestion(unknown: &str, known: &[String]) -> String {
    let meant = known.iter().map(|name| (distance(unknown, name), name)).min();
    match meant.filter(|(distance, name)| *distance <= 1 + name.len() / 4) {
        Some((_, name)) => format!("{unknown} (did you mean {name}?)"),
        None => unknown.to_owned(),
    }
}

/// Returns the edit distance of two words, in which `_` equals `-`.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.replace('_', "-").chars().collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (place, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// Returns the names of the settings of all subcommands, sorted.
fn flags(command: &Command) -> Vec<String> {
    // Flags without an environment variable concern a single call of a tool.
    let settings = command.get_arguments().filter(|argument| argument.get_env().is_some());
    let own = settings.filter_map(|argument| argument.get_long().map(str::to_owned));
    let mut flags: Vec<String> = own.chain(command.get_subcommands().flat_map(flags)).collect();
    flags.retain(|flag| !["help", "version", "config"].contains(&flag.as_str()));
    flags.sort_unstable();
    flags.dedup();
    flags
}

/// Returns the subcommand that is called, and where its arguments begin.
fn subcommand<'a>(root: &'a Command, given: &[OsString]) -> (&'a Command, usize) {
    let (mut command, mut place) = (root, given.len());
    for (index, word) in given.iter().enumerate().skip(1) {
        if let Some(found) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            (command, place) = (found, index + 1);
        }
    }
    (command, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(given: &str, file: &str, set: &[&str]) -> Result<String, String> {
        let given = given.split(' ').map(OsString::from).collect();
        let merged = with_file(given, &file.parse().unwrap(), &Cli::command(), |name| set.contains(&name))?;
        Ok(merged.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_file_stands_behind_flags_and_variables() {
        let file = "listen = \"[::1]:1\"\nnode-number = 7\nunsafe-durability = true\nrate-limit-loopback = false";
        let all = "platform command --listen=[::1]:1 --node-number=7 --unsafe-durability --nats-url x";
        assert_eq!(merged("platform command --nats-url x", file, &[]).as_deref(), Ok(all));
        let less = merged("platform command --listen=y --node-number 8", file, &["PLATFORM_UNSAFE_DURABILITY"]);
        assert_eq!(less.as_deref(), Ok("platform command --listen=y --node-number 8"));
    }

    #[test]
    fn a_role_takes_what_it_knows_and_nobody_takes_what_nobody_knows() {
        let file = "listen = \"x\"\nindex-grace = 7";
        assert_eq!(
            merged("platform --config f projector", file, &[]).unwrap(),
            "platform --config f projector --index-grace=7"
        );
        assert_eq!(merged("platform", file, &[]).unwrap(), "platform");
        let unknown = merged("platform projector", "lisen = 1", &[]).unwrap_err();
        let told = "there is no setting lisen (did you mean listen?); there are accept-lost-keys, allow-targets, ";
        assert!(unknown.starts_with(told), "{unknown}");
        let unknown = merged("platform projector", "nats_url = \"x\"\nbanana = 1", &[]).unwrap_err();
        assert!(unknown.contains("nats_url (did you mean nats-url?)") && unknown.contains("banana"), "{unknown}");
        assert!(!unknown.contains("help"), "{unknown}");
    }

    #[test]
    fn what_is_given_stands_instead_of_what_excludes_it() {
        let token = "nats-token = \"t\"";
        let given = "platform command --nats-credentials f";
        assert_eq!(merged(given, token, &[]).as_deref(), Ok(given));
        let bare = "platform command";
        assert_eq!(merged(bare, token, &["PLATFORM_NATS_CREDENTIALS"]).as_deref(), Ok(bare));
        let given = "platform command --nats-token t";
        assert_eq!(merged(given, "nats-credentials = \"f\"", &[]).as_deref(), Ok(given));
    }

    #[test]
    fn a_value_has_the_type_of_its_flag() {
        let wrong = |file| merged("platform command", file, &[]).unwrap_err();
        assert_eq!(wrong("unsafe-durability = 1"), "unsafe-durability must be true or false");
        assert_eq!(wrong("listen = true"), "listen must be a string or a number");
        assert_eq!(wrong("listen = [\"x\"]"), "listen must be a string or a number");
    }

    #[test]
    fn the_last_word_on_the_file_is_the_flag() {
        let of = |line: &str| file(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("platform command --config a"), Some("a".into()));
        assert_eq!(of("platform --config=b command"), Some("b".into()));
        assert_eq!(of("platform command"), None);
    }
}
