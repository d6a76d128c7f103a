//! Checks whether the trace's events are consistent with one another and with the snapshot.
//!
//! Events missing from the trace leave contradictions: a free object is freed, a live one is
//! allocated, or pages are allocated twice. A free that leaves no event causes a contradiction too;
//! in caches where such frees are usual, none counts as missing ([`super::left_out`]).
//!
//! A snapshot taken at another moment counts other free objects than the trace shows. When the
//! kernel allocated a slab, its lists were empty. So by then it had allocated every object that was
//! free on them at the start: at most as many as the snapshot counts as free on lists or held by
//! CPUs.
//!
//! The limits come from ten complete traces of different loads. In these, 0 to 0.10 % of the steps
//! are contradictions; with one event in a hundred removed, 0.8 to 1.1 % are. With the snapshot
//! taken just before the trace, no complete trace is in doubt; with another snapshot of the same
//! kernel, two of three traces are, and the third differs by little. With more than two CPUs a
//! wrong snapshot is found less often, because each CPU may hold objects that the trace does not
//! show.

use super::oddities::Oddities;
use super::prepared::{Cache, Prepared};
use crate::snapshot::KernelSnapshot;
use std::fmt;

/// Contradictions of a whole trace, per 1000 steps, and of pages per 1000 slabs made.
const MOST_PER_1000: u64 = 2;
const MOST_PAGES_PER_1000: u64 = 5;
/// Slabs allocated twice that one odd page allocation may explain.
const MOST_PAGES: u64 = 4;
/// Share of the bytes free at the start that a snapshot may be wrong by, in percent,
/// and in how many caches by more than a slab.
const MOST_OFF_PERCENT: u64 = 22;
const MOST_CACHES_OFF: u32 = 3;
/// CPUs of the machines that these limits were set by. What more of them may hold comes on top: four
/// of six recordings of guests with 4 and 16 CPUs were in doubt without it.
const CPUS: u64 = 2;
/// Sheaves that a node's barn and a CPU may hold.
const SHEAVES_OF_BARN: u64 = 10;
const SHEAVES_OF_CPU: u64 = 2;

/// Events that contradict others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    /// Allocations of live objects, and slabs freed with live ones.
    pub frees_missing: u64,
    /// Frees of free objects.
    pub allocations_missing: u64,
    /// Pages allocated or freed that do not fit the slabs.
    pub pages: u64,
    /// All allocations and frees.
    pub steps: u64,
    /// Slabs made.
    pub slabs: u64,
}

/// Why a replay's figures are uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// More contradictions than a whole trace has.
    RowsMissing(Contradictions),
    /// The snapshot is not of the moment when the trace begins.
    OtherMoment {
        /// Bytes free at the start that only one of the two shows.
        off: u64,
        /// Those that either shows.
        all: u64,
        /// Caches that are wrong by more than a slab.
        caches: u32,
    },
}

impl Contradictions {
    /// Of a trace.
    #[must_use]
    pub fn of(prepared: &Prepared) -> Contradictions {
        let caches = prepared.caches.iter().zip(&prepared.tally.frees);
        let loses = |cache: &Cache| cache.left_out.is_some() || cache.frees_placed;
        let frees = caches.filter(|(cache, _)| !loses(cache));
        let Oddities { reopened, other_order, .. } = prepared.oddities;
        let counted = prepared.caches.iter().filter(|cache| !loses(cache));
        Contradictions {
            frees_missing: frees.map(|(_, frees)| frees.missed).sum(),
            allocations_missing: counted.map(|cache| cache.unallocated).sum(),
            pages: reopened + other_order,
            steps: prepared.steps.len() as u64,
            slabs: (prepared.slabs.len() - prepared.initial_slabs().len()) as u64,
        }
    }

    /// True if there is any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.frees_missing + self.allocations_missing + self.pages > 0
    }

    fn too_many(&self) -> bool {
        let objects = self.frees_missing + self.allocations_missing;
        objects * 1000 > self.steps * MOST_PER_1000
            || (self.pages > MOST_PAGES && self.pages * 1000 > self.slabs * MOST_PAGES_PER_1000)
    }
}

