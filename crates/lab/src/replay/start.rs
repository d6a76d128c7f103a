//! The slabs that are there when a trace begins, and where they are.
//!
//! A snapshot tells how many slabs each CPU has on its list, not which. By looking
//! ahead in the trace the rest can be told: objects first seen by an allocation
//! were free, and the order in which a CPU came to use slabs undoes the order in
//! which the rules keep them.
//!
//! On a machine where a cache has other slabs than on the traced one, what is in each list
//! is [cut anew](super::layout), by look-ahead whatever the start. On more CPUs the new ones
//! begin with none; what was on a traced CPU that is not there is where an unplugged CPU's is: its
//! slab at the head of its node's list, its list at the tail, empty ones at their end if the node
//! has enough.

use super::layout::{self, Piece};
use super::plan::{Parked, Plan, Start};
use crate::prepare::{FirstUse, Prepared};
use slabyard::engine::counted::{Accounting, Front, KernelCache, NONE, Rules};

/// Of the choices that a snapshot leaves open.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the kernel's slabs are in the model.
pub(crate) struct Placed {
    /// Model's slab for each of the trace's initial ones, or [`NONE`].
    slab_of: Vec<u32>,
    /// Objects that were live at the start and are not freed yet, of each of the
    /// trace's initial slabs that a slab of the model was bound to.
    live_of: Vec<u32>,
    /// Slabs of each cache that no slab of the trace is bound to yet.
    unbound: Vec<Unbound>,
    /// Model's slab of each object that is live, in caches whose slabs are cut anew.
    objects: Vec<(u32, u32)>,
    random: u64,
}

/// Slabs that a snapshot counts and the trace has not shown yet.
#[derive(Clone, Default)]
struct Unbound {
    full: u32,
    /// Those on lists, with the objects that are live at the start.
    listed: Vec<(u32, u32)>,
    /// CPU slabs: a snapshot counts them and does not say whose they are.
    cpu_slabs: u32,
    /// Slabs on CPU partial lists, likewise.
    cpu_partial: u32,
}

impl Placed {
    /// Each of the trace's initial slabs that was placed, with the model's.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let placed = self.slab_of.iter().enumerate().filter(|(_, model)| **model != NONE);
        placed.map(|(kernel, model)| (kernel as u32, *model))
    }

    /// Gives a CPU that allocates for the first time one of the CPU slabs that the
    /// snapshot counts, and one of the slabs on CPUs' lists: who uses a cache now is likely to have used it before.
    pub(super) fn before_alloc(&mut self, cache: &mut KernelCache, number: usize, cpu: usize) {
        let unbound = &mut self.unbound[number];
        if unbound.cpu_slabs > 0 && cache.cpu_slab(cpu).is_none() {
            unbound.cpu_slabs -= 1;
            let objects = cache.rules().objects;
            let free = objects.div_ceil(2);
            unbound.listed.push((cache.install_cpu_slab(cpu, free), objects - free));
            cache.forget_last_page();
            if unbound.cpu_partial > 0 {
                unbound.cpu_partial -= 1;
                unbound.listed.push((cache.install_cpu_partial(cpu, free), objects - free));
                cache.forget_last_page();
            }
        }
    }

    /// The model's slab for an initial slab of which an object is freed that the
    /// start did not place: any that nothing is bound to, each as likely as it has
    /// live objects. [`NONE`] if there is none left.
    pub(super) fn bind(&mut self, cache: &mut KernelCache, number: usize, slab: u32) -> u32 {
        let nth = slab as usize;
        let Some(known) = self.slab_of.get_mut(nth) else { return NONE };
        if *known == NONE {
            (*known, self.live_of[nth]) = self.unbound[number].choose(cache, &mut self.random);
        }
        // Not what is free in the slab: of its objects some are in sheaves, others were
        // handed out since, and once it is gone its number is another slab's.
        let Some(left) = self.live_of[nth].checked_sub(1) else { return NONE };
        self.live_of[nth] = left;
        *known
    }
}

impl Unbound {
    /// A slab, with its objects that are live at the start.
    fn choose(&mut self, cache: &mut KernelCache, random: &mut u64) -> (u32, u32) {
        let objects = cache.rules().objects;
        let of_full = u64::from(self.full) * u64::from(objects);
        let all = of_full + self.listed.iter().map(|of| u64::from(of.1)).sum::<u64>();
        if all == 0 {
            return (NONE, 0);
        }
        // xorshift64, after Marsaglia (2003).
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let mut at = *random % all;
        for nth in 0..self.listed.len() {
            let live = u64::from(self.listed[nth].1);
            if at < live {
                return self.listed.swap_remove(nth);
            }
            at -= live;
        }
        self.full -= 1;
        let slab = cache.install_full(0);
        // It was there before: not a slab that the model made.
        cache.forget_last_page();
        (slab, objects)
    }
}

