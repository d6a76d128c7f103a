//! A yard's cache and its model, which receive the same calls.

use slabyard::cache::Cache;
use slabyard::engine::cpu_slabs::{OnCpus, Rules};
use slabyard::engine::{Engine, SlowPaths, partial};
use slabyard::pages::{Descriptor, GranuleKind};
use slabyard::platform::{Platform, Takes};
use slabyard::slab;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_model::cache::KernelCache;
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::{Config, Machine};
use std::collections::BTreeSet;

/// Counters of the fast path: no yard counts them.
const FAST: [(Counter, Counter); 2] = [
    (Counter::AllocFastpath, Counter::AllocSlowpath),
    (Counter::FreeFastpath, Counter::FreeSlowpath),
];

/// A platform that says what its slow paths counted, and whose CPU a thread can choose.
pub trait Chosen: Platform + Sized {
    /// Calls of one load.
    const CALLS: usize;

    fn begin<E: Engine>(cpus: usize) -> Yard<Self, E>;
    /// Counters of a class's cache.
    fn counted(&self, class: usize) -> Vec<u64>;
    fn go_to(&self, cpu: usize);
}

impl Chosen for Machine {
    const CALLS: usize = 8000;

    fn begin<E: Engine>(cpus: usize) -> Yard<Self, E> {
        Yard::new(Machine::new(Config { cpus, ..Config::default() }))
    }

    /// Of all caches together: the others are not used.
    fn counted(&self, _class: usize) -> Vec<u64> {
        self.counted().to_vec()
    }

    fn go_to(&self, cpu: usize) {
        self.set_cpu(cpu);
    }
}

/// A cache of a yard, and its model.
pub struct Pair<P: Chosen, E = OnCpus> {
    yard: Yard<P, E>,
    class: usize,
    pub model: KernelCache,
    /// Address and slab.
    pub live: Vec<(usize, u32)>,
    /// Allocations and frees.
    calls: [u64; 2],
    /// Slabs that there were at the last call.
    slabs: BTreeSet<u32>,
    /// Counters that nothing counts on pages.
    uncounted: &'static [Counter],
}

impl<P: Chosen> Pair<P> {
    /// Of CPU slabs. `planted` changes the model's rules.
    pub fn new(kind: &Rules, class: usize, cpus: usize, planted: impl Fn(&mut Rules)) -> Self {
        Self::of_kind(kind, class, cpus, |cache| {
            let mut rules = Rules { min_partial: cache.min_partial(), ..cache.engine.rules(cache) };
            planted(&mut rules);
            rules
        })
    }

    /// Keeps empty slabs on no list, from the start.
    pub fn keeps_no_empties(kind: &Rules, class: usize, cpus: usize) -> Self {
        Self::of_kind(kind, class, cpus, |cache| {
            cache.set_min_partial(0);
            Rules { min_partial: 0, ..cache.engine.rules(cache) }
        })
    }

    fn of_kind(
        kind: &Rules,
        class: usize,
        cpus: usize,
        rules: impl Fn(&Cache<OnCpus>) -> Rules,
    ) -> Self {
        let yard = P::begin::<OnCpus>(cpus);
        yard.caches().classes().iter().for_each(|cache| cache.engine.follow(kind));
        Pair::of(yard, class, cpus, rules, &[])
    }

    /// The rules of the yard's cache.
    pub fn rules(&self) -> Rules {
        let cache = self.yard.cache(self.class);
        cache.engine.rules(cache)
    }

    /// Flushes a CPU's slab and list: `compare` finds what was flushed otherwise.
    pub fn flush(&mut self, cpu: usize) {
        self.yard.platform().go_to(cpu);
        let cache = self.yard.cache(self.class);
        for slot in [cache.shape().main(), cache.shape().spare()] {
            cache.engine.flush_own(cache.on(&self.yard.heap), slot);
        }
        self.model.flush_cpu(cpu);
    }

    /// Takes the empty slabs off a CPU's list.
    pub fn drain_empties(&mut self, cpu: usize) -> u32 {
        self.yard.platform().go_to(cpu);
        let cache = self.yard.cache(self.class);
        cache.engine.drain_empties(cache.on(&self.yard.heap), None);
        self.model.drain_empties(cpu)
    }
}

impl<P: Chosen, E: Engine> Pair<P, E> {
    /// A yard that is not ready, and the model: `rules` says its rules, of a cache that is.
    pub fn of(
        yard: Yard<P, E>,
        class: usize,
        cpus: usize,
        rules: impl Fn(&Cache<E>) -> Rules,
        uncounted: &'static [Counter],
    ) -> Self {
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let model = KernelCache::new(rules(yard.cache(class)), &vec![0; cpus]);
        let (live, slabs) = (Vec::new(), BTreeSet::new());
        Pair { yard, class, model, live, calls: [0; 2], slabs, uncounted }
    }

