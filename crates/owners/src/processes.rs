//! Names of processes, read while they live.

use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::fs;

/// Who allocated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Process {
    /// Its number; 0 is the kernel when no task runs.
    pub pid: u32,
    /// The name of the task that allocated first.
    pub comm: String,
    /// The program, unless it had ended or is the kernel's.
    pub exe: Option<String>,
    /// Its command line.
    pub command: Option<String>,
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (process {})", self.comm, self.pid)
    }
}

/// What is known of processes, by number.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: HashMap<u32, (Option<String>, Option<String>)>,
}

impl Processes {
    /// Reads those that are not known yet.
    pub(crate) fn look(&mut self, pids: impl IntoIterator<Item = u32>) {
        for pid in pids {
            self.known.entry(pid).or_insert_with(|| {
                let exe = fs::read_link(format!("/proc/{pid}/exe"));
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words: Vec<_> = line
                    .split(|byte| *byte == 0)
                    .filter(|word| !word.is_empty())
                    .map(String::from_utf8_lossy)
                    .collect();
                let command = (!words.is_empty()).then(|| words.join(" "));
                (exe.ok().map(|exe| exe.display().to_string()), command)
            });
        }
    }

    pub(crate) fn of(&self, pid: u32, comm: &str) -> Process {
        let (exe, command) = self.known.get(&pid).cloned().unwrap_or_default();
        Process { pid, comm: comm.to_owned(), exe, command }
    }
}
