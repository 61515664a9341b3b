//! Formats an error with its causes, for a log line or the exit message of a process.

use std::error::Error;

/// Returns the error and its causes, outermost first. A cause that the text already contains is not repeated.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::explain;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("outer")]
        Silent(#[source] io::Error),
        #[error("outer, because of {0}, in the end")]
        Told(#[source] io::Error),
    }

    #[test]
    fn causes_are_told_once() {
        assert_eq!(explain(&Outer::Silent(io::Error::other("inner"))), "outer: inner");
        assert_eq!(explain(&Outer::Told(io::Error::other("inner"))), "outer, because of inner, in the end");
        let deep = io::Error::other(Outer::Silent(io::Error::other("inner")));
        assert_eq!(explain(&Outer::Silent(deep)), "outer: inner");
    }
}
