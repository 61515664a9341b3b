//! `platform stop`: stops the platform that runs on a data directory.

use std::{path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::{Failure, data_dir::DataDir, output};

/// How long a platform may take to end; it promises 15 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends SIGTERM to the platform of the folder, and waits until it has ended.
pub(crate) async fn run(folder: &Path) -> Result<(), Failure> {
    let Some(pid) = DataDir::running(folder)? else {
        DataDir::require(folder)?;
        output::print(format_args!("nothing runs on {}", folder.display()));
        return Ok(());
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("the lock names no process")?;
    kill_process(process, Signal::TERM)?;
    let deadline = Instant::now() + PATIENCE;
    while DataDir::running(folder)?.is_some() {
        if Instant::now() > deadline {
            return Err(format!("the platform with process id {pid} did not end within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    output::print("stopped");
    Ok(())
}
