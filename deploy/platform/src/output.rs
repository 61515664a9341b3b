//! Writes to standard output and standard error. A closed pipe, as with `head`, ends nothing.

use std::{
    fmt::Display,
    io::{IsTerminal, Write as _},
};

/// Whether standard output is a terminal, and not a file or the log of a service.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Prints a line of the result to standard output.
pub(crate) fn print(line: impl Display) {
    // There is nowhere left to report that this failed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line about the progress to standard error.
pub(crate) fn notice(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
