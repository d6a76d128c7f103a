//! On which lists each cache's slabs are when a trace begins, and in which order.
//!
//! If the recorder [read the kernel's lists](crate::prepare::known), these lists are used.
//! Otherwise the lists are inferred, by inverting the allocator's rules, from the order in which
//! CPUs came to use slabs.
//!
//! [`super::start`] installs the lists in the model; [`super::layout`] cuts their slabs anew if the
//! machine's slabs have another size. Invariant: each initial slab of a cache is on exactly one of
//! the cache's lists.

use super::in_sheaves::InSheaves;
use super::layout::{self, PlannedSlab};
use super::plan::{ParkedSlabs, Plan};
use crate::prepare::known::{KnownCache, ListedSlab};
use crate::prepare::{FirstUse, Prepared, Slab};
use slabyard_model::cache::{Accounting, KernelCache, Rules};

/// The initial slabs, and their free objects.
pub(super) struct Initial {
    /// Free objects of each, in the slab.
    free: Vec<u32>,
    /// What CPUs hold of them beside.
    pub(super) in_sheaves: InSheaves,
    /// Those of each cache, in order of their first event.
    of_cache: Vec<Vec<u32>>,
    /// Slabs in the order in which CPUs first allocate from them, for each cache.
    uses: Vec<Vec<CpuUse>>,
}

/// A CPU's use of a slab that had free objects at the start.
struct CpuUse {
    cpu: u16,
    slab: u32,
    nth: u32,
}

impl Initial {
    pub(super) fn of(plan: &Plan<'_>) -> Initial {
        let prepared = plan.prepared;
        let slabs = prepared.initial_slabs();
        let in_sheaves = InSheaves::of(plan);
        let free_of = |(nth, slab): (u32, &Slab)| {
            slab.objects - prepared.nr_live_at_start(slab) - in_sheaves.of_slab(nth)
        };
        let free: Vec<u32> = (0..).zip(slabs).map(free_of).collect();
        let mut uses: Vec<Vec<CpuUse>> = prepared.caches.iter().map(|_| Vec::new()).collect();
        for (nth, FirstUse { slab, cpu }) in (0u32..).zip(&prepared.tally.first_uses) {
            // What a refill left of a slab that it used last waits at the list's tail.
            if free[*slab as usize] > 0 && in_sheaves.of_slab(*slab) == 0 {
                let cache = prepared.slabs[*slab as usize].cache;
                uses[cache as usize].push(CpuUse { cpu: *cpu, slab: *slab, nth });
            }
        }
        let mut of_cache = vec![Vec::new(); prepared.caches.len()];
        for (number, slab) in (0u32..).zip(slabs) {
            of_cache[slab.cache as usize].push(number);
        }
        Initial { free, in_sheaves, of_cache, uses }
    }

    fn free_of(&self, slab: u32) -> u32 {
        self.free[slab as usize]
    }

    /// The free objects of a cache's slabs.
    fn all_free(&self, cache: usize) -> u32 {
        self.of_cache[cache].iter().map(|slab| self.free_of(*slab)).sum()
    }
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

/// Where a cache's slabs are when the trace begins.
#[derive(Default)]
pub(super) struct Lists {
    cpu_slabs: Vec<(usize, ListedSlab)>,
    /// Those of a CPU's list, the next to be used last.
    cpu_partial: Vec<(usize, Vec<ListedSlab>)>,
    /// Those of the node's list, the next to be used first.
    node: Vec<ListedSlab>,
    /// Those in no list.
    full: Vec<ListedSlab>,
}

impl Lists {
    /// A cache's.
    pub(super) fn of(plan: &Plan<'_>, number: usize, rules: &Rules, initial: &Initial) -> Lists {
        let known = plan.prepared.known.get(number).and_then(Option::as_ref);
        let mut lists = match known {
            Some(known) => Lists::read(known, initial),
            None => Lists::undone(plan, number, rules, &initial.uses[number]),
        };
        let mut placed = vec![false; initial.free.len()];
        lists.each_shown(|slab| placed[slab as usize] = true);
        for slab in initial.of_cache[number].iter().filter(|slab| !placed[**slab as usize]) {
            // Nobody came to use one that has free objects, or it was on no list: it waits at
            // the end.
            let is_full = initial.free_of(*slab) == 0;
            if is_full { &mut lists.full } else { &mut lists.node }.push(ListedSlab::Shown(*slab));
        }
        lists
    }

