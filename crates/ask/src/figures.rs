//! The result of a replay: each cache before and after, what happened in between, and totals over
//! time. The same numbers are printed as a table and as JSON.
//!
//! Invariants, for a cache and for the totals, if all numbers are known: total_objects = live +
//! parked + free_partial, parked = parked_cpu + parked_node, and after.slabs = before.slabs +
//! allocated - freed. In the totals, which are in bytes, bytes = live + parked + free_partial +
//! padding. Neighbours: `slabyard-lab` replays; the command prints the result, and
//! [`crate::answer`] compares results.

use serde::Serialize;
use slabyard_lab::accuracy::Change;
use slabyard_lab::case::Case;
use slabyard_lab::counters::Counters;
use slabyard_lab::prepare::doubts::Contradictions;
use slabyard_lab::replay::report::{CacheUse, Sample};
use slabyard_lab::replay::{Replayed, Start};
use slabyard_lab::snapshot::KernelSnapshot;
use std::collections::BTreeMap;

/// All figures of a replay.
pub struct Figures {
    /// In the order of the snapshot.
    pub caches: Vec<CacheFigures>,
    /// All caches together.
    pub totals: Totals,
    /// What all caches counted together.
    pub counters: Counters,
    /// Over time, if it was asked for.
    pub series: Vec<SlabsAtTime>,
    /// Frees of objects that the start did not know.
    pub frees_left_out: u64,
    /// Events of the trace that contradict others.
    pub contradictions: Contradictions,
    /// Why they do not compare with figures of another machine.
    pub unlike: Option<String>,
    /// Which caches the release does not have.
    pub gone: Option<String>,
    /// In what that machine is another one.
    pub changes: Vec<Change>,
}

/// One cache over the whole replay.
#[derive(Serialize)]
pub struct CacheFigures {
    /// The name of its first creator.
    pub name: String,
    /// Other names of it, where kernels merged it.
    pub aliases: Vec<String>,
    /// Bytes of an object's stride.
    pub slab_size: u32,
    /// Order of its slabs.
    pub order: u8,
    /// Objects of a slab.
    pub objs_per_slab: u32,
    /// Bytes behind the last object of each slab.
    pub waste: u64,
    /// Objects that a CPU's partial list may have; 0 without such lists.
    pub cpu_partial: u32,
    /// Slabs that it may have, where the release counts slabs.
    pub cpu_partial_slabs: u32,
    /// Empty slabs that a node keeps.
    pub min_partial: u32,
    /// Objects of a sheaf; 0 without sheaves.
    pub sheaf_capacity: u32,
    /// Why a check leaves it out.
    pub left_out: Option<&'static str>,
    /// Slabs made.
    pub allocated: u64,
    /// Slabs given back.
    pub freed: u64,
    /// Most slabs at a time.
    pub peak: u64,
    /// Slabs that the snapshot counts and no event touches, as many as their objects fill by these
    /// rules; not in any other number.
    pub untouched: Option<u64>,
    /// What its calls did, by the kernel's names.
    pub counters: BTreeMap<&'static str, u64>,
    /// Shown on their own.
    #[serde(skip)]
    pub before: State,
    /// At the end.
    #[serde(skip)]
    pub after: State,
}

/// A cache at one moment, in objects unless it says else.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    /// The name of the cache.
    pub name: String,
    /// Of every size and place.
    pub slabs: Option<u64>,
    /// Slabs on nodes' lists.
    pub partial: Option<u64>,
    /// Of these, slabs without an object in use.
    pub empty: Option<u64>,
    /// CPU slabs and slabs on CPU partial lists.
    pub cpu_slabs: Option<u64>,
    /// Slabs on CPU partial lists.
    pub slabs_cpu_partial: Option<u64>,
    /// Of these, slabs without an object in use.
    pub slabs_cpu_partial_empty: Option<u64>,
    /// Objects of all slabs.
    pub total_objects: Option<u64>,
    /// Objects that are handed out.
    pub live: Option<u64>,
    /// Free objects on no list of a node.
    pub parked: Option<u64>,
    /// Of these, those that CPUs hold.
    pub parked_cpu: Option<u64>,
    /// Of these, those of slabs that CPUs allocate from.
    pub parked_cpu_slabs: Option<u64>,
    /// Of these, those on CPU partial lists.
    pub parked_cpu_partial: Option<u64>,
    /// Of these, those in CPUs' sheaves.
    pub parked_sheaves: Option<u64>,
    /// Those in barns.
    pub parked_node: Option<u64>,
    /// Free objects in slabs on nodes' lists.
    pub free_partial: Option<u64>,
    /// Bytes behind the last objects.
    pub padding: Option<u64>,
    /// Bytes of the slabs.
    pub bytes: Option<u64>,
}

