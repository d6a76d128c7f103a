//! Runs every suite that compares against all peers, and that of object caches, one after the other.
//!
//! A suite that cannot run on this machine is skipped with a message; the other suites' results are
//! still written. `raw` is the file of everything measured; `page` generates the document from it.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use crate::allocators::Bench;
use crate::args::{
    AllOptions, CACHED_BURST, CACHED_OBJECTS, COUNTED_PAIRS, CachesOptions, CompareOptions,
    HANDED_REST_MS, HandedOptions, InstructionsOptions, LATENCY_PAIRS, LATENCY_THREADS,
    LOAD_TIMEOUT_S, LatencyOptions, PROGRAM_TIMEOUT_S, PeerSuite, ProgramsOptions, REST_OBJECTS,
    REST_SECONDS, RestOptions, WALKED_SCALE, WalksOptions,
};
use crate::fronts::Engines;
use crate::goals::{Goal, Verdict, judge};
use crate::machine::Machine;
use crate::measured::Measured;
use crate::page;
use crate::peers::{AllAllocators, everybody};
use crate::raw::{ResultsFile, SuiteResult, SuiteResults};
use crate::{
    caches, compare, handed, instructions, interrupt, latency, machine, programs, rest, screen,
    walks,
};

/// With these, `handed` takes less than five minutes on a machine that is not alone either.
const MOST_HANDED_ROUNDS: u32 = 4;

/// A suite: its name in the JSON, its title, and how it is run.
struct Suite {
    which: PeerSuite,
    name: &'static str,
    title: &'static str,
    run: fn(&AllOptions) -> Result<Measured>,
}

/// In the order in which they are run and written.
const SUITES: [Suite; 8] = [
    Suite { which: PeerSuite::Loads, name: "compare", title: "Loads", run: loads },
    Suite { which: PeerSuite::Programs, name: "programs", title: "Real programs", run: real },
    Suite { which: PeerSuite::Rest, name: "rest", title: "Memory that comes back", run: back },
    Suite { which: PeerSuite::Latency, name: "latency", title: "Single calls", run: calls },
    Suite { which: PeerSuite::Handed, name: "handed", title: "Handed-over objects", run: over },
    Suite { which: PeerSuite::Walks, name: "walks", title: "Page walks", run: walked },
    Suite { which: PeerSuite::Caches, name: "caches", title: "Object caches", run: typed },
    Suite {
        which: PeerSuite::Instructions,
        name: "instructions",
        title: "Instructions",
        run: count,
    },
];

fn loads(all: &AllOptions) -> Result<Measured> {
    compare::run(&CompareOptions {
        common: all.common.clone(),
        rounds: all.rounds,
        most_rounds: None,
        only: Vec::new(),
        peers: Vec::new(),
        fronts: Vec::new(),
        engines: Engines::default(),
        earlier: None,
        thp: all.thp.clone(),
        scale: 1.0,
        timeout_s: LOAD_TIMEOUT_S,
        program: None,
        gperftools: all.gperftools.clone(),
    })
}

fn real(all: &AllOptions) -> Result<Measured> {
    programs::run(&ProgramsOptions {
        common: all.common.clone(),
        list: false,
        rounds: all.rounds,
        only: Vec::new(),
        peers: Vec::new(),
        fronts: Vec::new(),
        engines: Engines::default(),
        timeout_s: PROGRAM_TIMEOUT_S,
        gperftools: all.gperftools.clone(),
    })
}

fn back(all: &AllOptions) -> Result<Measured> {
    rest::run(&RestOptions {
        common: all.common.clone(),
        // Pages are counted, which is the same each time but for a little; each takes ten
        // seconds.
        rounds: all.rounds.div_ceil(4),
        objects: REST_OBJECTS,
        times: vec![1],
        seconds: REST_SECONDS,
        gperftools: all.gperftools.clone(),
    })
}

fn calls(all: &AllOptions) -> Result<Measured> {
    latency::run(&LatencyOptions {
        common: all.common.clone(),
        rounds: all.rounds,
        pairs: LATENCY_PAIRS,
        threads: LATENCY_THREADS.to_vec(),
        gperftools: all.gperftools.clone(),
    })
}

fn over(all: &AllOptions) -> Result<Measured> {
    handed::run(&HandedOptions {
        common: all.common.clone(),
        // Most of what it says repeats; each takes half a minute.
        rounds: all.rounds.div_ceil(3).min(MOST_HANDED_ROUNDS),
        only: Vec::new(),
        peers: Vec::new(),
        scale: 1.0,
        rest_ms: HANDED_REST_MS,
        timeout_s: LOAD_TIMEOUT_S,
        gperftools: all.gperftools.clone(),
    })
}

fn walked(all: &AllOptions) -> Result<Measured> {
    walks::run(&WalksOptions {
        common: all.common.clone(),
        only: Vec::new(),
        peers: Vec::new(),
        thp: all.thp.clone(),
        scale: WALKED_SCALE,
        timeout_s: PROGRAM_TIMEOUT_S,
        gperftools: all.gperftools.clone(),
    })
}

