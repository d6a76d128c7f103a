//! Finds which free objects were in sheaves when the trace began.
//!
//! If the recorder [read the sheaves](crate::prepare::known), these are used. Otherwise those of
//! CPUs are inferred: no snapshot reports them, because an object in a sheaf counts as used. But a
//! CPU that allocates more than it frees reaches the objects that were in its sheaf at the start,
//! the last one freed first, and refills the empty sheaf whole. CPUs and barns exchange only whole
//! sheaves. So when a refill allocates a slab, the CPU's allocations since the start, less its
//! frees, equal its sheaf's object count at the start plus a multiple of the sheaf's capacity. A CPU
//! that allocated no slab is assumed to have held all objects that it took; so is one that had CPU
//! slabs, where a kernel without sheaves was traced.
//!
//! [`super::start`] takes these objects out of their slabs, and puts them into sheaves. Invariant:
//! each of them belongs to an initial slab, is free at the start, and is in one sheaf.

use super::plan::{Plan, Start};
use crate::prepare::known::{KnownCache, KnownSheaf, KnownSheaves};
use crate::prepare::{Prepared, Step, StepKind};
use slabyard_model::cache::install::SheafPlace;
use slabyard_model::cache::{Front, KernelCache, Rules};

/// What sheaves hold at the start.
pub(super) struct InSheaves {
    /// Of each cache and CPU.
    sheaves: Vec<(usize, KnownSheaves)>,
    /// Of each cache's barn, the next to be taken first.
    barns: Vec<(usize, Vec<KnownSheaf>)>,
    /// Of each initial slab, how many of its objects.
    of_slab: Vec<u32>,
}

/// One CPU's use of a cache.
#[derive(Clone, Default)]
struct CpuUse {
    /// Objects taken less those freed: now, and at most.
    taken: i64,
    most: i64,
    /// Slabs of the objects that were there at the start, the first that was allocated first.
    /// `None` of others.
    below: Vec<Option<u32>>,
    /// What was taken when the CPU first made a slab.
    at_refill: Option<i64>,
}

impl InSheaves {
    /// Of the machine on which the trace was recorded.
    pub(super) fn of(plan: &Plan<'_>) -> InSheaves {
        let prepared = plan.prepared;
        let nr_initial = prepared.initial_slabs().len();
        let mut found =
            InSheaves { sheaves: Vec::new(), barns: Vec::new(), of_slab: vec![0; nr_initial] };
        let mut sizes: Vec<usize> =
            (0..plan.rules.len()).map(|cache| found_in(plan, cache)).collect();
        for (cache, size) in sizes.iter_mut().enumerate().filter(|(_, size)| **size > 0) {
            let known = prepared.known.get(cache).and_then(Option::as_ref);
            if let Some(known) = known.filter(|known| !known.sheaves.is_empty()) {
                found.read(plan, cache, known);
                *size = 0;
            }
        }
        if sizes.iter().all(|size| *size == 0) {
            return found;
        }
        let cpus = plan.nr_traced();
        let uses = uses(prepared, &sizes, cpus);
        for (nth, mut of) in uses.into_iter().enumerate() {
            let (cache, cpu) = (nth / cpus, nth % cpus);
            // A CPU slab is no sheaf that a refill fills whole.
            of.at_refill = of.at_refill.filter(|_| plan.traced_sheaves[cache] > 0);
            if sizes[cache] == 0 || !is_on_first_node(plan, cpu) {
                continue;
            }
            let main = of.at_start(sizes[cache], plan.rules[cache].sheaf_capacity as usize);
            let main = found.take(prepared, &main);
            found.sheaves.push((cache, KnownSheaves { cpu, main, ..KnownSheaves::default() }));
        }
        found
    }

    /// Takes what the recorder read, of each sheaf as much as one of the machine holds.
    fn read(&mut self, plan: &Plan<'_>, cache: usize, known: &KnownCache) {
        let room = plan.rules[cache].sheaf_capacity as usize;
        let mut fits = |sheaf: &KnownSheaf| {
            self.take(plan.prepared, &sheaf[sheaf.len().saturating_sub(room)..])
        };
        let mut cpus = Vec::new();
        for of in known.sheaves.iter().filter(|of| is_on_first_node(plan, of.cpu)) {
            let sheaves = KnownSheaves {
                cpu: of.cpu,
                main: fits(&of.main),
                spare: of.spare.as_ref().map(&mut fits),
                rcu_free: fits(&of.rcu_free),
            };
            cpus.push((cache, sheaves));
        }
        // All slabs are on the first node.
        let barn = known.barns.first().into_iter().flatten().map(fits).collect();
        self.sheaves.append(&mut cpus);
        self.barns.push((cache, barn));
    }

    /// Takes a sheaf's objects out of their slabs. A slab gives no more than it has free: what events
    /// show to be live goes before what was read.
    fn take(&mut self, prepared: &Prepared, sheaf: &[u32]) -> KnownSheaf {
        let mut taken = Vec::new();
        for number in sheaf {
            let slab = &prepared.slabs[*number as usize];
            let in_sheaves = &mut self.of_slab[*number as usize];
            if *in_sheaves + prepared.nr_live_at_start(slab) < slab.objects {
                *in_sheaves += 1;
                taken.push(*number);
            }
        }
        taken
    }