/// Puts the slabs in place.
pub(crate) fn place(plan: &Plan<'_>, caches: &mut [KernelCache]) -> Placed {
    let nr_initial = plan.prepared.slabs.partition_point(|slab| slab.initial);
    let mut placed = Placed {
        slab_of: vec![NONE; nr_initial],
        live_of: vec![0; nr_initial],
        unbound: vec![Unbound::default(); caches.len()],
        objects: Vec::new(),
        random: SEED,
    };
    match plan.start {
        Start::Empty => {}
        Start::Snapshot => {
            from_snapshot(plan, caches, &mut placed);
            look_ahead(plan, caches, &mut placed);
        }
        Start::LookAhead => look_ahead(plan, caches, &mut placed),
    }
    placed
}

/// Fills in the slabs of objects that are live at the start: they are of the first copies.
pub(super) fn own(plan: &Plan<'_>, placed: &Placed, slab_of: &mut [u32]) {
    let (prepared, copies) = (plan.prepared, plan.tasks as usize);
    for (slab, model) in prepared.slabs.iter().zip(&placed.slab_of) {
        if *model == NONE {
            continue;
        }
        for object in slab.objects_range() {
            if prepared.live_at_start[object] {
                slab_of[object * copies] = *model;
            }
        }
    }
    for (object, model) in &placed.objects {
        slab_of[*object as usize * copies] = *model;
    }
}

fn from_snapshot(plan: &Plan<'_>, caches: &mut [KernelCache], placed: &mut Placed) {
    let all = caches.iter_mut().zip(plan.parked).zip(&mut placed.unbound).enumerate();
    for (number, ((cache, parked), unbound)) in all {
        if is_other(plan, number) {
            continue;
        }
        let objects = cache.rules().objects;
        let mut left = parked.node_free;
        for nth in 0..parked.node_partial {
            // Evenly: a snapshot gives their sum.
            let free = (left / (parked.node_partial - nth)).clamp(1, objects);
            left = left.saturating_sub(free);
            unbound.listed.push((cache.install_node_partial(0, free), objects - free));
        }
        let half = objects.div_ceil(2);
        let (cpus, traced) = (plan.node_of.len(), plan.nr_traced());
        let of_cpu = |cpu: usize| parked.cpu_partial.get(cpu).copied().unwrap_or(0);
        for cpu in 0..traced {
            for _ in 0..of_cpu(cpu) {
                let slab = match cpu < cpus {
                    true => cache.install_cpu_partial(cpu, half),
                    false => cache.install_node_partial(0, half),
                };
                unbound.listed.push((slab, objects - half));
            }
        }
        // Of more CPUs than are there: the rest are unplugged.
        let cpu_slabs = parked.cpu_slabs.min(cpus as u32);
        let cpu_partial = parked.cpu_partial_of_any;
        let gone = parked.cpu_slabs - cpu_slabs;
        let on_node = if cache.rules().has_cpu_slabs() {
            (unbound.cpu_slabs, unbound.cpu_partial) = (cpu_slabs, cpu_partial);
            gone
        } else {
            // No rule asks for CPUs there.
            parked.cpu_slabs + parked.cpu_partial_of_any
        };
        for _ in 0..on_node {
            unbound.listed.push((cache.install_node_partial(0, half), objects - half));
        }
        let listed = unbound.listed.len() as u32 + unbound.cpu_slabs + unbound.cpu_partial;
        unbound.full = parked.slabs.saturating_sub(listed);
    }
}

/// A CPU's use of a slab that had free objects at the start.
struct Use {
    cpu: u16,
    slab: u32,
    nth: u32,
}

/// Slabs in the order in which CPUs first allocate from them, for each cache.
fn first_uses(prepared: &Prepared, free: &[u32]) -> Vec<Vec<Use>> {
    let mut uses: Vec<Vec<Use>> = prepared.caches.iter().map(|_| Vec::new()).collect();
    for (nth, FirstUse { slab, cpu }) in (0u32..).zip(&prepared.tally.first_uses) {
        if free[*slab as usize] > 0 {
            let cache = prepared.slabs[*slab as usize].cache;
            uses[cache as usize].push(Use { cpu: *cpu, slab: *slab, nth });
        }
    }
    uses
}

/// Slabs that a CPU takes off a node's list at a time, the one to use included.
fn batch(rules: &Rules) -> usize {
    let moved = match rules.accounting {
        _ if !rules.cpu_partial_lists => 0,
        Accounting::Slabs if rules.cpu_partial_slabs == 0 => 0,
        Accounting::Slabs => rules.cpu_partial_slabs / 2 + 1,
        // As many as give half of the objects; one each where they are few.
        Accounting::Objects | Accounting::Exact => {
            (rules.cpu_partial / 2).div_ceil(rules.objects).max(1)
        }
    };
    moved as usize + 1
}

