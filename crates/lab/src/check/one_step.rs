//! The one-step test: the model is led along the kernel's own placement, and at
//! each switch of a CPU to another slab it is asked which slab it would take.
//!
//! After a miss the slab is taken from where the model has it, which is a guess
//! about the lists that remain; so the share of hits is a lower bound. A slab that
//! the kernel gave back must have been given back by the model too; one that the
//! model gave back and the kernel goes on using is put back in place.
//!
//! Caches with sheaves are left out, as objects from a sheaf show no switch, and
//! caches whose slabs are others than the traced ones.

use crate::prepare::{Op, Prepared};
use crate::replay::{Plan, start};
use slabyard::engine::counted::calls::Choice;
use slabyard::engine::counted::{Front, KernelCache, NONE, Page};

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
}

impl Score {
    fn add(&mut self, other: &Score) {
        self.switches += other.switches;
        self.hits += other.hits;
        self.allocs += other.allocs;
        self.same += other.same;
        self.discards += other.discards;
        self.discards_made += other.discards_made;
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

/// The kernel's slabs and the model's.
struct Pairs {
    /// The model's for each of the kernel's.
    model_of: Vec<u32>,
    /// The kernel's for each of the model's, per cache.
    kernel_of: Vec<Vec<u32>>,
    /// Live objects of each of the kernel's.
    live: Vec<u32>,
    /// The model gave it back.
    gone: Vec<bool>,
}

/// None of the kernel's slabs.
const UNKNOWN: u32 = u32::MAX;

impl Pairs {
    fn pair(&mut self, cache: usize, kernel: u32, model: u32) {
        self.model_of[kernel as usize] = model;
        self.gone[kernel as usize] = false;
        let known = &mut self.kernel_of[cache];
        if known.len() <= model as usize {
            known.resize(model as usize + 1, UNKNOWN);
        }
        known[model as usize] = kernel;
    }
}

/// Runs the test.
#[must_use]
pub fn run(plan: &Plan<'_>) -> OneStep {
    let prepared = plan.prepared;
    let mut caches: Vec<KernelCache> =
        plan.rules.iter().map(|rules| KernelCache::new(*rules, plan.node_of)).collect();
    let placed = start::place(plan, &mut caches);
    caches.iter_mut().for_each(KernelCache::begin);
    let mut pairs = Pairs {
        model_of: vec![NONE; prepared.slabs.len()],
        kernel_of: vec![Vec::new(); caches.len()],
        live: vec![0; prepared.slabs.len()],
        gone: vec![false; prepared.slabs.len()],
    };
    for (kernel, model) in placed.each() {
        let slab = &prepared.slabs[kernel as usize];
        pairs.pair(slab.cache as usize, kernel, model);
        pairs.live[kernel as usize] = prepared.nr_live_at_start(slab);
    }
    let nr_cpus = plan.node_of.len();
    // The slab that the kernel last allocated from, per cache and CPU.
    let mut last = vec![UNKNOWN; caches.len() * nr_cpus];
    let mut scores = vec![Score::default(); caches.len()];
    let closings = closings(prepared);
    let mut closed = 0;
    for step in &prepared.steps {
        while closed < closings.len() && closings[closed].0 <= step.time_ns {
            let kernel = closings[closed].1;
            let cache = prepared.slabs[kernel as usize].cache as usize;
            close(&mut caches[cache], &mut pairs, kernel, &mut scores[cache]);
            closed += 1;
        }
        let number = step.cache as usize;
        let cache = &mut caches[number];
        if cache.rules().front != Front::CpuSlabs || start::is_other(plan, number) {
            continue;
        }
        let cpu = step.cpu as usize % nr_cpus;
        let kernel = step.slab;
        if step.op == Op::Alloc {
            let last = &mut last[number * nr_cpus + cpu];
            let switched = core::mem::replace(last, kernel) != kernel;
            alloc(cache, &mut pairs, number, cpu, kernel, switched, &mut scores[number]);
            pairs.live[kernel as usize] += 1;
        } else {
            let model = pairs.model_of[kernel as usize];
            let live = &mut pairs.live[kernel as usize];
            *live = live.saturating_sub(1);
            if model != NONE && cache.free_of(model) < cache.rules().objects {
                cache.free(cpu, model);
            }
        }
        if cache.has_pages() {
            for page in cache.take_pages() {
                if let Page::Freed(model) = page {
                    // A slab that only the snapshot counts has no partner.
                    let kernel = pairs.kernel_of[number].get(model as usize).copied();
                    if let Some(kernel) = kernel.filter(|kernel| *kernel != UNKNOWN) {
                        pairs.model_of[kernel as usize] = NONE;
                        pairs.gone[kernel as usize] = true;
                    }
                }
            }
        }
    }
    for (_, kernel) in &closings[closed..] {
        let cache = prepared.slabs[*kernel as usize].cache as usize;
        close(&mut caches[cache], &mut pairs, *kernel, &mut scores[cache]);
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

fn alloc(
    cache: &mut KernelCache,
    pairs: &mut Pairs,
    number: usize,
    cpu: usize,
    kernel: u32,
    switched: bool,
    score: &mut Score,
) {
    let model = pairs.model_of[kernel as usize];
    let chosen = match cache.choose(cpu, None) {
        Choice::Own | Choice::Refill => cache.cpu_slab(cpu).map_or(NONE, |(slab, _)| slab),
        Choice::CpuPartial(slab) | Choice::NodePartial(slab) => slab,
        Choice::New => NONE,
    };
    let is_new = model == NONE && !pairs.gone[kernel as usize];
    let hit = if is_new { chosen == NONE } else { model != NONE && chosen == model };
    score.allocs += 1;
    score.same += u64::from(hit);
    score.switches += u64::from(switched);
    score.hits += u64::from(switched && hit);
    if model != NONE {
        // False: the model has no free object there; the books stay as they are.
        let _followed = cache.follow(cpu, model);
        return;
    }
    let objects = cache.rules().objects;
    let live = pairs.live[kernel as usize].min(objects - 1);
    if is_new && live == 0 {
        let model = cache.follow_new(cpu);
        pairs.pair(number, kernel, model);
        let _followed = cache.follow(cpu, model);
        return;
    }
    // Given back by the model although the kernel kept it.
    score.discards_wrong += u64::from(!is_new);
    let model = cache.install_loose(cpu, objects - live);
    pairs.pair(number, kernel, model);
    let _followed = cache.follow(cpu, model);
}

fn close(cache: &mut KernelCache, pairs: &mut Pairs, kernel: u32, score: &mut Score) {
    if cache.rules().front != Front::CpuSlabs {
        return;
    }
    score.discards += 1;
    score.discards_made += u64::from(pairs.gone[kernel as usize]);
    let model = core::mem::replace(&mut pairs.model_of[kernel as usize], NONE);
    if model != NONE {
        let _ended = cache.follow_freed(model);
        cache.take_pages();
    }
}
