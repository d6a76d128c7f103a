//! One policy, in a yard and in the model: a yard's sheaves on an unpreempted machine and the lab's
//! model receive the same calls, and both have the same counters after each call.
//!
//! The loads are generated ones and every trace of this repository, with each kernel cache's calls
//! made to the yard's cache for objects of that size.

use super::recorded::recorded;
use slabyard::cache::classes::{self, CLASSES};
use slabyard::engine::slabs::{NodeList, Rules};
use slabyard::engine::{Found, Header, Inspect, SlowPaths, partial};
use slabyard::pages::GranuleKind;
use slabyard::platform::{PerCpu, Slot, Takes};
use slabyard::slab;
use slabyard::slab::Word;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_lab::case::{self, Case};
use slabyard_lab::prepare::StepKind;
use slabyard_model::cache::KernelCache;
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::{Config, Machine};

/// What is done by one call.
#[derive(Clone, Copy, Debug)]
enum Call {
    Alloc,
    /// Of the live object of this number; the last one takes its place.
    Free(usize),
    /// Flushes the CPU's main or spare sheaf.
    Flush {
        spare: bool,
    },
    /// A piece of a reclaim pass.
    Reclaim,
    Shrink,
    MinPartial(u32),
}

/// What the model does otherwise, which the comparison must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    /// It follows other rules.
    Rules(Rules),
    /// Its list keeps one empty slab more.
    MinPartial,
    /// It misses a shrink.
    Shrink,
    /// It frees a neighbour of the object that the machine frees.
    Neighbour,
}

/// A cache on the machine, and its model.
struct Pair {
    yard: Yard<Machine>,
    class: usize,
    model: KernelCache,
    /// Address, and the model's number of the object.
    live: Vec<(usize, u32)>,
    /// Version of the slab that began last.
    version: u64,
    found: [Option<Found>; 2],
    planted: Planted,
    calls: [u64; 2],
}

/// Counters of the fast path: nothing counts them on a machine.
const FAST: [Counter; 2] = [Counter::AllocCpuSheaf, Counter::FreeCpuSheaf];

