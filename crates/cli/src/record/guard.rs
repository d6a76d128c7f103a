//! Restores the kernel's settings when the recorder ends, however it ends.
//!
//! A second process of this program reads its standard input, a pipe whose other end only the
//! recorder holds. When the recorder ends, the pipe closes, and the second process removes the
//! tracing instance. The second process has its own process group, so that Ctrl-C does not reach
//! it.

use crate::failure::Failure;
use crate::stdout;
use anyhow::Context;
use slabyard_lab::record::tracefs::{self, Tracefs};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The second process. Ends when this is dropped.
pub struct Guard(Child);

impl Guard {
    /// Starts it for this process's instance.
    pub fn start() -> Result<Guard, Failure> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        command
            .args(["record", "--guard", &tracefs::name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Ok(Guard(command.spawn().context("cannot start the process that cleans up")?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Is the second process.
pub fn watch(instance: &str) -> Result<ExitCode, Failure> {
    if !tracefs::is_ours(instance) {
        return Err(Failure::Usage(format!("`{instance}` is no instance of slabyard")));
    }
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    let tracefs = Tracefs::open().map_err(anyhow::Error::from)?;
    // The kernel may still be closing the files of the one that was killed.
    for _ in 0..50 {
        if !tracefs.has(instance) || tracefs::remove(&tracefs, instance) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    tracefs::remove_probes(&tracefs, instance);
    Ok(ExitCode::SUCCESS)
}

/// Removes what recorders that were killed have left in the kernel.
pub fn restore() -> Result<ExitCode, Failure> {
    let tracefs = Tracefs::open().map_err(|error| super::failures::refused(error.into()))?;
    let removed =
        tracefs::sweep(&tracefs).map_err(|error| super::failures::refused(error.into()))?;
    let text = match removed.len() {
        0 => "no killed recorder has left anything in the kernel\n".into(),
        _ => format!("removed {}\n", removed.join(", ")),
    };
    stdout::print(text.as_bytes())
}
