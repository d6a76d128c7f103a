//! A replay's results as JSON.
//!
//! Invariants: keys are the kernel's names where there are such names; numbers are exact; an
//! unknown value is `null`; keys are added, never renamed.

use super::args::ReplayArgs;
use super::heading::start_name;
use super::oom::MemoryJson;
use super::partial_slabs::PartialSlabs;
use crate::machine::Engine;
use serde::Serialize;
use slabyard_ask::figures::{CacheFigures, Figures, SlabsAtTime, State, Sum, Totals, named};
use slabyard_ask::load::Loaded;
use slabyard_lab::accuracy::{Accuracy, Change};
use slabyard_lab::counters::DRAIN_BUCKETS;
use slabyard_lab::prepare::doubts::Contradictions;
use slabyard_lab::replay::Start;
use slabyard_lab::rules::PageLists;
use slabyard_lab::slab;
use std::collections::BTreeMap;

/// Where the figures are from.
#[derive(Serialize)]
pub struct Source {
    trace: String,
    start: String,
    dump: Option<String>,
    kernel: Option<String>,
    events: u64,
    lost: u64,
    damaged: Vec<String>,
    duration_ns: u64,
}

impl Source {
    pub fn of(args: &ReplayArgs, loaded: &Loaded) -> Source {
        let (first, last) = loaded.trace.span().into_inner();
        Source {
            trace: args.trace.file.display().to_string(),
            start: loaded.start.display().to_string(),
            dump: loaded.snapshot.dump.clone(),
            kernel: loaded.snapshot.kernel.clone(),
            events: loaded.trace.nr_events(),
            lost: loaded.trace.lost,
            damaged: loaded.trace.damaged.iter().map(ToString::to_string).collect(),
            duration_ns: last - first,
        }
    }
}

/// The machine and the rules.
#[derive(Serialize)]
pub struct SettingsJson {
    engine: &'static str,
    release: &'static str,
    start: &'static str,
    page_size: u32,
    cpus: u32,
    possible_cpus: u32,
    nodes: u32,
    /// Those without memory, as a kernel's list.
    memoryless: String,
    min_order: u8,
    max_order: u8,
    min_objects: u32,
    cpu_partial_lists: bool,
    tiny: bool,
    order_formula: &'static str,
    accounting: &'static str,
    freezing: &'static str,
    front: &'static str,
    page_lists: Option<&'static str>,
    /// As it was typed.
    set: Vec<String>,
}

impl SettingsJson {
    pub fn of(args: &ReplayArgs, loaded: &Loaded, start: Start) -> SettingsJson {
        let settings = &loaded.settings;
        let machine = &settings.machine;
        SettingsJson {
            engine: args.rules.engine.name(),
            release: settings.release.name,
            start: start_name(start, loaded),
            page_size: machine.page_size,
            cpus: machine.online_cpus,
            possible_cpus: machine.possible_cpus,
            nodes: machine.nodes,
            memoryless: machine.memoryless.to_string(),
            min_order: settings.min_order,
            max_order: match args.rules.engine {
                Engine::Slab => slab::Rules::of_settings(settings).max_order,
                Engine::Slub | Engine::Tiny | Engine::Slob => settings.max_order(),
            },
            min_objects: settings.wanted_objects(),
            cpu_partial_lists: settings.cpu_partial_lists,
            tiny: settings.tiny,
            order_formula: settings.formula().name(),
            accounting: settings.accounting().name(),
            freezing: settings.freezing().name(),
            front: settings.front().name(),
            page_lists: settings.page_lists.map(PageLists::name),
            set: args.rules.set.clone(),
        }
    }
}

#[derive(Serialize)]
struct MomentJson<'a> {
    caches: Vec<&'a State>,
    totals: &'a Sum,
}

/// Events that the trace lacks, by what others tell of them.
#[derive(Serialize)]
pub struct ContradictionsJson {
    frees_missing: u64,
    allocations_missing: u64,
    pages: u64,
}

impl ContradictionsJson {
    pub fn of(found: &Contradictions) -> ContradictionsJson {
        let Contradictions { frees_missing, allocations_missing, pages, .. } = *found;
        ContradictionsJson { frees_missing, allocations_missing, pages }
    }
}

/// How far off peaks above the start were, as shares of the real ones.
#[derive(Serialize)]
struct AccuracyJson {
    change: &'static str,
    pairs: usize,
    lowest: Option<f64>,
    highest: Option<f64>,
}

impl AccuracyJson {
    fn of(change: Change) -> AccuracyJson {
        let Accuracy { pairs, off, .. } = Accuracy::of(change);
        let (lowest, highest) = off.unzip();
        AccuracyJson { change: change.name(), pairs, lowest, highest }
    }
}

#[derive(Serialize)]
struct Root<'a> {
    source: Source,
    settings: SettingsJson,
    before: MomentJson<'a>,
    after: MomentJson<'a>,
    caches: &'a [CacheFigures],
    totals: &'a Totals,
    counters: BTreeMap<&'static str, u64>,
    drains: [u64; DRAIN_BUCKETS],
    frees_left_out: u64,
    contradictions: ContradictionsJson,
    unlike: Option<&'a str>,
    accuracy: Vec<AccuracyJson>,
    memory: Option<MemoryJson<'a>>,
    series: &'a [SlabsAtTime],
    partial_slabs: &'a [PartialSlabs],
}

/// The whole of a plain replay.
pub fn text(
    args: &ReplayArgs,
    loaded: &Loaded,
    start: Start,
    figures: &Figures,
    memory: Option<MemoryJson<'_>>,
    partial_slabs: &[PartialSlabs],
) -> anyhow::Result<String> {
    let moment = |state: fn(&CacheFigures) -> &State, totals| MomentJson {
        caches: figures.caches.iter().map(state).collect(),
        totals,
    };
    pretty(&Root {
        source: Source::of(args, loaded),
        settings: SettingsJson::of(args, loaded, start),
        before: moment(|c| &c.before, &figures.totals.before),
        after: moment(|c| &c.after, &figures.totals.after),
        caches: &figures.caches,
        totals: &figures.totals,
        counters: named(&figures.counters).collect(),
        drains: figures.counters.drains(),
        frees_left_out: figures.frees_left_out,
        contradictions: ContradictionsJson::of(&figures.contradictions),
        unlike: figures.unlike.as_deref(),
        accuracy: figures.changes.iter().map(|change| AccuracyJson::of(*change)).collect(),
        memory,
        series: &figures.series,
        partial_slabs,
    })
}

/// Indented, with a line feed at the end.
pub fn pretty(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
