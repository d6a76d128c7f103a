//! The machine that the numbers were measured on, and the CPUs that may be used.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::thp;

/// A CPU's number.
pub type Cpu = u32;

/// The machine, as a reader of the numbers needs it.
#[derive(Serialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: Vec<Cpu>,
    /// Kernel release.
    pub kernel: String,
    /// Transparent huge pages: always, madvise or never.
    pub thp: String,
    /// The C compiler of loads and peer.
    pub compiler: &'static str,
    /// The switches that the peer was built with.
    pub peer_flags: &'static str,
    /// Settings of our library in the environment, if any.
    pub settings: Vec<String>,
}

impl Machine {
    pub fn read() -> Result<Self> {
        Ok(Self {
            cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpus: allowed_cpus()?,
            kernel: one_line("/proc/sys/kernel/osrelease"),
            thp: thp::current().unwrap_or_else(|_| "unknown".to_owned()),
            compiler: env!("BENCH_CC"),
            peer_flags: env!("PEER_FLAGS"),
            settings: std::env::vars()
                .filter(|(name, _)| {
                    name.starts_with("SLABYARD_") && !name.starts_with("SLABYARD_BENCH_")
                })
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        })
    }

    /// CPUs of a load with `threads` threads: for one thread the last, which the OS's own work uses
    /// least; none (not pinned) if too few.
    pub fn cpus_for(&self, threads: usize) -> &[Cpu] {
        match threads {
            1 => &self.cpus[self.cpus.len() - 1..],
            n if n <= self.cpus.len() => &self.cpus[..n],
            _ => &[],
        }
    }
}

/// The commit of the sources where this runs, and its day; with `-dirty` if they were changed.
pub fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).output().ok()?;
        let text = out.status.success().then(|| String::from_utf8(out.stdout).ok())??;
        Some(text.trim().to_owned())
    };
    let name = git(&["describe", "--always", "--abbrev=7", "--dirty", "--exclude", "*"])?;
    Some(format!("{name} ({})", git(&["log", "-1", "--format=%cs"])?))
}

fn one_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|_| "unknown".to_owned());
    text.trim().to_owned()
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(':').nth(1));
    name.map_or("unknown", str::trim).to_owned()
}

fn allowed_cpus() -> Result<Vec<Cpu>> {
    let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .context("/proc/self/status: no Cpus_allowed_list")?;
    parse_cpus(list.trim()).with_context(|| format!("Cpus_allowed_list: {list:?}"))
}

/// Parses lists like `0-3,8`; never empty.
fn parse_cpus(list: &str) -> Option<Vec<Cpu>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<Cpu>().ok()?..=last.parse().ok()?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(parse_cpus("0-1"), Some(vec![0, 1]));
        assert_eq!(parse_cpus("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_cpus("3"), Some(vec![3]));
        assert_eq!(parse_cpus("none"), None);
    }

    #[test]
    fn cpu_model_is_read_or_unknown() {
        let text = "processor : 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(cpu_model(text), "Some CPU @ 2 GHz");
        assert_eq!(cpu_model(""), "unknown");
    }
}
