//! Matches the kernel's slabs with the model's while the model follows the kernel's choices.
//!
//! A trace does not show every object: some tasks are not traced, and some ways of allocating and
//! freeing leave no events. So an object that the model considers free may be in use, and the model
//! would choose its slab again at every switch. The kernel's later choices prove the error and
//! correct the model:
//!
//! - a CPU that leaves its slab found no free object in it;
//! - a CPU that takes a slab from its node's list has none on its CPU partial list;
//! - when the kernel allocates a slab, neither the CPU's nor the node's list has a free object;
//! - a slab that is passed over, and next freed into, has no free object;
//! - the slab that a CPU takes next shows where its list ends, and the node's begins;
//! - a slab that is passed over repeatedly has no free object, or is on another list;
//! - a CPU that takes a slab off its node's list also takes further slabs, in a known order;
//! - an empty slab on a CPU's list is freed when the list is drained, after which the list holds
//!   only the slab added last.
//!
//! [`super::one_step`] predicts first, and only then corrects the model by the kernel's choice;
//! [`follow`](slabyard_model::cache::follow) moves the model's slabs. Invariant, for each slab:
//! objects free in the model + objects that this module has marked as in use <= objects free by the
//! trace + objects that the kernel proved to be free.

use super::cpu_lists::{DrainTotals, EndedSlabs};
use super::next_use::NextUse;
use crate::prepare::frames::NO_SLAB;
use slabyard_model::cache::{End, KernelCache, NONE, Page, State};
use std::collections::HashMap;

/// A slab that is passed over this often waits at the end of its list. Even in loads all of whose
/// objects are seen, a slab is passed over a few times if the trace has frees in the wrong order.
const MOST_PASSED: u8 = 12;

/// More free objects than these are not those of tasks that are not traced: the CPU's slab was
/// flushed.
const MOST_UNSEEN: u32 = 4;

/// So many slabs of a list may be used up before the one that the kernel took.
const MOST_USED_UP: u32 = 64;

/// The kernel's slabs and the model's.
pub struct Pairs {
    /// By the kernel's number.
    slabs: Vec<Pair>,
    /// The kernel's for each of the model's, per cache.
    kernel_of: Vec<Vec<u32>>,
    /// Slabs that a CPU may have taken with its last one, by cache and CPU.
    behind: HashMap<(usize, usize), Vec<u32>>,
}

#[derive(Clone, Copy, Default)]
struct Pair {
    model: u32,
    /// Live objects by the trace.
    live: u32,
    /// Free objects that no event freed: the preparation takes them for free.
    unsure: u32,
    /// Free objects by the trace that the kernel proved to be in use.
    denied: u32,
    /// How often the kernel passed it over since it last used it.
    passed: u8,
    /// The model gave it back.
    gone: bool,
}

impl Pairs {
    /// No pairs yet, for this many slabs of this many caches.
    pub fn new(slabs: usize, caches: usize) -> Pairs {
        Pairs {
            slabs: vec![Pair { model: NONE, ..Pair::default() }; slabs],
            kernel_of: vec![Vec::new(); caches],
            behind: HashMap::new(),
        }
    }

    /// A slab that exists at the start.
    pub fn begin(&mut self, cache: usize, kernel: u32, model: u32, live: u32, unsure: u32) {
        self.pair(cache, kernel, model);
        let pair = &mut self.slabs[kernel as usize];
        (pair.live, pair.unsure) = (live, unsure);
    }

    /// Pairs two.
    pub fn pair(&mut self, cache: usize, kernel: u32, model: u32) {
        let pair = &mut self.slabs[kernel as usize];
        (pair.model, pair.gone) = (model, false);
        let known = &mut self.kernel_of[cache];
        if known.len() <= model as usize {
            known.resize(model as usize + 1, NO_SLAB);
        }
        known[model as usize] = kernel;
    }

