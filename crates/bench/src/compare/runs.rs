//! Runs one load on one allocator to completion, and, in rounds, all loads on all allocators.
//!
//! Neighbours: `loads/launch.c` starts the program and takes the `measures`; `results` stores them
//! for all runs.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Error, Result, bail, ensure};
use fastrand::Rng;
use indicatif::ProgressBar;

use super::measures::{All, Failure, Load, NR_MEASURES, OfLoad, Run};
use crate::allocators::{Allocator, Bench, without_settings};
use crate::{interrupt, screen};

/// Time between two samples of resident memory.
pub const TICK_MS: u32 = 10;

/// A traced run stops at each call that is traced.
const TRACED_LONGER: u64 = 4;

/// The program of loads, and how it is run.
pub struct Runner {
    launch: PathBuf,
    program: PathBuf,
    scale: f64,
    timeout_ms: u64,
    /// True if the program's loads take a seed.
    has_seeds: bool,
}

/// What runs things on allocators.
pub trait Runs {
    type Measures;
    /// What [`Run::work`] is, in words after the number.
    const WORK: &'static str;

    /// One run, in a round; an error is the run's own.
    fn run(&self, name: &str, allocator: &Allocator, round: u32) -> Result<Run<Self::Measures>>;
}

impl Runner {
    /// Of the embedded program, or of another that speaks like it.
    pub fn new(bench: &Bench, program: Option<&Path>, scale: f64, timeout_s: u32) -> Self {
        Self {
            launch: bench.program("launch"),
            program: program.map_or_else(|| bench.program("life"), Path::to_owned),
            scale,
            timeout_ms: u64::from(timeout_s) * 1000,
            has_seeds: program.is_none(),
        }
    }

    /// The loads that the program lists: a line `NAME THREADS WORDS...` each.
    pub fn loads(&self) -> Result<Vec<Load>> {
        let name = self.program.display();
        let out = without_settings(&self.program)
            .arg("--list")
            .output()
            .with_context(|| name.to_string())?;
        ensure!(out.status.success(), "{name} --list: {}", out.status);
        let text = String::from_utf8(out.stdout).with_context(|| format!("{name} --list"))?;
        let loads = text.lines().map(|line| {
            load_of(line).with_context(|| format!("{name} --list: not NAME THREADS ...: {line:?}"))
        });
        let loads = loads.collect::<Result<Vec<Load>>>()?;
        ensure!(!loads.is_empty(), "{name} --list: no load");
        Ok(loads)
    }

    /// Fails unless the loader would map the allocator's library into the
    /// program. That the library's `malloc` is then the one in force was seen
    /// when the allocator was found.
    pub fn check_preload(&self, allocator: &Allocator) -> Result<()> {
        let Some(library) = &allocator.preload else { return Ok(()) };
        let out = allocator
            .command(&self.program)
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .output()
            .with_context(|| self.program.display().to_string())?;
        let mapped = String::from_utf8_lossy(&out.stdout);
        let library = library.to_string_lossy();
        let found = mapped.lines().any(|line| line.split_whitespace().next() == Some(&library));
        let name = allocator.name;
        ensure!(found, "{name}: the loader does not map {library} into {}", self.program.display());
        Ok(())
    }

    /// The same run below `tracer`, which preloads the allocator itself; it
    /// may take longer, and its measures are the tracer's.
    pub fn run_traced(&self, load: &str, tracer: &[OsString]) -> Result<Run> {
        let mut command = self.launched(self.timeout_ms * TRACED_LONGER, None);
        command.args(tracer);
        let out = self.add_load(&mut command, load).output().context("launch")?;
        interrupt::check()?;
        outcome(measured(&out)?)
    }

    /// One run of a load with arguments besides its name: its measures, and what it printed.
    pub fn run_with(
        &self,
        load: &str,
        more: &[String],
        allocator: &Allocator,
    ) -> Result<([u64; NR_MEASURES], String)> {
        let out = self.command(load, allocator).args(more).output().context("launch")?;
        interrupt::check()?;
        measured(&out)
    }

