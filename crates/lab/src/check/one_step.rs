//! The one-step test: the model follows the kernel's own placement, and whenever a CPU switches to
//! another slab the model predicts which slab.
//!
//! After a wrong prediction, the model takes the kernel's slab from wherever it has that slab.
//! Which lists its other slabs are on is then a guess, so the share of right predictions is a lower
//! bound. The kernel's choice also proves facts about other slabs; [`super::pairs`] corrects the
//! model by these facts after the model has made its own choice, with what the trace shows later
//! ([`super::next_use`]). When the kernel frees a slab, the model must already have freed it; if the
//! kernel still uses a slab that the model freed, the model restores that slab.
//!
//! A shrink recorded in the trace is applied to the model too: it flushes CPUs and sorts lists.
//!
//! The test leaves out caches with sheaves, because allocations from a sheaf do not show when a CPU
//! switches slabs. It also leaves out caches whose slabs differ from the traced ones.

use super::cpu_lists::CpuLists;
use super::free_order::FreeOrder;
use super::next_use::NextUse;
use super::pairs::{ModelChoice, Pairs};
use crate::prepare::frames::NO_SLAB;
use crate::prepare::{Prepared, Step, StepKind};
use crate::replay::events::{Event, MachineEvent};
use crate::replay::{Plan, start};
use slabyard_model::cache::{Front, KernelCache, NONE};

/// Hits among questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitRate {
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
    /// Those that the model had freed too.
    pub discards_made: u64,
    /// Slabs that the model gave back and the kernel went on using.
    pub discards_wrong: u64,
    /// Allocations without an event, as far as the order of free objects shows them.
    pub unseen: u64,
    /// Those of them for which events show everything that the rules need.
    pub certain: CertainSwitches,
}

/// Hits where events tell what is on CPUs' lists ([`CpuLists::are_told`]): the others are a bound that
/// no rule passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertainSwitches {
    /// Switches of a CPU to another slab.
    pub switches: u64,
    /// Those that the rules tell.
    pub hits: u64,
    /// Slabs that the kernel gave back.
    pub discards: u64,
    /// Those that the model had freed too.
    pub discards_made: u64,
}

impl CertainSwitches {
    /// Share of switches predicted rightly; 1 if there was none.
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

impl HitRate {
    fn add(&mut self, other: &HitRate) {
        self.switches += other.switches;
        self.hits += other.hits;
        self.allocs += other.allocs;
        self.same += other.same;
        self.discards += other.discards;
        self.discards_made += other.discards_made;
        self.certain.switches += other.certain.switches;
        self.certain.hits += other.certain.hits;
        self.certain.discards += other.certain.discards;
        self.certain.discards_made += other.certain.discards_made;
        self.discards_wrong += other.discards_wrong;
        self.unseen += other.unseen;
    }

