//! The properties of the machine that the figures are measured on.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

/// Prints the processor, the load and the time of a sync to the disk.
pub(crate) fn print(folder: &Path) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("processor   {} x{}", cores, model.trim_start_matches([' ', '\t', ':']));
    println!("load        {}", load.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    let mut times = sync_times(folder);
    times.sort();
    println!("fdatasync   p50 {:?}, p99 {:?} of 4 KiB", times[times.len() / 2], times[times.len() * 99 / 100]);
}

/// Returns the median time of a sync.
pub(crate) fn sync_time(folder: &Path) -> Duration {
    let mut times = sync_times(folder);
    times.sort();
    times[times.len() / 2]
}

fn sync_times(folder: &Path) -> Vec<Duration> {
    let path = folder.join(format!("fdatasync-{}", std::process::id()));
    let mut file = File::create(&path).expect("the folder can be written");
    let times = (0..300)
        .map(|_| {
            file.write_all(&[7; 4096]).expect("the file can be written");
            let start = Instant::now();
            file.sync_data().expect("the file can be synced");
            start.elapsed()
        })
        .collect();
    let _ = fs::remove_file(path);
    times
}
