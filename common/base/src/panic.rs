//! Turns panics of pure code into failures of one decision or one fold, and not of the process.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A panic of pure code. The process has reported its location on standard error.
#[derive(Debug, thiserror::Error)]
#[error("it panicked: {0}")]
pub struct Panicked(String);

/// Calls pure code, and turns its panic into a failure.
///
/// # Errors
/// If it panicked. The caller is responsible for what the code had borrowed mutably: it states why that is still
/// usable, or discards it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked(panic_message(payload.as_ref())))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_a_failure_that_says_what_the_panic_said() {
        let number = |text: &str| text.parse::<u8>().expect("it is small");
        assert_eq!(caught(|| number("7")).ok(), Some(7));
        let said = caught(|| number("700")).unwrap_err().to_string();
        assert!(said.starts_with("it panicked: it is small"), "{said}");
    }
}