    /// As the recorder read them. What events contradict is on no list.
    fn read(known: &KnownCache, initial: &Initial) -> Lists {
        let has_free = |place: &ListedSlab| match place {
            ListedSlab::Shown(slab) => initial.free_of(*slab) > 0,
            ListedSlab::Unseen(free) => *free > 0,
        };
        let mut lists = Lists::default();
        // All are on the first node, as a trace's other slabs.
        lists.node.extend(known.nodes.iter().flatten().filter(|place| has_free(place)));
        for of in &known.cpus {
            lists.cpu_slabs.extend(of.slab.map(|slab| (of.cpu, slab)));
            let partial = of.partial.iter().rev().filter(|place| has_free(place));
            lists.cpu_partial.push((of.cpu, partial.copied().collect()));
        }
        lists
    }

    /// Undoes the order in which CPUs came to use slabs.
    fn undone(plan: &Plan<'_>, number: usize, rules: &Rules, uses: &[CpuUse]) -> Lists {
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
            let mine: Vec<&CpuUse> = uses.iter().filter(|of| of.cpu as usize == cpu).collect();
            let Some((first, rest)) = mine.split_first() else { continue };
            lists.cpu_slabs.push((cpu, ListedSlab::Shown(first.slab)));
            let parked = plan.parked.get(number).and_then(|of| of.cpu_partial.get(cpu));
            let parked = parked.filter(|_| rules.cpu_partial_lists);
            let listed = rest.len().min(parked.copied().unwrap_or(0) as usize);
            let (listed, node) = rest.split_at(listed);
            let listed = listed.iter().rev().map(|of| ListedSlab::Shown(of.slab)).collect();
            lists.cpu_partial.push((cpu, listed));
            for group in node.chunks(batch) {
                // Used at once: the list's first. The others were pushed on the
                // CPU's list one by one, and so came back in reverse.
                let moved = group[1..].iter().rev();
                let slabs = group[..1].iter().chain(moved).map(|of| of.slab).collect();
                groups.push((group[0].nth, slabs));
            }
        }
        groups.sort_by_key(|(first, _)| *first);
        lists.node =
            groups.into_iter().flat_map(|(_, slabs)| slabs).map(ListedSlab::Shown).collect();
        lists
    }

    /// Slabs with free objects, as far as they are known.
    fn nr_seen(&self) -> usize {
        let listed = self.cpu_partial.iter().map(|(_, slabs)| slabs.len()).sum::<usize>();
        self.cpu_slabs.len() + listed + self.node.len()
    }

    fn each(&self) -> impl Iterator<Item = &ListedSlab> {
        let of_cpus = self.cpu_slabs.iter().map(|(_, slab)| slab);
        let listed = self.cpu_partial.iter().flat_map(|(_, slabs)| slabs);
        of_cpus.chain(listed).chain(&self.node).chain(&self.full)
    }

    fn each_shown(&self, mut f: impl FnMut(u32)) {
        for place in self.each() {
            if let ListedSlab::Shown(slab) = place {
                f(*slab);
            }
        }
    }

    /// Puts them in place; gives each piece with the model's slab. `unshown` is what the snapshot counts, where
    /// no list was read.
    pub(super) fn install(
        self,
        plan: &Plan<'_>,
        (number, cache): (usize, &KernelCache),
        initial: &Initial,
        unshown: Option<&ParkedSlabs>,
    ) -> Vec<(PlannedSlab, u32)> {
        let traced = plan.traced_objects[number];
        let is_other = plan.is_other(number);
        let [listed, counted] = self.unseen(plan, number, initial, unshown);
        let installed = self.install_slabs(plan, cache, initial, is_other);
        if is_other {
            // Where they were between others is not known of other slabs.
            add_unseen(cache, listed, traced);
        }
        add_unseen(cache, counted, traced);
        installed
    }

    /// Slabs with free objects that no event shows: those of the lists that were read, and those that
    /// the snapshot counts beyond what is known.
    pub(super) fn unseen(
        &self,
        plan: &Plan<'_>,
        number: usize,
        initial: &Initial,
        unshown: Option<&ParkedSlabs>,
    ) -> [UnseenSlabs; 2] {
        let traced = plan.traced_objects[number];
        let (seen, seen_free) = (self.nr_seen() as u32, initial.all_free(number));
        let listed = self.each().filter_map(|place| match place {
            ListedSlab::Unseen(free) => Some(*free),
            ListedSlab::Shown(_) => None,
        });
        let (slabs, free) = listed.fold((0, 0), |(slabs, all), free| (slabs + 1, all + free));
        let counted = unshown.map_or((0, 0), |parked| {
            let slabs = parked.node_partial.saturating_sub(seen);
            (slabs, parked.node_free.saturating_sub(seen_free))
        });
        [UnseenSlabs::of((slabs, free), traced), UnseenSlabs::of(counted, traced)]
    }

