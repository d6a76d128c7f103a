//! `slabyard sweep`: one replay at each combination of traces and settings, as one table.
//!
//! Neighbours: `slabyard-ask`'s sweep plans, replays, keeps the journal and writes; [`args`] has the
//! arguments, [`mod@report`] prints at the end, [`page`] draws. Invariants: points that cannot be are found
//! before anything is replayed; a file that was there is written over only with `--restart`; however the
//! command ends, rows that are done are kept.

pub mod args;
mod page;
mod report;

use crate::failure::{Failure, signal_name};
use crate::html::HtmlArgs;
use crate::outputs;
use crate::progress::Progress;
use crate::stderr::say;
use crate::stdout;
use crate::terminal::{self, Colour};
use anyhow::Context;
use args::{JoinArgs, SweepArgs, SweepCommand};
use report::{Checked, Report};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slabyard_ask::sweep::journal::{self, Before};
use slabyard_ask::sweep::{self, Format, Journal, Plan, Row, Shard, Summary, SweepRequest, Table};
use slabyard_ask::{Error, Listener, Silent};
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Sweeps, lists or joins.
pub fn run(args: &SweepArgs) -> Result<ExitCode, Failure> {
    if let Some(SweepCommand::Join(args)) = &args.command {
        return join(args);
    }
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse)?;
    if let Some(output) = args.output.as_deref().filter(|_| !args.list) {
        Format::of(output)?;
        outputs::look_before("-o", output, &args.files)?;
        args.html.look_before(&args.files)?;
        args.html.is_beside("-o", output)?;
    }
    let asked = SweepRequest {
        files: args.files.clone(),
        vary: args.vary.clone(),
        machine: args.machine.clone(),
        keeps_impossible: args.skip_impossible || args.list,
    };
    let plan = sweep::plan(&asked, &terminal::Progress::new())?;
    match &args.output {
        Some(output) if !args.list => replay(args, &plan, shard, output),
        _ => list(&plan, shard, args.json),
    }
}

/// Replays the points that are left, and writes the table.
fn replay(args: &SweepArgs, plan: &Plan, shard: Shard, output: &Path) -> Result<ExitCode, Failure> {
    let points: Vec<usize> = plan.of_shard(shard).collect();
    let done = if args.restart { None } else { done(plan, &points, output)? };
    // Before signals wait: whoever ends it now loses nothing.
    let checked = if args.no_check { Vec::new() } else { check(plan, &points) };
    if let Some(table) = done {
        return told(args, plan, &points, points.len(), &table, &checked);
    }
    let before = if args.restart { Before::Discard } else { Before::Resume };
    // From here on signals wait until the journal is there.
    let signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let journal = Journal::open(plan, shard, output, before)?;
    if args.restart {
        discard(output)?;
    }
    let left: Vec<usize> =
        points.iter().copied().filter(|nth| !journal.rows().contains_key(nth)).collect();
    let done_before = points.len() - left.len();
    let progress = Progress::new(points.len(), false);
    progress.done_before(done_before);
    let journal = Arc::new(Mutex::new(journal));
    end_on_signals(signals, &journal, &progress, points.len(), output);
    let mut take = |row: Row| {
        progress.begin("sweep", &plan.points[row.point()].name);
        let taken = lock(&journal).push(row);
        progress.end();
        taken
    };
    sweep::run(plan, &left, &Silent, &mut take)?;
    // Kept to the end, so that no signal ends us between the table and the journal.
    let mut kept = lock(&journal);
    kept.sync()?;
    let table = plan.table(kept.rows().values().cloned().collect())?;
    table.write(output).map_err(|error| {
        let kept = journal::beside(output);
        let text = format!("all points are kept in {}; the same command goes on", kept.display());
        match error {
            Error::Cannot(error) => Error::Cannot(error.context(text)),
            usage => usage,
        }
    })?;
    kept.remove()?;
    drop(progress);
    told(args, plan, &points, done_before, &table, &checked)
}

/// What the answers about each trace are worth.
fn check(plan: &Plan, points: &[usize]) -> Vec<Checked> {
    let listener = terminal::Progress::new();
    let of_input = |nth: &usize| points.iter().any(|point| plan.points[*point].input == *nth);
    let one = |nth: usize| {
        let trust = sweep::trust(plan, nth, &listener);
        listener.clear();
        let line = match &trust {
            Ok(trust) => trust.line(),
            Err(error) => format!("trust: its own run cannot be checked: {error}"),
        };
        Checked { trace: plan.inputs[nth].name.clone(), line, trust: trust.ok() }
    };
    (0..plan.inputs.len()).filter(of_input).map(one).collect()
}

