//! Engines on pages and in numbers: a cache of a yard runs on an unpreempted machine and, call by
//! call, the lab's model of it: sheaves over CPU slabs (a cache of 6.18 that asked for sheaves),
//! and SLUB_TINY. After each call both have counted the same, and the object came from the same
//! slab.

use slabyard::cache::Cache;
use slabyard::engine::counted::KernelCache;
use slabyard::engine::counters::Counter;
use slabyard::engine::cpu_slabs::{Accounting, Freezing, Front, Mixed, Rules};
use slabyard::engine::{Engine, Tiny, partial};
use slabyard::pages::{Descriptor, Kind};
use slabyard::platform::Platform;
use slabyard::platform::machine::{Config, Machine};
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use std::collections::BTreeSet;

/// Calls of one load.
const CALLS: usize = 8000;
/// Nothing counts these on pages.
const FAST: [Counter; 4] =
    [Counter::AllocFastpath, Counter::FreeFastpath, Counter::AllocCpuSheaf, Counter::FreeCpuSheaf];

struct Pair<E> {
    yard: Yard<Machine, E>,
    class: usize,
    model: KernelCache,
    /// Address and slab.
    live: Vec<(usize, u32)>,
    /// Slabs that there were at the last call.
    slabs: BTreeSet<u32>,
}

/// A yard that is not ready.
fn new_yard<E: Engine>(cpus: usize) -> Yard<Machine, E> {
    Yard::new(Machine::new(Config { cpus, ..Config::default() }))
}

/// A cache of sheaves over CPU slabs. `planted` changes the model's rules.
fn mixed(kind: &Rules, class: usize, cpus: usize, planted: impl Fn(&mut Rules)) -> Pair<Mixed> {
    let yard: Yard<_, Mixed> = new_yard(cpus);
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(kind));
    let rules = |cache: &Cache<Mixed>| {
        let mut rules = cache.engine.rules(cache);
        planted(&mut rules);
        rules
    };
    Pair::new(yard, class, cpus, rules)
}

/// A cache of SLUB_TINY that keeps so many slabs although they are empty.
fn tiny(class: usize, cpus: usize, min_partial: u32, planted: impl Fn(&mut Rules)) -> Pair<Tiny> {
    let pair = Pair::new(new_yard(cpus), class, cpus, |cache: &Cache<Tiny>| {
        cache.set_min_partial(min_partial);
        let kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, false);
        let objects = cache.shape().geometry.objects;
        let mut rules = Rules { front: Front::Nothing, objects, ..kind };
        planted(&mut rules);
        rules
    });
    assert_eq!(pair.yard.cache(class).min_partial(), min_partial);
    pair
}

impl<E: Engine> Pair<E> {
    /// `rules` says the model's.
    fn new(
        yard: Yard<Machine, E>,
        class: usize,
        cpus: usize,
        rules: impl Fn(&Cache<E>) -> Rules,
    ) -> Self {
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let cache = yard.cache(class);
        let rules = rules(cache);
        let min_partial = rules.min_partial.max(cache.min_partial());
        let model = KernelCache::new(Rules { min_partial, ..rules }, &vec![0; cpus]);
        Pair { yard, class, model, live: Vec::new(), slabs: BTreeSet::new() }
    }

    /// The slabs that began since the last call, the first one first.
    fn begun(&mut self) -> Vec<u32> {
        let region = &self.yard.heap.region;
        let slot = self.yard.cache(self.class).shape().slot;
        let slabs = (1..region.top() as u32).map(|granule| (granule, region.descriptor(granule)));
        let of_cache = |it: &Descriptor| it.kind() == Kind::Slab && it.slot() == slot;
        let now: BTreeSet<u32> = slabs.filter(|(_, it)| of_cache(it)).map(|it| it.0).collect();
        let mut begun: Vec<u32> = now.difference(&self.slabs).copied().collect();
        // The word's upper half, the version, rises from slab to slab.
        begun.sort_by_key(|slab| region.descriptor(*slab).word.load(Ordering::Relaxed) >> 32);
        self.slabs = now;
        begun
    }

    fn slab_of(&self, address: usize) -> u32 {
        let shape = self.yard.cache(self.class).shape();
        let object = self.yard.heap.resolve(&shape.geometry, shape.slot, address);
        object.expect("an object of this cache").slab
    }

    fn counted(&self) -> [Vec<u64>; 2] {
        let of = |(counter, ..): &(Counter, _, _)| self.model.counters().get(*counter);
        [self.yard.platform().counted().to_vec(), Counter::ALL.iter().map(of).collect()]
    }

    fn same(&self, before: &[Vec<u64>; 2]) -> Result<(), String> {
        let now = self.counted();
        for (nth, (counter, name, _)) in Counter::ALL.iter().enumerate() {
            let [pages, numbers] = [0, 1].map(|of| now[of][nth] - before[of][nth]);
            if !FAST.contains(counter) && pages != numbers {
                return Err(format!("{name}: {pages} on pages, {numbers} in numbers"));
            }
        }
        Ok(())
    }