    /// The model's slab, or [`NONE`].
    pub fn model_of(&self, kernel: u32) -> u32 {
        self.slabs[kernel as usize].model
    }

    /// The model gave it back, and the kernel may have, too.
    pub fn is_gone(&self, kernel: u32) -> bool {
        self.slabs[kernel as usize].gone
    }

    /// Live objects by the trace.
    pub fn live(&self, kernel: u32) -> u32 {
        self.slabs[kernel as usize].live
    }

    /// An event allocated an object; `is_first` says whether it is the first event about that
    /// object.
    pub fn allocated(&mut self, kernel: u32, is_first: bool) {
        let pair = &mut self.slabs[kernel as usize];
        pair.live += 1;
        pair.unsure -= u32::from(is_first && pair.unsure > 0);
    }

    /// An event freed an object.
    pub fn freed(&mut self, kernel: u32) {
        let pair = &mut self.slabs[kernel as usize];
        pair.live = pair.live.saturating_sub(1);
    }

    /// Notes the slabs that the model gave back.
    pub fn note_pages(&mut self, number: usize, cache: &mut KernelCache) {
        if !cache.has_pages() {
            return;
        }
        for page in cache.take_pages() {
            if let Page::Freed(model) = page {
                // A slab that only the snapshot counts has no partner.
                if let Some(kernel) = self.kernel_of(number, model) {
                    let pair = &mut self.slabs[kernel as usize];
                    (pair.model, pair.gone) = (NONE, true);
                }
            }
        }
    }

    /// Heals by what the kernel chose on a CPU: one of the model's slabs or a new one, where the
    /// model would have chosen `chosen`. The next call follows the kernel.
    pub fn heal(
        &mut self,
        cache: &KernelCache,
        number: usize,
        cpu: usize,
        asked: &ModelChoice,
        of_own_list: bool,
        next: &NextUse,
    ) {
        let ModelChoice { kernel, model, chosen, is_new, switched } = *asked;
        let hit = if is_new { chosen == NONE } else { chosen == model };
        self.leave_slab(cache, number, cpu, model);
        if model != NONE {
            let pair = &mut self.slabs[kernel as usize];
            pair.passed = 0;
            if cache.free_of(model) == 0 {
                pair.denied = pair.denied.saturating_sub(1);
                cache.admit(model, 1);
            }
        }
        if switched && !is_new && !of_own_list {
            self.follow_batch(cache, number, cpu, model, hit);
        }
        let of_node = model != NONE && !of_own_list && cache.state(model) == State::NodePartial;
        let mut none_free = Vec::new();
        if is_new || of_node && !hit {
            none_free.extend(cache.each_cpu_partial(cpu));
        }
        if is_new {
            none_free.extend(cache.each_node_partial(cache.node_of_cpu(cpu)));
        }
        none_free.retain(|(slab, _)| !self.known_by(number, *slab, |kernel| next.has_free(kernel)));
        for (slab, _) in none_free {
            let unsure = self
                .known(number, slab)
                .map_or(u32::MAX, |pair| pair.unsure.saturating_sub(pair.denied));
            self.deny(cache, number, slab, unsure);
        }
        if is_new {
            cache.disown_partial(cpu);
        } else if !hit && chosen != NONE {
            self.pass_over(cache, number, chosen);
        }
    }

    /// A CPU took a slab, or made one, where the model would have chosen another one: finds out what
    /// the CPU had on its list, by what it took then and takes next.
    pub fn find_border(
        &mut self,
        cache: &KernelCache,
        number: usize,
        cpu: usize,
        asked: &ModelChoice,
        (uses, next): (&NextUse, Option<u32>),
    ) {
        let ModelChoice { model, chosen, is_new, .. } = *asked;
        if chosen == model {
            return;
        }
        let next = next.map_or(NONE, |next| self.model_of(next));
        let may_move = !is_new && model != NONE && next != NONE;
        if may_move && realign(cache, cpu, model, next) {
            return;
        }
        // `heal` knows what came with the slab that the CPU took before.
        let behind = self.behind.get(&(number, cpu)).and_then(|behind| behind.last());
        if behind == Some(&model) {
            return;
        }
        self.use_up(cache, number, cpu, model, uses);
        if may_move {
            realign(cache, cpu, model, next);
        }
    }