    /// The same; `said` is called when the load has said its first line, or has ended.
    pub fn run_beside(
        &self,
        load: &str,
        more: &[String],
        allocator: &Allocator,
        said: impl FnOnce(),
    ) -> Result<([u64; NR_MEASURES], String)> {
        let mut command = self.command(load, allocator);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("launch")?;
        let mut pipe = BufReader::new(child.stdout.take().context("launch")?);
        let mut stdout = Vec::new();
        let first = pipe.read_until(b'\n', &mut stdout);
        said();
        first.and_then(|_| pipe.read_to_end(&mut stdout)).context("launch")?;
        let out = child.wait_with_output().context("launch")?;
        interrupt::check()?;
        measured(&Output { stdout, ..out })
    }

    fn command(&self, load: &str, allocator: &Allocator) -> Command {
        let mut command = self.launched(self.timeout_ms, allocator.preload.as_deref());
        command.envs(allocator.environment());
        self.add_load(&mut command, load);
        command
    }

    fn launched(&self, timeout_ms: u64, library: Option<&Path>) -> Command {
        let mut command = without_settings(&self.launch);
        command.arg(timeout_ms.to_string()).arg(TICK_MS.to_string());
        command.arg(library.unwrap_or(Path::new("-")));
        command
    }

    fn add_load<'c>(&self, command: &'c mut Command, load: &str) -> &'c mut Command {
        command.arg(&self.program).arg(load);
        if self.scale != 1.0 {
            command.arg("--scale").arg(self.scale.to_string());
        }
        command
    }
}

impl Runs for Runner {
    type Measures = [u64; NR_MEASURES];
    const WORK: &'static str = "operations";

    /// A round has a seed of its own: what holds for one may be that one's chance.
    fn run(&self, load: &str, allocator: &Allocator, round: u32) -> Result<Run> {
        let seed = ["--seed".to_owned(), (round + 1).to_string()];
        outcome(self.run_with(load, if self.has_seeds { &seed } else { &[] }, allocator)?)
    }
}

/// Runs loads that print what they counted.
pub struct Counting<'a, M> {
    pub runner: &'a Runner,
    /// Arguments besides the load's name.
    pub more: Vec<String>,
    pub read: fn(&str) -> Option<M>,
}

impl<M> Runs for Counting<'_, M> {
    type Measures = M;
    const WORK: &'static str = Runner::WORK;

    fn run(&self, load: &str, allocator: &Allocator, _round: u32) -> Result<Run<M>> {
        let (_, printed) = self.runner.run_with(load, &self.more, allocator)?;
        let counts = (self.read)(&printed)
            .with_context(|| format!("the load said no counts: {printed:?}"))?;
        Ok(Run { measures: counts, work: operations(&printed)? })
    }
}

fn load_of(line: &str) -> Option<Load> {
    let (name, rest) = line.trim().split_once(char::is_whitespace)?;
    let (threads, words) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let threads = threads.parse().ok()?;
    Some(Load { name: name.to_owned(), threads, words: words.trim().to_owned() })
}

fn outcome((measures, text): ([u64; NR_MEASURES], String)) -> Result<Run> {
    Ok(Run { measures, work: operations(&text)? })
}

/// Reads the load's `ops N`.
fn operations(text: &str) -> Result<u64> {
    let ops = text.lines().find_map(|line| line.strip_prefix("ops "));
    ops.and_then(|ops| ops.trim().parse().ok()).context("the load said no `ops N`")
}

