//! The one-step test: the model is led along the kernel's own placement, and at
//! each switch of a CPU to another slab it is asked which slab it would take.
//!
//! After a miss the slab is taken from where the model has it, which is a guess
//! about the lists that remain; so the share of hits is a lower bound. What the
//! kernel's choice proves of other slabs heals the model ([`super::pairs`]), and only after the
//! model has made its own choice. A slab that the kernel gave back must have been given back
//! by the model too, before; one that the model gave back and the kernel goes on using is
//! put back in place.
//!
//! Caches with sheaves are left out, as objects from a sheaf show no switch, and
//! caches whose slabs are others than the traced ones.

use super::cpu_lists::CpuLists;
use super::pairs::{Asked, Pairs};
use crate::prepare::{Op, Prepared};
use crate::replay::{Plan, start};
use slabyard_model::cache::calls::Choice;
use slabyard_model::cache::{Front, KernelCache, NONE};

/// Hits among questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Switches of a CPU to another slab.
    pub switches: u64,
    /// Those that the rules tell.
    pub hits: u64,
    /// Allocations.
    pub allocs: u64,
    /// Those from the slab that the rules would take from.
    pub same: u64,
    /// Slabs that the kernel gave back.
    pub discards: u64,
    /// Those that the model had given back too.
    pub discards_made: u64,
    /// Slabs that the model gave back and the kernel went on using.
    pub discards_wrong: u64,
    /// Those of them of which events tell all that the rules need.
    pub told: Told,
}

/// Hits where events tell what is on CPUs' lists ([`CpuLists::are_told`]): the others are a bound that
/// no rule passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Switches of a CPU to another slab.
    pub switches: u64,
    /// Those that the rules tell.
    pub hits: u64,
    /// Slabs that the kernel gave back.
    pub discards: u64,
    /// Those that the model had given back too.
    pub discards_made: u64,
}

impl Told {
    /// Share of switches told; 1 if there was none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        share(self.hits, self.switches)
    }

    /// Share of the kernel's discards that the model made too.
    #[must_use]
    pub fn discard_rate(&self) -> f64 {
        share(self.discards_made, self.discards)
    }
}

impl Score {
    fn add(&mut self, other: &Score) {
        self.switches += other.switches;
        self.hits += other.hits;
        self.allocs += other.allocs;
        self.same += other.same;
        self.discards += other.discards;
        self.discards_made += other.discards_made;
        self.told.switches += other.told.switches;
        self.told.hits += other.told.hits;
        self.told.discards += other.told.discards;
        self.told.discards_made += other.told.discards_made;
        self.discards_wrong += other.discards_wrong;
    }

