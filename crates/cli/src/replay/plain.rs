//! The usual mode of `slabyard replay`: one replay, and its results as a table or JSON.

use super::args::ReplayArgs;
use super::heading::heading;
use super::table::{self, WhichRows};
use super::{events, json, oom, page, partial_slabs, save};
use crate::failure::Failure;
use crate::terminal::{Colour, Progress};
use crate::{stderr, stdout};
use anyhow::Context;
use slabyard_ask::Listener as _;
use slabyard_ask::load::Loaded;
use slabyard_ask::{figures, prepare};
use slabyard_lab::case;
use slabyard_lab::replay::replay;
use std::process::ExitCode;

/// Replays a trace once and prints the figures.
pub(super) fn run(
    args: &ReplayArgs,
    loaded: &Loaded,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let start = args.start_state();
    let mut case = prepare::case(
        args.rules.engine.of_kernels(),
        loaded,
        case::order_of(&loaded.snapshot),
        progress,
    )?;
    case.happens(events::within(args.machine_events(), loaded)?)
        .map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    let limit = args.memory_limit();
    if let Some(limit) = limit {
        oom::fits(limit.bytes, case.page_size)?;
        case.tell_others(loaded.trace.events()).context("cannot read the trace")?;
    }
    let mut plan = case.plan(start);
    plan.sample_every = args.sample_every(case.prepared.steps.len())?;
    plan.memory = limit;
    plan.tasks = args.tasks;
    prepare::fits(&case, args.tasks)?;
    progress.stage("replaying");
    let replayed = replay(&plan).context("the replay failed")?;
    progress.clear();
    let doubtful = prepare::doubts(&args.trace.file(), loaded, &case, progress);
    if let Some(to) = &args.save {
        save::run(args, to, loaded, &plan, &case, &replayed, progress)?;
    }
    let figures = figures::of(&loaded.snapshot, &case, start, args.changes(&case), &replayed);
    let json = || {
        let told = replayed.memory.as_ref();
        let memory = told.map(|told| oom::MemoryJson::of(told, &case));
        let snapshot = save::snapshot(args, loaded, &plan, &case, &replayed);
        let partial_slabs = partial_slabs::of(&snapshot, case.page_size.into());
        json::text(args, loaded, start, &figures, memory, &partial_slabs)
    };
    args.html.write(|| Ok(page::of(args, &heading(args, loaded, start), &figures, json()?)))?;
    let text = if args.json {
        json()?
    } else {
        let shown = if args.all { WhichRows::All } else { WhichRows::Some };
        let mut text = heading(args, loaded, start) + "\n";
        let counters = if args.counters { WhichRows::All } else { WhichRows::Some };
        table::write(&mut text, &figures, shown, counters, Colour::of_stdout());
        if let Some(told) = &replayed.memory {
            text.push_str(&oom::moments(told, &case));
        }
        text
    };
    stdout::print(text.as_bytes())?;
    if let Some(told) = &replayed.memory
        && let Some(report) = oom::report(told, &case, loaded, &replayed)
    {
        stderr::write(&report.to_string());
        return Ok(ExitCode::from(oom::CODE));
    }
    Ok(ExitCode::from(u8::from(doubtful)))
}