fn typed(all: &AllOptions) -> Result<Measured> {
    caches::run(&CachesOptions {
        rounds: all.rounds,
        objects: CACHED_OBJECTS,
        burst: CACHED_BURST,
        json: None,
        check: false,
    })
}

fn count(all: &AllOptions) -> Result<Measured> {
    instructions::run(&InstructionsOptions {
        common: all.common.clone(),
        pairs: COUNTED_PAIRS,
        gperftools: all.gperftools.clone(),
    })
}

/// Runs the suites.
pub fn run(options: &AllOptions) -> Result<Verdict> {
    // Told before the hour, not after it.
    let mut parts = kept(options)?;
    let bench = Bench::open(options.common.ours.as_deref())?;
    let everybody = everybody(&bench, options.gperftools.as_deref());
    let machine = Machine::read()?;
    let wanted = |suite: &&Suite| options.only.is_empty() || options.only.contains(&suite.which);
    for suite in SUITES.iter().filter(wanted) {
        parts.insert(suite.name.to_owned(), part(suite, options)?);
    }
    let text = document(&machine, &everybody, &parts);
    let goals = goals(&parts);
    let written = ResultsFile::new(parts);
    if let Some(directory) = &options.write_docs {
        page::write(directory, &written)?;
    }
    screen::publish(&text, &written, options.common.json.as_deref())?;
    Ok(judge(&goals, options.common.check))
}

/// What stays in the document: the suites that are not wanted, if only some are.
fn kept(options: &AllOptions) -> Result<SuiteResults> {
    let Some(directory) = &options.write_docs else { return Ok(SuiteResults::new()) };
    ensure!(directory.is_dir(), "{}: no directory to write to", directory.display());
    if options.only.is_empty() {
        return Ok(SuiteResults::new());
    }
    let raw = options.common.json.as_deref().context(
        "--only with --write-docs: --json names the file that has the other suites' parts",
    )?;
    let told = || format!("{}: run all suites, to write it anew", raw.display());
    if raw.exists() {
        Ok(ResultsFile::read(raw).with_context(told)?.suites)
    } else {
        Ok(SuiteResults::new())
    }
}

/// Runs a suite; why, if it cannot be run.
fn part(suite: &Suite, options: &AllOptions) -> Result<SuiteResult> {
    let measured = (suite.run)(options);
    // Not a reason to go on.
    interrupt::check()?;
    let (command, commit) = (command(suite, options), machine::commit());
    Ok(match measured {
        Ok(Measured { body, report, goals, .. }) => {
            SuiteResult { command, commit, text: body, goals, report: Some(report) }
        }
        Err(error) => {
            let text = format!("skipped: {error:#}");
            eprintln!("{}: {text}", suite.name);
            SuiteResult { command, commit, text, goals: Vec::new(), report: None }
        }
    })
}

/// Those of all suites, each with its suite's title.
fn goals(parts: &SuiteResults) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (suite, part) in in_order(parts) {
        goals.extend(part.goals.iter().cloned().map(|goal| {
            let name = format!("{}: {}", suite.title, goal.name);
            Goal { name, ..goal }
        }));
    }
    goals
}

fn in_order(parts: &SuiteResults) -> impl Iterator<Item = (&'static Suite, &SuiteResult)> {
    SUITES.iter().filter_map(|suite| Some((suite, parts.get(suite.name)?)))
}