/// Reads launch's line, and gives what the program itself printed before it.
pub fn measured(out: &Output) -> Result<([u64; NR_MEASURES], String)> {
    let text = String::from_utf8_lossy(&out.stdout);
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no words");
    let last = text.lines().last().unwrap_or_default();
    let fields: Vec<&str> = last.split(' ').collect();
    let ["launch", fields @ .., how, number] = fields.as_slice() else {
        bail!("launch: {}: {said}", out.status);
    };
    match (*how, *number) {
        ("exit", "0") => {}
        ("timeout", _) => bail!("timeout"),
        (how, number) => bail!("{how} {number}: {said}"),
    }
    let mut measures = [0; NR_MEASURES];
    ensure!(fields.len() == NR_MEASURES, "launch said {last:?}");
    for (to, from) in measures.iter_mut().zip(fields) {
        *to = from.parse().with_context(|| format!("launch said {last:?}"))?;
    }
    let printed = text.trim_end().strip_suffix(last.trim_end()).unwrap_or_default();
    Ok((measures, printed.to_owned()))
}

/// How often each load runs.
#[derive(Clone, Copy)]
pub struct Rounds<M = [u64; NR_MEASURES]> {
    /// Each load.
    pub each: u32,
    /// One that is not reported yet, at most.
    pub most: u32,
    /// True if a load's runs do not tell what they are for.
    pub is_open: fn(&OfLoad<M>) -> bool,
}

impl<M> Rounds<M> {
    /// So many, whatever they tell.
    pub fn just(each: u32) -> Self {
        Self { each, most: each, is_open: |_| false }
    }
}

/// All rounds: in each, each load runs once on each allocator, in an order
/// drawn anew. After a failure, that load runs on that allocator no more.
pub fn all<R: Runs>(
    runner: &R,
    loads: &[Load],
    allocators: &[Allocator],
    rounds: Rounds<R::Measures>,
) -> Result<All<R::Measures>> {
    all_but(Vec::new(), runner, loads, allocators, rounds)
}

