//! Computes what one cache holds from the words and stack tops that were read.
//!
//! Assume that the words are the same in every reading, and that every slow path that began has
//! ended. Then only the fast path moved objects, and it changes only stack tops: live = out (of
//! slabs) - parked. A top that is the same in both readings did not move; one that differs stayed
//! close to its two values in between.
//!
//! If a word changed or a slow path is under way, each slow path may hold the objects of two
//! sheaves (*in transit*). A slow path may also have moved objects from a place not yet read to one
//! already read, or the reverse, so `live` is a range.
//!
//! With CPU slabs, the main stack's objects count as both out of their slab and parked; the free
//! objects in slabs that CPUs hold count as parked, but not as out. If the cache also has sheaves,
//! the objects of a CPU slab count in addition to those of the stacks. These numbers are exact if
//! no slow path was under way. Otherwise slabs may have moved, so that a CPU may hold the slab of
//! any free object.
//!
//! Neighbours: [`super::collect`] reads the words; [`super::look`] calls this module. Invariants:
//! live + parked in stacks and barns + in transit = out for some choice within the ranges; no range
//! exceeds the cache's number of objects.

use super::collect::CacheReading;
use super::cpu_slabs_held::{self, CpuHoldings, CpuSlabsHeld};
use super::front::Top;
use super::span::Span;
use super::words::{CacheWords, Tops};
use slabyard_abi::region::CacheWord::{
    self, BarnObjects, NrPartial, NrSlabs, Objects, Out, SheafCapacity,
};
use slabyard_abi::region::NodeWord;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a cache holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheContents {
    /// The cache's words as they were read last.
    pub(crate) words: CacheWords,
    /// The words were the same each time, and no slow path was under way.
    pub(crate) quiet: bool,
    /// The words were the same each time.
    pub(crate) steady: bool,
    pub(crate) live: Span,
    /// Where the middle of live was in all reads without a slow path.
    pub(crate) seen: Option<Span>,
    pub(crate) parked_cpu: Span,
    /// Row and what is parked there; rows without objects are left out.
    pub(crate) rows: Vec<(u32, Span)>,
    pub(crate) parked_node: Span,
    pub(crate) in_transit: Span,
    pub(crate) out: Span,
    /// A top was no index of a sheaf.
    pub(crate) odd: bool,
    /// What CPUs hold of slabs, where they have CPU slabs.
    pub(crate) held: Option<CpuSlabsHeld>,
    /// Free objects in slabs that CPUs hold, and in all slabs.
    pub(crate) free_held: Span,
    pub(crate) free: Span,
    first: CacheWords,
}

impl CacheContents {
    /// A word of the cache: as it was during the look.
    pub(crate) fn word(&self, word: CacheWord) -> Span {
        Span::between(self.first.get(word), self.words.get(word))
    }

    /// A word of the cache at one of several memory nodes, as it was during the look.
    pub(crate) fn word_at_node(&self, node: usize, word: NodeWord) -> Span {
        Span::between(self.first.at_node(node, word), self.words.at_node(node, word))
    }

    /// How well the cache is known: the smaller the better.
    pub(crate) fn doubt(&self) -> (bool, bool, u64) {
        (self.odd, !self.quiet, self.live.high - self.live.low)
    }

    /// A number of what CPUs hold, by CPU and in all: exact if no slow path was under way. One slab
    /// counts for `a_slab` at most.
    pub(crate) fn held_by_cpu(
        &self,
        a_slab: u64,
        of: impl Fn(&CpuHoldings) -> u64,
    ) -> (BTreeMap<u32, Span>, Span) {
        let Some(held) = &self.held else { return Default::default() };
        // Else up to all slabs that are on no list.
        let most = self.word(NrSlabs).minus(self.word(NrPartial)).times(a_slab).high;
        let span = |n: u64| match self.knows_held() {
            true => Span::exact(n),
            false => Span { low: 0, high: most.max(n) },
        };
        let cpus = held.cpus.iter().map(|(cpu, held)| (*cpu, span(of(held))));
        (cpus.collect(), span(held.sum(of)))
    }

    /// True if what CPUs hold of slabs was read at a moment without a slow path, and can be.
    fn knows_held(&self) -> bool {
        knows(self.held.as_ref(), self.quiet)
    }
}