/// All of it, for the screen.
fn document(machine: &Machine, everybody: &AllAllocators, parts: &SuiteResults) -> String {
    let mut text = format!(
        "# Benchmarks\n\n\
         Slabyard's malloc beside its peers, each preloaded into the same programs.\n\
         Above each part stands how it was measured.\n\n{}",
        allocators(machine, everybody)
    );
    let goals = goals(parts);
    if !goals.is_empty() {
        let _ = write!(text, "## Goals\n\n{}\n\n", screen::goals(&goals));
    }
    for (suite, SuiteResult { command, text: body, .. }) in in_order(parts) {
        let (title, body) = (suite.title, body.trim_end());
        let _ = write!(text, "## {title}\n\n```\n{command}\n```\n\n{body}\n\n");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// How to repeat a suite, without paths of the machine where it was done.
fn command(suite: &Suite, options: &AllOptions) -> String {
    let mut text = "cargo build --release -p slabyard-malloc\n\
         cargo build --release -p slabyard-bench --features peers\n\
         target/release/slabyard-bench all"
        .to_owned();
    let _ = write!(text, " --only {} --rounds {}", suite.which.word(), options.rounds);
    if matches!(suite.which, PeerSuite::Loads | PeerSuite::Walks) && !options.thp.is_empty() {
        let words: Vec<&str> = options.thp.iter().map(|thp| thp.word()).collect();
        let _ = write!(text, " --thp {}", words.join(","));
    }
    text
}

fn allocators(machine: &Machine, everybody: &AllAllocators) -> String {
    let mut text = format!(
        "## Machine and allocators\n\n\
         {}, {} CPUs, Linux {}, {}.\n",
        machine.cpu,
        machine.cpus.len(),
        machine.kernel,
        machine.compiler
    );
    for setting in &machine.settings {
        let _ = writeln!(text, "Setting of ours: `{setting}`.");
    }
    let rows = everybody.allocators.iter().map(|allocator| {
        let flags = match allocator.flags {
            "" => "as found".to_owned(),
            flags => format!("`{flags}`"),
        };
        vec![allocator.name.to_owned(), allocator.version.clone(), flags]
    });
    let table = screen::words(&["allocator", "version", "built with"], rows.collect());
    let _ = write!(text, "\n{table}\n");
    if everybody.absent.is_empty() {
        return text + "\nNo peer was left out.\n\n";
    }
    text += "\nLeft out:\n\n";
    for absent in &everybody.absent {
        let _ = writeln!(text, "- {}: {}", absent.name, absent.why);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Suite as Chosen};
    use crate::peers::Absent;
    use clap::Parser;
    use serde_json::value::RawValue;
    use std::fs;

    fn options(more: &[&str]) -> AllOptions {
        let line = ["slabyard-bench", "all"].iter().chain(more);
        match Args::try_parse_from(line).unwrap().suite {
            Chosen::All(options) => options,
            _ => unreachable!("the suite asked for"),
        }
    }

    fn some(text: &str) -> SuiteResult {
        let report = Some(RawValue::from_string("[1,2]".to_owned()).unwrap());
        let goals = vec![Goal::at_most_ratio("time", 0.9, 0.95)];
        let (command, commit) = ("do it".to_owned(), None);
        SuiteResult { command, commit, text: text.to_owned(), goals, report }
    }

    #[test]
    fn document_holds_what_was_measured_and_what_was_not() {
        let mut parts = SuiteResults::from([("compare".to_owned(), some("some tables\n"))]);
        let none =
            SuiteResult { text: "skipped: none is there".into(), goals: Vec::new(), ..some("") };
        parts.insert("programs".to_owned(), none);
        let everybody = AllAllocators {
            allocators: Vec::new(),
            absent: vec![Absent { name: "tcmalloc", why: "not installed".to_owned() }],
        };
        let text = document(&Machine::read().unwrap(), &everybody, &parts);
        for words in [
            "- tcmalloc: not installed",
            "| Loads: time |    0.900 | <= 0.95 |     met |",
            "## Loads\n\n```\ndo it\n```\n\nsome tables\n\n## Real programs\n",
            "\n\nskipped: none is there\n",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn suites_that_are_not_wanted_stay_in_the_document() {
        let directory = tempfile::tempdir().unwrap();
        let docs = format!("--write-docs={}", directory.path().display());
        let raw = directory.path().join("raw.json");
        let json = raw.to_str().unwrap();
        let some_suites = options(&[&docs, "--only", "rest", "--json", json]);
        assert!(kept(&some_suites).unwrap().is_empty(), "nothing is there yet");
        let written =
            ResultsFile::new(SuiteResults::from([("compare".to_owned(), some("tables"))]));
        fs::write(&raw, serde_json::to_string_pretty(&written).unwrap()).unwrap();
        let parts = kept(&some_suites).unwrap();
        assert_eq!(parts["compare"].report.as_ref().unwrap().get(), "[1,2]");
        assert!(kept(&options(&[&docs, "--json", json])).unwrap().is_empty(), "all are measured");
        let error = kept(&options(&[&docs, "--only", "rest"])).err().unwrap().to_string();
        assert!(error.contains("--json"), "{error}");
        fs::write(&raw, "{}").unwrap();
        let error = format!("{:#}", kept(&some_suites).err().unwrap());
        assert!(error.contains("run all suites"), "{error}");
    }

    #[test]
    fn command_is_of_the_suite() {
        let options = options(&["--rounds", "3", "--thp", "madvise,always"]);
        let of =
            |which| command(SUITES.iter().find(|suite| suite.which == which).unwrap(), &options);
        assert!(of(PeerSuite::Loads).ends_with("all --only loads --rounds 3 --thp madvise,always"));
        assert!(of(PeerSuite::Rest).ends_with("all --only rest --rounds 3"));
    }

    #[test]
    fn missing_directory_is_named_before_anything_is_measured() {
        let options = options(&["--write-docs=/nowhere"]);
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains("/nowhere: no directory"), "{error}");
    }

    #[test]
    fn every_suite_is_run_once_and_has_a_word() {
        for suite in &SUITES {
            let only = options(&["--only", suite.which.word()]).only;
            assert_eq!(only, [suite.which]);
            assert_eq!(SUITES.iter().filter(|other| other.which == suite.which).count(), 1);
        }
    }
}
