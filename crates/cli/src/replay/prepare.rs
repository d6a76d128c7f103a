//! Prepares a loaded trace for a replay: matches its events with the snapshot's caches and the
//! settings, and warns if the result is in doubt.

use super::input::{self, Loaded};
use super::trace_args::TraceArgs;
use crate::failure::Failure;
use crate::machine::Engine;
use crate::stderr::say;
use crate::terminal::Progress;
use anyhow::anyhow;
use slabyard_lab::case::{self, Case};
use slabyard_lab::prepare::Order;
use slabyard_lab::prepare::doubts::{self, Doubt};

/// Puts trace, snapshot and settings together.
pub fn case(
    engine: Engine,
    loaded: &Loaded,
    order: Order,
    progress: &Progress,
) -> Result<Case, Failure> {
    if order.jitter_ns == 0 {
        progress.stage("preparing");
    }
    let Loaded { trace, snapshot, settings, .. } = loaded;
    let wrong = |error| match error {
        case::Error::Geometry { .. } => Failure::Usage(error.to_string()),
        error => anyhow!(error).context("the trace cannot be replayed").into(),
    };
    let mut case = Case::of_source(trace, snapshot, settings, order).map_err(wrong)?;
    if engine == Engine::Slab {
        case.follow_slab_of(snapshot, settings).map_err(wrong)?;
    }
    progress.clear();
    if case.guesses_frames && order.jitter_ns == 0 {
        say(
            "the machine made next to no slab while it was recorded, so that the trace does not tell surely \
             which pages its objects are in: pages given back may be missed",
        );
    }
    let shrinks = case.shrinks.len();
    if shrinks > 0 && order.jitter_ns == 0 {
        say(&format!(
            "caches were shrunk {shrinks} times while it was recorded, by others than the recorder; \
             the replay shrinks them too"
        ));
    }
    let unknown = case.prepared.oddities.unknown_cache;
    if unknown > 0 && order.jitter_ns == 0 {
        say(&format!(
            "{unknown} events are of caches that the snapshot does not have, and left out"
        ));
    }
    Ok(case)
}

/// Refuses more objects than 32 bits number.
pub fn fits(case: &Case, tasks: u32) -> Result<(), Failure> {
    if u32::try_from(case.prepared.nr_objects() as u64 * u64::from(tasks)).is_err() {
        let text = format!("--tasks {tasks}: more objects than can be replayed; take fewer");
        return Err(Failure::Usage(text));
    }
    Ok(())
}

/// Says why the figures are uncertain. True if that is for the exit code: events that
/// are missing in what `--partial` asked for are not.
pub fn doubts(args: &TraceArgs, loaded: &Loaded, case: &Case) -> bool {
    let mut doubtful = input::are_missing(&loaded.trace) && !args.partial;
    for doubt in doubts::doubts(&case.prepared, &loaded.snapshot) {
        let are_missing = matches!(doubt, Doubt::RowsMissing(_));
        let remedy = if are_missing { remedy(loaded) } else { "" };
        say(&format!("{doubt}{remedy}"));
        doubtful |= !(args.partial && are_missing);
    }
    doubtful
}

/// What to do about missing events, by what is known of where they went.
fn remedy(loaded: &Loaded) -> &'static str {
    match (loaded.trace.lost, loaded.trace.damaged.is_empty()) {
        (1.., _) => "; the recorder lost events: record it again with larger buffers (--buffer)",
        (0, false) => "; the file is damaged: copy it again",
        (0, true) => {
            "; the trace tells of no lost event: rows were taken out of it, or some tasks of the \
             traced kernel leave no events"
        }
    }
}
