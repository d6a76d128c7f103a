//! Runs each load of a program to completion, on our allocator and on all peers.
//!
//! `runs` takes the `measures`, `calls` counts system calls, `results` stores both, `judge`
//! compares them with the goals and lists the losses. `report` is the file format of all results;
//! `tables` and `text` print them.

mod calls;
pub mod judge;
pub mod measures;
mod report;
pub mod results;
pub mod runs;
pub mod tables;
mod text;

use std::path::Path;

use anyhow::Result;

use crate::allocators::{Allocator, Bench, EARLIER, OURS, OURS_NAME};
use crate::args::{Common, CompareOptions};
use crate::find::existing;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::peers::{Absent, AllAllocators, everybody};
use crate::{fronts, thp};
use measures::{Failure, Load};
use report::{Report, Section};
use results::Results;
use runs::{Rounds, Runner};

pub use report::Raw;

/// Runs the suite.
pub fn run(options: &CompareOptions) -> Result<Measured> {
    let bench = Bench::open(ours_of(&options.common, &options.fronts, &options.peers))?;
    let everybody = chosen_allocators(&bench, options)?;
    let program = options.program.as_deref().map(|program| bench.program_named(program));
    let runner = Runner::new(&bench, program.as_deref(), options.scale, options.timeout_s);
    let everybody = only_preloaded(everybody, &runner)?;
    for absent in &everybody.absent {
        eprintln!("slabyard-bench: {} is left out: {}", absent.name, absent.why);
    }
    let loads = chosen_loads(runner.loads()?, &options.only)?;
    let machine = Machine::read()?;

    let sections = sections(&runner, &loads, &everybody.allocators, options)?;
    let AllAllocators { allocators, absent } = &everybody;
    let report = Report::new(&machine, allocators, absent, sections, options);
    Measured::new(&report.head, &text::body(&report), &report, goals(&report.sections))
}

/// Nobody has to build ours to measure fronts in its place.
pub fn ours_of<'a>(common: &'a Common, fronts: &[String], peers: &[String]) -> Option<&'a Path> {
    let wanted = fronts.is_empty() || names_ours(peers);
    if wanted { common.ours.as_deref() } else { Some(Path::new("mimalloc")) }
}

/// Those of all sections, each with its section's name where there are several.
fn goals(sections: &[Section]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for section in sections {
        goals.extend(section.goals.iter().cloned().map(|goal| match sections.len() {
            1 => goal,
            _ => Goal { name: format!("{}: {}", section.thp, goal.name), ..goal },
        }));
    }
    goals
}

fn chosen_allocators(bench: &Bench, options: &CompareOptions) -> Result<AllAllocators> {
    let Some(path) = &options.earlier else {
        let everybody = everybody(bench, options.gperftools.as_deref());
        let chosen = chosen_peers(everybody, &options.peers);
        let fronts = fronts::allocators(bench, &options.engines, &options.fronts)?;
        return Ok(with_fronts(chosen, fronts, &options.peers));
    };
    let earlier = bench.checked(EARLIER, Some(existing(path)?))?;
    let mut chosen = if options.peers.is_empty() {
        let ours = bench.allocators[OURS].clone();
        AllAllocators { allocators: vec![ours], absent: Vec::new() }
    } else {
        chosen_peers(everybody(bench, options.gperftools.as_deref()), &options.peers)
    };
    chosen.allocators.push(earlier);
    Ok(chosen)
}

/// Only the named peers, if any are named; ours is included in any case.
pub fn chosen_peers(everybody: AllAllocators, names: &[String]) -> AllAllocators {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let AllAllocators { mut allocators, mut absent } = everybody;
    let ours = allocators[0].name;
    allocators.retain(|allocator| allocator.name == ours || wanted(allocator.name));
    absent.retain(|absent| wanted(absent.name));
    AllAllocators { allocators, absent }
}

/// Fronts, if there are some, stand in the place of ours, which is measured beside them if it
/// is named among the peers.
pub fn with_fronts(
    everybody: AllAllocators,
    fronts: Vec<Allocator>,
    peers: &[String],
) -> AllAllocators {
    if fronts.is_empty() {
        return everybody;
    }
    let AllAllocators { mut allocators, absent } = everybody;
    if !names_ours(peers) {
        allocators.remove(OURS);
    }
    allocators.splice(..0, fronts);
    AllAllocators { allocators, absent }
}

fn names_ours(peers: &[String]) -> bool {
    peers.iter().any(|peer| peer == OURS_NAME)
}