impl Pair {
    fn new(class: usize, cpus: usize, planted: Planted) -> Self {
        let yard = <Yard<_>>::new(Machine::new(Config { cpus, ..Config::default() }));
        assert!(yard.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
        let rules = if let Planted::Rules(rules) = planted { rules } else { Rules::SLABYARD };
        let model = KernelCache::of_yard(*yard.cache(class).shape(), rules, cpus);
        if planted == Planted::MinPartial {
            let (_, on) = model.policy_at(0);
            on.cache().set_min_partial(on.cache().min_partial() + 1);
        }
        let (live, found) = (Vec::new(), [None; 2]);
        Pair { yard, class, model, live, version: 0, found, planted, calls: [0; 2] }
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

    /// Does a call on both, and compares what they counted and what the header shows.
    fn call(&mut self, cpu: usize, call: Call) -> Result<(), String> {
        let before = self.yard.platform().counted();
        self.yard.platform().set_cpu(cpu);
        let cache = self.yard.cache(self.class);
        let (engine, on) = (&cache.engine, cache.on(&self.yard.heap));
        let (main, spare) = (cache.shape().main(), cache.shape().spare());
        let platform = self.yard.platform();
        let mut address = 0;
        match call {
            Call::Alloc => {
                address = platform.pop(main).or_else(|| engine.alloc(on)).ok_or("no memory")?;
            }
            Call::Free(nth) => {
                let (address, _) = self.live[nth];
                if !platform.push(main, address, Takes::Each) {
                    engine.free(on, address);
                }
            }
            Call::Flush { spare: is_spare } => {
                engine.flush_own(on, if is_spare { spare } else { main });
            }
            Call::Reclaim => {
                engine.reclaim(on, &mut self.found[0], 3);
            }
            Call::Shrink => engine.shrink(on),
            Call::MinPartial(slabs) => {
                cache.set_min_partial(slabs);
            }
        }
        let after = platform.counted();
        if after[Counter::AllocSlab as usize] > before[Counter::AllocSlab as usize] {
            let begun = self.begun();
            self.model.number_next(begun);
        }
        let of = |model: &KernelCache| {
            Counter::ALL.iter().map(|(counter, ..)| model.counters().get(*counter)).collect()
        };
        let model_before: Vec<u64> = of(&self.model);
        match call {
            Call::Alloc => {
                let number = self.model.alloc_from_sheaf(cpu);
                self.calls[0] += 1;
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
                self.model.free_to_sheaf(cpu, number);
                self.calls[1] += 1;
            }
            Call::Flush { spare: is_spare } => {
                let (policy, on) = self.model.policy_at(cpu);
                policy.flush_stack(on, if is_spare { spare } else { main });
            }
            Call::Reclaim => {
                let (policy, on) = self.model.policy_at(cpu);
                policy.reclaim_piece(on, &mut self.found[1], 3);
            }
            Call::Shrink if self.planted == Planted::Shrink => {}
            Call::Shrink => {
                let (policy, on) = self.model.policy_at(cpu);
                policy.shrink_node(on);
            }
            Call::MinPartial(slabs) => {
                self.model.policy_at(cpu).1.cache().set_min_partial(slabs);
            }
        }
        let model_after: Vec<u64> = of(&self.model);
        for (nth, (counter, name, _)) in Counter::ALL.iter().enumerate() {
            let on_pages = after[nth] - before[nth];
            let in_numbers = model_after[nth] - model_before[nth];
            if !FAST.contains(counter) && on_pages != in_numbers {
                return Err(format!("{name}: {on_pages} on pages, {in_numbers} in numbers"));
            }
        }
        let (_, numbers) = self.model.policy_at(cpu);
        let (pages, numbers) = (words(self.yard.cache(self.class)), words(numbers.cache()));
        if pages != numbers {
            return Err(format!("{WORDS:?}: {pages:?} on pages, {numbers:?} in numbers"));
        }
        Ok(())
    }

    /// Where all objects are: each CPU's stacks, the partial list in its order, the barn; and
    /// that both agree on it.
    fn compare(&self, cpus: usize) -> Result<(), String> {
        let cache = self.yard.cache(self.class);
        let on = cache.on(&self.yard.heap);
        let mut listed = [Vec::new(), Vec::new()];
        partial::each_partial(on, |slab, free| listed[0].push((slab, free)));
        let (policy, numbers) = self.model.policy_at(0);
        partial::each_partial(numbers, |slab, free| listed[1].push((slab, free)));
        if listed[0] != listed[1] {
            return Err(format!("partial lists: {listed:?}"));
        }
        let mut in_barn = [Vec::new(), Vec::new()];
        cache.engine.each_parked(on, |address| in_barn[0].push(self.number_of(address)));
        policy.each_in_barn(numbers, |number| in_barn[1].push(self.model.place_of(number)));
        in_barn.iter_mut().for_each(|objects| objects.sort_unstable());
        if in_barn[0] != in_barn[1] {
            return Err("the barns hold other objects".into());
        }
        let rows = self.yard.platform().rows();
        let objects =
            |cpu, slot: Slot| self.yard.heap.sheaves.count_of(rows.entry(cpu, slot).top());
        let shape = cache.shape();
        for cpu in 0..cpus {
            let on_pages =
                [shape.main(), shape.spare()].map(|slot| objects(cpu, slot).unwrap_or(0));
            let in_numbers = self.model.in_sheaves_of(cpu);
            if on_pages.iter().sum::<u32>() as usize != in_numbers {
                return Err(format!("CPU {cpu}: {on_pages:?} on pages, {in_numbers} in numbers"));
            }
        }
        let fast = FAST.map(|counter| self.model.counters().get(counter));
        if fast != self.calls {
            return Err(format!("{fast:?} calls counted, {:?} made", self.calls));
        }
        let live = |slab| {
            let of = |(_, number): &&(usize, u32)| self.model.place_of(*number).0 == slab;
            self.live.iter().filter(of).count() as u32
        };
        self.model.audit(Some(&live))
    }
}

/// What the header shows beside what was set.
const WORDS: [&str; 3] = ["out", "slabs", "limit of full sheaves"];

fn words(cache: &Header) -> [u64; 3] {
    [cache.out(), cache.nr_slabs().into(), cache.barn_limits().0.into()]
}

/// What a load did, to tell that it was one.
#[derive(Debug, Default)]
struct Done {
    calls: usize,
    counted: Vec<u64>,
}

impl Done {
    fn add(&mut self, pair: &Pair) {
        let counted = Counter::ALL.iter().map(|(counter, ..)| pair.model.counters().get(*counter));
        let counted: Vec<u64> = counted.collect();
        self.counted.resize(counted.len(), 0);
        self.counted.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }

    fn get(&self, counter: Counter) -> u64 {
        self.counted[counter as usize]
    }
}

/// The calls of a kernel's trace, each cache's to the class of its size.
fn follow_trace(name: &str, cpus: usize) -> Result<Done, String> {
    let (trace, snapshot) = recorded(name);
    let (settings, _) = snapshot.settings().expect("a known kernel");
    let order = case::order_of(snapshot);
    let case = Case::new(trace, snapshot, &settings, order).expect("a case");
    let mut pairs: Vec<Option<Pair>> = (0..CLASSES).map(|_| None).collect();
    // Where a live object is in its pair's list, and which object is there.
    let mut place_of = vec![usize::MAX; case.prepared.nr_objects()];
    let mut objects: Vec<Vec<u32>> = vec![Vec::new(); CLASSES];
    let mut done = Done::default();
    for (nth, step) in case.prepared.steps.iter().enumerate() {
        let size = case.sizes[usize::from(step.cache)] as usize;
        let Some(class) = classes::class_for(size) else { continue };
        let pair = pairs[class].get_or_insert_with(|| Pair::new(class, cpus, Planted::None));
        let place = &mut place_of[step.object as usize];
        let call = match step.op {
            StepKind::Alloc => {
                *place = objects[class].len();
                objects[class].push(step.object);
                Call::Alloc
            }
            // It was there before the trace.
            _ if *place == usize::MAX => continue,
            _ => {
                let place = core::mem::replace(place, usize::MAX);
                objects[class].swap_remove(place);
                if let Some(moved) = objects[class].get(place) {
                    place_of[*moved as usize] = place;
                }
                Call::Free(place)
            }
        };
        let cpu = usize::from(step.cpu) % cpus;
        pair.call(cpu, call).map_err(|what| format!("{name}, step {nth}, {call:?}: {what}"))?;
        done.calls += 1;
    }
    for (class, pair) in pairs.iter().enumerate() {
        let Some(pair) = pair else { continue };
        pair.compare(cpus).map_err(|what| format!("{name}, class {class}: {what}"))?;
        done.add(pair);
    }
    Ok(done)
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

/// Waves of allocations and frees, each in another order and on other CPUs, with reclaim,
/// flushes, shrinks and a changed tunable between them.
fn generated(class: usize, cpus: usize, seed: u64, planted: Planted) -> Result<Done, String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut pair = Pair::new(class, cpus, planted);
    let mut done = Done::default();
    let mut call = |pair: &mut Pair, cpu, call| {
        done.calls += 1;
        pair.call(cpu, call).map_err(|what| format!("call {}, {call:?}: {what}", done.calls))
    };
    let capacity = pair.yard.cache(class).sheaf_capacity() as usize;
    for wave in 0..12 {
        let most = capacity * (1 + random.below(8)) + random.below(200);
        while pair.live.len() < most {
            let cpu = random.below(cpus);
            for _ in 0..1 + random.below(capacity / 2) {
                call(&mut pair, cpu, Call::Alloc)?;
            }
        }
        let least = most / (1 + random.below(12));
        let order = random.below(4);
        while pair.live.len() > least {
            let cpu = random.below(cpus);
            for _ in 0..(1 + random.below(capacity)).min(pair.live.len()) {
                let n = pair.live.len();
                let nth = match order {
                    0 => n - 1,
                    1 => 0,
                    2 => (n - 1).saturating_sub(random.below(70)),
                    _ => random.below(n),
                };
                call(&mut pair, cpu, Call::Free(nth))?;
            }
        }
        let cpu = random.below(cpus);
        match random.below(5) {
            0 => call(&mut pair, cpu, Call::Shrink)?,
            1 => call(&mut pair, cpu, Call::Flush { spare: random.below(2) == 0 })?,
            2 => call(&mut pair, cpu, Call::MinPartial(random.below(12) as u32))?,
            _ => (0..20).try_for_each(|_| call(&mut pair, cpu, Call::Reclaim))?,
        }
        pair.compare(cpus).map_err(|what| format!("wave {wave}: {what}"))?;
    }
    done.add(&pair);
    Ok(done)
}

#[test]
fn every_trace_counts_the_same_on_pages_and_in_numbers() {
    for (name, cpus) in [("forkexec", 4), ("hackbench", 1), ("tr64k_hb_smp4", 4)] {
        let done = follow_trace(name, cpus).unwrap();
        println!("{name} on {cpus} CPUs: {} calls, {:?}", done.calls, done.counted);
        assert!(done.calls > 100_000, "{name}: {} calls", done.calls);
        for counter in [Counter::BarnGet, Counter::SheafFlush, Counter::AllocSlab] {
            assert!(done.get(counter) > 0, "{name}: no {counter:?}");
        }
    }
}

/// Of each class, on one to four CPUs.
#[test]
fn generated_loads_count_the_same_on_pages_and_in_numbers() {
    let mut sum = vec![0; Counter::ALL.len()];
    for class in 0..CLASSES {
        for seed in 1..5 {
            let cpus = 1 + (class + seed) % 4;
            let done = generated(class, cpus, seed as u64, Planted::None);
            let done = done.unwrap_or_else(|what| panic!("class {class}, seed {seed}: {what}"));
            sum.iter_mut().zip(done.counted).for_each(|(sum, n)| *sum += n);
        }
    }
    // All that a yard's policy counts was counted.
    for (counter, name, _) in Counter::ALL {
        println!("{name}: {}", sum[*counter as usize]);
    }
    let counted = [
        Counter::FreeSlowpath,
        Counter::FreeAddPartial,
        Counter::FreeRemovePartial,
        Counter::AllocSlab,
        Counter::FreeSlab,
        Counter::SheafFlush,
        Counter::SheafRefill,
        Counter::BarnGet,
        Counter::BarnGetFail,
        Counter::BarnPut,
        Counter::BarnPutFail,
        Counter::CmpxchgSlab,
        Counter::ListLock,
        Counter::ListLockSlabs,
        Counter::EmptyKept,
    ];
    counted.iter().for_each(|counter| assert!(sum[*counter as usize] > 0, "no {counter:?}"));
}

#[test]
fn a_planted_difference_is_found() {
    const OURS: Rules = Rules::SLABYARD;
    const KERNEL: Rules = Rules::KERNEL;
    let planted = [
        Planted::MinPartial,
        Planted::Shrink,
        Planted::Neighbour,
        Planted::Rules(Rules { refill: KERNEL.refill, ..OURS }),
        Planted::Rules(Rules { flush: KERNEL.flush, ..OURS }),
        Planted::Rules(Rules { offered: KERNEL.offered, ..OURS }),
        Planted::Rules(Rules { counted: KERNEL.counted, ..OURS }),
        Planted::Rules(Rules { adapts: KERNEL.adapts, ..OURS }),
    ];
    for planted in planted {
        let runs = (0..CLASSES).step_by(3).flat_map(|class| (1..4).map(move |seed| (class, seed)));
        let found: Vec<String> =
            runs.filter_map(|(class, seed)| generated(class, 2, seed, planted).err()).collect();
        println!("{planted:?}: found in {} runs: {:?}", found.len(), found.first());
        assert!(!found.is_empty(), "{planted:?} was not found");
    }
}