/// [`all`], where some have failed before: one that hangs takes its whole time limit.
pub fn all_but<R: Runs>(
    mut failures: Vec<Failure>,
    runner: &R,
    loads: &[Load],
    allocators: &[Allocator],
    rounds: Rounds<R::Measures>,
) -> Result<All<R::Measures>> {
    let none = || allocators.iter().map(|_| Vec::new()).collect();
    let mut runs: Vec<OfLoad<R::Measures>> = loads.iter().map(|_| none()).collect();
    let mut random = Rng::new();
    let a_round = |loads: usize| loads * allocators.len();
    let bar = screen::progress(rounds.each as usize * a_round(loads.len()));
    for round in 0..rounds.most {
        let goes_on = |load: &usize| round < rounds.each || (rounds.is_open)(&runs[*load]);
        let now: Vec<usize> = (0..loads.len()).filter(goes_on).collect();
        if round >= rounds.each {
            bar.inc_length(a_round(now.len()) as u64);
        }
        for l in now {
            let load = &loads[l];
            bar.set_message(load.name.clone());
            let mut order: Vec<usize> = (0..allocators.len()).collect();
            random.shuffle(&mut order);
            let mut work = None;
            for a in order {
                bar.inc(1);
                let name = allocators[a].name;
                if failures.iter().any(|failure| failure.is_of(load, name)) {
                    continue;
                }
                match checked_run(runner, load, &allocators[a], round, &mut work) {
                    Ok(run) => runs[l][a].push(run),
                    Err(error) => {
                        interrupt::check()?;
                        runs[l][a].clear();
                        failures.push(failure(&bar, load, name, round, &error));
                    }
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok((runs, failures))
}

/// Says at once why a run failed; the others go on.
pub fn failure(
    bar: &ProgressBar,
    load: &Load,
    allocator: &'static str,
    round: u32,
    error: &Error,
) -> Failure {
    let (load, why) = (load.name.clone(), format!("{error:#}"));
    bar.suspend(|| eprintln!("slabyard-bench: {load} on {allocator}: {why}"));
    Failure { load, allocator, round: round + 1, why }
}

/// A load does the same work in a round whatever the allocator: else two times
/// of it cannot be compared.
fn checked_run<R: Runs>(
    runner: &R,
    load: &Load,
    allocator: &Allocator,
    round: u32,
    others: &mut Option<u64>,
) -> Result<Run<R::Measures>> {
    let run = runner.run(&load.name, allocator, round)?;
    let others = *others.get_or_insert(run.work);
    ensure!(run.work == others, "{} {}; others did {others}", run.work, R::WORK);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::KERNEL_LOADS;
    use crate::compare::measures::{CPU, FAULTS, MAPPINGS, PEAK, WALL};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program of loads in a few lines of shell.
    const STAND_IN: &str = r#"#!/bin/sh
case "$1" in
--list) echo "quick 1 says at once"; echo "slow 2 sleeps"; echo "crash 1 ends itself"; exit ;;
quick) echo "ops 7" ;;
rests) sleep 0.2; echo "ops 7" ;;
slow) sleep 30 ;;
crash) echo "slot 3 is torn" >&2; kill -SEGV $$ ;;
wrong) exit 1 ;;
mute) ;;
tired) test -e "$0.ran" && exit 1; touch "$0.ran"; echo "ops 7" ;;
per) echo "ops ${#LD_PRELOAD}" ;;
esac
"#;

    fn bench() -> Bench {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let path = bench.unpack("stand-in", STAND_IN.as_bytes()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    fn runner(bench: &Bench) -> Runner {
        Runner::new(bench, Some(&bench.program("stand-in")), 1.0, 1)
    }

    #[test]
    fn loads_are_read_from_the_program() {
        let bench = bench();
        let loads = runner(&bench).loads().unwrap();
        let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
        assert_eq!(names, ["quick", "slow", "crash"]);
        assert_eq!((loads[1].threads, loads[1].words.as_str()), (2, "sleeps"));
        assert!(load_of("alone").is_none() && load_of("name many words").is_none());
    }

    #[test]
    fn embedded_program_tells_its_loads() {
        let bench = bench();
        let loads = Runner::new(&bench, None, 1.0, 1).loads().unwrap();
        assert!(loads.iter().all(|load| load.threads > 0), "{loads:?}");
    }

    #[test]
    fn kernel_loads_are_a_program_of_loads() {
        let bench = bench();
        let program = bench.program_named(Path::new(KERNEL_LOADS));
        let runner = Runner::new(&bench, Some(&program), 0.001, 20);
        let loads = runner.loads().unwrap();
        let names: [&str; 4] = std::array::from_fn(|i| loads[i].name.as_str());
        assert_eq!(names, ["messaging", "packets", "fork-bomb", "drain"]);
        let glibc = &bench.allocators[crate::allocators::GLIBC];
        let work = names.map(|name| runner.run(name, glibc, 0).unwrap().work);
        // The scale leaves a loop, and a cycle, at least.
        assert_eq!(work, [5 * 20 * 20, 1000, 20, 20_000]);
    }

    #[test]
    fn run_is_measured_on_its_allocator() {
        let bench = bench();
        for allocator in &bench.allocators {
            runner(&bench).check_preload(allocator).unwrap();
            let run = runner(&bench).run("quick", allocator, 0).unwrap();
            assert_eq!(run.work, 7);
            let [wall, peak, faults] = [WALL, PEAK, FAULTS].map(|m| run.measures[m]);
            assert!((100..1_000_000).contains(&wall), "{wall} us");
            assert!((300..50_000).contains(&peak), "{peak} KiB");
            assert!((10..50_000).contains(&faults), "{faults} faults");
            assert!(run.measures[CPU] < 1_000_000);
            let run = runner(&bench).run("rests", allocator, 0).unwrap();
            let mappings = run.measures[MAPPINGS];
            assert!((10..500).contains(&mappings), "{mappings} mappings");
        }
    }

    #[test]
    fn preload_that_the_loader_refuses_is_named() {
        let bench = bench();
        let mut wrong = bench.allocators[0].clone();
        wrong.preload = Some(bench.program("json_rounds.py"));
        let error = runner(&bench).check_preload(&wrong).err().unwrap();
        assert!(error.to_string().contains("json_rounds.py"), "{error}");
    }

    #[test]
    fn failing_run_tells_how_it_failed() {
        let bench = bench();
        let glibc = &bench.allocators[crate::allocators::GLIBC];
        let why = |load| runner(&bench).run(load, glibc, 0).unwrap_err().to_string();
        assert_eq!(why("slow"), "timeout");
        assert_eq!(why("crash"), "signal 11: slot 3 is torn");
        assert_eq!(why("wrong"), "exit 1: no words");
        assert!(why("mute").contains("ops N"));
        let nowhere = Runner::new(&bench, Some(Path::new("/nowhere")), 1.0, 1);
        let error = nowhere.run("x", glibc, 0).unwrap_err().to_string();
        assert!(error.contains("exit 127") && error.contains("/nowhere"), "{error}");
    }

    #[test]
    fn failure_is_told_once_and_the_others_go_on() {
        let bench = bench();
        let load = |name: &str| Load { name: name.to_owned(), threads: 1, words: String::new() };
        let loads = [load("crash"), load("quick")];
        let (runs, failures) =
            all(&runner(&bench), &loads, &bench.allocators, Rounds::just(3)).unwrap();
        assert_eq!(failures.len(), 3, "one a allocator: {failures:?}");
        assert!(failures.iter().all(|f| f.load == "crash" && f.round == 1));
        assert!(runs[1].iter().all(|of| of.len() == 3));
    }

    #[test]
    fn what_fails_once_has_no_runs() {
        let bench = bench();
        let load = Load { name: "tired".to_owned(), threads: 1, words: String::new() };
        let glibc = [bench.allocators[crate::allocators::GLIBC].clone()];
        let loads = std::slice::from_ref(&load);
        let (runs, failures) = all(&runner(&bench), loads, &glibc, Rounds::just(3)).unwrap();
        assert!(runs[0][0].is_empty(), "{runs:?}");
        assert_eq!(failures.iter().map(|f| f.round).collect::<Vec<_>>(), [2]);
        // Under the next setting it does not run, on that allocator alone.
        let quick = Load { name: "quick".to_owned(), ..load.clone() };
        let all = all_but(failures, &runner(&bench), &[load, quick], &glibc, Rounds::just(3));
        let (runs, failures) = all.unwrap();
        assert_eq!((runs[0][0].len(), runs[1][0].len()), (0, 3));
        assert_eq!(failures.iter().map(|f| f.round).collect::<Vec<_>>(), [2], "told once");
    }

    #[test]
    fn what_is_not_told_runs_on() {
        let bench = bench();
        let load = |name: &str| Load { name: name.to_owned(), threads: 1, words: String::new() };
        let loads = [load("quick"), load("rests")];
        // The second takes 0.2 s: it is open until it ran four times.
        let is_open = |runs: &OfLoad| runs[0][0].measures[WALL] > 150_000 && runs[0].len() < 4;
        let number = |most| {
            let rounds = Rounds { each: 2, most, is_open };
            let (runs, _) = all(&runner(&bench), &loads, &bench.allocators, rounds).unwrap();
            runs.iter().map(|of| of.iter().map(Vec::len).collect()).collect::<Vec<Vec<_>>>()
        };
        let everybody = bench.allocators.len();
        assert_eq!(number(9), [vec![2; everybody], vec![4; everybody]]);
        assert_eq!(number(3), [vec![2; everybody], vec![3; everybody]]);
    }

    #[test]
    fn different_work_is_a_failure() {
        let bench = bench();
        let load = Load { name: "per".to_owned(), threads: 1, words: String::new() };
        let (_, failures) =
            all(&runner(&bench), &[load], &bench.allocators, Rounds::just(1)).unwrap();
        assert!(failures[0].why.contains("operations; others did"), "{failures:?}");
    }
}
