//! Replays a kernel's allocation trace under each preset, with `slabyard-lab`.
//!
//! All measures but the time are the same in each round, so one round suffices; more rounds run
//! only if the replay's own time is requested. Neighbour: [`crate::replay`] reads the trace and
//! computes the results of one replay.

use super::child::Stop;
use super::contender::expanded;
use super::figures::{Figures, LoadComparison, MeasureKey};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::trace_args::TraceArgs;
use crate::terminal;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use slabyard_ask::figures::{self, named};
use slabyard_ask::load::{self, Loaded};
use slabyard_ask::wanted::setting;
use slabyard_ask::{Listener, Wanted, prepare};
use slabyard_kernels::engines::EngineName;
use slabyard_lab::accuracy;
use slabyard_lab::case::{self, Case};
use slabyard_lab::replay::{Replayed, Start, replay};
use slabyard_lab::rules::{RELEASES, Settings};
use std::time::Instant;

/// The word for a kernel that keeps no memory for speed.
const TINY: &str = "tiny";
/// The kernel whose rules it has beside.
const TINY_RELEASE: &str = "6.18";

/// The word for `mm/slab.c`.
const SLAB: &str = "slab";

/// Moments at which what is live is looked at.
const SAMPLES: usize = 500;

/// What came of it, the settings as they were typed, and whether the trace is doubtful.
pub struct Result {
    /// The figures.
    pub compared: LoadComparison,
    /// The settings of each.
    pub sets: Vec<Vec<String>>,
    /// The trace, in JSON.
    pub load: Value,
    /// True if all figures are uncertain.
    pub doubtful: bool,
}

/// Replays it under each, and so many rounds more to time it.
pub fn compare(
    trace: &TraceArgs,
    specs: &[String],
    rounds: Option<u32>,
) -> std::result::Result<Result, Failure> {
    let rounds = rounds.unwrap_or(0);
    let specs = expanded(specs, defaults())?;
    let reading = terminal::Progress::new();
    let loaded = load::load(&trace.file(), &Wanted::default(), &reading)?;
    let sets: Vec<Vec<String>> = specs.iter().map(|spec| set_of(spec)).collect();
    let mut settings = Vec::new();
    for (spec, set) in specs.iter().zip(&sets) {
        settings.push(contender(spec, set, &loaded, &reading)?);
    }
    let mut case =
        prepare::case(EngineName::Slub, &loaded, case::order_of(&loaded.snapshot), &reading)?;
    let doubtful = prepare::doubts(&trace.file(), &loaded, &case, &reading);
    drop(reading);
    let mut stop = Stop::new().context("cannot take signals")?;
    let progress = Progress::new((rounds as usize + 1) * specs.len(), false);
    let mut compared = LoadComparison {
        figures: specs.iter().map(|spec| Figures::new(spec)).collect(),
        findings: Vec::new(),
        notes: Vec::new(),
    };
    // The first round fills the figures, with samples, and is not timed.
    for round in 0..=rounds {
        for nth in 0..specs.len() {
            let at = (nth + round as usize) % specs.len();
            let into = &mut compared.figures[at];
            stop.check()?;
            progress.begin(&format!("round {round}"), &specs[at]);
            prepare::rule(&mut case, engine(&specs[at]), &loaded, &settings[at])
                .map_err(|error| Failure::Usage(format!("--with {}: {error}", specs[at])))?;
            let mut plan = case.plan(Start::LookAhead);
            if round == 0 {
                plan.sample_every = case.prepared.steps.len().div_ceil(SAMPLES).max(1);
            }
            let begun = Instant::now();
            let replayed = replay(&plan).context("the replay failed")?;
            if round > 0 {
                into.add(MeasureKey::Time, Some(begun.elapsed().as_secs_f64()));
            } else {
                fill(into, &loaded, &case, &replayed);
                into.unlike = case.unlike.is_some();
                into.error = accuracy::cell(&case.changes);
                let why =
                    case.gone.iter().chain(&case.unlike).map(|why| format!("{}: {why}", specs[at]));
                compared.notes.extend(why);
            }
            progress.end();
        }
    }
    let load = json!({
        "kind": "trace",
        "trace": trace.file.display().to_string(),
        "start": loaded.start.display().to_string(),
        "kernel": loaded.snapshot.kernel,
        "events": loaded.trace.nr_events(),
        "rounds": rounds,
    });
    Ok(Result { compared, sets, load, doubtful })
}