    /// The slabs that began since the last call, the first one first.
    fn begun(&mut self) -> Vec<u32> {
        let region = &self.yard.heap.region;
        let slot = self.yard.cache(self.class).shape().slot;
        let slabs = (1..region.top() as u32).map(|granule| (granule, region.descriptor(granule)));
        let of_cache = |it: &Descriptor| it.kind() == GranuleKind::Slab && it.slot() == slot;
        let now: BTreeSet<u32> = slabs.filter(|(_, it)| of_cache(it)).map(|it| it.0).collect();
        let mut begun: Vec<u32> = now.difference(&self.slabs).copied().collect();
        // The word's upper half, the version, rises from slab to slab.
        begun.sort_by_key(|slab| region.descriptor(*slab).word.load(Ordering::Relaxed) >> 32);
        self.slabs = now;
        begun
    }

    fn slab_of(&self, address: usize) -> u32 {
        let shape = self.yard.cache(self.class).shape();
        let object = slab::resolve(&self.yard.heap.region, &shape.geometry, shape.slot, address);
        object.expect("an object of this cache").slab
    }

    /// What was counted up to now, on pages and in numbers. A call that was not slow was fast.
    pub fn counted(&self) -> [Vec<u64>; 2] {
        let mut pages = self.yard.platform().counted(self.class);
        for ((fast, slow), calls) in FAST.into_iter().zip(self.calls) {
            pages[fast as usize] = calls.wrapping_sub(pages[slow as usize]);
        }
        let of = |(counter, ..): &(Counter, _, _)| self.model.counters().get(*counter);
        [pages, Counter::ALL.iter().map(of).collect()]
    }

    /// Compares what a call counted on both.
    fn same(&self, before: &[Vec<u64>; 2]) -> Result<(), String> {
        let now = self.counted();
        for (nth, (counter, name, _)) in Counter::ALL.iter().enumerate() {
            let [pages, numbers] = [0, 1].map(|of| now[of][nth].wrapping_sub(before[of][nth]));
            if !self.uncounted.contains(counter) && pages != numbers {
                return Err(format!("{name}: {pages} on pages, {numbers} in numbers"));
            }
        }
        Ok(())
    }

    pub fn alloc(&mut self, cpu: usize) -> Result<(), String> {
        let before = self.counted();
        self.calls[0] += 1;
        self.yard.platform().go_to(cpu);
        let cache = self.yard.cache(self.class);
        let main = cache.shape().main();
        let popped = self.yard.platform().pop(main);
        let address = popped.or_else(|| cache.engine.alloc(cache.on(&self.yard.heap)));
        let address = address.ok_or("no memory")?;
        let begun = self.begun();
        if !begun.is_empty() {
            self.model.number_next(begun);
        }
        let slab = self.model.alloc(cpu, None);
        if slab != self.slab_of(address) {
            return Err(format!("slab {} on pages, {slab} in numbers", self.slab_of(address)));
        }
        self.live.push((address, slab));
        self.same(&before)
    }

    pub fn free(&mut self, cpu: usize, nth: usize) -> Result<(), String> {
        let before = self.counted();
        self.calls[1] += 1;
        self.yard.platform().go_to(cpu);
        let (address, slab) = self.live.swap_remove(nth);
        let cache = self.yard.cache(self.class);
        if !self.yard.platform().push(cache.shape().main(), address, Takes::Tagged) {
            cache.engine.free(cache.on(&self.yard.heap), address);
        }
        self.model.free(cpu, slab);
        self.begun();
        self.same(&before)
    }

    pub fn compare(&self) -> Result<(), String> {
        let cache = self.yard.cache(self.class);
        let mut listed = Vec::new();
        partial::each_partial(cache.on(&self.yard.heap), |slab, free| listed.push((slab, free)));
        let numbers: Vec<_> = self.model.each_node_partial(0).collect();
        if listed != numbers {
            return Err(format!("partial lists: {listed:?} on pages, {numbers:?} in numbers"));
        }
        if cache.nr_slabs() != self.model.nr_slabs() {
            return Err(format!("{} slabs, {}", cache.nr_slabs(), self.model.nr_slabs()));
        }
        let live = |slab| self.live.iter().filter(|(_, of)| *of == slab).count() as u32;
        self.model.audit(Some(&live))
    }

    /// The whole yard, by its checker.
    pub fn verify(&self) {
        let sound = self.yard.verify().expect("in no handler").expect("sound");
        assert_eq!(sound.live as usize, self.live.len());
    }
}