/// Judges what was read.
pub(crate) fn judge(take: &CacheReading) -> CacheContents {
    let [first, middle, last] = &take.words;
    let steady = first == middle && middle == last;
    let underway = underway(first, last);
    let quiet = steady && underway == 0;

    let has_slabs = cpu_slabs_held::are_stacks(last);
    // A CPU partial list has no objects in its stack.
    let with_objects = if has_slabs { 0..1 } else { 0..2 };
    let all = || take.tops.iter().flatten().flat_map(|(_, tops)| tops);
    let objects = take.tops.iter().flatten().flat_map(|(_, tops)| &tops[with_objects.clone()]);
    let counted = objects.filter_map(|top| match top {
        Top::Stack { objects, .. } => Some(*objects),
        _ => None,
    });
    // A sheaf may be older than a smaller capacity.
    let capacity = last.get(if has_slabs { Objects } else { SheafCapacity });
    let sheaf = counted.max().unwrap_or(0).max(capacity).min(1 << 20);
    let mut rows = rows(&take.tops, with_objects.clone(), sheaf);
    let in_stacks = Span::sum(rows.iter().map(|(_, span)| *span));
    let stands = take.tops[0] == take.tops[1];

    let hull = |word| {
        let ends = take.words.iter().map(|w| Span::exact(w.get(word)));
        ends.reduce(Span::hull).unwrap_or_default()
    };
    let (out, parked_node) = (hull(Out), hull(BarnObjects));
    let free = Span::between(objects_of(first), objects_of(last)).minus(out);
    let free_held = free_held(take.held.as_ref(), quiet, free);
    let own = if has_slabs { Span::default() } else { own(take.held.as_ref(), quiet, out) };
    add_held(&mut rows, take.held.as_ref(), free_held.plus(own), |cpu| {
        if has_slabs { cpu.free } else { cpu.free + cpu.own }
    });
    let transit = underway.saturating_mul(2 * sheaf).min(out.high);
    let held = out.minus(in_stacks.plus(parked_node).plus(own));
    // Nothing moves while we look: what is in transit is missing from live, no more.
    let live = if steady && stands {
        Span { low: held.low.saturating_sub(transit), high: held.high }
    } else {
        held.widened(transit)
    };
    let most = objects_of(last);
    let live = live.at_most(most.max(out.high));
    CacheContents {
        words: *last,
        first: *first,
        quiet,
        steady,
        live,
        seen: quiet.then(|| Span::exact(live.low.midpoint(live.high))),
        parked_cpu: in_stacks.plus(free_held).plus(own),
        rows,
        parked_node,
        in_transit: Span { low: 0, high: transit },
        out,
        held: take.held.clone(),
        free_held,
        free,
        odd: all().any(|top| *top == Top::Odd),
    }
}

/// True if what was read of slabs that CPUs hold is of one moment, and can be.
fn knows(held: Option<&CpuSlabsHeld>, quiet: bool) -> bool {
    quiet && held.is_some_and(|held| held.fault.is_none())
}

/// How many of the free objects in slabs are in slabs that CPUs hold.
fn free_held(held: Option<&CpuSlabsHeld>, quiet: bool, free: Span) -> Span {
    match held {
        None => Span::default(),
        Some(held) if knows(Some(held), quiet) => Span::exact(held.sum(|cpu| cpu.free)),
        Some(_) => Span { low: 0, high: free.high },
    }
}

/// How many of the objects that are out are in CPU slabs below sheaves, where their CPU alone may
/// take them.
fn own(held: Option<&CpuSlabsHeld>, quiet: bool, out: Span) -> Span {
    match held {
        None => Span::default(),
        Some(held) if knows(Some(held), quiet) => Span::exact(held.sum(|cpu| cpu.own)),
        Some(_) => Span { low: 0, high: out.high },
    }
}

/// Adds what each CPU holds of these to what its stacks hold.
fn add_held(
    rows: &mut Vec<(u32, Span)>,
    held: Option<&CpuSlabsHeld>,
    all: Span,
    of: impl Fn(&CpuHoldings) -> u64,
) {
    for (cpu, held) in held.into_iter().flat_map(|held| &held.cpus) {
        let span = if all.low == all.high { Span::exact(of(held)) } else { all };
        match rows.iter_mut().find(|(row, _)| row == cpu) {
            Some((_, parked)) => *parked = parked.plus(span),
            None if span.high > 0 => rows.push((*cpu, span)),
            None => {}
        }
    }
}

/// Objects in all slabs.
fn objects_of(words: &CacheWords) -> u64 {
    words.get(NrSlabs).saturating_mul(words.get(Objects))
}

/// Most slow paths that were under way at any time between two reads.
fn underway(first: &CacheWords, last: &CacheWords) -> u64 {
    let (begun, _) = last.version();
    let (_, ended) = first.version();
    u64::from(begun.wrapping_sub(ended))
}

/// What is parked in each row; rows without objects are left out.
fn rows(tops: &[Tops; 2], with_objects: Range<usize>, sheaf: u64) -> Vec<(u32, Span)> {
    let [before, after] = tops;
    let each = before.iter().zip(after).map(|((row, before), (_, after))| {
        let stacks = before[with_objects.clone()].iter().zip(&after[with_objects.clone()]);
        (*row, Span::sum(stacks.map(|(before, after)| parked(*before, *after, sheaf))))
    });
    each.filter(|(_, span)| span.high > 0).collect()
}

/// Objects of one stack whose top was read twice.
fn parked(before: Top, after: Top, sheaf: u64) -> Span {
    let count = |top| match top {
        Top::None => Some(0),
        Top::Stack { objects, .. } => Some(objects),
        Top::Stopped | Top::Odd => None,
    };
    match (count(before), count(after)) {
        (Some(before), Some(after)) => {
            // It may have gone further, and come back, before the second read.
            let moved = before.abs_diff(after);
            Span::between(before, after).widened(moved).at_most(sheaf)
        }
        _ => Span { low: 0, high: sheaf },
    }
}
