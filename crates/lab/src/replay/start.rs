//! The slabs that exist when a trace begins, and which lists they are on.
//!
//! A snapshot says how many slabs each CPU has on its partial list, but not which. If the recorder
//! read the lists, [they](super::lists) are known. Otherwise the start is inferred by looking ahead
//! in the trace: objects whose first event is an allocation were free, and the order in which a CPU
//! came to use slabs gives the order of its list.
//!
//! If a cache's slabs differ from those of the traced machine, the slabs of each list are [cut
//! anew](super::layout), and look-ahead is always used. CPUs that the traced machine lacks start
//! without slabs. If the modelled machine lacks a traced CPU, that CPU's slabs go where a kernel
//! puts an offline CPU's. Its slab goes to the head of its node's list, its partial slabs to the
//! tail; empty slabs are freed if the node's list is long enough.

use super::layout::PlannedSlab;
use super::lists::{Initial, Lists};
use super::plan::{Plan, Start};
use slabyard_model::cache::{Front, KernelCache, NONE};

/// Of the choices that a snapshot leaves open.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the kernel's slabs are in the model.
pub(crate) struct PlacedSlabs {
    /// Model's slab for each of the trace's initial ones, or [`NONE`].
    slab_of: Vec<u32>,
    /// Objects that were live at the start and are not freed yet, of each of the
    /// trace's initial slabs that a slab of the model was bound to.
    live_of: Vec<u32>,
    /// Slabs of each cache that no slab of the trace is bound to yet.
    unbound: Vec<UnseenSlabs>,
    /// Model's slab of each object that is live, in caches whose slabs are cut anew.
    objects: Vec<(u32, u32)>,
    /// Of each cache, slabs of the traced kernel that no event shows, and their live objects.
    unseen: Vec<(u32, u32)>,
    random: u64,
}

/// Slabs that a snapshot counts and the trace has not shown yet.
#[derive(Clone, Default)]
struct UnseenSlabs {
    full: u32,
    /// Those on lists, with the objects that are live at the start.
    listed: Vec<(u32, u32)>,
    /// CPU slabs: a snapshot counts them and does not say whose they are.
    cpu_slabs: u32,
    /// Slabs on CPU partial lists, likewise.
    cpu_partial: u32,
}

impl PlacedSlabs {
    /// Slabs of a cache that are to be put in place on the way, or never.
    pub(super) fn pending(&self, cache: usize) -> u32 {
        let unbound = &self.unbound[cache];
        unbound.full + unbound.cpu_slabs + unbound.cpu_partial
    }

    /// Slabs of the start that the snapshot counts and no event touches, and that are in no list, as
    /// many as the cache's population takes on this machine.
    pub(super) fn untouched(&self, plan: &Plan<'_>, number: usize, cache: &KernelCache) -> u64 {
        let parked = plan.parked.get(number).filter(|_| !plan.is_without_slabs(number));
        let Some(parked) = parked else { return 0 };
        let (traced, objects) = (plan.traced_objects[number], plan.rules[number].objects);
        let laid_out = plan.laid_out.get(number).copied();
        let on_this = |slabs: u64| {
            let usual = f64::from(traced) / f64::from(objects);
            (slabs as f64 * laid_out.unwrap_or(usual)).round() as u64
        };
        if traced == objects {
            return on_this(parked.slabs.saturating_sub(cache.nr_slabs()).into());
        }
        let seen = plan.prepared.initial_slabs().iter();
        let seen = seen.filter(|slab| usize::from(slab.cache) == number).count() as u64;
        let known = seen + u64::from(self.unseen[number].0);
        on_this(u64::from(parked.slabs).saturating_sub(known))
    }