/// The table, if it is there already.
fn done(plan: &Plan, points: &[usize], output: &Path) -> Result<Option<Table>, Failure> {
    match fs::metadata(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let context = format!("cannot write {}", output.display());
            return Err(anyhow::Error::from(error).context(context).into());
        }
        Ok(_) => {}
    }
    let is_of_it = |table: &Table| table.is_of(&plan.digest, points.iter().copied());
    if let Some(table) = Table::read(output).ok().filter(is_of_it) {
        return Ok(Some(table));
    }
    Err(Failure::Usage(format!(
        "{} is there, and is not the table of this sweep: give another -o, or write over it with \
         --restart",
        output.display()
    )))
}

fn discard(output: &Path) -> Result<(), Failure> {
    match fs::remove_file(output) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot write over {}", output.display()))?
        }
        _ => Ok(()),
    }
}

/// Ends the command at once on SIGINT or SIGTERM, but never while a row or the table is written.
fn end_on_signals(
    mut signals: Signals,
    journal: &Arc<Mutex<Journal>>,
    progress: &Progress,
    points: usize,
    output: &Path,
) {
    let (journal, progress) = (Arc::clone(journal), progress.clone());
    let beside = journal::beside(output);
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let mut journal = lock(&journal);
        // What the disk does not take now, the same command does again.
        let _ = journal.sync();
        progress.clear();
        say(&format!(
            "stopped by {}; {} of {points} points are done and kept in {}; the same command goes on",
            signal_name(signal),
            journal.rows().len(),
            beside.display()
        ));
        std::process::exit(128 + signal)
    });
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says what is in the table.
fn told(
    args: &SweepArgs,
    plan: &Plan,
    points: &[usize],
    done_before: usize,
    table: &Table,
    checked: &[Checked],
) -> Result<ExitCode, Failure> {
    let output = args.output.as_deref().unwrap_or(Path::new(""));
    let impossible = points.iter().filter(|nth| plan.points[**nth].impossible.is_some()).count();
    let json = json!({
        "output": output,
        "question": plan.digest,
        "shard": args.shard,
        "points": points.len(),
        "points_of_sweep": plan.points.len(),
        "done_before": done_before,
        "impossible": impossible,
    });
    let mut line = format!("{}: {} points", output.display(), points.len());
    if points.len() < plan.points.len() {
        line.push_str(&format!(" of {}", plan.points.len()));
    }
    for (count, what) in [(done_before, "were done before"), (impossible, "cannot be")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    report(
        &Report { done: json, line, table, summary: Summary::of(table), checked },
        &args.html,
        args.json,
    )
}

/// Prints at the end, and draws.
fn report(report: &Report<'_>, html: &HtmlArgs, as_json: bool) -> Result<ExitCode, Failure> {
    html.write(|| page::of(report))?;
    let text = if as_json { report.json()? } else { report.text(Colour::of_stdout()) };
    stdout::print(text.as_bytes())
}

fn list(plan: &Plan, shard: Shard, as_json: bool) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let mut all = Vec::new();
    for nth in plan.of_shard(shard) {
        let point = &plan.points[nth];
        let why = point.impossible.as_deref();
        all.push(json!({"point": nth, "id": point.id, "name": point.name, "impossible": why}));
        let why = why.map(|why| format!("  cannot be: {why}")).unwrap_or_default();
        text.push_str(&format!("{nth:>6}  {}  {}{why}\n", point.id, point.name));
    }
    if as_json {
        let json =
            json!({"question": plan.digest, "points_of_sweep": plan.points.len(), "points": all});
        text = format!("{json:#}\n");
    }
    stdout::print(text.as_bytes())
}

fn join(args: &JoinArgs) -> Result<ExitCode, Failure> {
    Format::of(&args.output)?;
    outputs::look_before("-o", &args.output, &args.parts)?;
    args.html.look_before(&args.parts)?;
    args.html.is_beside("-o", &args.output)?;
    let table = sweep::join(&args.parts)?;
    table.write(&args.output)?;
    let (points, parts) = (table.rows.len(), args.parts.len());
    let json = json!({
        "output": args.output,
        "question": table.rows.first().map(Row::question),
        "points": points,
        "parts": parts,
    });
    let line = format!("{}: {points} points of {parts} parts", args.output.display());
    let summary = Summary::of(&table);
    let joined = Report { done: json, line, table: &table, summary, checked: &[] };
    report(&joined, &args.html, args.json)
}