/// True if the slabs of a cache are not those of the traced machine.
pub(crate) fn is_other(plan: &Plan<'_>, cache: usize) -> bool {
    plan.traced_objects[cache] != plan.rules[cache].objects
}

/// True if a cache begins as its rules would have put its objects: those of SLAB, whose arrays and lists no
/// snapshot of SLUB tells of, on other slabs.
fn is_anew(plan: &Plan<'_>, cache: usize) -> bool {
    is_other(plan, cache) && matches!(plan.rules[cache].front, Front::ArrayCaches(_))
}

/// Allocates the objects that are live at the start of such caches, in the order of their slabs,
/// which a CPU after the other takes.
pub(super) fn repack(plan: &Plan<'_>, caches: &mut [KernelCache], slab_of: &mut [u32]) {
    let prepared = plan.prepared;
    let initial = prepared.slabs.iter().take_while(|slab| slab.initial);
    for (nth, slab) in initial.enumerate() {
        let cache = slab.cache as usize;
        if !is_anew(plan, cache) {
            continue;
        }
        for object in slab.objects_range() {
            if prepared.live_at_start[object] {
                let cpu = nth % plan.node_of.len();
                slab_of[object * plan.tasks as usize] = caches[cache].alloc(cpu, None);
            }
        }
    }
}

/// Where a cache's slabs are when the trace begins, by the trace's numbers.
#[derive(Default)]
struct Lists {
    /// One of a CPU.
    cpu_slabs: Vec<(usize, u32)>,
    /// Those of a CPU's list, the next to be used last.
    cpu_partial: Vec<(usize, Vec<u32>)>,
    /// Those of the node's list, the next to be used first.
    node: Vec<u32>,
    /// Those in no list.
    full: Vec<u32>,
}

impl Lists {
    /// Undoes the order in which CPUs came to use slabs.
    fn of(plan: &Plan<'_>, number: usize, rules: &Rules, uses: &[Use]) -> Lists {
        let mut lists = Lists::default();
        let batch = batch(rules);
        // (first use, slabs in the order of the node's list)
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        if !rules.has_cpu_slabs() {
            // All are the node's, and the list's first is the next to be used.
            groups.extend(uses.iter().map(|of| (of.nth, vec![of.slab])));
        }
        let nr_cpus = if rules.has_cpu_slabs() { plan.nr_traced() } else { 0 };
        for cpu in 0..nr_cpus {
            let mine: Vec<&Use> = uses.iter().filter(|of| of.cpu as usize == cpu).collect();
            let Some((first, rest)) = mine.split_first() else { continue };
            lists.cpu_slabs.push((cpu, first.slab));
            let parked = plan.parked.get(number).and_then(|of| of.cpu_partial.get(cpu));
            let parked = parked.filter(|_| rules.cpu_partial_lists);
            let listed = rest.len().min(parked.copied().unwrap_or(0) as usize);
            let (listed, node) = rest.split_at(listed);
            lists.cpu_partial.push((cpu, listed.iter().rev().map(|of| of.slab).collect()));
            for group in node.chunks(batch) {
                // Used at once: the list's first. The others were pushed on the
                // CPU's list one by one, and so came back in reverse.
                let moved = group[1..].iter().rev();
                let slabs = group[..1].iter().chain(moved).map(|of| of.slab).collect();
                groups.push((group[0].nth, slabs));
            }
        }
        groups.sort_by_key(|(first, _)| *first);
        lists.node = groups.into_iter().flat_map(|(_, slabs)| slabs).collect();
        lists
    }