    /// Share of switches told; 1 if there was none.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        share(self.hits, self.switches)
    }

    /// Share of allocations from the slab that the rules would take from.
    #[must_use]
    pub fn same_rate(&self) -> f64 {
        share(self.same, self.allocs)
    }

    /// Share of the kernel's discards that the model made too.
    #[must_use]
    pub fn discard_rate(&self) -> f64 {
        share(self.discards_made, self.discards)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// What the test found.
#[derive(Clone, Debug, Default)]
pub struct OneStep {
    /// Per cache.
    pub caches: Vec<Score>,
    /// All together, but those left out.
    pub total: Score,
}

/// None of the kernel's slabs.
const UNKNOWN: u32 = u32::MAX;

/// Runs the test.
#[must_use]
pub fn run(plan: &Plan<'_>) -> OneStep {
    let prepared = plan.prepared;
    let mut caches: Vec<KernelCache> =
        plan.rules.iter().map(|rules| KernelCache::new(*rules, plan.node_of)).collect();
    let placed = start::place(plan, &mut caches);
    caches.iter_mut().for_each(KernelCache::begin);
    let mut pairs = Pairs::new(prepared.slabs.len(), caches.len());
    for (kernel, model) in placed.each() {
        let slab = &prepared.slabs[kernel as usize];
        let live = prepared.nr_live_at_start(slab);
        pairs.begin(slab.cache as usize, kernel, model, live, slab.objects - live);
    }
    let mut lists = CpuLists::new(plan);
    // Objects that an event told of, or that are live at the start.
    let mut seen = prepared.live_at_start.clone();
    let nr_cpus = plan.node_of.len();
    // The slab that the kernel last allocated from, per cache and CPU.
    let mut last = vec![UNKNOWN; caches.len() * nr_cpus];
    let mut scores = vec![Score::default(); caches.len()];
    let closings = closings(prepared);
    let mut closed = 0;
    for step in &prepared.steps {
        while closed < closings.len() && closings[closed].0 <= step.time_ns {
            score_end(plan, &caches, &pairs, &mut lists, closings[closed].1, &mut scores);
            closed += 1;
        }
        let number = step.cache as usize;
        let cache = &mut caches[number];
        if cache.rules().front != Front::CpuSlabs || plan.is_other(number) {
            continue;
        }
        let cpu = step.cpu as usize % nr_cpus;
        for ended in lists.take_ended(number, cpu) {
            pairs.end(cache, number, &ended);
        }
        let kernel = step.slab;
        if step.op == Op::Alloc {
            let last = &mut last[number * nr_cpus + cpu];
            let switched = core::mem::replace(last, kernel) != kernel;
            let is_first = !core::mem::replace(&mut seen[step.object as usize], true);
            let score = &mut scores[number];
            let hits = score.hits;
            let asked = ask(cache, &pairs, cpu, kernel, switched, score);
            if switched && lists.are_told(number) {
                score.told.switches += 1;
                score.told.hits += score.hits - hits;
            }
            let most = cache.rules().cpu_partial_slabs;
            let behind = switched.then(|| lists.taken(number, cpu, kernel, most)).flatten();
            let missed = pairs.is_of_node(cache, kernel) && asked.chosen != asked.model;
            let behind = behind.filter(|_| missed);
            pairs.heal(cache, number, cpu, &asked, behind.is_some());
            let of_node = behind.is_none() && pairs.is_of_node(cache, kernel);
            if switched && (asked.is_new || of_node) {
                lists.found_empty(number, cpu);
            }
            follow(cache, &mut pairs, number, cpu, &asked, &mut scores[number]);
            if let Some(behind) = behind {
                pairs.put_back(cache, cpu, &behind);
            }
            pairs.allocated(kernel, is_first);
        } else {
            let model = pairs.model_of(kernel);
            lists.freed(plan, number, cpu, kernel, pairs.live(kernel));
            pairs.freed(kernel);
            if model != NONE && cache.free_of(model) < cache.rules().objects {
                cache.free(cpu, model);
            }
        }
        pairs.note_pages(number, cache);
    }
    for (_, kernel) in &closings[closed..] {
        score_end(plan, &caches, &pairs, &mut lists, *kernel, &mut scores);
    }
    let mut total = Score::default();
    for (score, cache) in scores.iter().zip(&prepared.caches) {
        if cache.left_out.is_none() {
            total.add(score);
        }
    }
    OneStep { caches: scores, total }
}

/// When the kernel gave slabs back, in order of time.
fn closings(prepared: &Prepared) -> Vec<(u64, u32)> {
    let slabs = prepared.slabs.iter().enumerate();
    let mut closings: Vec<(u64, u32)> =
        slabs.filter_map(|(n, slab)| Some((slab.closed_at?, n as u32))).collect();
    closings.sort_unstable();
    closings
}

/// Asks the rules for the slab that they would take from, and scores them by the kernel's.
fn ask(
    cache: &KernelCache,
    pairs: &Pairs,
    cpu: usize,
    kernel: u32,
    switched: bool,
    score: &mut Score,
) -> Asked {
    let model = pairs.model_of(kernel);
    let chosen = match cache.choose(cpu, None) {
        Choice::Own | Choice::Refill => cache.cpu_slab(cpu).map_or(NONE, |(slab, _)| slab),
        Choice::CpuPartial(slab) | Choice::NodePartial(slab) => slab,
        Choice::New => NONE,
    };
    let is_new = model == NONE && !pairs.is_gone(kernel);
    let hit = if is_new { chosen == NONE } else { model != NONE && chosen == model };
    score.allocs += 1;
    score.same += u64::from(hit);
    score.switches += u64::from(switched);
    score.hits += u64::from(switched && hit);
    Asked { kernel, model, chosen, is_new, switched }
}

/// Allocates where the kernel did.
fn follow(
    cache: &mut KernelCache,
    pairs: &mut Pairs,
    number: usize,
    cpu: usize,
    asked: &Asked,
    score: &mut Score,
) {
    let Asked { kernel, model, is_new, .. } = *asked;
    if model != NONE {
        // False: the model has no free object there; the books stay as they are.
        let _followed = cache.follow(cpu, model);
        return;
    }
    let objects = cache.rules().objects;
    let live = pairs.live(kernel).min(objects - 1);
    let model = if is_new && live == 0 {
        cache.follow_new(cpu)
    } else {
        // Given back by the model although the kernel kept it.
        score.discards_wrong += u64::from(!is_new);
        cache.install_loose(cpu, objects - live)
    };
    pairs.pair(number, kernel, model);
    let _followed = cache.follow(cpu, model);
}

/// The kernel gave a slab back: had the model? What that proves is kept until the next step of the
/// same CPU in this cache, so that the slabs of one drain are all foretold before it heals.
fn score_end(
    plan: &Plan<'_>,
    caches: &[KernelCache],
    pairs: &Pairs,
    lists: &mut CpuLists,
    kernel: u32,
    scores: &mut [Score],
) {
    let number = plan.prepared.slabs[kernel as usize].cache as usize;
    let cache = &caches[number];
    if cache.rules().front != Front::CpuSlabs || plan.is_other(number) {
        return;
    }
    let score = &mut scores[number];
    let made = u64::from(pairs.has_ended(kernel));
    score.discards += 1;
    score.discards_made += made;
    if lists.are_told(number) {
        score.told.discards += 1;
        score.told.discards_made += made;
    }
    lists.ended(plan, number, kernel);
}
