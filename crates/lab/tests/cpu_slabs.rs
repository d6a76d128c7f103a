//! CPU slabs on pages and in numbers: a yard's caches run on an unpreempted machine and, call by
//! call, the lab's model by the same rules. After each call both have counted the same, and the
//! object came from the same slab.

use slabyard::engine::counted::KernelCache;
use slabyard::engine::counters::Counter;
use slabyard::engine::cpu_slabs::{Accounting, Freezing, OnCpus, Rules};
use slabyard::engine::{Engine, partial};
use slabyard::pages::Kind;
use slabyard::platform::Platform;
use slabyard::platform::machine::{Config, Machine};
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};

/// Calls of one load.
const CALLS: usize = 8000;
/// Counters of the fast path: nothing counts them on a machine.
const FAST: [Counter; 2] = [Counter::AllocFastpath, Counter::FreeFastpath];

/// A cache on the machine, and its model.
struct Pair {
    yard: Yard<Machine, OnCpus>,
    class: usize,
    model: KernelCache,
    /// Address and slab.
    live: Vec<(usize, u32)>,
    /// Version of the slab that began last.
    version: u64,
}

impl Pair {
    /// `planted` changes the model's rules.
    fn new(kind: &Rules, class: usize, cpus: usize, planted: impl Fn(&mut Rules)) -> Self {
        let yard: Yard<_, OnCpus> = Yard::new(Machine::new(Config { cpus, ..Config::default() }));
        for cache in yard.caches().classes() {
            cache.engine.follow(kind);
        }
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let cache = yard.cache(class);
        let mut rules = Rules {
            min_partial: cache.min_partial(),
            ..cache.engine.rules(&cache.shape().geometry)
        };
        planted(&mut rules);
        let model = KernelCache::new(rules, &vec![0; cpus]);
        Pair { yard, class, model, live: Vec::new(), version: 0 }
    }

    /// The slabs that began since the last call, the first one first.
    fn begun(&mut self) -> Vec<u32> {
        let region = &self.yard.heap.region;
        let slot = self.yard.cache(self.class).shape().slot;
        let slabs = (1..region.top() as u32).map(|granule| (granule, region.descriptor(granule)));
        let mut begun: Vec<(u64, u32)> = slabs
            .filter(|(_, it)| it.kind() == Kind::Slab && it.slot() == slot)
            .map(|(granule, it)| (it.word.load(Ordering::Relaxed) >> 32, granule))
            .filter(|(version, _)| *version > self.version)
            .collect();
        begun.sort_unstable();
        self.version = begun.last().map_or(self.version, |(version, _)| *version);
        begun.into_iter().map(|(_, granule)| granule).collect()
    }

    fn slab_of(&self, address: usize) -> u32 {
        let shape = self.yard.cache(self.class).shape();
        let object = self.yard.heap.resolve(&shape.geometry, shape.slot, address);
        object.expect("an object of this cache").slab
    }

    fn counted(&self) -> Vec<u64> {
        let of = |(counter, ..): &(Counter, _, _)| self.model.counters().get(*counter);
        Counter::ALL.iter().map(of).collect()
    }

    /// Compares what a call counted on both.
    fn same(&self, pages: &[u64], numbers: &[u64]) -> Result<(), String> {
        let (pages_now, numbers_now) = (self.yard.platform().counted(), self.counted());
        for (nth, (counter, name, _)) in Counter::ALL.iter().enumerate() {
            let on_pages = pages_now[nth] - pages[nth];
            let in_numbers = numbers_now[nth] - numbers[nth];
            if !FAST.contains(counter) && on_pages != in_numbers {
                return Err(format!("{name}: {on_pages} on pages, {in_numbers} in numbers"));
            }
        }
        Ok(())
    }

    fn alloc(&mut self, cpu: usize) -> Result<(), String> {
        let before = (self.yard.platform().counted(), self.counted());
        self.yard.platform().set_cpu(cpu);
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
        self.same(&before.0, &before.1)
    }

