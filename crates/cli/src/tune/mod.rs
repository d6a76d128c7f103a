//! `slabyard tune`: settings on the front of memory against slow-path work for some loads, and the one
//! to take, if it holds on a load that it was not found by.
//!
//! Neighbours: `slabyard_ask::tune` searches and judges; [`args`] has the arguments, [`report`] prints.
//! Invariant: a setting that did not hold is never printed as recommended, and the exit code is 1.

pub mod args;
mod report;

use crate::failure::Failure;
use crate::stdout;
use crate::terminal::Progress;
use args::TuneArgs;
use report::{JudgedFront, JudgedSingles, Report};
use slabyard_ask::files::shown;
use slabyard_ask::load::{self, Loaded, TraceFile};
use slabyard_ask::question::{self, Question};
use slabyard_ask::tune::single::Goal;
use slabyard_ask::tune::{Search, best, judge};
use slabyard_ask::{Error, Listener};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

/// Prints the front, what is recommended, and how it held.
pub fn run(args: &TuneArgs) -> Result<ExitCode, Failure> {
    args.html.look_before(&args.files)?;
    let progress = Progress::new();
    let base = Question::default().with(&question::machine(&args.machine.join(","))?)?;
    let (names, loads) = loads(args, &base, &progress)?;
    let mut search = Search::new(&loads, &base, &progress)?;
    let is_halved = args.files.len() == 1;
    let judges = if is_halved { 1..2 } else { 0..loads.len() };
    let mut verdicts = Vec::new();
    for nth in judges.clone() {
        verdicts.push(judge::without(&mut search, nth, &names[nth], &progress)?);
    }
    // Of a load that was cut the second half only judges.
    let tuned: Vec<usize> = if is_halved { vec![0] } else { (0..loads.len()).collect() };
    let front = search.front(&tuned, &progress)?;
    let found = JudgedFront { front: &front, best: best(&front), judges: &verdicts };
    let singles = singles(&mut search, &found, &tuned, (&judges, &names), &progress)?;
    let writable = search.writable();
    let report = Report::new(&found, (&singles, &writable), search.effort(), is_halved);
    args.html.write(|| report.page())?;
    let text = if args.json { report.json()? } else { report.table() };
    let code = stdout::print(text.as_bytes())?;
    Ok(if report.is_recommended() { code } else { ExitCode::FAILURE })
}

/// What to write for single caches beside what is recommended for all, or beside the default.
fn singles(
    search: &mut Search<'_>,
    found: &JudgedFront<'_>,
    tuned: &[usize],
    (judges, names): (&Range<usize>, &[String]),
    listener: &dyn Listener,
) -> Result<Vec<JudgedSingles>, Failure> {
    let recommended = found.recommended();
    let beside = recommended.map(|point| point.changes.clone()).unwrap_or_default();
    let mut all = Vec::new();
    for goal in Goal::ALL {
        let Some(singles) = search.singles(tuned, &beside, goal, listener)? else { continue };
        let mut verdicts = Vec::new();
        for nth in judges.clone() {
            let how = (goal, recommended.is_some());
            verdicts.push(judge::singles_without(search, nth, &names[nth], how, listener)?);
        }
        all.push(JudgedSingles::new(singles, verdicts));
    }
    Ok(all)
}

/// The loads, and what to call them: one alone as its two halves.
fn loads(
    args: &TuneArgs,
    base: &Question,
    listener: &dyn Listener,
) -> Result<(Vec<String>, Vec<Loaded>), Failure> {
    let load = |file: &Path| -> Result<Loaded, Error> {
        let file = TraceFile { file: file.to_owned(), ..TraceFile::default() };
        load::load(&file, &base.wanted, listener)
    };
    if let [file] = &args.files[..] {
        let halves = judge::halves(load(file)?)?;
        let names = ["first", "second"].map(|half| format!("{}, {half} half", shown(file)));
        return Ok((names.into(), halves.into()));
    }
    let loads = args.files.iter().map(|file| load(file)).collect::<Result<_, _>>()?;
    Ok((args.files.iter().map(|file| shown(file)).collect(), loads))
}