/// All that speaks against a trace and its snapshot.
#[must_use]
pub fn doubts(prepared: &Prepared, snapshot: &KernelSnapshot) -> Vec<Doubt> {
    let found = Contradictions::of(prepared);
    if found.too_many() {
        // Rows that are missing change what was free at the start as well.
        return vec![Doubt::RowsMissing(found)];
    }
    other_moment(prepared, snapshot).into_iter().collect()
}

fn other_moment(prepared: &Prepared, snapshot: &KernelSnapshot) -> Option<Doubt> {
    let mut seen = vec![0u64; prepared.caches.len()];
    for slab in prepared.initial_slabs() {
        let free = slab.objects - prepared.nr_live_at_start(slab);
        seen[slab.cache as usize] += u64::from(free);
    }
    let mut made = vec![false; prepared.caches.len()];
    for slab in &prepared.slabs[prepared.initial_slabs().len()..] {
        made[slab.cache as usize] = true;
    }
    let cpus = u64::from(snapshot.machine().map_or(1, |machine| machine.online_cpus));
    let (mut off, mut all, mut caches) = (0u64, 0u64, 0u32);
    for (nth, cache) in snapshot.caches.iter().enumerate() {
        // A snapshot without lists, as from slabinfo, tells nothing of this.
        let (Some(partial), Some(used)) = (cache.partial, cache.objects_partial) else { continue };
        if prepared.caches[nth].left_out.is_some() {
            continue;
        }
        let objects = u64::from(cache.objs_per_slab);
        let listed = cache.slabs_cpu_partial.as_ref().map_or(0, |lists| lists.slabs);
        let held = cache.cpu_slabs.unwrap_or(0).max(listed).saturating_mul(objects);
        let sheaves = SHEAVES_OF_BARN + SHEAVES_OF_CPU * cpus;
        let in_sheaves = u64::from(cache.sheaf_capacity.unwrap_or(0)) * sheaves;
        let least = partial.saturating_mul(objects).saturating_sub(used);
        let most = least.saturating_add(held).saturating_add(in_sheaves);
        let above = seen[nth].saturating_sub(most);
        // Each CPU may have taken a slab off the list and not used it up.
        let unused = cpus.saturating_sub(CPUS).saturating_mul(objects);
        let below = if made[nth] { least.saturating_sub(seen[nth] + unused) } else { 0 };
        let wrong = above + below;
        if made[nth] || above > 0 {
            let size = u64::from(cache.slab_size);
            all = all.saturating_add(seen[nth].max(least).saturating_mul(size));
            off = off.saturating_add(wrong.saturating_mul(size));
            caches += u32::from(wrong > objects);
        }
    }
    let is_other = caches > MOST_CACHES_OFF && off > all / 100 * MOST_OFF_PERCENT;
    is_other.then_some(Doubt::OtherMoment { off, all, caches })
}

impl fmt::Display for Contradictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradictions { frees_missing, allocations_missing, pages, steps, .. } = self;
        let of = (frees_missing + allocations_missing) as f64 * 100.0 / (*steps).max(1) as f64;
        write!(
            f,
            "{frees_missing} frees and {allocations_missing} allocations, {of:.2} % of all, are \
             not in the trace though others tell of them; {pages} pages do not fit the slabs"
        )
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::RowsMissing(found) => {
                write!(f, "events are missing, so that all figures are uncertain: {found}")
            }
            Doubt::OtherMoment { off, all, caches } => write!(
                f,
                "the snapshot seems to be of another moment than the trace's beginning, so that all \
                 figures are uncertain: {} KiB of {} KiB that were free at the start do not fit, in \
                 {caches} caches by more than a slab; give the snapshot that was taken just before",
                off >> 10,
                all >> 10
            ),
        }
    }
}
