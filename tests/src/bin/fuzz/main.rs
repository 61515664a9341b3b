//! Fuzzes the parsers of external input, and checks the invariants that hold for every input.
//!
//! ```text
//! fuzz [KIND...]     all kinds, or these, FUZZ_SECONDS each (60); FUZZ_SEED repeats a run
//! fuzz KIND HEX      one input again
//! ```
//!
//! Fuzzers that measure code coverage need a nightly compiler or further tools. This one compares the outcomes of
//! inputs instead, and continues with inputs that had a new outcome.

mod binding;
mod frame;
mod json;
mod mutate;
mod password;
mod random;
mod record;
mod run;
mod shape;
mod token;

use std::{process::ExitCode, time::Duration};

use self::{
    random::Random,
    run::{FailingInput, Target},
};

/// How long each kind is fuzzed, in seconds, unless `FUZZ_SECONDS` is set.
const SECONDS: u64 = 60;

/// Makes a target.
type Make = fn() -> Box<dyn Target>;

/// The kinds of inputs.
const KINDS: [(&str, Make); 8] = [
    ("body", || Box::new(binding::Binding::of_bodies())),
    ("query", || Box::new(binding::Binding::of_queries())),
    ("access-token", || Box::new(token::Access::new())),
    ("opaque-token", || Box::new(token::Opaque::new())),
    ("password-hash", || Box::new(password::Hashes)),
    ("consistency-token", || Box::new(token::Consistency::new())),
    ("record", || Box::new(record::Records)),
    ("frame", || Box::new(frame::Frames::new())),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = |name: &String| KINDS.iter().find(|(kind, _)| kind == name);
    if let [name, hex] = arguments.as_slice()
        && let (Some((_, make)), None) = (kind(name), kind(hex))
    {
        return again(&mut *make(), hex);
    }
    let chosen: Vec<_> = arguments.iter().map(kind).collect();
    if chosen.contains(&None) {
        eprintln!("usage: fuzz [KIND...] or fuzz KIND HEX, where KIND is one of:");
        for (name, _) in KINDS {
            eprintln!("  {name}");
        }
        return ExitCode::FAILURE;
    }
    let chosen =
        if chosen.is_empty() { KINDS.iter().collect() } else { chosen.into_iter().flatten().collect::<Vec<_>>() };
    let seconds = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(SECONDS));
    let seed = number("FUZZ_SEED").unwrap_or_else(|| u64::from_be_bytes(base::secret::random()));
    println!("seed {seed}, {} s each", seconds.as_secs());
    let mut all_hold = true;
    for (name, make) in chosen {
        let report = run::run(&mut *make(), seconds, Random::new(seed));
        println!("{name:<18} {report}");
        if let Some(found) = report.found {
            print_failure(name, &found);
            all_hold = false;
        }
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries one input again.
fn again(target: &mut dyn Target, hex: &str) -> ExitCode {
    let bytes =
        (0..hex.len() / 2).map(|at| hex.get(2 * at..2 * at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok()));
    let Some(input) = bytes.collect::<Option<Vec<u8>>>() else {
        eprintln!("the input must be hexadecimal");
        return ExitCode::FAILURE;
    };
    println!("{}", String::from_utf8_lossy(&input));
    match run::guarded(target, &input) {
        Ok(class) => println!("it holds: {class}"),
        Err(fault) => {
            eprintln!("FAILED: {fault}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn print_failure(name: &str, found: &FailingInput) {
    let hex: String = found.input.iter().map(|byte| format!("{byte:02x}")).collect();
    eprintln!("FAILED: {}", found.fault);
    eprintln!("input:  {}", String::from_utf8_lossy(&found.input));
    eprintln!("again:  fuzz {name} {hex}");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
