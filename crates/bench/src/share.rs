//! The allocator's share of a program's time: `perf` samples the program every millisecond of CPU
//! time, and reports which library it was in.
//!
//! What the kernel does for the allocator (page faults, system calls) counts as the kernel's time
//! here. `series` measures this share in a run that is not timed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::allocators::{Allocator, without_settings};

/// Looks a second of CPU time.
const LOOKS: &str = "997";

/// Percent of the looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// In the allocator's library.
    pub allocator: f64,
    pub kernel: f64,
}

/// `perf`, or why there is none.
pub fn tool() -> Result<PathBuf, String> {
    let says = Command::new("perf").arg("--version").stdin(Stdio::null()).output();
    match says {
        Ok(out) if out.status.success() => Ok("perf".into()),
        Ok(out) => Err(format!("perf --version: {}", out.status)),
        Err(error) => Err(format!("perf: {error} (Debian: apt-get install linux-perf)")),
    }
}

/// The share of a run of `program` with `words` on an allocator that is preloaded.
pub fn of(perf: &Path, program: &Path, words: &[String], allocator: &Allocator) -> Result<Share> {
    let library = allocator.preload.as_deref().context("no library to look for")?;
    let directory = tempfile::tempdir().context("directory for what perf records")?;
    let data = directory.path().join("data");
    // Only the program is preloaded, not perf.
    let mut command = without_settings(perf);
    command.args(["record", "-q", "-e", "cpu-clock", "-F", LOOKS, "-o"]).arg(&data);
    command.args(["--", "env"]).arg(format!("LD_PRELOAD={}", library.display()));
    command.args(allocator.environment().map(|(name, value)| format!("{name}={value}")));
    let out = command.arg(program).args(words).stdin(Stdio::null()).output().context("perf")?;
    ensure!(out.status.success(), "perf record: {}", last_line(&out.stderr));
    let mut report = without_settings(perf);
    report.args(["report", "--stdio", "-q", "--sort", "dso", "-i"]).arg(&data);
    let out = report.stdin(Stdio::null()).output().context("perf report")?;
    ensure!(out.status.success(), "perf report: {}", last_line(&out.stderr));
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    share(&String::from_utf8_lossy(&out.stdout), &name)
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no words").to_owned()
}

/// From lines `12.34%  LIBRARY`.
fn share(text: &str, library: &str) -> Result<Share> {
    let rows: Vec<(f64, &str)> = text
        .lines()
        .filter_map(|line| {
            let (percent, name) = line.trim().split_once('%')?;
            Some((percent.trim().parse().ok()?, name.trim()))
        })
        .collect();
    ensure!(!rows.is_empty(), "perf report has no shares: {text:?}");
    let of = |wanted: &dyn Fn(&str) -> bool| {
        rows.iter().filter(|(_, name)| wanted(name)).fold(0.0, |sum, (percent, _)| sum + percent)
    };
    Ok(Share {
        allocator: of(&|name| name == library),
        kernel: of(&|name| name.starts_with("[kernel") || name == "[unknown]"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_added_up_by_library() {
        let text = "\n    61.20%  [kernel.kallsyms]   \n    20.30%  lib.so  \n     1.10%  \
                    [kernel.vmlinux]\n     0.50%  libc.so.6\n\n";
        let found = share(text, "lib.so").unwrap();
        assert!((found.kernel - 62.3).abs() < 1e-9 && (found.allocator - 20.3).abs() < 1e-9);
        assert_eq!(share(text, "other.so").unwrap().allocator, 0.0);
        assert!(share("no samples\n", "lib.so").is_err());
    }
}
