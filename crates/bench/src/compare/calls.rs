//! Counts memory system calls with strace, in an additional, untimed run of each load on each
//! allocator.
//!
//! Neighbour: `runs` starts strace in place of the load; strace preloads the allocator into the
//! load alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::measures::{Failure, Load};
use super::runs::Runner;
use crate::allocators::Allocator;
use crate::{interrupt, screen};

/// What one run called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub madvise: u64,
    /// mmap, munmap, mremap and brk.
    pub map: u64,
    pub mprotect: u64,
}

/// By load, then allocator, nothing where the run failed; or why nothing was
/// counted at all.
pub type Counted = Result<Vec<Vec<Option<Calls>>>, String>;

/// Counts each load on each allocator once, except where it failed before.
pub fn all(
    runner: &Runner,
    loads: &[Load],
    allocators: &[Allocator],
    failed: &[Failure],
) -> Result<Counted> {
    let Some(strace) = found("strace") else {
        return Ok(Err("strace is not installed".to_owned()));
    };
    let directory = tempfile::tempdir().context("directory for strace's counts")?;
    let file = directory.path().join("calls");
    let bar = screen::progress(loads.len() * allocators.len());
    let mut counted = Vec::new();
    for load in loads {
        bar.set_message(format!("strace, {}", load.name));
        let mut of = Vec::new();
        for allocator in allocators {
            bar.inc(1);
            if failed.iter().any(|failure| failure.is_of(load, allocator.name)) {
                of.push(None);
                continue;
            }
            let calls = count(runner, &strace, load, allocator, &file);
            interrupt::check()?;
            if let Err(error) = &calls {
                let (load, name) = (&load.name, allocator.name);
                bar.suspend(|| eprintln!("slabyard-bench: {load} on {name}: strace: {error:#}"));
            }
            of.push(calls.ok());
        }
        counted.push(of);
    }
    bar.finish_and_clear();
    Ok(Ok(counted))
}

/// A program of the search path.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}

fn count(
    runner: &Runner,
    strace: &Path,
    load: &Load,
    allocator: &Allocator,
    file: &Path,
) -> Result<Calls> {
    runner.run_traced(&load.name, &tracer(strace, allocator, file))?;
    let text = fs::read_to_string(file).context("strace's counts")?;
    calls(&text).with_context(|| format!("strace counted {text:?}"))
}

fn tracer(strace: &Path, allocator: &Allocator, file: &Path) -> Vec<OsString> {
    // By seccomp, strace stops the load at the traced calls alone.
    let switches = ["-f", "--seccomp-bpf", "-c", "-U", "calls,name", "-e", "trace=%memory", "-o"];
    let mut line = vec![strace.as_os_str().to_owned()];
    line.extend(switches.map(OsString::from));
    line.push(file.into());
    if let Some(library) = &allocator.preload {
        let mut setting = OsString::from("LD_PRELOAD=");
        setting.push(library);
        line.extend([OsString::from("-E"), setting]);
    }
    for (name, value) in allocator.environment() {
        line.extend(["-E".to_owned(), format!("{name}={value}")].map(OsString::from));
    }
    line
}

/// Sums strace's lines `CALLS NAME`.
fn calls(text: &str) -> Option<Calls> {
    let rows: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let calls = fields.next()?.parse().ok()?;
            Some((fields.next()?, calls))
        })
        .collect();
    // No program starts without a mapping.
    rows.get("mmap")?;
    let of = |names: &[&str]| names.iter().filter_map(|name| rows.get(name)).sum();
    Some(Calls {
        madvise: of(&["madvise"]),
        map: of(&["mmap", "munmap", "mremap", "brk"]),
        mprotect: of(&["mprotect", "pkey_mprotect"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::Bench;

    #[test]
    fn rows_of_strace_are_summed() {
        let text = "    calls syscall\n--------- ----------------\n     1097 madvise\n\
                    \x20      30 mmap\n        4 munmap\n        7 brk\n        2 mprotect\n\
                    --------- ----------------\n     1140 total\n";
        assert_eq!(calls(text), Some(Calls { madvise: 1097, map: 41, mprotect: 2 }));
        assert_eq!(calls("strace: exec: no such file\n"), None);
    }

    #[test]
    fn calls_of_a_load_are_counted_on_each_allocator() {
        if found("strace").is_none() {
            println!("skipped: strace is not installed");
            return;
        }
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let runner = Runner::new(&bench, None, 0.05, 20);
        let loads = runner.loads().unwrap();
        let large: Vec<Load> = loads.into_iter().filter(|load| load.name == "large").collect();
        let counted =
            |failed: &[Failure]| all(&runner, &large, &bench.allocators, failed).unwrap().unwrap();
        let allocator = bench.allocators[crate::allocators::GLIBC].name;
        let failed = Failure { load: "large".to_owned(), allocator, round: 1, why: String::new() };
        let without = counted(&[failed]);
        assert_eq!(without[0].iter().filter(|calls| calls.is_none()).count(), 1, "{without:?}");
        let counted = counted(&[]);
        let [row] = counted.as_slice() else { panic!("{counted:?}") };
        assert_eq!(row.len(), bench.allocators.len());
        assert!(row.iter().all(|calls| calls.unwrap().map > 5), "{row:?}");
        let maps: Vec<u64> = row.iter().flatten().map(|calls| calls.map).collect();
        // Where the system maps, and so what is mapped again, is luck.
        assert!(maps[0].abs_diff(maps[1]) < 20, "both are mimalloc: {row:?}");
    }
}
