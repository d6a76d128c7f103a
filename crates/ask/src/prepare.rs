//! Prepares a loaded trace for a replay: matches its events with the snapshot's caches and the
//! settings, and warns if the result is in doubt.

use crate::load::{self, Loaded, TraceFile};
use crate::{Error, Listener};
use anyhow::anyhow;
use slabyard_kernels::engines::EngineName;
use slabyard_lab::case::{self, Case};
use slabyard_lab::prepare::Order;
use slabyard_lab::prepare::doubts::{self, Doubt};
use slabyard_lab::rules::Settings;

/// Puts trace, snapshot and settings together.
pub fn case(
    engine: EngineName,
    loaded: &Loaded,
    order: Order,
    listener: &dyn Listener,
) -> Result<Case, Error> {
    if order.jitter_ns == 0 {
        listener.stage("preparing");
    }
    let Loaded { trace, snapshot, settings, .. } = loaded;
    let wrong = |error| match error {
        case::Error::Geometry { .. } => Error::Usage(error.to_string()),
        error => anyhow!(error).context("the trace cannot be replayed").into(),
    };
    let mut case = Case::of_source(trace, snapshot, settings, order).map_err(wrong)?;
    if engine == EngineName::Slab {
        case.follow_slab_of(snapshot, settings).map_err(wrong)?;
    }
    listener.clear();
    if case.guesses_frames && order.jitter_ns == 0 {
        listener.say(
            "the machine made next to no slab while it was recorded, so that the trace does not tell surely \
             which pages its objects are in: pages given back may be missed",
        );
    }
    let shrinks = case.shrinks.len();
    if shrinks > 0 && order.jitter_ns == 0 {
        listener.say(&format!(
            "caches were shrunk {shrinks} times while it was recorded, by others than the recorder; \
             the replay shrinks them too"
        ));
    }
    let unknown = case.prepared.oddities.unknown_cache;
    if unknown > 0 && order.jitter_ns == 0 {
        listener.say(&format!(
            "{unknown} events are of caches that the snapshot does not have, and left out"
        ));
    }
    Ok(case)
}

/// Puts other rules in place, for the same trace and start.
///
/// # Errors
/// A cache has no geometry by them; the case is not to be used then.
pub fn rule(
    case: &mut Case,
    engine: EngineName,
    loaded: &Loaded,
    settings: &Settings,
) -> Result<(), case::Error> {
    case.rule(&loaded.trace.header, &loaded.snapshot, settings)?;
    match engine {
        EngineName::Slab => case.follow_slab_of(&loaded.snapshot, settings),
        EngineName::Slub | EngineName::Tiny | EngineName::Slob => Ok(()),
    }
}

/// Refuses more objects than 32 bits number.
pub fn fits(case: &Case, tasks: u32) -> Result<(), Error> {
    if u32::try_from(case.prepared.nr_objects() as u64 * u64::from(tasks)).is_err() {
        let text = format!("--tasks {tasks}: more objects than can be replayed; take fewer");
        return Err(Error::Usage(text));
    }
    Ok(())
}

/// Says why the figures are uncertain. True if that is for the exit code: events that
/// are missing in what `--partial` asked for are not.
pub fn doubts(args: &TraceFile, loaded: &Loaded, case: &Case, listener: &dyn Listener) -> bool {
    let mut doubtful = load::are_missing(&loaded.trace) && !args.partial;
    for doubt in doubts::doubts(&case.prepared, &loaded.snapshot) {
        let are_missing = matches!(doubt, Doubt::RowsMissing(_));
        let remedy = if are_missing { remedy(loaded) } else { "" };
        listener.say(&format!("{doubt}{remedy}"));
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