    fn free(&mut self, cpu: usize, nth: usize) -> Result<(), String> {
        let before = (self.yard.platform().counted(), self.counted());
        self.yard.platform().set_cpu(cpu);
        let (address, slab) = self.live.swap_remove(nth);
        let cache = self.yard.cache(self.class);
        if !self.yard.platform().push_if(cache.shape().main(), address) {
            cache.engine.free(cache.on(&self.yard.heap), address);
        }
        self.model.free(cpu, slab);
        self.same(&before.0, &before.1)
    }

    /// Flushes a CPU's slab and list: `compare` finds what was flushed otherwise.
    fn flush(&mut self, cpu: usize) {
        self.yard.platform().set_cpu(cpu);
        let cache = self.yard.cache(self.class);
        for slot in [cache.shape().main(), cache.shape().spare()] {
            cache.engine.flush_own(cache.on(&self.yard.heap), slot);
        }
        self.model.flush_cpu(cpu);
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

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % n
    }
}

/// Waves of allocations and frees on all CPUs.
fn load(pair: &mut Pair, cpus: usize, seed: u64) -> Result<(), String> {
    let mut random = Random(seed | 1);
    for step in 0..CALLS {
        let cpu = random.below(cpus);
        let up = if step / 2000 % 2 == 0 { 75 } else { 25 };
        let done = match random.below(200) {
            0 => {
                pair.flush(cpu);
                pair.compare()
            }
            n if n < 2 * up || pair.live.is_empty() => pair.alloc(cpu),
            _ => {
                let nth = random.below(pair.live.len());
                pair.free(cpu, nth)
            }
        };
        done.map_err(|what| format!("step {step}: {what}"))?;
        if step % 50 == 0 {
            pair.compare().map_err(|what| format!("step {step}: {what}"))?;
        }
    }
    Ok(())
}

/// Each kind of rules, and classes with many and with few objects in a slab.
fn each_kind(mut f: impl FnMut(&Rules, usize, usize)) {
    for freezing in [Freezing::Eager, Freezing::Delayed] {
        for accounting in [Accounting::Objects, Accounting::Slabs, Accounting::Exact] {
            for lists in [true, false] {
                for (class, cpus) in [(3, 1), (3, 4), (12, 2), (24, 3)] {
                    f(&Rules::of_kind(freezing, accounting, lists), class, cpus);
                }
            }
        }
    }
}

#[test]
fn pages_and_numbers_count_the_same_call_by_call() {
    each_kind(|kind, class, cpus| {
        for seed in [3, 77] {
            let mut pair = Pair::new(kind, class, cpus, |_| {});
            if let Err(what) = load(&mut pair, cpus, seed) {
                panic!("{kind:?}, class {class}, {cpus} CPUs, seed {seed}: {what}");
            }
            let counters = pair.model.counters();
            let count = |counter| counters.get(counter);
            // Slabs of many objects are few.
            if class == 24 {
                let [free, taken] = [Counter::CpuPartialFree, Counter::CpuPartialAlloc].map(count);
                assert_eq!(kind.cpu_partial_lists, free > 0 && taken > 0, "{kind:?}");
                assert!(count(Counter::FreeSlowpath) > 0 && count(Counter::AllocFromPartial) > 0);
            }
            let sound = pair.yard.verify().expect("in no handler").expect("sound");
            assert_eq!(sound.live as usize, pair.live.len());
        }
    });
}

/// The comparison finds a model by other rules.
#[test]
fn other_rules_are_found() {
    let changes: [fn(&mut Rules); 5] = [
        |rules| rules.freezing = Freezing::Eager,
        |rules| rules.accounting = Accounting::Exact,
        |rules| rules.cpu_partial_lists = false,
        |rules| rules.min_partial += 1,
        |rules| rules.cpu_partial_slabs += 1,
    ];
    for (nth, change) in changes.iter().enumerate() {
        let found = [3, 12, 24].into_iter().any(|class| {
            let kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, true);
            load(&mut Pair::new(&kind, class, 2, change), 2, 5).is_err()
        });
        assert!(found, "change {nth} was not found");
    }
}