    /// Objects of an initial slab that are in sheaves.
    pub(super) fn of_slab(&self, slab: u32) -> u32 {
        self.of_slab.get(slab as usize).copied().unwrap_or(0)
    }

    /// Puts them there; `slab_of` knows the model's slabs.
    pub(super) fn install(&self, caches: &mut [KernelCache], slab_of: &[u32]) {
        let mut put = |cache: usize, place, sheaf: &Vec<u32>| {
            let objects = sheaf.iter().map(|slab| slab_of[*slab as usize]);
            caches[cache].install_in_sheaf(place, objects.collect());
        };
        for (cache, KnownSheaves { cpu, main, spare, rcu_free }) in &self.sheaves {
            put(*cache, SheafPlace::Main(*cpu), main);
            put(*cache, SheafPlace::RcuFree(*cpu), rcu_free);
            spare.iter().for_each(|spare| put(*cache, SheafPlace::Spare(*cpu), spare));
        }
        for (cache, barn) in &self.barns {
            barn.iter().rev().for_each(|sheaf| put(*cache, SheafPlace::FirstBarn, sheaf));
        }
    }
}

/// Objects in a sheaf of the traced kernel's cache, or of the modelled one where that has no sheaves;
/// 0 where the start is not looked for in sheaves.
fn found_in(plan: &Plan<'_>, cache: usize) -> usize {
    let looks =
        plan.start == Start::LookAhead && !plan.is_other(cache) && !plan.is_without_slabs(cache);
    let Rules { front, sheaf_capacity, .. } = plan.rules[cache];
    let is_front = matches!(front, Front::Sheaves | Front::SheavesOverCpuSlabs);
    let has_sheaves = is_front && sheaf_capacity > 0;
    match plan.traced_sheaves[cache] {
        _ if !looks || !has_sheaves => 0,
        0 => sheaf_capacity as usize,
        traced => traced as usize,
    }
}

/// Whether a CPU is there when the trace begins, on the node where all slabs are then.
fn is_on_first_node(plan: &Plan<'_>, cpu: usize) -> bool {
    plan.node_of.get(cpu) == Some(&0) && plan.there_at_start()[cpu]
}

fn uses(prepared: &Prepared, sizes: &[usize], cpus: usize) -> Vec<CpuUse> {
    let nr_initial = prepared.initial_slabs().len();
    let mut uses = vec![CpuUse::default(); sizes.len() * cpus];
    let mut made = vec![false; prepared.slabs.len()];
    let mut seen = vec![false; prepared.nr_objects()];
    // Those that the trace missed came back in another way.
    for step in prepared.steps.iter().filter(|step| !step.missed) {
        let (cache, cpu) = (step.cache as usize, step.cpu as usize);
        if sizes[cache] == 0 || cpu >= cpus {
            continue;
        }
        let Step { slab, object, op, .. } = step;
        let is_first = !core::mem::replace(&mut seen[object as usize], true);
        let it = &mut uses[cache * cpus + cpu];
        if op == StepKind::Free {
            it.taken -= 1;
            continue;
        }
        let is_new = slab as usize >= nr_initial;
        if is_new && !core::mem::replace(&mut made[slab as usize], true) {
            it.at_refill = it.at_refill.or(Some(it.taken));
        }
        it.taken += 1;
        if it.taken > it.most {
            it.most = it.taken;
            if it.below.len() < sizes[cache] {
                it.below.push((is_first && !is_new).then_some(slab));
            }
        }
    }
    uses
}

impl CpuUse {
    /// Its sheaf of `size` at the start, of which `room` fit, the next to be allocated last.
    fn at_start(&self, size: usize, room: usize) -> Vec<u32> {
        let by_refill = self.at_refill.map(|taken| match taken.rem_euclid(size as i64) {
            0 if taken > 0 => size,
            part => part as usize,
        });
        let known = by_refill.unwrap_or(size).min(self.below.len()).min(room);
        self.below[..known].iter().rev().copied().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU's sheaf of four, by what it took until it first made a slab; the objects that it came to
    /// take are in slabs 10, 11, 12 and so on.
    fn known(at_refill: Option<i64>, below: u32, room: usize) -> Vec<u32> {
        let below = (10..10 + below).map(Some).collect();
        CpuUse { at_refill, below, ..CpuUse::default() }.at_start(4, room)
    }

    #[test]
    fn a_refill_that_makes_a_slab_says_what_the_sheaf_held_before() {
        // Three, or those and a whole sheaf that slabs on lists filled.
        assert_eq!(known(Some(3), 4, 4), [12, 11, 10]);
        assert_eq!(known(Some(7), 4, 4), [12, 11, 10]);
        // None, or a full one.
        assert!(known(Some(0), 0, 4).is_empty());
        assert_eq!(known(Some(4), 4, 4), [13, 12, 11, 10]);
        // It freed more than it took, and other CPUs took these: three and one are a whole sheaf.
        assert_eq!(known(Some(-1), 4, 4), [12, 11, 10]);
        // It never made a slab: all that it took.
        assert_eq!(known(None, 2, 4), [11, 10]);
        // Where a modelled sheaf is smaller, the objects that are next.
        assert_eq!(known(Some(3), 4, 2), [11, 10]);
    }
}