    /// Tasks without events use up what the model would choose before this slab, as far as nothing
    /// shows that it has free objects.
    fn use_up(
        &mut self,
        cache: &KernelCache,
        number: usize,
        cpu: usize,
        until: u32,
        uses: &NextUse,
    ) {
        for _ in 0..MOST_USED_UP {
            let slab = cache.choose(cpu, None).slab();
            let is_used_up = |kernel| uses.is_used_up(kernel);
            if slab == until || !self.known_by(number, slab, is_used_up) {
                return;
            }
            if !cache.follow(cpu, slab) {
                return;
            }
            cache.admit(slab, 1);
            self.deny(cache, number, slab, u32::MAX);
        }
    }

    /// Whether one of the model's slabs has a partner in the kernel of which this is true.
    fn known_by(&self, number: usize, slab: u32, is_so: impl Fn(u32) -> bool) -> bool {
        self.kernel_of(number, slab).is_some_and(is_so)
    }

    /// A CPU took a slab off its own list, which the model had drained: so the slabs behind it are
    /// still on the list, too.
    pub fn put_back(&self, cache: &KernelCache, cpu: usize, behind: &[u32]) {
        let models: Vec<u32> =
            behind.iter().map(|slab| self.model_of(*slab)).filter(|slab| *slab != NONE).collect();
        cache.follow_batch(cpu, &models);
    }

    /// What is free in a CPU's slab that the CPU leaves is in use.
    fn leave_slab(&mut self, cache: &KernelCache, number: usize, cpu: usize, next: u32) {
        let Some((slab, own)) = cache.cpu_slab(cpu).filter(|(slab, _)| *slab != next) else {
            return;
        };
        let unsure = self.known(number, slab).map_or(0, |pair| pair.unsure);
        let all = own.max(unsure);
        self.deny(cache, number, slab, if all <= MOST_UNSEEN + unsure { all } else { unsure });
    }

    /// A slab of the node's list that the kernel took though it was not the model's first: if the
    /// next is what the CPU would have taken with it, the CPU has the others, too.
    fn follow_batch(
        &mut self,
        cache: &KernelCache,
        number: usize,
        cpu: usize,
        model: u32,
        hit: bool,
    ) {
        let behind = self.behind.remove(&(number, cpu)).unwrap_or_default();
        if hit || model == NONE {
            return;
        }
        if behind.last() == Some(&model) && cache.state(model) == State::NodePartial {
            let own: Vec<u32> = cache.each_cpu_partial(cpu).map(|(slab, _)| slab).collect();
            own.into_iter().for_each(|slab| cache.move_to_node(slab, End::Tail));
            cache.follow_batch(cpu, &behind);
        } else {
            self.behind.insert((number, cpu), cache.batch_behind(model));
        }
    }

    /// The kernel's partner of one of the model's slabs.
    fn kernel_of(&self, number: usize, slab: u32) -> Option<u32> {
        let kernel = self.kernel_of[number].get(slab as usize).copied();
        kernel.filter(|kernel| *kernel != NO_SLAB)
    }

    fn known(&self, number: usize, slab: u32) -> Option<&Pair> {
        self.kernel_of(number, slab).map(|kernel| &self.slabs[kernel as usize])
    }

    /// Marks so many of a slab's free objects as in use, as they are in the kernel.
    fn deny(&mut self, cache: &KernelCache, number: usize, slab: u32, most: u32) {
        let denied = cache.deny(slab, most);
        if let Some(kernel) = self.kernel_of(number, slab) {
            self.slabs[kernel as usize].denied += denied;
        }
    }

