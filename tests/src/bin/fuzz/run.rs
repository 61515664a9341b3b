//! Mutates inputs until the time is over or an invariant is broken.

use std::{
    cell::RefCell,
    collections::HashSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    time::{Duration, Instant},
};

use crate::random::Random;

/// How many inputs are retained to continue with.
const KEPT: usize = 5000;
/// How long an input may become, in bytes.
const LONGEST: usize = 1 << 16;
/// How often a part of a failing input is removed to shrink it.
const SHRINKS: usize = 2000;

/// A target of fuzzing.
pub(crate) trait Target {
    /// Returns the inputs to begin with: real ones.
    fn seeds(&mut self, random: &mut Random) -> Vec<Vec<u8>>;

    /// Changes an input a little; `other` is another one, to take parts from.
    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random);

    /// Processes an input, and panics when an invariant is broken. Returns the class of the outcome, which is the same
    /// for inputs that are treated the same.
    fn check(&mut self, input: &[u8]) -> String;
}

/// The report of a run.
#[derive(Debug)]
pub(crate) struct Report {
    inputs: u64,
    elapsed: Duration,
    classes: usize,
    /// The failure, if any.
    pub(crate) found: Option<FailingInput>,
}

/// An input that breaks an invariant.
#[derive(Debug)]
pub(crate) struct FailingInput {
    /// The input after shrinking.
    pub(crate) input: Vec<u8>,
    /// The message of the panic.
    pub(crate) fault: String,
}

impl fmt::Display for Report {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.inputs as f64 / self.elapsed.as_secs_f64();
        write!(formatter, "{:>9} inputs, {rate:>7.0} per s, {:>5} outcomes", self.inputs, self.classes)
    }
}

/// Fuzzes a target for some time, or until an invariant is broken.
pub(crate) fn run(target: &mut dyn Target, time: Duration, mut random: Random) -> Report {
    let begin = Instant::now();
    let (mut inputs, mut seen, mut kept) = (0, HashSet::new(), vec![]);
    let mut found = None;
    for input in target.seeds(&mut random) {
        found = found.or_else(|| {
            feed(target, &input, &mut seen).err().map(|fault| FailingInput { input: input.clone(), fault })
        });
        kept.push(input);
    }
    assert!(!kept.is_empty(), "there is something to begin with");
    while found.is_none() && begin.elapsed() < time {
        let mut input = kept[random.below(kept.len())].clone();
        for _ in 0..=random.below(4) {
            let other = random.below(kept.len());
            target.mutate(&mut input, &kept[other], &mut random);
        }
        input.truncate(LONGEST);
        inputs += 1;
        match feed(target, &input, &mut seen) {
            Ok(is_new) if is_new && kept.len() < KEPT => kept.push(input),
            Ok(_) => {}
            Err(fault) => found = Some(shrunk(target, FailingInput { input, fault }, &mut random)),
        }
    }
    Report { inputs, elapsed: begin.elapsed(), classes: seen.len(), found }
}

/// Processes an input, and returns whether its outcome is new.
fn feed(target: &mut dyn Target, input: &[u8], seen: &mut HashSet<u64>) -> Result<bool, String> {
    let mut hasher = DefaultHasher::new();
    guarded(target, input)?.hash(&mut hasher);
    Ok(seen.insert(hasher.finish()))
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Lets a target process an input, and catches its panic.
pub(crate) fn guarded(target: &mut dyn Target, input: &[u8]) -> Result<String, String> {
    let hook = take_hook();
    set_hook(Box::new(|panic| PANIC.set(panic.to_string())));
    let outcome = catch_unwind(AssertUnwindSafe(|| target.check(input)));
    set_hook(hook);
    let said = PANIC.take();
    match outcome {
        Ok(class) if said.is_empty() => Ok(class),
        // A panic that other code has caught counts, too.
        _ => Err(said),
    }
}

/// Shrinks the input of a failure.
fn shrunk(target: &mut dyn Target, mut found: FailingInput, random: &mut Random) -> FailingInput {
    for _ in 0..SHRINKS {
        let mut input = found.input.clone();
        let longest = input.len().div_ceil(1 + random.below(16));
        input.drain(random.part(found.input.len(), longest));
        let is_same = |fault: &String| place(fault) == place(&found.fault);
        if input.len() < found.input.len()
            && let Some(fault) = guarded(target, &input).err().filter(is_same)
        {
            found = FailingInput { input, fault };
        }
    }
    found
}

/// Returns the first line of a panic, which names its place in the code.
fn place(fault: &str) -> Option<&str> {
    fault.lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that fails at two letters in sequence that no seed has.
    struct Picky;

    impl Target for Picky {
        fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
            vec![b"some words to begin with".to_vec()]
        }

        fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
            crate::mutate::mutate(input, other, &[], random);
        }

        fn check(&mut self, input: &[u8]) -> String {
            assert!(!input.windows(2).any(|pair| pair == b"dg"), "it broke");
            input.len().to_string()
        }
    }

    #[test]
    fn a_fault_is_found_and_told_with_a_short_input() {
        let found = run(&mut Picky, Duration::from_mins(1), Random::new(1)).found.expect("it is found");
        assert!(found.fault.contains("it broke"), "{}", found.fault);
        assert_eq!(found.input, b"dg");
    }
}
