//! One policy of array caches, on pages and on numbers: a yard runs on an unpreempted machine
//! and, call by call, the lab's numbers; both count the same after each call, and have the same
//! slabs on their lists.

use slabyard::cache::classes::CLASSES;
use slabyard::engine::array_cache::Limits;
use slabyard::engine::counted::KernelCache;
use slabyard::engine::counters::Counter;
use slabyard::engine::slabs::Slabs;
use slabyard::engine::{ArrayCaches, Engine, Found, partial};
use slabyard::pages::Kind;
use slabyard::platform::Platform;
use slabyard::platform::machine::{Config, Machine};
use slabyard::slab::Word;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};

/// What is done by one call.
#[derive(Clone, Copy, Debug)]
enum Call {
    Alloc,
    /// Of the live object of this number; the last one takes its place.
    Free(usize),
    /// A piece of a reclaim pass.
    Reclaim,
    Shrink,
}

/// What the model does otherwise, which the comparison must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    Limits,
    Shrink,
    Neighbour,
}

struct Pair {
    yard: Yard<Machine, ArrayCaches>,
    class: usize,
    model: KernelCache,
    live: Vec<(usize, u32)>,
    /// Version of the slab that began last.
    version: u64,
    found: [Option<Found>; 2],
    planted: Planted,
}

/// Counters of the fast path: nothing counts them on a machine.
const FAST: [Counter; 2] = [Counter::AllocCpuSheaf, Counter::FreeCpuSheaf];