    fn pass_over(&mut self, cache: &KernelCache, number: usize, slab: u32) {
        if matches!(cache.state(slab), State::NodePartial | State::CpuPartial) {
            if let Some(kernel) = self.kernel_of(number, slab) {
                let passed = &mut self.slabs[kernel as usize].passed;
                *passed = passed.saturating_add(1);
                if *passed < MOST_PASSED {
                    return;
                }
            }
            cache.move_to_node(slab, End::Tail);
        }
    }

    /// Whether the model gave a slab back, and has not begun it anew.
    pub fn has_ended(&self, kernel: u32) -> bool {
        let Pair { model, gone, .. } = self.slabs[kernel as usize];
        model == NONE && gone
    }

    /// Whether the model has a slab on a node's list.
    pub fn is_of_node(&self, cache: &KernelCache, kernel: u32) -> bool {
        let model = self.model_of(kernel);
        model != NONE && cache.state(model) == State::NodePartial
    }

    /// The kernel gave slabs back, which were foretold or not. If it did as it drained a CPU's list, that holds the
    /// slab alone which came last; what else the model has there was drained as well.
    pub fn end(&mut self, cache: &mut KernelCache, number: usize, ended: &EndedSlabs) {
        for kernel in &ended.slabs {
            let model = core::mem::replace(&mut self.slabs[*kernel as usize].model, NONE);
            if model == NONE {
                continue;
            }
            if ended.drained.is_none() {
                cache.follow_drain(model);
                self.note_pages(number, cache);
            }
            if cache.state(model) != State::Gone {
                cache.admit(model, cache.rules().objects);
                let _ended = cache.follow_freed(model);
                cache.take_pages();
            }
        }
        if let Some(DrainTotals { cpu, last }) = ended.drained {
            let last = self.model_of(last);
            let listed: Vec<u32> = cache.each_cpu_partial(cpu).map(|(slab, _)| slab).collect();
            listed
                .into_iter()
                .filter(|slab| *slab != last)
                .for_each(|slab| cache.move_to_node(slab, End::Tail));
            if last != NONE {
                cache.follow_batch(cpu, &[last]);
            }
        }
    }
}

/// Moves the border between a CPU's list and its node's, if the slab that the CPU took and the one
/// that it takes next show that it is elsewhere. Returns whether they do.
fn realign(cache: &KernelCache, cpu: usize, taken: u32, next: u32) -> bool {
    let own: Vec<u32> = cache.each_cpu_partial(cpu).map(|(slab, _)| slab).collect();
    let node = || cache.each_node_partial(cache.node_of_cpu(cpu)).map(|(slab, _)| slab);
    let batch = cache.rules().cpu_partial_slabs as usize / 2 + 1;
    if let Some(at) = own.iter().position(|slab| *slab == taken) {
        // It was the node's first still, and so what the model has before it on the CPU's list.
        let behind = own[..at].iter().rev().copied().chain(node());
        let is_first = at > 0 && behind.take(batch).last() == Some(next);
        if is_first {
            own[..=at].iter().for_each(|slab| cache.move_to_node(*slab, End::Head));
        }
        return is_first;
    }
    // The CPU took it off the node's list before, with those that the model has before it there.
    let Some(at) = node().take(batch + 1).position(|slab| slab == taken) else { return false };
    let before: Vec<u32> = node().take(at).collect();
    let is_last = before.last().or(own.first()) == Some(&next);
    if is_last {
        cache.follow_batch(cpu, &before);
        cache.follow_batch(cpu, &[taken]);
    }
    is_last
}

/// A choice of the kernel's, and the model's.
pub struct ModelChoice {
    /// The kernel's slab.
    pub kernel: u32,
    /// The model's slab of it, or [`NONE`].
    pub model: u32,
    /// The model's slab that it would have taken, or [`NONE`] for a new one.
    pub chosen: u32,
    /// The kernel made it.
    pub is_new: bool,
    /// The CPU used another slab before.
    pub switched: bool,
}
