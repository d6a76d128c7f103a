//! One policy of array caches, under each rule for free slabs, in a yard and in the model: a yard
//! on an unpreempted machine and the lab's model receive the same calls, and both have the same
//! counters and the same slabs on their lists after each call.

use slabyard::cache::classes::CLASSES;
use slabyard::engine::array_cache::{Choice, Limits, Reclaim, clock};
use slabyard::engine::slabs::NodeList;
use slabyard::engine::{ArrayCaches, Found, Inspect, SlowPaths, partial};
use slabyard::pages::GranuleKind;
use slabyard::platform::{PerCpu, Takes};
use slabyard::reap::Turn;
use slabyard::slab::Word;
use slabyard::sync::{AtomicU32, Ordering};
use slabyard::yard::{Settings, Yard};
use slabyard::{reap, slab};
use slabyard_model::cache::KernelCache;
use slabyard_model::cache::arrays::Ring;
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::{Config, Machine};

/// What is done by one call.
#[derive(Clone, Copy, Debug)]
enum Call {
    Alloc,
    /// Of the live object of this number; the last one takes its place.
    Free(usize),
    /// A piece of a reclaim pass.
    Reclaim,
    /// A turn of the clock over all caches.
    Reap,
    Shrink,
}

/// What the model does otherwise, which the comparison must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    Limits,
    Shrink,
    Neighbour,
    /// The model follows another policy.
    Policy(Reclaim),
    /// Its clock does not see that a cache grew.
    Growth,
}

struct Pair {
    yard: Yard<Machine, ArrayCaches>,
    class: usize,
    /// By class: the clock walks over all.
    models: Vec<KernelCache>,
    hand: AtomicU32,
    live: Vec<(usize, u32)>,
    /// Version of the slab that began last.
    version: u64,
    found: [Option<Found>; 2],
    planted: Planted,
}

/// Counters of the fast path: nothing counts them on a machine.
const FAST: [Counter; 2] = [Counter::AllocCpuSheaf, Counter::FreeCpuSheaf];

impl Pair {
    fn new(class: usize, cpus: usize, choice: Choice, planted: Planted) -> Self {
        let yard = Yard::<_, ArrayCaches>::new(Machine::new(Config { cpus, ..Config::default() }));
        yard.caches().classes().iter().for_each(|cache| cache.engine.follow(choice));
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let mut limits = Limits::of_cache(yard.cache(class));
        if planted == Planted::Limits {
            limits.batchcount += limits.batchcount.div_ceil(2);
            limits.limit *= 2;
        }
        let choice = match planted {
            Planted::Policy(reclaim) => Choice { reclaim, ..choice },
            _ => choice,
        };
        let of_class = |class| KernelCache::of_slab_yard(*yard.cache(class).shape(), limits, cpus);
        let models: Vec<KernelCache> = (0..CLASSES).map(of_class).collect();
        models.iter().for_each(|model| model.follow_arrays(choice));
        let (live, hand) = (Vec::new(), AtomicU32::new(0));
        Pair { yard, class, models, hand, live, version: 0, found: [None; 2], planted }
    }

