//! Metrics of the process from the operating system.

use std::{fs, time::Duration};

use base::metric::catalog::{
    PROCESS_CPU, PROCESS_FDS, PROCESS_MAX_FDS, PROCESS_MEMORY, PROCESS_START, PROCESS_THREADS, TASKS,
};
use jiff::Timestamp;
use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};
use tokio::runtime::Handle;

/// Sets the metrics of the process. What the system does not provide stays 0.
pub(super) fn measure(started: Timestamp) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::new(cpu.tv_sec.try_into().unwrap_or_default(), cpu.tv_nsec.try_into().unwrap_or_default());
    PROCESS_CPU.one().set(cpu);
    PROCESS_START.one().set(started.as_duration().as_secs_f64());
    PROCESS_MAX_FDS.one().set_integer(getrlimit(Resource::Nofile).current.unwrap_or_default());
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        PROCESS_FDS.one().set_integer(open.count() as u64);
    }
    TASKS.one().set_integer(Handle::current().metrics().num_alive_tasks() as u64);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kibibytes) = number(&status, "VmRSS:") {
        PROCESS_MEMORY.one().set_integer(kibibytes * 1024);
    }
    if let Some(threads) = number(&status, "Threads:") {
        PROCESS_THREADS.one().set_integer(threads);
    }
}

fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
