//! A load process that is started once, and runs a window or a number of cycles on each request, so
//! that allocators take turns within milliseconds.
//!
//! `loads/load.c` implements the other end of the protocol.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::allocators::{Allocator, Bench};
use crate::interrupt;
use crate::machine::Cpu;

/// Share of a window that runs untimed before it: caches are cold after
/// another process's turn.
const WARM_SHARE: u64 = 10;

/// Attempts at a window that no other process disturbs.
const ATTEMPTS: usize = 3;

/// One timed window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Nanoseconds per operation.
    pub ns_per_op: f64,
    /// How often another process took a CPU from the load.
    pub switches: u64,
}

/// A program that waits for requests on its standard input.
pub struct RequestProgram {
    child: Child,
    // `None` only while it is dropped.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Starts a command. Its program was just written: a child that another thread made meanwhile has it
/// open until it runs its own.
fn spawned(command: &mut Command) -> io::Result<Child> {
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
    command.spawn()
}

impl RequestProgram {
    /// Starts `program` with `args` on `allocator`.
    pub fn start(allocator: &Allocator, program: &Path, args: &[String]) -> Result<Self> {
        let mut command = allocator.command(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            spawned(&mut command).with_context(|| format!("start {}", program.display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, requests, answers })
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let pipe = self.requests.as_mut().context("closed")?;
        pipe.write_all(line.as_bytes()).context("send to the load")
    }

    /// The next line.
    pub fn receive(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read the load")?;
        interrupt::check()?;
        if !line.ends_with('\n') {
            let status = self.child.wait()?;
            bail!("the load ended early: {status}");
        }
        line.pop();
        Ok(line)
    }

    /// Resident memory, as the kernel counts it when asked exactly.
    pub fn resident_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        rollup_kib(&text, "Rss:").with_context(|| format!("{path}: no Rss"))
    }
}

impl Drop for RequestProgram {
    fn drop(&mut self) {
        drop(self.requests.take());
        // A load ends at the end of its input; one that does not is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load on an allocator, checked to be on it.
pub struct Worker {
    talker: RequestProgram,
    /// Version of the C library.
    pub glibc: String,
    /// What the allocator says of itself, if it does: its name and version.
    pub own_version: Option<String>,
}

impl Worker {
    /// Starts `load`, its thread i on the i-th of `cpus` (or anywhere, if
    /// they are too few).
    pub fn start(bench: &Bench, allocator: &Allocator, load: &str, cpus: &[Cpu]) -> Result<Self> {
        let mut args = vec![load.to_owned()];
        args.extend(cpus.iter().map(ToString::to_string));
        let mut talker = RequestProgram::start(allocator, &bench.program("load"), &args)?;
        let ready = talker.receive()?;
        let [word, object, glibc, version] = fields(&ready, '\t')?;
        ensure!(word == "ready", "expected ready, got {ready:?}");
        check_source(allocator, Path::new(object))?;
        Ok(Self {
            talker,
            glibc: glibc.to_owned(),
            own_version: (version != "-").then(|| version.to_owned()),
        })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.talker.child.id()
    }

    /// The least disturbed of some windows; mostly the first is not disturbed
    /// at all.
    ///
    /// The criterion does not depend on the time, so it prefers no allocator.
    pub fn window(&mut self, ms: u32) -> Result<Window> {
        let mut best = self.any_window(ms)?;
        for _ in 1..ATTEMPTS {
            if best.switches == 0 {
                break;
            }
            let next = self.any_window(ms)?;
            if next.switches < best.switches {
                best = next;
            }
        }
        Ok(best)
    }

    /// One window, whatever disturbs it.
    pub fn any_window(&mut self, ms: u32) -> Result<Window> {
        let ns = u64::from(ms) * 1_000_000;
        let warm = ns / WARM_SHARE;
        self.talker.send(&format!("window {ns} {warm}\n"))?;
        let answer = self.talker.receive()?;
        let [word, ops, elapsed, switches] = fields(&answer, ' ')?;
        ensure!(word == "window", "expected a window, got {answer:?}");
        let (ops, elapsed): (f64, f64) = (ops.parse()?, elapsed.parse()?);
        ensure!(ops > 0.0, "a window without an operation");
        Ok(Window { ns_per_op: elapsed / ops, switches: switches.parse()? })
    }

    /// Runs `nr` operations, and returns the resident memory after them.
    pub fn cycles(&mut self, nr: u64) -> Result<u64> {
        self.talker.send(&format!("cycles {nr}\n"))?;
        let answer = self.talker.receive()?;
        ensure!(answer.starts_with("cycles "), "got {answer:?}");
        self.talker.resident_kib()
    }
}

/// A preload that the loader refused would measure the C library under
/// another name.
fn check_source(allocator: &Allocator, object: &Path) -> Result<()> {
    let found = fs::canonicalize(object).unwrap_or_else(|_| object.to_owned());
    let right = match &allocator.preload {
        Some(library) => fs::canonicalize(library)? == found,
        None => object.to_string_lossy().contains("libc.so"),
    };
    let name = allocator.name;
    ensure!(right, "{name}: malloc comes from {}", object.display());
    Ok(())
}

fn fields<const N: usize>(line: &str, separator: char) -> Result<[&str; N]> {
    let parts: Vec<&str> = line.split(separator).collect();
    parts.try_into().map_err(|_| anyhow::anyhow!("unexpected answer of the load: {line:?}"))
}

/// A row of `smaps_rollup`, in KiB.
fn rollup_kib(text: &str, row: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(row))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::LOADS;

    fn bench() -> Bench {
        Bench::open(Some(Path::new("mimalloc"))).unwrap()
    }

    #[test]
    fn every_load_runs_on_every_allocator() {
        let bench = bench();
        for load in LOADS {
            for allocator in &bench.allocators {
                let mut worker = Worker::start(&bench, allocator, load.name, &[]).unwrap();
                let ns = worker.window(2).unwrap().ns_per_op;
                assert!(ns > 0.1 && ns < 100_000.0, "{}: {ns} ns", load.name);
                assert!(worker.cycles(5000).unwrap() > 100);
            }
        }
    }

    #[test]
    fn refused_preload_is_an_error() {
        let bench = bench();
        let mut wrong = bench.allocators[0].clone();
        // The loader warns of a file that is no library, and goes on.
        wrong.preload = Some(bench.program("json_rounds.py"));
        let error = Worker::start(&bench, &wrong, "pair", &[]).err().unwrap();
        assert!(error.to_string().contains("malloc comes from"), "{error}");
    }

    #[test]
    fn unknown_load_is_an_error() {
        let bench = bench();
        let error = Worker::start(&bench, &bench.allocators[0], "nothing", &[]);
        assert!(error.err().unwrap().to_string().contains("ended early"));
    }

    #[test]
    fn rollup_row_is_found() {
        let text = "5581-7ffc ---p 0 00:00 0 [rollup]\nRss:    1234 kB\nPss:  7 kB\n";
        assert_eq!(rollup_kib(text, "Rss:"), Some(1234));
        assert_eq!(rollup_kib(text, "Swap:"), None);
    }
}