    fn install_slabs(
        self,
        plan: &Plan<'_>,
        cache: &KernelCache,
        initial: &Initial,
        is_other: bool,
    ) -> Vec<(PlannedSlab, u32)> {
        let mut installed = Vec::new();
        let objects = cache.rules().objects;
        let there = plan.there_at_start();
        let is_there = |cpu: usize| there.get(cpu).copied().unwrap_or(false);
        let pieces =
            |slabs: &[ListedSlab]| pieces(plan.prepared, initial, slabs, objects, is_other);
        let (mut node, mut own) = (Vec::new(), Vec::new());
        for (cpu, slab) in self.cpu_slabs {
            let mut pieces = pieces(&[slab]);
            // What the CPU has in hand is the first piece with free objects.
            let at = pieces.iter().position(|piece| piece.free > 0).unwrap_or(0);
            if at < pieces.len() {
                own.push((cpu, pieces.swap_remove(at)));
            }
            node.extend(pieces);
        }
        node.extend(pieces(&self.node));
        let mut listed: Vec<(usize, PlannedSlab)> = Vec::new();
        for (cpu, slabs) in &self.cpu_partial {
            listed.extend(pieces(slabs).into_iter().map(|piece| (*cpu, piece)));
        }
        node.extend(pieces(&self.full));
        for piece in node {
            let model = match piece.free {
                0 => cache.install_full(0),
                free => cache.install_node_partial(0, free),
            };
            installed.push((piece, model));
        }
        // On the seat of one that is there, each unplugged CPU flushes what it had.
        let seat = there.iter().position(|there| *there).unwrap_or(0);
        for cpu in (0..plan.nr_traced()).filter(|cpu| !is_there(*cpu)) {
            for (_, piece) in listed.extract_if(.., |(of, _)| *of == cpu) {
                let model = install_listed(cache, seat, piece.free);
                installed.push((piece, model));
            }
            for (_, piece) in own.extract_if(.., |(of, _)| *of == cpu) {
                let model = cache.install_cpu_slab(seat, piece.free);
                installed.push((piece, model));
            }
            cache.flush_cpu(seat);
        }
        // A CPU beyond those that the trace has events of and this machine has.
        let seat_of = |cpu: usize| if is_there(cpu) { cpu } else { seat };
        for (cpu, piece) in listed {
            let model = install_listed(cache, seat_of(cpu), piece.free);
            installed.push((piece, model));
        }
        for (cpu, piece) in own {
            let model = cache.install_cpu_slab(seat_of(cpu), piece.free);
            installed.push((piece, model));
        }
        installed
    }
}

/// Slabs of the traced kernel that no event shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnseenSlabs {
    pub(super) slabs: u32,
    free: u32,
}

impl UnseenSlabs {
    /// Each has one free object at least, and has not more than all.
    fn of((slabs, free): (u32, u32), traced: u32) -> UnseenSlabs {
        UnseenSlabs { slabs, free: free.clamp(slabs, slabs * traced) }
    }

    /// Their live objects, of slabs of so many.
    pub(super) fn live(self, traced: u32) -> u32 {
        self.slabs * traced - self.free
    }
}

/// The slabs of a list as they are on the machine: of other ones those that no event shows are
/// left out, and a slab that is kept though it is empty is one of the traced kernel's.
fn pieces(
    prepared: &Prepared,
    initial: &Initial,
    slabs: &[ListedSlab],
    objects: u32,
    is_other: bool,
) -> Vec<PlannedSlab> {
    if is_other {
        let shown = slabs.iter().filter_map(|place| match place {
            ListedSlab::Shown(slab) => Some(*slab),
            ListedSlab::Unseen(_) => None,
        });
        let mut cut = layout::cut(prepared, &shown.collect::<Vec<_>>(), objects);
        cut.retain(|piece| !piece.live.is_empty());
        return cut;
    }
    let piece = |place: &ListedSlab| match place {
        ListedSlab::Shown(slab) => {
            let mut cut = layout::cut(prepared, &[*slab], objects);
            cut.iter_mut().for_each(|piece| piece.free -= initial.in_sheaves.of_slab(*slab));
            cut
        }
        ListedSlab::Unseen(free) => {
            vec![PlannedSlab { first: None, live: Vec::new(), free: *free }]
        }
    };
    slabs.iter().flat_map(piece).collect()
}

fn install_listed(cache: &KernelCache, cpu: usize, free: u32) -> u32 {
    match free {
        0 => cache.install_full(0),
        free => cache.install_cpu_partial(cpu, free),
    }
}

/// Slabs with free objects that no event shows: nobody came to use them, so they waited behind those that
/// were used.
fn add_unseen(cache: &KernelCache, unseen: UnseenSlabs, traced: u32) {
    let objects = cache.rules().objects;
    let (unseen, mut left) = layout::cut_unseen(unseen.slabs, unseen.free, traced, objects);
    for nth in 0..unseen {
        let free = left / (unseen - nth);
        left -= free;
        match free {
            0 => cache.install_full(0),
            free => cache.install_node_partial(0, free.min(objects)),
        };
    }
}
