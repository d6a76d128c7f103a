//! Measures real programs on all allocators: wall and CPU time, and peak memory.
//!
//! `real` defines the programs, `runner` runs one of them. Rounds, samples and tables are those of
//! `compare`, with programs as loads. Programs do more than allocate, so means are shown but not
//! checked against goals.

mod runner;

use anyhow::{Result, ensure};
use comfy_table::CellAlignment;
use serde::Serialize;

use crate::allocators::{Bench, OURS};
use crate::args::{MOST_TIMES, ProgramsOptions};
use crate::compare::measures::{CPU, FAULTS, Load, PEAK, WALL};
use crate::compare::results::Results;
use crate::compare::runs::Rounds;
use crate::compare::{self, judge, runs, tables};
use crate::goals::{Goal, Verdict};
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::peers::everybody;
use crate::real::{PROGRAMS, Prepared, Program};
use crate::{fronts, screen};
use runner::Runner;

/// A program, and whether it is installed.
#[derive(Serialize)]
struct ProgramStatus {
    name: &'static str,
    package: &'static str,
    words: &'static str,
    /// Its file, or nothing.
    executable: Option<String>,
    /// Why it is left out, if it is.
    absent: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    rounds: u32,
    programs: &'a [ProgramStatus],
    goals: &'a [Goal],
    losses: &'a [judge::Loss],
    #[serde(flatten)]
    results: compare::Raw<'a>,
}

pub fn tell(options: &ProgramsOptions) -> Result<Verdict> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    let (_, places) = prepared(&bench, &options.only)?;
    screen::publish(&list(&places).to_string(), &places, options.common.json.as_deref())?;
    Ok(Verdict::Met)
}

/// Runs the suite.
pub fn run(options: &ProgramsOptions) -> Result<Measured> {
    let bench = Bench::open(compare::ours_of(&options.common, &options.fronts, &options.peers))?;
    let (there, mut places) = prepared(&bench, &options.only)?;
    for place in &mut places {
        // Where it lies on this machine is of no use elsewhere.
        place.executable = place.executable.as_deref().map(file_name);
    }
    for place in &places {
        if let Some(why) = &place.absent {
            let (name, package) = (place.name, place.package);
            eprintln!("skipped: {name}: {why} (Debian: apt-get install {package})");
        }
    }
    ensure!(!there.is_empty(), "no program is there; --list tells how to get them");
    let everybody = everybody(&bench, options.gperftools.as_deref());
    let everybody = compare::chosen_peers(everybody, &options.peers);
    let fronts = fronts::allocators(&bench, &options.engines, &options.fronts)?;
    let everybody = compare::with_fronts(everybody, fronts, &options.peers);
    let (allocators, absent) = (&everybody.allocators, &everybody.absent);
    let machine = Machine::read()?;

    let loads: Vec<Load> = there.iter().map(|(name, _)| load(name)).collect();
    let runner = Runner::new(&bench, there, options.timeout_s);
    let most = MOST_TIMES * options.rounds;
    let rounds = Rounds { each: options.rounds, most, is_open: judge::open_for(&options.fronts) };
    let runs = runs::all(&runner, &loads, allocators, rounds)?;
    let names = allocators.iter().map(|allocator| allocator.name).collect();
    let results = Results::new(names, loads, runs);
    let (goals, losses) = (judge::goals_of_each(&results), judge::losses(&results));
    let report = Report {
        head: Head::new(1, "programs", &machine, allocators, absent),
        rounds: options.rounds,
        programs: &places,
        goals: &goals,
        losses: &losses,
        results: compare::Raw::new(&results),
    };
    Measured::new(&report.head, &text(&report, &results), &report, goals.clone())
}