/// All caches together.
#[derive(Serialize)]
pub struct Totals {
    /// Slabs made.
    pub allocated: u64,
    /// Slabs given back.
    pub freed: u64,
    /// Most slabs at a time.
    pub peak: u64,
    /// Most bytes at a time.
    pub peak_bytes: u64,
    /// Bytes of slabs that no event touches, by these rules; in no other number.
    pub untouched_bytes: Option<u64>,
    /// Why there are as many of these as hold the traced objects, if they are not laid out by the rules.
    pub untouched_not_laid_out: Option<String>,
    /// At the start.
    #[serde(skip)]
    pub before: Sum,
    /// At the end.
    #[serde(skip)]
    pub after: Sum,
}

/// All caches at one moment, in bytes but for the slabs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sum {
    /// Of every size and place.
    pub slabs: Option<u64>,
    /// Bytes of slabs.
    pub bytes: Option<u64>,
    /// Of objects that are handed out.
    pub live: Option<u64>,
    /// Of free objects on no list of a node.
    pub parked: Option<u64>,
    /// Of these, those that CPUs hold.
    pub parked_cpu: Option<u64>,
    /// Of these, those in barns.
    pub parked_node: Option<u64>,
    /// Of free objects in slabs on nodes' lists.
    pub free_partial: Option<u64>,
    /// Behind the last objects.
    pub padding: Option<u64>,
}

/// One moment on the way.
#[derive(Serialize)]
pub struct SlabsAtTime {
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// All caches together.
    #[serde(flatten)]
    pub totals: Sum,
    /// Those whose slabs change.
    pub caches: BTreeMap<String, State>,
}

impl State {
    fn of(case: &Case, nth: usize, moment: &CacheUse, start: Start) -> State {
        let (places, free) = (&moment.places, &moment.free);
        let slabs = u64::from(places.slabs);
        // Those of the least order are smaller.
        let (small, least) = (u64::from(places.small), case.least[nth].0);
        let pages = ((slabs - small) << case.orders[nth]) + (small << least);
        let bytes = pages * u64::from(case.page_size);
        let waste = bytes.saturating_sub(places.objects * u64::from(case.sizes[nth]));
        // From the snapshot alone slabs that were full are put in place as the trace
        // shows them.
        let live = Some(moment.live()).filter(|_| start == Start::LookAhead);
        State {
            name: case.ids[nth].clone(),
            slabs: Some(slabs),
            partial: Some(places.node_partial.into()),
            empty: Some(places.node_empty.into()),
            cpu_slabs: Some((places.cpu_slabs + places.cpu_partial).into()),
            slabs_cpu_partial: Some(places.cpu_partial.into()),
            slabs_cpu_partial_empty: Some(places.cpu_empty.into()),
            total_objects: Some(places.objects),
            live,
            parked: Some(free.parked()),
            parked_cpu: Some(free.parked_cpu()),
            parked_cpu_slabs: Some(free.cpu_slab),
            parked_cpu_partial: Some(free.cpu_partial),
            parked_sheaves: Some(free.sheaves),
            parked_node: Some(free.barns),
            free_partial: Some(free.node_partial),
            padding: Some(waste),
            bytes: Some(bytes),
        }
    }
}

impl CacheFigures {
    /// True if its number of slabs changed.
    #[must_use]
    pub fn moved(&self) -> bool {
        self.allocated + self.freed > 0
    }
}

/// Works out the figures of a replay.
#[must_use]
pub fn of(
    snapshot: &KernelSnapshot,
    case: &Case,
    start: Start,
    changes: Vec<Change>,
    replayed: &Replayed,
) -> Figures {
    let figures = without_series(snapshot, case, start, changes, replayed);
    let samples = replayed.samples.iter();
    let series = samples.map(|sample| point(case, &figures.caches, start, sample)).collect();
    Figures { series, ..figures }
}