    /// Share of switches predicted rightly; 1 if there was none.
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
    pub caches: Vec<HitRate>,
    /// All together, but those left out.
    pub total: HitRate,
}

impl OneStep {
    /// Nothing is certain of the caches of which the trace does not show enough.
    pub(super) fn keep_certain(&mut self, prepared: &Prepared, enough: &[bool]) {
        for (score, enough) in self.caches.iter_mut().zip(enough) {
            if !enough {
                score.certain = CertainSwitches::default();
            }
        }
        self.total = total(&self.caches, prepared);
    }
}

/// All together, but those left out.
fn total(caches: &[HitRate], prepared: &Prepared) -> HitRate {
    let mut total = HitRate::default();
    for (score, cache) in caches.iter().zip(&prepared.caches) {
        if cache.left_out.is_none() {
            total.add(score);
        }
    }
    total
}

/// Runs the test.
#[must_use]
pub fn run(plan: &Plan<'_>) -> OneStep {
    if !(0..plan.rules.len()).any(|cache| is_tested(plan, cache)) {
        // As by 7.0 and later: no pass over the steps, which may be in a file.
        return OneStep {
            caches: vec![HitRate::default(); plan.rules.len()],
            ..OneStep::default()
        };
    }
    let mut test = Test::new(plan);
    let closings = closings(plan.prepared);
    let mut closings = closings.iter().peekable();
    let begun_ns = *plan.prepared.span.start();
    let mut shrinks = plan.events.iter().filter_map(shrink_of).peekable();
    for step in &plan.prepared.steps {
        let since_ns = step.time_ns.saturating_sub(begun_ns);
        while let Some((_, cache)) = shrinks.next_if(|(at_ns, _)| *at_ns <= since_ns) {
            test.shrunk(cache);
        }
        while let Some((_, kernel)) = closings.next_if(|(at_ns, _)| *at_ns <= step.time_ns) {
            test.ended(*kernel);
        }
        test.step(&step);
    }
    closings.for_each(|(_, kernel)| test.ended(*kernel));
    test.scores()
}

/// True for a cache whose switches can be seen, and whose slabs are the traced ones.
fn is_tested(plan: &Plan<'_>, cache: usize) -> bool {
    plan.rules[cache].front == Front::CpuSlabs && !plan.is_other(cache)
}

/// When a cache was shrunk, and which.
fn shrink_of(event: &Event) -> Option<(u64, usize)> {
    match event.what {
        MachineEvent::ShrinkOf(cache) => Some((event.at_ns, cache.into())),
        MachineEvent::Shrink | MachineEvent::Offline(_) | MachineEvent::Online(_) => None,
    }
}

/// When the kernel gave slabs back, in order of time.
fn closings(prepared: &Prepared) -> Vec<(u64, u32)> {
    let slabs = prepared.slabs.iter().enumerate();
    let mut closings: Vec<(u64, u32)> =
        slabs.filter_map(|(n, slab)| Some((slab.closed_at?, n as u32))).collect();
    closings.sort_unstable();
    closings
}

/// The test under way.
struct Test<'p, 'a> {
    plan: &'p Plan<'a>,
    caches: Vec<KernelCache>,
    pairs: Pairs,
    lists: CpuLists,
    order: FreeOrder,
    next: NextUse,
    /// Objects that an event has named, or that are live at the start.
    seen: Vec<bool>,
    /// The slab that the kernel last allocated from, per cache and CPU.
    last: Vec<u32>,
    scores: Vec<HitRate>,
}

impl<'p, 'a> Test<'p, 'a> {
    fn new(plan: &'p Plan<'a>) -> Test<'p, 'a> {
        let prepared = plan.prepared;
        let mut caches = plan.caches();
        let placed = start::place(plan, &mut caches);
        caches.iter_mut().for_each(KernelCache::begin);
        let mut pairs = Pairs::new(prepared.slabs.len(), caches.len());
        for (kernel, model) in placed.each() {
            let slab = &prepared.slabs[kernel as usize];
            let live = prepared.nr_live_at_start(slab);
            pairs.begin(slab.cache as usize, kernel, model, live, slab.objects - live);
        }
        Test {
            plan,
            pairs,
            lists: CpuLists::new(plan),
            order: FreeOrder::new(caches.len(), plan.node_of.len()),
            next: NextUse::of(prepared, plan.node_of.len()),
            seen: prepared.live_at_start.clone(),
            last: vec![NO_SLAB; caches.len() * plan.node_of.len()],
            scores: vec![HitRate::default(); caches.len()],
            caches,
        }
    }

    /// The kernel made a step.
    fn step(&mut self, step: &Step) {
        self.next.step(step);
        let number = step.cache as usize;
        if !is_tested(self.plan, number) {
            return;
        }
        let cpu = step.cpu as usize % self.plan.node_of.len();
        for ended in self.lists.take_ended(number, cpu) {
            self.pairs.end(&mut self.caches[number], number, &ended);
        }
        match step.op {
            StepKind::Alloc => self.alloc(number, cpu, step),
            StepKind::Free => self.free(number, cpu, step),
        }
        self.pairs.note_pages(number, &mut self.caches[number]);
    }

