//! CPU slabs on real pages and in the model: a yard's caches run on an unpreempted machine and,
//! call by call, the lab's model runs by the same rules. After each call both have the same
//! counters, and the object came from the same slab.

#[cfg(target_os = "linux")]
#[path = "cpu_slabs/on_linux.rs"]
mod on_linux;
#[path = "cpu_slabs/others.rs"]
mod others;
#[path = "cpu_slabs/pair.rs"]
mod pair;
#[path = "cpu_slabs/paths.rs"]
mod paths;

use pair::{Chosen, Pair};
use slabyard::engine::cpu_slabs::{Accounting, Freezing, Front, Rules};
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::Machine;

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
fn load<P: Chosen>(pair: &mut Pair<P>, cpus: usize, seed: u64) -> Result<u32, String> {
    let mut random = Random(seed | 1);
    let mut drained = 0;
    for step in 0..P::CALLS {
        let cpu = random.below(cpus);
        let up = if step / (P::CALLS / 4) % 2 == 0 { 75 } else { 25 };
        let done = match random.below(200) {
            0 => {
                pair.flush(cpu);
                pair.compare()
            }
            1 => {
                drained += pair.drain_empties(cpu);
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
    Ok(drained)
}

/// Each kind of rules, and classes with many and with few objects in a slab.
fn each_kind(mut f: impl FnMut(&Rules, usize, usize)) {
    for kind in Rules::kinds().filter(|kind| kind.front == Front::CpuSlabs) {
        for (class, cpus) in [(3, 1), (3, 4), (12, 2), (24, 3)] {
            f(&kind, class, cpus);
        }
    }
}

#[test]
fn pages_and_numbers_count_the_same_call_by_call() {
    let mut empties = 0;
    each_kind(|kind, class, cpus| {
        for seed in [3, 77] {
            let mut pair = Pair::<Machine>::new(kind, class, cpus, |_| {});
            match load(&mut pair, cpus, seed) {
                Ok(drained) => empties += drained,
                Err(what) => panic!("{kind:?}, class {class}, {cpus} CPUs, seed {seed}: {what}"),
            }
            let counters = pair.model.counters();
            let count = |counter| counters.get(counter);
            // Slabs of many objects are few.
            if class == 24 {
                let [free, taken] = [Counter::CpuPartialFree, Counter::CpuPartialAlloc].map(count);
                assert_eq!(kind.cpu_partial_lists, free > 0 && taken > 0, "{kind:?}");
                assert!(count(Counter::FreeSlowpath) > 0 && count(Counter::AllocFromPartial) > 0);
            }
            pair.verify();
        }
    });
    assert!(empties > 100, "{empties} empty slabs left lists");
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
            load(&mut Pair::<Machine>::new(&kind, class, 2, change), 2, 5).is_err()
        });
        assert!(found, "change {nth} was not found");
    }
}