    /// Each of the trace's initial slabs that was placed, with the model's.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let placed = self.slab_of.iter().enumerate().filter(|(_, model)| **model != NONE);
        placed.map(|(kernel, model)| (kernel as u32, *model))
    }

    /// A slab of the trace, or a part of some, is one of the model's.
    fn put(&mut self, piece: &PlannedSlab, model: u32, is_other: bool) {
        if is_other {
            self.objects.extend(piece.live.iter().map(|object| (*object, model)));
        } else if let Some(first) = piece.first {
            self.slab_of[first as usize] = model;
        }
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

    /// Returns the model's slab for an initial slab that the start did not place, when an object of
    /// it is freed: any slab that nothing is bound to, with a likelihood proportional to its live
    /// objects. [`NONE`] if there is none left.
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

impl UnseenSlabs {
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
pub(crate) fn place(plan: &Plan<'_>, caches: &mut [KernelCache]) -> PlacedSlabs {
    let nr_initial = plan.prepared.slabs.partition_point(|slab| slab.initial);
    let mut placed = PlacedSlabs {
        slab_of: vec![NONE; nr_initial],
        live_of: vec![0; nr_initial],
        unbound: vec![UnseenSlabs::default(); caches.len()],
        objects: Vec::new(),
        unseen: vec![(0, 0); caches.len()],
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
pub(super) fn own(plan: &Plan<'_>, placed: &PlacedSlabs, slab_of: &mut [u32]) {
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

fn from_snapshot(plan: &Plan<'_>, caches: &mut [KernelCache], placed: &mut PlacedSlabs) {
    let all = caches.iter_mut().zip(plan.parked).zip(&mut placed.unbound).enumerate();
    for (number, ((cache, parked), unbound)) in all {
        if plan.is_other(number) || plan.is_without_slabs(number) {
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

/// True if a cache starts as its rules would have placed its objects: SLAB's caches, whose arrays
/// and lists are in no snapshot of SLUB, on other slabs.
fn is_anew(plan: &Plan<'_>, cache: usize) -> bool {
    plan.is_other(cache) && matches!(plan.rules[cache].front, Front::ArrayCaches(_))
}

/// Allocates the objects that are live at the start of such caches, in the order of their slabs,
/// which a CPU after the other takes; those that no event shows last.
pub(super) fn repack(
    plan: &Plan<'_>,
    placed: &PlacedSlabs,
    caches: &mut [KernelCache],
    slab_of: &mut [u32],
) {
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
    for (number, (slabs, live)) in placed.unseen.iter().enumerate() {
        if is_anew(plan, number) && *slabs > 0 {
            for nth in 0..*live {
                let cpu = (nth / live.div_ceil(*slabs).max(1)) as usize % plan.node_of.len();
                caches[number].alloc(cpu, None);
            }
        }
    }
}

fn look_ahead(plan: &Plan<'_>, caches: &mut [KernelCache], placed: &mut PlacedSlabs) {
    let prepared = plan.prepared;
    let initial = Initial::of(plan);
    // Where the kernel made a slab its lists were empty: what the snapshot counts was
    // gone before.
    let mut made = vec![false; caches.len()];
    for slab in &prepared.slabs[placed.slab_of.len()..] {
        made[slab.cache as usize] = true;
    }
    for (number, cache) in caches.iter().enumerate() {
        // From the snapshot alone, those are in place that are as on the traced machine.
        let in_place = plan.start == Start::Snapshot && !plan.is_other(number);
        if in_place || plan.is_without_slabs(number) {
            continue;
        }
        let known = prepared.known.get(number).is_some_and(Option::is_some);
        let unshown = plan.parked.get(number).filter(|_| !known && !made[number]);
        let lists = Lists::of(plan, number, cache.rules(), &initial);
        let (mut slabs, mut live) = (0, 0);
        for unseen in lists.unseen(plan, number, &initial, unshown) {
            slabs += unseen.slabs;
            live += unseen.live(plan.traced_objects[number]);
        }
        placed.unseen[number] = (slabs, live);
        if is_anew(plan, number) {
            continue;
        }
        for (piece, model) in lists.install(plan, (number, cache), &initial, unshown) {
            placed.put(&piece, model, plan.is_other(number));
        }
    }
    initial.in_sheaves.install(caches, &placed.slab_of);
}