    /// Puts them in place.
    fn install(self, plan: &Plan<'_>, cache: &KernelCache, is_other: bool, placed: &mut Placed) {
        let objects = cache.rules().objects;
        let there = plan.there_at_start();
        let is_there = |cpu: usize| there.get(cpu).copied().unwrap_or(false);
        let mut put = |piece: Piece, model: u32| {
            if is_other {
                placed.objects.extend(piece.live.iter().map(|object| (*object, model)));
            } else {
                placed.slab_of[piece.first as usize] = model;
            }
        };
        let pieces = |slabs: &[u32]| {
            // A slab that is kept though it is empty is one of the traced kernel's.
            let kept = move |piece: &Piece| !is_other || !piece.live.is_empty();
            layout::cut(plan.prepared, slabs, objects).into_iter().filter(kept)
        };
        let (mut node, mut own) = (Vec::new(), Vec::new());
        for (cpu, slab) in self.cpu_slabs {
            let mut pieces = layout::cut(plan.prepared, &[slab], objects);
            // What the CPU has in hand is the first piece with free objects.
            let at = pieces.iter().position(|piece| piece.free > 0).unwrap_or(0);
            own.push((cpu, pieces.swap_remove(at)));
            node.extend(pieces.into_iter().filter(|piece| !piece.live.is_empty()));
        }
        node.extend(pieces(&self.node));
        let mut listed: Vec<(usize, Piece)> = Vec::new();
        for (cpu, slabs) in &self.cpu_partial {
            listed.extend(pieces(slabs).map(|piece| (*cpu, piece)));
        }
        node.extend(pieces(&self.full));
        for piece in node {
            let model = match piece.free {
                0 => cache.install_full(0),
                free => cache.install_node_partial(0, free),
            };
            put(piece, model);
        }
        // On the seat of one that is there, each unplugged CPU flushes what it had.
        let seat = there.iter().position(|there| *there).unwrap_or(0);
        for cpu in (0..plan.nr_traced()).filter(|cpu| !is_there(*cpu)) {
            for (_, piece) in listed.extract_if(.., |(of, _)| *of == cpu) {
                let model = install_listed(cache, seat, piece.free);
                put(piece, model);
            }
            for (_, piece) in own.extract_if(.., |(of, _)| *of == cpu) {
                let model = cache.install_cpu_slab(seat, piece.free);
                put(piece, model);
            }
            cache.flush_cpu(seat);
        }
        for (cpu, piece) in listed {
            let model = install_listed(cache, cpu, piece.free);
            put(piece, model);
        }
        for (cpu, piece) in own {
            let model = cache.install_cpu_slab(cpu, piece.free);
            put(piece, model);
        }
    }
}

fn install_listed(cache: &KernelCache, cpu: usize, free: u32) -> u32 {
    match free {
        0 => cache.install_full(0),
        free => cache.install_cpu_partial(cpu, free),
    }
}

fn look_ahead(plan: &Plan<'_>, caches: &mut [KernelCache], placed: &mut Placed) {
    let prepared = plan.prepared;
    let initial = &prepared.slabs[..placed.slab_of.len()];
    let free: Vec<u32> =
        initial.iter().map(|slab| slab.objects - prepared.nr_live_at_start(slab)).collect();
    let mut used = vec![false; initial.len()];
    let mut lists = Vec::new();
    for (number, uses) in first_uses(prepared, &free).iter().enumerate() {
        lists.push(Lists::of(plan, number, caches[number].rules(), uses));
        uses.iter().for_each(|of| used[of.slab as usize] = true);
    }
    for (slab, it) in (0u32..).zip(initial) {
        if !used[slab as usize] {
            let lists = &mut lists[it.cache as usize];
            // Nobody came to use one that has free objects: it waits at the end.
            if free[slab as usize] == 0 { &mut lists.full } else { &mut lists.node }.push(slab);
        }
    }
    // Where the kernel made a slab its lists were empty: what the snapshot counts was
    // gone before.
    let mut made = vec![false; caches.len()];
    for slab in &prepared.slabs[initial.len()..] {
        made[slab.cache as usize] = true;
    }
    for (number, (lists, cache)) in lists.into_iter().zip(caches).enumerate() {
        let is_other = is_other(plan, number);
        // From the snapshot alone, those are in place that are as on the traced machine.
        if plan.start == Start::Snapshot && !is_other || is_anew(plan, number) {
            continue;
        }
        let listed = lists.cpu_partial.iter().map(|(_, slabs)| slabs.len()).sum::<usize>();
        let seen = lists.cpu_slabs.len() + listed + lists.node.len();
        let seen_free = initial.iter().zip(&free).filter(|(it, _)| it.cache as usize == number);
        let seen_free = seen_free.map(|(_, free)| free).sum();
        lists.install(plan, cache, is_other, placed);
        if let Some(parked) = plan.parked.get(number).filter(|_| !made[number]) {
            let traced = plan.traced_objects[number];
            add_unseen(cache, parked, traced, seen as u32, seen_free);
        }
    }
}

/// Slabs with free objects that the snapshot counts and the trace does not show:
/// nobody came to use them, so they waited behind those that were used.
fn add_unseen(cache: &KernelCache, parked: &Parked, traced: u32, seen: u32, seen_free: u32) {
    let unseen = parked.node_partial.saturating_sub(seen);
    let left = parked.node_free.saturating_sub(seen_free);
    // Each has one free object at least, and has not more than all.
    let left = left.clamp(unseen, unseen * traced);
    let objects = cache.rules().objects;
    let (unseen, mut left) = layout::cut_unseen(unseen, left, traced, objects);
    for nth in 0..unseen {
        let free = left / (unseen - nth);
        left -= free;
        match free {
            0 => cache.install_full(0),
            free => cache.install_node_partial(0, free.min(objects)),
        };
    }
}