    /// The slabs that began since the last call, the first one first.
    fn begun(&mut self) -> Vec<u32> {
        let region = &self.yard.heap.region;
        let slot = self.yard.cache(self.class).shape().slot;
        let slabs = (1..region.top() as u32).map(|granule| (granule, region.descriptor(granule)));
        let mut begun: Vec<(u64, u32)> = slabs
            .filter(|(_, it)| it.kind() == GranuleKind::Slab && it.slot() == slot)
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
        let object = slab::resolve(&self.yard.heap.region, &shape.geometry, shape.slot, address);
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
            self.models[self.class].number_next(begun);
        }
        let of = |model: &KernelCache| -> Vec<u64> {
            Counter::ALL.iter().map(|(counter, ..)| model.counters().get(*counter)).collect()
        };
        let model_before = of(&self.models[self.class]);
        self.in_numbers(cpu, call, address)?;
        let model_after = of(&self.models[self.class]);
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
                if !platform.push(main, address, Takes::Each) {
                    engine.free(on, address);
                }
            }
            Call::Reclaim => _ = engine.reclaim(on, &mut self.found[0], 3),
            Call::Reap => _ = reap::reap(&self.yard, Turn::Wait).expect("array caches").reaped,
            Call::Shrink => engine.shrink(on),
        }
        Ok(0)
    }

    fn in_numbers(&mut self, cpu: usize, call: Call, address: usize) -> Result<(), String> {
        match call {
            Call::Alloc => {
                let number = self.models[self.class].alloc(cpu, None);
                let (expected, found) =
                    (self.number_of(address), self.models[self.class].place_of(number));
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
                self.models[self.class].free(cpu, number);
            }
            Call::Reclaim => {
                let (arrays, on) = self.models[self.class].arrays_at(cpu);
                arrays.reclaim_piece(on, &mut self.found[1], 3);
            }
            Call::Reap => {
                if self.planted == Planted::Growth {
                    self.models[self.class].arrays_at(cpu).0.may_reap();
                }
                let order = |class| self.yard.cache(class).shape().geometry.order as u8;
                let orders: Vec<u8> = (0..CLASSES).map(order).collect();
                clock::reap(&self.hand, &Ring { caches: &self.models, orders: &orders, cpu });
            }
            Call::Shrink if self.planted == Planted::Shrink => {}
            Call::Shrink => {
                let (arrays, on) = self.models[self.class].arrays_at(cpu);
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
        let (arrays, numbers) = self.models[self.class].arrays_at(0);
        partial::each_partial(numbers, |slab, free| listed[1].push((slab, free)));
        if listed[0] != listed[1] {
            return Err(format!("lists: {listed:?}"));
        }
        let mut shared = [Vec::new(), Vec::new()];
        cache.engine.each_parked(on, |address| shared[0].push(self.number_of(address)));
        arrays.each_shared(numbers, |number| {
            shared[1].push(self.models[self.class].place_of(number))
        });
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
fn generated(
    (class, cpus): (usize, usize),
    choice: Choice,
    seed: u64,
    planted: Planted,
) -> Result<Vec<u64>, String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut pair = Pair::new(class, cpus, choice, planted);
    let limit = Limits::of_cache(pair.yard.cache(class)).limit.max(4) as usize;
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
        match random.below(4) {
            0 => pair.call(cpu, Call::Shrink)?,
            1 => (0..20).try_for_each(|_| pair.call(cpu, Call::Reap))?,
            _ => (0..20).try_for_each(|_| pair.call(cpu, Call::Reclaim))?,
        }
        let live = |slab| {
            let of = |(_, number): &&(usize, u32)| pair.models[class].place_of(*number).0 == slab;
            pair.live.iter().filter(of).count() as u32
        };
        pair.models[class].audit(Some(&live))?;
    }
    Ok(Counter::ALL
        .iter()
        .map(|(counter, ..)| pair.models[class].counters().get(*counter))
        .collect())
}

/// What all classes counted by a policy, on one to four CPUs; the same on pages and on numbers.
fn counted_by(choice: Choice, classes: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut sum = vec![0; Counter::ALL.len()];
    for class in classes {
        let counted = generated((class, 1 + class % 4), choice, class as u64 + 1, Planted::None);
        let counted = counted.unwrap_or_else(|what| panic!("class {class}, {choice:?}: {what}"));
        sum.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }
    sum
}

/// Of each class.
#[test]
fn generated_loads_count_the_same_on_pages_and_in_numbers() {
    let sum = counted_by(Choice::default(), 0..CLASSES);
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
fn each_policy_counts_the_same_on_pages_and_in_numbers() {
    for choice in Choice::all() {
        let sum = counted_by(choice, (0..CLASSES).step_by(5));
        let of = |counter: Counter| sum[counter as usize];
        assert!(of(Counter::AllocSlab) > 0 && of(Counter::FreeSlab) > 0, "{choice:?}");
        assert_eq!(of(Counter::SheafRefill) > 0, choice.has_arrays, "{choice:?}");
        let has_shared = choice == Choice::default();
        assert_eq!(of(Counter::BarnPut) > 0, has_shared, "{choice:?}");
    }
}

fn is_found(choice: Choice, planted: Planted) -> bool {
    let one = |class, seed| generated((class, 2), choice, seed, planted).is_err();
    (0..CLASSES).step_by(7).any(|class| (1..4).any(|seed| one(class, seed)))
}

#[test]
fn a_planted_difference_is_found() {
    for planted in [Planted::Limits, Planted::Shrink, Planted::Neighbour] {
        assert!(is_found(Choice::default(), planted), "{planted:?} was not found");
    }
}

/// Each policy differs from each other in what a model of it counts.
#[test]
fn a_model_of_another_policy_is_found() {
    for choice in Choice::all() {
        let others = Reclaim::ALL.into_iter().filter(|other| *other != choice.reclaim);
        // The later two differ in their arrays alone, which the model has from the yard.
        let later = |reclaim| matches!(reclaim, Reclaim::V2_5_45 | Reclaim::Today);
        for other in others.filter(|other| !(later(*other) && later(choice.reclaim))) {
            assert!(is_found(choice, Planted::Policy(other)), "{other:?} for {choice:?}");
        }
    }
    let choice = Choice { reclaim: Reclaim::V2_4, has_arrays: true };
    assert!(is_found(choice, Planted::Growth), "a cache that grew is reaped");
}