/// Leaves out peers that the loader does not map into this very program;
/// without ours there is nothing to measure.
pub fn only_preloaded(everybody: AllAllocators, runner: &Runner) -> Result<AllAllocators> {
    let AllAllocators { allocators, mut absent } = everybody;
    let mut kept: Vec<Allocator> = Vec::new();
    for allocator in allocators {
        match runner.check_preload(&allocator) {
            Ok(()) => kept.push(allocator),
            Err(error) if kept.is_empty() => return Err(error),
            Err(error) => absent.push(Absent { name: allocator.name, why: format!("{error:#}") }),
        }
    }
    Ok(AllAllocators { allocators: kept, absent })
}

/// Those of these names, or all.
///
/// # Errors
/// A name of no load.
pub fn chosen_loads(loads: Vec<Load>, only: &[String]) -> Result<Vec<Load>> {
    let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        anyhow::bail!("no load {unknown:?}; there are {}", names.join(", "));
    }
    let wanted = |load: &Load| only.is_empty() || only.contains(&load.name);
    Ok(loads.into_iter().filter(wanted).collect())
}

/// All runs under each requested setting of THP, else under the one in force. What failed under one
/// does not run under the next.
fn sections(
    runner: &Runner,
    loads: &[Load],
    allocators: &[Allocator],
    options: &CompareOptions,
) -> Result<Vec<Section>> {
    let mut failed: Vec<Failure> = Vec::new();
    let mut measure = |word: &str| -> Result<Section> {
        let (each, most) = (options.rounds, options.most_rounds());
        let rounds = Rounds { each, most, is_open: judge::open_for(&options.fronts) };
        let runs = runs::all_but(failed.clone(), runner, loads, allocators, rounds)?;
        failed.clone_from(&runs.1);
        let calls = calls::all(runner, loads, allocators, &failed)?;
        let names = allocators.iter().map(|allocator| allocator.name).collect();
        Ok(Section::new(word, Results::new(names, loads.to_vec(), runs), calls))
    };
    if options.thp.is_empty() {
        let word = thp::current().unwrap_or_else(|_| "unknown".to_owned());
        return Ok(vec![measure(&word)?]);
    }
    let mut under = |word: &str| {
        let _setting = thp::Setting::set(word)?;
        measure(word)
    };
    options.thp.iter().map(|thp| under(thp.word())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(name: &'static str) -> Allocator {
        Allocator { name, preload: None, settings: Vec::new(), version: String::new(), flags: "" }
    }

    fn load(name: &str) -> Load {
        Load { name: name.to_owned(), threads: 1, words: String::new() }
    }

    #[test]
    fn unknown_load_is_refused_with_the_list() {
        let loads = || vec![load("tree"), load("web")];
        assert_eq!(chosen_loads(loads(), &[]).unwrap().len(), 2);
        assert_eq!(chosen_loads(loads(), &["web".to_owned()]).unwrap()[0].name, "web");
        let error = chosen_loads(loads(), &["wbe".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("wbe") && error.contains("tree, web"), "{error}");
    }

    #[test]
    fn ours_is_measured_whoever_is_chosen() {
        let everybody = AllAllocators {
            allocators: ["ours", "mimalloc", "glibc"].map(allocator).to_vec(),
            absent: vec![Absent { name: "snmalloc", why: "not built".to_owned() }],
        };
        let chosen = chosen_peers(everybody, &["glibc".to_owned()]);
        let names: Vec<&str> = chosen.allocators.iter().map(|a| a.name).collect();
        assert_eq!(names, ["ours", "glibc"]);
        assert!(chosen.absent.is_empty(), "nobody asked for it");
    }

    #[test]
    fn fronts_stand_before_the_peers_and_ours_is_one_if_it_is_named() {
        let beside = |fronts: &[&'static str], peers: &[&str]| {
            let allocators = ["ours", "glibc"].map(allocator).to_vec();
            let fronts = fronts.iter().map(|name| allocator(name)).collect();
            let peers: Vec<String> = peers.iter().map(|&peer| peer.to_owned()).collect();
            let chosen =
                with_fronts(AllAllocators { allocators, absent: Vec::new() }, fronts, &peers);
            chosen.allocators.iter().map(|a| a.name).collect::<Vec<_>>()
        };
        assert_eq!(beside(&[], &[]), ["ours", "glibc"]);
        assert_eq!(beside(&["sheaves", "6.1"], &["glibc"]), ["sheaves", "6.1", "glibc"]);
        assert_eq!(beside(&["6.1"], &["ours", "glibc"]), ["6.1", "ours", "glibc"]);
    }
}