/// The same without what is over time, which has a state of each cache for each sample.
#[must_use]
pub fn without_series(
    snapshot: &KernelSnapshot,
    case: &Case,
    start: Start,
    changes: Vec<Change>,
    replayed: &Replayed,
) -> Figures {
    let turnovers = turnovers(case, replayed);
    let mut caches: Vec<CacheFigures> = (0..case.ids.len())
        .map(|nth| one(snapshot, case, start, replayed, nth, &turnovers[nth]))
        .collect();
    for (name, id) in &snapshot.aliases {
        if let Ok(at) = caches.binary_search_by(|c| c.name.cmp(id)) {
            caches[at].aliases.push(name.clone());
        }
    }
    let counters = Counters::default();
    replayed.caches.iter().for_each(|cache| counters.merge(cache.counters()));
    let (peak, peak_bytes) = peaks(case, replayed, &caches);
    let totals = Totals {
        allocated: caches.iter().map(|c| c.allocated).sum(),
        freed: caches.iter().map(|c| c.freed).sum(),
        peak,
        peak_bytes,
        untouched_bytes: untouched_bytes(case, &caches),
        untouched_not_laid_out: case.laid_out.as_ref().err().cloned(),
        before: sum(&caches.iter().map(|c| (c, c.before.clone())).collect::<Vec<_>>()),
        after: sum(&caches.iter().map(|c| (c, c.after.clone())).collect::<Vec<_>>()),
    };
    Figures {
        caches,
        totals,
        counters,
        series: Vec::new(),
        frees_left_out: replayed.frees_left_out,
        contradictions: Contradictions::of(&case.prepared),
        unlike: case.unlike.clone(),
        gone: case.gone.clone(),
        changes,
    }
}

/// Bytes of slabs in the mean over the time of the trace, from those before it; `None` without time.
#[must_use]
pub fn mean_bytes(case: &Case, replayed: &Replayed, before: Option<u64>) -> Option<f64> {
    let slab = |cache: u16| i64::from(case.page_size) << case.orders[usize::from(cache)];
    let changes = replayed.changes.iter();
    let changes = changes.map(|it| (it.time_ns, i64::from(it.by) * slab(it.cache)));
    let span = case.prepared.span.clone().into_inner();
    (span.1 > span.0).then_some(())?;
    Some(mean_of(span, before?, changes))
}

/// The mean over a span of time of bytes that change; what they are before, if it has no length.
pub(crate) fn mean_of(
    (begin, end): (u64, u64),
    before: u64,
    changes: impl IntoIterator<Item = (u64, i64)>,
) -> f64 {
    let mut bytes = before as f64;
    let (mut since, mut byte_ns) = (begin, 0.0);
    for (time_ns, by) in changes {
        // What waits for readers may outlast the trace.
        let at = time_ns.clamp(since, end);
        byte_ns += bytes * (at - since) as f64;
        since = at;
        bytes += by as f64;
    }
    byte_ns += bytes * (end - since) as f64;
    if end > begin { byte_ns / (end - begin) as f64 } else { bytes }
}

/// Every counter by its kernel's name.
pub fn named(counters: &Counters) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    counters.each().map(|(name, _, count)| (name, count))
}

/// Slabs made and given back; most and least slabs, as change since the start.
#[derive(Clone, Copy, Default)]
struct Turnover {
    allocated: u64,
    freed: u64,
    peak: i64,
    now: i64,
}

fn turnovers(case: &Case, replayed: &Replayed) -> Vec<Turnover> {
    let mut turnovers = vec![Turnover::default(); case.ids.len()];
    for change in &replayed.changes {
        let of = &mut turnovers[usize::from(change.cache)];
        if change.by > 0 {
            of.allocated += 1
        } else {
            of.freed += 1
        }
        of.now += i64::from(change.by);
        of.peak = of.peak.max(of.now);
    }
    turnovers
}