    /// The kernel allocated: the model is asked first, then led there.
    fn alloc(&mut self, number: usize, cpu: usize, step: &Step) {
        let kernel = step.slab;
        let last = &mut self.last[number * self.plan.node_of.len() + cpu];
        let switched = core::mem::replace(last, kernel) != kernel;
        let unseen = self.order.allocated(cpu, step);
        if unseen.any() {
            self.lists.unseen(number);
        }
        self.scores[number].unseen += u64::from(unseen.allocations);
        let is_first = !core::mem::replace(&mut self.seen[step.object as usize], true);
        let asked = self.ask(number, cpu, kernel, switched);
        let (cache, pairs, lists) = (&mut self.caches[number], &mut self.pairs, &mut self.lists);
        if switched {
            let next = self.next.switched(number, cpu);
            pairs.find_border(cache, number, cpu, &asked, (&self.next, next));
        }
        let most = cache.rules().cpu_partial_slabs;
        let behind = switched.then(|| lists.taken(number, cpu, kernel, most)).flatten();
        let missed = pairs.is_of_node(cache, kernel) && asked.chosen != asked.model;
        let behind = behind.filter(|_| missed);
        pairs.heal(cache, number, cpu, &asked, behind.is_some(), &self.next);
        let of_node = behind.is_none() && pairs.is_of_node(cache, kernel);
        if switched && (asked.is_new || of_node) {
            lists.found_empty(number, cpu);
        }
        follow(cache, pairs, number, cpu, &asked, &mut self.scores[number]);
        if let Some(behind) = behind {
            pairs.put_back(cache, cpu, &behind);
        }
        pairs.allocated(kernel, is_first);
    }

    /// The kernel freed an object of a slab.
    fn free(&mut self, number: usize, cpu: usize, step: &Step) {
        let kernel = step.slab;
        self.order.freed(cpu, step);
        let (cache, pairs) = (&mut self.caches[number], &mut self.pairs);
        let model = pairs.model_of(kernel);
        self.lists.freed(self.plan, number, cpu, kernel, pairs.live(kernel));
        pairs.freed(kernel);
        if model != NONE && cache.free_of(model) < cache.rules().objects {
            cache.free(cpu, model);
        }
    }

    /// Asks the rules for the slab that they would take from, and scores them by the kernel's.
    fn ask(&mut self, number: usize, cpu: usize, kernel: u32, switched: bool) -> ModelChoice {
        let (cache, pairs) = (&self.caches[number], &self.pairs);
        let model = pairs.model_of(kernel);
        let chosen = cache.choose(cpu, None).slab();
        let is_new = model == NONE && !pairs.is_gone(kernel);
        let hit = if is_new { chosen == NONE } else { model != NONE && chosen == model };
        let score = &mut self.scores[number];
        score.allocs += 1;
        score.same += u64::from(hit);
        score.switches += u64::from(switched);
        score.hits += u64::from(switched && hit);
        if switched && self.lists.are_told(number) {
            score.certain.switches += 1;
            score.certain.hits += u64::from(hit);
        }
        ModelChoice { kernel, model, chosen, is_new, switched }
    }

    /// The kernel gave a slab back: had the model? What that proves is kept until the next step of the
    /// same CPU in this cache, so that the slabs of one drain are all foretold before it heals.
    fn ended(&mut self, kernel: u32) {
        let number = self.plan.prepared.slabs[kernel as usize].cache as usize;
        if !is_tested(self.plan, number) {
            return;
        }
        self.order.ended(kernel);
        let score = &mut self.scores[number];
        let made = u64::from(self.pairs.has_ended(kernel));
        score.discards += 1;
        score.discards_made += made;
        if self.lists.are_told(number) {
            score.certain.discards += 1;
            score.certain.discards_made += made;
        }
        self.lists.ended(self.plan, number, kernel);
    }

    /// The kernel shrank a cache.
    fn shrunk(&mut self, number: usize) {
        if is_tested(self.plan, number) {
            self.caches[number].shrink();
            self.pairs.note_pages(number, &mut self.caches[number]);
            self.lists.shrunk(number);
            self.order.shrunk(number);
        }
    }

    fn scores(self) -> OneStep {
        OneStep { total: total(&self.scores, self.plan.prepared), caches: self.scores }
    }
}

/// Allocates where the kernel did.
fn follow(
    cache: &mut KernelCache,
    pairs: &mut Pairs,
    number: usize,
    cpu: usize,
    asked: &ModelChoice,
    score: &mut HitRate,
) {
    let ModelChoice { kernel, model, is_new, .. } = *asked;
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