/// Each preset, the kernel for small machines, and SLAB.
fn defaults() -> Vec<String> {
    let releases = RELEASES.iter().map(|release| release.name.to_owned());
    releases.chain([TINY, SLAB].map(str::to_owned)).collect()
}

/// What follows the release, or the engine.
fn set_of(spec: &str) -> Vec<String> {
    let typed = parts(spec).into_iter().filter(|part| part.contains('='));
    setting(engine(spec)).map(str::to_owned).into_iter().chain(typed).collect()
}

/// The kernel's allocator that a contender is, by its first word.
fn engine(spec: &str) -> EngineName {
    match spec.split(',').next() {
        Some(TINY) => EngineName::Tiny,
        Some(SLAB) => EngineName::Slab,
        _ => EngineName::Slub,
    }
}

/// The parts of a contender. A value may have commas itself: what is a pair SIZE:NUMBER and no
/// KEY=VALUE belongs to the value before.
fn parts(spec: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in spec.split(',') {
        match parts.last_mut().filter(|last| last.contains('=')) {
            Some(last) if part.contains(':') && !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

fn contender(
    spec: &str,
    set: &[String],
    loaded: &Loaded,
    listener: &dyn Listener,
) -> std::result::Result<Settings, Failure> {
    let (engine, parts) = (engine(spec), parts(spec));
    let first = parts.first().map(String::as_str).filter(|first| !first.contains('='));
    let release = match engine {
        EngineName::Tiny => Some(TINY_RELEASE),
        EngineName::Slab | EngineName::Slob => None,
        EngineName::Slub => first,
    };
    // It is set once: `set` has it already.
    let set = set[setting(engine).iter().len()..].to_vec();
    let release = release.map(str::to_owned);
    let wanted = Wanted { engine, release, set, ..Wanted::default() };
    let told = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "--with {spec}: {why}; a contender is a kernel's release, {TINY}, {SLAB}, or keys of \
             `slabyard replay --set`, apart by commas"
        ))
    };
    if let Some(wrong) = parts.iter().skip(1).find(|part| !part.contains('=')) {
        return Err(told(&format!("`{wrong}` is no KEY=VALUE")));
    }
    let found = wanted.of_trace(&loaded.trace, &loaded.snapshot, listener);
    found.map(|(settings, _)| settings).map_err(|failure| told(&failure))
}

fn fill(into: &mut Figures, loaded: &Loaded, case: &Case, replayed: &Replayed) {
    let one = figures::of(&loaded.snapshot, case, Start::LookAhead, case.changes.clone(), replayed);
    let totals = &one.totals;
    into.count(MeasureKey::Peak, Some(totals.peak_bytes));
    into.add(MeasureKey::Mean, figures::mean_bytes(case, replayed, totals.before.bytes));
    let series = one.series.iter().map(|point| &point.totals);
    let live = series.chain([&totals.before, &totals.after]).map(|sum| sum.live).max().flatten();
    into.count(MeasureKey::Waste, live.map(|live| totals.peak_bytes.saturating_sub(live)));
    into.count(MeasureKey::Slabs, Some(totals.peak));
    let counters = named(&one.counters).map(|(name, n)| (name.to_owned(), n));
    into.counted(Some(counters.collect()));
}

/// What stands above the table.
pub fn heading(loaded: &Value) -> anyhow::Result<String> {
    let text = |key: &str| loaded[key].as_str().map(str::to_owned);
    Ok(format!(
        "{} events of {}, kernel {}",
        loaded["events"],
        text("trace").ok_or_else(|| anyhow!("no trace"))?,
        text("kernel").unwrap_or_else(|| "unknown".into()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_commas_is_one_setting() {
        let spec = "5.9,cpu_partial=8192:1,4096:2,min_partial=7,64:3";
        assert_eq!(set_of(spec), ["cpu_partial=8192:1,4096:2", "min_partial=7,64:3"]);
        assert_eq!(parts("6.1,wrong,max_order=2"), ["6.1", "wrong", "max_order=2"]);
        assert_eq!(set_of("tiny,min_partial=page:3,0:1"), ["tiny=1", "min_partial=page:3,0:1"]);
    }
}