    fn alloc(&mut self, cpu: usize) -> Result<(), String> {
        let before = self.counted();
        self.yard.platform().set_cpu(cpu);
        let cache = self.yard.cache(self.class);
        let popped = self.yard.platform().pop(cache.shape().main());
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

    fn free(&mut self, cpu: usize, nth: usize) -> Result<(), String> {
        let before = self.counted();
        self.yard.platform().set_cpu(cpu);
        let (address, slab) = self.live.swap_remove(nth);
        let cache = self.yard.cache(self.class);
        if !self.yard.platform().push_if(cache.shape().main(), address) {
            cache.engine.free(cache.on(&self.yard.heap), address);
        }
        self.model.free(cpu, slab);
        self.begun();
        self.same(&before)
    }

    fn compare(&self) -> Result<(), String> {
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
}

/// Waves of allocations and frees on all CPUs.
fn load<E: Engine>(pair: &mut Pair<E>, cpus: usize, seed: u64) -> Result<(), String> {
    let mut state = seed | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % n
    };
    for step in 0..CALLS {
        let cpu = below(cpus);
        let up = if step / 2000 % 2 == 0 { 75 } else { 25 };
        let done = if below(100) < up || pair.live.is_empty() {
            pair.alloc(cpu)
        } else {
            let nth = below(pair.live.len());
            pair.free(cpu, nth)
        };
        done.map_err(|what| format!("step {step}: {what}"))?;
        if step % 50 == 0 {
            pair.compare().map_err(|what| format!("step {step}: {what}"))?;
        }
    }
    Ok(())
}

#[test]
fn sheaves_over_cpu_slabs_count_the_same_call_by_call() {
    for kind in kinds() {
        for (class, cpus) in [(3, 1), (3, 4), (12, 2), (24, 3)] {
            let mut pair = mixed(&kind, class, cpus, |_| {});
            if let Err(what) = load(&mut pair, cpus, 77) {
                panic!("{kind:?}, class {class}, {cpus} CPUs: {what}");
            }
            let [pages, _] = pair.counted();
            let count = |counter: Counter| pages[counter as usize];
            assert!(count(Counter::SheafRefill) > 0 && count(Counter::SheafFlush) > 0);
            let sound = pair.yard.verify().expect("in no handler").expect("sound");
            assert_eq!(sound.live as usize, pair.live.len());
        }
    }
}

#[test]
fn slub_tiny_counts_the_same_call_by_call() {
    for (class, cpus, min_partial) in [(3, 1, 0), (3, 4, 5), (12, 2, 0), (24, 3, 2), (61, 2, 0)] {
        let mut pair = tiny(class, cpus, min_partial, |_| {});
        if let Err(what) = load(&mut pair, cpus, 77) {
            panic!("class {class}, {cpus} CPUs: {what}");
        }
        let [pages, _] = pair.counted();
        let count = |counter: Counter| pages[counter as usize];
        // Each call takes the lock once, and exchanges nothing.
        let calls = count(Counter::AllocSlowpath) + count(Counter::FreeSlowpath);
        assert_eq!((count(Counter::ListLock), calls), (CALLS as u64, CALLS as u64));
        assert_eq!(count(Counter::CmpxchgSlab) + count(Counter::CmpxchgUnderLock), 0);
        assert!(count(Counter::FreeSlab) > 0 && count(Counter::EmptyKept) > 0 || min_partial == 0);
        let sound = pair.yard.verify().expect("in no handler").expect("sound");
        assert_eq!(sound.live as usize, pair.live.len());
    }
}

/// The comparison finds a model by other rules.
#[test]
fn other_rules_are_found() {
    let others: [fn(&mut Rules); 3] = [
        |rules| rules.min_partial = 2,
        |rules| rules.front = Front::Sheaves,
        |rules| rules.front = Front::CpuSlabs,
    ];
    for (nth, change) in others.iter().enumerate() {
        let is_found = load(&mut tiny(12, 2, 0, change), 2, 5).is_err();
        assert!(is_found, "change {nth} of SLUB_TINY was not found");
    }

    let changes: [fn(&mut Rules); 4] = [
        |rules| rules.freezing = Freezing::Eager,
        |rules| rules.sheaf_capacity += 1,
        |rules| rules.cpu_partial_lists = false,
        |rules| rules.cpu_partial_slabs += 1,
    ];
    for (nth, change) in changes.iter().enumerate() {
        let found = [3, 12, 24].into_iter().any(|class| {
            let kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, true);
            load(&mut mixed(&kind, class, 2, change), 2, 5).is_err()
        });
        assert!(found, "change {nth} was not found");
    }
}

/// The kernel has one kind of mixed caches; the others are found by the same policy.
fn kinds() -> impl Iterator<Item = Rules> {
    let kinds = [Freezing::Eager, Freezing::Delayed].into_iter();
    kinds.flat_map(|freezing| {
        let each = [Accounting::Objects, Accounting::Slabs, Accounting::Exact];
        each.into_iter().flat_map(move |accounting| {
            [true, false].map(|lists| Rules::of_kind(freezing, accounting, lists))
        })
    })
}
