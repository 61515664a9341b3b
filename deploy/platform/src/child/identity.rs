//! The identity of a process beyond its id, which the kernel reuses.

use std::fs;
use std::path::PathBuf;

use rustix::process::Pid;

/// A process, distinguished from every other that has had or will have the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pid: Pid,
    /// The clock ticks between the start of the machine and that of the process.
    start: u64,
    /// The id of the boot that `start` counts from.
    boot: String,
}

impl Identity {
    /// Reads the process with this id; none where there is no such process, or only a zombie.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, second, is in parentheses and may hold spaces and parentheses itself.
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let start = fields.nth(18)?.parse().ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Self { pid, start, boot })
    }

    /// Parses a line of [`Identity::to_line`].
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let pid = parse_pid(fields.next()?)?;
        Some(Self { pid, start: fields.next()?.parse().ok()?, boot: fields.next()?.to_owned() })
    }

    /// Returns the identity as a line of text.
    pub(crate) fn to_line(&self) -> String {
        format!("{} {} {}\n", self.pid, self.start, self.boot)
    }

    /// Returns the process id, to be used only right after [`Identity::is_alive`].
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether this process still has the id.
    pub(crate) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Returns the working directory of the process, if this user may read it.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()
    }
}

/// Parses a process id.
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    // rustix panics at a negative id.
    text.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_its_id() {
        let own = Identity::of(rustix::process::getpid()).unwrap();
        assert_eq!(Identity::from_line(&own.to_line()), Some(own.clone()));
        assert!(own.is_alive());
        assert!(!Identity { start: own.start + 1, ..own.clone() }.is_alive());
        assert!(!Identity { boot: "another".to_owned(), ..own }.is_alive());
    }

    #[test]
    fn a_damaged_line_is_nobody() {
        for line in ["", "12", "12 x y", "0 1 b", "-3 1 b", "99999999999 1 b"] {
            assert_eq!(Identity::from_line(line), None, "{line}");
        }
    }
}
