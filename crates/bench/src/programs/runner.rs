//! Runs a program to completion on one allocator; its output must be the same on every allocator.
//!
//! Neighbours: `loads/launch.c` starts and measures the program, like the loads of `compare`;
//! `real` says how to run it.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::allocators::{Allocator, Bench, digest, without_settings};
use crate::compare::measures::{NR_MEASURES, Run};
use crate::compare::runs::{Runs, TICK_MS, measured};
use crate::interrupt;
use crate::real::Prepared;

/// Installed programs, by name.
pub struct Runner<'a> {
    bench: &'a Bench,
    programs: Vec<(&'static str, Prepared)>,
    timeout_ms: u64,
}

impl<'a> Runner<'a> {
    /// Of these programs.
    pub fn new(bench: &'a Bench, programs: Vec<(&'static str, Prepared)>, timeout_s: u32) -> Self {
        Self { bench, programs, timeout_ms: u64::from(timeout_s) * 1000 }
    }

    fn launched(&self, program: &Prepared, allocator: &Allocator) -> Command {
        let mut command = without_settings(&self.bench.program("launch"));
        command.arg(self.timeout_ms.to_string()).arg(TICK_MS.to_string());
        command.arg(allocator.preload.as_deref().unwrap_or(Path::new("-")));
        command.args(&program.as_user).arg(&program.executable).args(&program.args);
        command.envs(allocator.environment());
        command.envs(program.settings.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Runs for Runner<'_> {
    type Measures = [u64; NR_MEASURES];
    const WORK: &'static str = "is the digest of its output";

    fn run(&self, name: &str, allocator: &Allocator, _round: u32) -> Result<Run> {
        let (_, program) = self.programs.iter().find(|(n, _)| *n == name).context("no program")?;
        if let Some(path) = &program.output {
            remove(path)?;
        }
        let mut child = self
            .launched(program, allocator)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("launch")?;
        let said = program.client.map(|client| client(program, self.bench));
        if matches!(said, Some(Err(_))) {
            // The server ends with the process that launched it.
            let _ = child.kill();
        }
        let out = child.wait_with_output().context("launch")?;
        interrupt::check()?;
        let said = said.transpose()?.unwrap_or_default();
        let (measures, printed) = measured(&out)?;
        let written = match &program.output {
            Some(path) => fs::read(path).with_context(|| path.display().to_string())?,
            None => Vec::new(),
        };
        let output = [printed.as_bytes(), said.as_bytes(), &written].concat();
        ensure!(!output.is_empty(), "no output");
        Ok(Run { measures, work: digest(&output) })
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Fails unless the loader binds the program's `malloc`, and that of all its
/// libraries, to the allocator.
pub fn check_bound(program: &Prepared, allocator: &Allocator) -> Result<()> {
    let Some(library) = &allocator.preload else { return Ok(()) };
    // The loader binds every symbol, tells it, and starts nothing.
    let settings = [
        "LD_TRACE_LOADED_OBJECTS=1".to_owned(),
        "LD_WARN=1".to_owned(),
        "LD_BIND_NOW=1".to_owned(),
        "LD_DEBUG=bindings".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
    ];
    let mut words = program.as_user.clone();
    words.push("env".into());
    words.extend(settings.map(OsString::from));
    words.push(program.executable.clone().into());
    let out = without_settings(Path::new(&words[0]))
        .args(&words[1..])
        .output()
        .with_context(|| program.executable.display().to_string())?;
    let text = String::from_utf8_lossy(&out.stderr);
    bound(&text, &library.to_string_lossy())
}

/// From lines `binding file FROM [0] to TO [0]: normal symbol `malloc'`.
///
/// A program that is not position-independent has a place of its own for a
/// function whose address it takes, and others are bound to that; it is but a
/// jump to what the program itself is bound to.
fn bound(text: &str, library: &str) -> Result<()> {
    let of_malloc = text.lines().filter(|line| line.contains("symbol `malloc'"));
    let bindings: Vec<(&str, &str)> = of_malloc.filter_map(binding).collect();
    let jumps = |file| bindings.contains(&(file, library));
    for &(_, to) in &bindings {
        let right = to == library || jumps(to);
        ensure!(right, "its malloc is that of {to}: a preload has no effect on it");
    }
    ensure!(!bindings.is_empty(), "nothing of it calls malloc by the loader");
    Ok(())
}

fn binding(line: &str) -> Option<(&str, &str)> {
    let (_, files) = line.split_once("binding file ")?;
    let (from, to) = files.split_once(" to ")?;
    Some((from.split(" [").next()?, to.split(" [").next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measures::{PEAK, WALL};

    fn bench() -> Bench {
        Bench::open(Some(Path::new("mimalloc"))).unwrap()
    }

    fn shell(script: &str) -> Prepared {
        Prepared::new("/bin/sh".into(), ["-c", script])
    }

    #[test]
    fn bindings_tell_whose_malloc_it_is() {
        let line = |from: &str, to: &str| {
            format!(
                " 1: binding file {from} [0] to {to} [0]: normal symbol `malloc' [GLIBC_2.2.5]\n"
            )
        };
        let other = " 1: binding file /bin/a [0] to /c.so [0]: normal symbol `free'\n";
        let right = line("/bin/a", "/l.so");
        assert!(bound(&format!("{other}{right}"), "/l.so").is_ok());
        let through = line("/c.so", "/bin/a");
        assert!(bound(&format!("{right}{through}"), "/l.so").is_ok(), "by the program's jump");
        let own = format!("{through}{}", line("/bin/a", "/bin/a"));
        let error = bound(&own, "/l.so").unwrap_err().to_string();
        assert!(error.contains("that of /bin/a"), "{error}");
        let error = bound(other, "/l.so").unwrap_err().to_string();
        assert!(error.contains("nothing of it calls malloc"), "{error}");
    }

    #[test]
    fn program_is_bound_to_what_is_preloaded() {
        let (bench, shell) = (bench(), shell("true"));
        for allocator in &bench.allocators {
            check_bound(&shell, allocator).unwrap();
        }
        let mut wrong = bench.allocators[0].clone();
        wrong.preload = Some(bench.program("json_rounds.py"));
        check_bound(&shell, &wrong).unwrap_err();
    }

    #[test]
    fn output_is_what_is_printed_and_what_is_written() {
        let bench = bench();
        let file = bench.program("written");
        let script = format!("echo said; echo more > {}", file.display());
        let mut both = shell(&script);
        both.output = Some(file);
        let programs = vec![("both", both), ("says", shell("echo said")), ("mute", shell("true"))];
        let runner = Runner::new(&bench, programs, 10);
        let glibc = &bench.allocators[crate::allocators::GLIBC];
        let run = |name| runner.run(name, glibc, 0);
        let both = run("both").unwrap();
        assert!(both.measures[WALL] > 100 && both.measures[PEAK] > 300);
        assert_eq!(both.work, digest(b"said\nmore\n"));
        assert_eq!(run("both").unwrap().work, both.work);
        assert_eq!(run("says").unwrap().work, digest(b"said\n"));
        assert!(run("mute").unwrap_err().to_string().contains("no output"));
    }

    #[test]
    fn program_runs_on_its_allocator_with_its_settings() {
        let bench = bench();
        let mut tells = shell("echo $LD_PRELOAD $WORD; exit $CODE");
        tells.settings = vec![("WORD", "given".into()), ("CODE", "0".into())];
        let mut fails = shell("echo words >&2; exit $CODE");
        fails.settings = vec![("CODE", "3".into())];
        let runner = Runner::new(&bench, vec![("tells", tells), ("fails", fails)], 10);
        let ours = &bench.allocators[0];
        let library = ours.preload.as_ref().unwrap().display();
        let expected = digest(format!("{library} given\n").as_bytes());
        assert_eq!(runner.run("tells", ours, 0).unwrap().work, expected);
        assert_eq!(runner.run("fails", ours, 0).unwrap_err().to_string(), "exit 3: words");
    }
}
