//! What is told on standard output and standard error. That nobody reads it any more, as behind `| head`, ends nothing.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a line of what was asked for.
pub(crate) fn out(line: impl Display) {
    // There is nobody left to tell that this failed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line for whoever watches.
pub(crate) fn aside(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
