//! CPU time and memory of processes, as the kernel counts it.

use std::{fs, time::Duration};

use rustix::{
    process::Pid,
    time::{ClockId, clock_gettime},
};

/// The kernel's unit in /proc, in milliseconds (`USER_HZ` is 100 on every Linux).
const TICK_MS: u64 = 10;

/// Returns the user and system time of a process, with all its threads and the children it has waited for.
pub(crate) fn of(pid: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let fields: Vec<u64> = fields(&stat).skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    Duration::from_millis(fields.iter().sum::<u64>() * TICK_MS)
}

/// Returns the time of a process and its children, such as the backends of Postgres.
pub(crate) fn of_family(pid: Pid) -> Duration {
    let parent = pid.as_raw_nonzero().to_string();
    let children = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        (fields(&stat).nth(1)? == parent).then(|| Pid::from_raw(pid)).flatten()
    });
    of(pid) + children.map(of).sum::<Duration>()
}

/// Returns the time of this thread.
pub(crate) fn of_thread() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Returns the time of this process.
pub(crate) fn of_this_process() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Returns the resident memory of a process, in MiB.
pub(crate) fn resident_mib(pid: Pid) -> u64 {
    memory_mib(pid, "VmRSS:")
}

/// Returns the peak of the resident memory since [`forget_peak`], or since the process began, in MiB.
pub(crate) fn peak_mib(pid: Pid) -> u64 {
    memory_mib(pid, "VmHWM:")
}

/// Returns the number of threads of a process.
pub(crate) fn threads(pid: Pid) -> u32 {
    fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))
        .map_or(0, |tasks| u32::try_from(tasks.count()).unwrap_or(u32::MAX))
}

/// Resets the peak of the memory of a process.
pub(crate) fn forget_peak(pid: Pid) {
    fs::write(format!("/proc/{}/clear_refs", pid.as_raw_nonzero()), "5").expect("it is a process of this user");
}

fn memory_mib(pid: Pid, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default()
        / 1024
}

/// Returns the fields of a stat line from the third on, after the name, which may contain anything.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}