impl Pair {
    fn new(class: usize, cpus: usize, planted: Planted) -> Self {
        let yard = Yard::<_, ArrayCaches>::new(Machine::new(Config { cpus, ..Config::default() }));
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let mut limits = Limits::of_cache(yard.cache(class));
        if planted == Planted::Limits {
            limits.batchcount += limits.batchcount.div_ceil(2);
            limits.limit *= 2;
        }
        let model = KernelCache::of_slab_yard(*yard.cache(class).shape(), limits, cpus);
        Pair { yard, class, model, live: Vec::new(), version: 0, found: [None; 2], planted }
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

    /// The model's number of the object at an address.
    fn number_of(&self, address: usize) -> (u32, u32) {
        let shape = self.yard.cache(self.class).shape();
        let object = self.yard.heap.resolve(&shape.geometry, shape.slot, address);
        let object = object.expect("an object of this cache");
        (object.slab, object.index / Word::OBJECTS)
    }

    /// Does a call on both, and compares what they counted, and what is listed.
    fn call(&mut self, cpu: usize, call: Call) -> Result<(), String> {
        self.yard.platform().set_cpu(cpu);
        let before = self.yard.platform().counted();
        let address = self.on_pages(call)?;
        let after = self.yard.platform().counted();
        if after[Counter::AllocSlab as usize] > before[Counter::AllocSlab as usize] {
            let begun = self.begun();
            self.model.number_next(begun);
        }
        let of = |model: &KernelCache| -> Vec<u64> {
            Counter::ALL.iter().map(|(counter, ..)| model.counters().get(*counter)).collect()
        };
        let model_before = of(&self.model);
        self.in_numbers(cpu, call, address)?;
        let model_after = of(&self.model);
        for (nth, (counter, name, _)) in Counter::ALL.iter().enumerate() {
            let on_pages = after[nth] - before[nth];
            let in_numbers = model_after[nth] - model_before[nth];
            if !FAST.contains(counter) && on_pages != in_numbers {
                return Err(format!("{name}: {on_pages} on pages, {in_numbers} in numbers"));
            }
        }
        self.compare()
    }

    fn on_pages(&mut self, call: Call) -> Result<usize, String> {
        let cache = self.yard.cache(self.class);
        let (engine, on) = (&cache.engine, cache.on(&self.yard.heap));
        let (platform, main) = (self.yard.platform(), cache.shape().main());
        match call {
            Call::Alloc => {
                return platform.pop(main).or_else(|| engine.alloc(on)).ok_or("no memory".into());
            }
            Call::Free(nth) => {
                let (address, _) = self.live[nth];
                if !platform.push(main, address) {
                    engine.free(on, address);
                }
            }
            Call::Reclaim => _ = engine.reclaim(on, &mut self.found[0], 3),
            Call::Shrink => engine.shrink(on),
        }
        Ok(0)
    }

    fn in_numbers(&mut self, cpu: usize, call: Call, address: usize) -> Result<(), String> {
        match call {
            Call::Alloc => {
                let number = self.model.alloc(cpu, None);
                let (expected, found) = (self.number_of(address), self.model.place_of(number));
                if expected != found {
                    return Err(format!("object of {expected:?} on pages, {found:?} in numbers"));
                }
                self.live.push((address, number));
            }
            Call::Free(nth) => {
                let (_, mut number) = self.live.swap_remove(nth);
                if self.planted == Planted::Neighbour && !self.live.is_empty() {
                    let other = nth % self.live.len();
                    core::mem::swap(&mut number, &mut self.live[other].1);
                }
                self.model.free(cpu, number);
            }
            Call::Reclaim => {
                let (arrays, on) = self.model.arrays_at(cpu);
                arrays.reclaim_piece(on, &mut self.found[1], 3);
            }
            Call::Shrink if self.planted == Planted::Shrink => {}
            Call::Shrink => {
                let (arrays, on) = self.model.arrays_at(cpu);
                arrays.drain(on);
            }
        }
        Ok(())
    }

    /// Slabs on the list in their order, and the objects of the shared arrays in theirs.
    fn compare(&self) -> Result<(), String> {
        let cache = self.yard.cache(self.class);
        let on = cache.on(&self.yard.heap);
        let mut listed = [Vec::new(), Vec::new()];
        partial::each_partial(on, |slab, free| listed[0].push((slab, free)));
        let (arrays, numbers) = self.model.arrays_at(0);
        partial::each_partial(numbers, |slab, free| listed[1].push((slab, free)));
        if listed[0] != listed[1] {
            return Err(format!("lists: {listed:?}"));
        }
        let mut shared = [Vec::new(), Vec::new()];
        cache.engine.each_parked(on, |address| shared[0].push(self.number_of(address)));
        arrays.each_shared(numbers, |number| shared[1].push(self.model.place_of(number)));
        if shared[0] != shared[1] {
            return Err("the shared arrays hold other objects".into());
        }
        let out = [cache.out(), numbers.cache().out()];
        (out[0] == out[1]).then_some(()).ok_or(format!("out: {out:?}"))
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

/// Waves of allocations and frees, each in another order and on other CPUs, with reclaim and
/// shrinks between them; returns what the model counted.
fn generated(class: usize, cpus: usize, seed: u64, planted: Planted) -> Result<Vec<u64>, String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut pair = Pair::new(class, cpus, planted);
    let limit = Limits::of_cache(pair.yard.cache(class)).limit as usize;
    for _ in 0..8 {
        let most = limit * (1 + random.below(8)) + random.below(100);
        while pair.live.len() < most {
            let cpu = random.below(cpus);
            for _ in 0..1 + random.below(limit) {
                pair.call(cpu, Call::Alloc)?;
            }
        }
        let least = most / (1 + random.below(12));
        let order = random.below(3);
        while pair.live.len() > least {
            let cpu = random.below(cpus);
            for _ in 0..(1 + random.below(2 * limit)).min(pair.live.len()) {
                let n = pair.live.len();
                pair.call(cpu, Call::Free([n - 1, 0, random.below(n)][order]))?;
            }
        }
        let cpu = random.below(cpus);
        match random.below(3) {
            0 => pair.call(cpu, Call::Shrink)?,
            _ => (0..20).try_for_each(|_| pair.call(cpu, Call::Reclaim))?,
        }
        let live = |slab| {
            let of = |(_, number): &&(usize, u32)| pair.model.place_of(*number).0 == slab;
            pair.live.iter().filter(of).count() as u32
        };
        pair.model.audit(Some(&live))?;
    }
    Ok(Counter::ALL.iter().map(|(counter, ..)| pair.model.counters().get(*counter)).collect())
}

/// Of each class, on one to four CPUs.
#[test]
fn generated_loads_count_the_same_on_pages_and_in_numbers() {
    let mut sum = vec![0; Counter::ALL.len()];
    for class in 0..CLASSES {
        let cpus = 1 + class % 4;
        let counted = generated(class, cpus, class as u64 + 1, Planted::None);
        let counted = counted.unwrap_or_else(|what| panic!("class {class}: {what}"));
        sum.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }
    let counted = [
        Counter::FreeAddPartial,
        Counter::AllocSlab,
        Counter::FreeSlab,
        Counter::SheafFlush,
        Counter::SheafRefill,
        Counter::BarnGet,
        Counter::BarnPut,
        Counter::BarnPutFail,
        Counter::CmpxchgSlab,
        Counter::ListLock,
        Counter::ListLockSlabs,
    ];
    counted.iter().for_each(|counter| assert!(sum[*counter as usize] > 0, "no {counter:?}"));
}

#[test]
fn a_planted_difference_is_found() {
    for planted in [Planted::Limits, Planted::Shrink, Planted::Neighbour] {
        let found = (0..CLASSES)
            .step_by(7)
            .filter_map(|class| (1..4).find_map(|seed| generated(class, 2, seed, planted).err()));
        assert!(found.count() > 0, "{planted:?} was not found");
    }
}