/// Programs that run on a preloaded allocator, by name.
type There = Vec<(&'static str, Prepared)>;

/// Writes the inputs; a program that is not there, or on which a preload has
/// no effect, is left out with its reason.
fn prepared(bench: &Bench, only: &[String]) -> Result<(There, Vec<ProgramStatus>)> {
    let wanted = |program: &&Program| only.is_empty() || only.iter().any(|n| n == program.name);
    let (mut there, mut places) = (Vec::new(), Vec::new());
    for &Program { name, package, words, prepare } in PROGRAMS.iter().filter(wanted) {
        let checked = prepare(bench).and_then(|program| {
            runner::check_bound(&program, &bench.allocators[OURS])?;
            Ok(program)
        });
        let (executable, absent) = match &checked {
            Ok(program) => (Some(program.executable.display().to_string()), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        places.push(ProgramStatus { name, package, words, executable, absent });
        there.extend(checked.ok().map(|program| (name, program)));
    }
    Ok((there, places))
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn load(name: &str) -> Load {
    let words = PROGRAMS.iter().find(|program| program.name == name).map_or("", |p| p.words);
    Load { name: name.to_owned(), threads: 1, words: words.to_owned() }
}

fn list(places: &[ProgramStatus]) -> comfy_table::Table {
    let row = |place: &ProgramStatus| {
        let state = match (&place.executable, &place.absent) {
            (Some(path), _) => path.clone(),
            (None, why) => format!("left out: {}", why.as_deref().unwrap_or_default()),
        };
        vec![place.name.to_owned(), place.words.to_owned(), place.package.to_owned(), state]
    };
    let heading = ["program", "what it does", "Debian package", "here"];
    let mut table = screen::table(&heading, places.iter().map(row).collect());
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

fn text(report: &Report, results: &Results) -> String {
    let mut text = format!(
        "THP {}, {} rounds; a program runs on, up to {} times as often, while the interval of its \
         time beside the best peer's holds the limit.\n",
        report.head.machine.thp, report.rounds, MOST_TIMES
    );
    text += &format!("\n{}\n", list(report.programs));
    if !judge::is_ours(results) {
        text += &format!("\n{}:\n\n{}\n", tables::SIDE_BY_SIDE, tables::side_by_side(results));
    }
    for measure in [WALL, CPU, PEAK, FAULTS] {
        let (title, table) = tables::titled(results, measure);
        text += &format!("\n{title}:\n\n{table}\n");
    }
    text += &format!("\nOurs to each peer's, geometric mean:\n\n{}\n", tables::means(results));
    text += &format!("\nLosses:\n\n{}\n", tables::losses(report.losses));
    text + &tables::failed(&results.failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::Allocator;
    use crate::compare::measures::Run;
    use crate::compare::runs::Runs;
    use std::path::Path;

    #[test]
    fn every_program_is_there_or_left_out_with_its_reason() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let (there, places) = prepared(&bench, &[]).unwrap();
        assert_eq!(places.len(), PROGRAMS.len());
        let text = list(&places).to_string();
        for place in &places {
            let found = there.iter().any(|(name, _)| *name == place.name);
            assert_eq!(found, place.absent.is_none(), "{}", place.name);
            assert!(text.contains(place.package));
            if let Some(why) = &place.absent {
                println!("skipped: {}: {why}", place.name);
                assert!(!why.is_empty() && text.contains("left out: "), "{text}");
            }
        }
    }

    /// The quick ones; the whole list is for optimised builds.
    #[test]
    fn programs_write_the_same_on_all_allocators() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let only = ["lua", "gs", "redis-server"].map(str::to_owned);
        let (there, places) = prepared(&bench, &only).unwrap();
        for place in places.iter().filter(|place| place.absent.is_some()) {
            println!("skipped: {}: {:?}", place.name, place.absent);
        }
        let names: Vec<&str> = there.iter().map(|(name, _)| *name).collect();
        let runner = Runner::new(&bench, there, 60);
        for name in names {
            let of =
                |a: &Allocator| runner.run(name, a, 0).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            let runs: Vec<Run> = bench.allocators.iter().map(of).collect();
            assert!(runs.iter().all(|run| run.work == runs[0].work), "{name}: {runs:?}");
            assert!(runs.iter().all(|run| run.measures[PEAK] > 2000), "{name}: {runs:?}");
        }
    }
}