fn one(
    snapshot: &KernelSnapshot,
    case: &Case,
    start: Start,
    replayed: &Replayed,
    nth: usize,
    turnover: &Turnover,
) -> CacheFigures {
    let (cache, rules) = (&replayed.caches[nth], &case.rules[nth]);
    let before = State::of(case, nth, &replayed.before.caches[nth], start);
    let after = State::of(case, nth, &replayed.after.caches[nth], start);
    let slab_bytes = u64::from(case.page_size) << case.orders[nth];
    let objects = u64::from(rules.objects);
    let waste = slab_bytes.saturating_sub(objects * u64::from(case.sizes[nth]));
    let slabs = before.slabs.unwrap_or(0);
    let kernel = &snapshot.caches[nth];
    CacheFigures {
        name: case.ids[nth].clone(),
        aliases: Vec::new(),
        slab_size: case.sizes[nth],
        order: case.orders[nth],
        objs_per_slab: rules.objects,
        waste,
        cpu_partial: rules.cpu_partial,
        cpu_partial_slabs: rules.cpu_partial_slabs,
        min_partial: rules.min_partial,
        sheaf_capacity: rules.sheaf_capacity,
        left_out: case.prepared.caches[nth].left_out,
        allocated: turnover.allocated,
        freed: turnover.freed,
        peak: slabs.saturating_add_signed(turnover.peak),
        untouched: kernel.slabs.map(|_| replayed.untouched[nth]),
        counters: named(cache.counters()).collect(),
        before,
        after,
    }
}

/// Bytes of slabs that no event touches, where the snapshot counts all.
fn untouched_bytes(case: &Case, caches: &[CacheFigures]) -> Option<u64> {
    let page = u64::from(case.page_size);
    caches.iter().map(|cache| Some(cache.untouched? * (page << cache.order))).sum()
}

/// Most slabs, and most bytes, of all caches at a time.
fn peaks(case: &Case, replayed: &Replayed, caches: &[CacheFigures]) -> (u64, u64) {
    let mut slabs: u64 = caches.iter().filter_map(|c| c.before.slabs).sum();
    let mut bytes: u64 = caches.iter().filter_map(|c| c.before.bytes).sum();
    let (mut peak, mut peak_bytes) = (slabs, bytes);
    let told = replayed.memory.as_ref();
    for change in &replayed.changes {
        let size = i64::from(case.page_size) << case.orders[usize::from(change.cache)];
        slabs = slabs.saturating_add_signed(i64::from(change.by));
        bytes = bytes.saturating_add_signed(i64::from(change.by) * size);
        peak = peak.max(slabs);
        peak_bytes = peak_bytes.max(bytes);
    }
    // A machine's pages are counted as they are taken, those of small slabs too.
    let most = told.map(|told| u64::from(told.counts.most_of_slabs).saturating_sub(told.untouched));
    (peak, most.map_or(peak_bytes, |pages| pages * u64::from(case.page_size)))
}

fn sum(caches: &[(&CacheFigures, State)]) -> Sum {
    // One unknown makes the sum unknown.
    let all = |get: fn(&State) -> Option<u64>| caches.iter().map(|(_, s)| get(s)).sum();
    let in_bytes = |get: fn(&State) -> Option<u64>| {
        caches.iter().map(|(c, s)| Some(get(s)? * u64::from(c.slab_size))).sum()
    };
    Sum {
        slabs: all(|s| s.slabs),
        bytes: all(|s| s.bytes),
        live: in_bytes(|s| s.live),
        parked: in_bytes(|s| s.parked),
        parked_cpu: in_bytes(|s| s.parked_cpu),
        parked_node: in_bytes(|s| s.parked_node),
        free_partial: in_bytes(|s| s.free_partial),
        padding: all(|s| s.padding),
    }
}

fn point(case: &Case, caches: &[CacheFigures], start: Start, sample: &Sample) -> SlabsAtTime {
    let state = |nth| State::of(case, nth, &sample.caches[nth], start);
    let all: Vec<_> = caches.iter().enumerate().map(|(nth, cache)| (cache, state(nth))).collect();
    let totals = sum(&all);
    let moved = all.into_iter().filter(|(cache, _)| cache.moved());
    let caches = moved.map(|(cache, state)| (cache.name.clone(), state)).collect();
    SlabsAtTime { time_ns: sample.time_ns, totals, caches }
}
