//! Tests of modelled caches, and what the tests share: rules, costs, random numbers.

mod in_sheaves;
mod nodes;
mod order;
mod paths;
mod put_in_place;
mod storm;
mod supply;

use super::*;
use crate::counters::Counter as C;

const RULES: Rules = Rules {
    objects: 4,
    min_partial: 2,
    cpu_partial: 6,
    cpu_partial_slabs: 3,
    cpu_partial_lists: true,
    freezing: Freezing::Delayed,
    accounting: Accounting::Slabs,
    front: Front::CpuSlabs,
    sheaf_capacity: 0,
    remote_ratio: 1024,
    planted: Planted::None,
};

/// Compare-exchanges of slabs, those under a list lock, list locks: what `act`
/// adds to them.
fn cost(cache: &mut KernelCache, act: impl FnOnce(&mut KernelCache)) -> [u64; 3] {
    let look = |cache: &KernelCache| {
        [C::CmpxchgSlab, C::CmpxchgUnderLock, C::ListLock].map(|c| cache.counters.get(c))
    };
    let before = look(cache);
    act(cache);
    cache.audit(None).unwrap();
    let after = look(cache);
    [0, 1, 2].map(|i| after[i] - before[i])
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

/// Every combination of rules, on machines of 1 to 4 CPUs and 1 to 2 nodes.
fn each_combination(mut f: impl FnMut(Rules, &[u16])) {
    for freezing in Freezing::ALL {
        for accounting in [Accounting::Objects, Accounting::Slabs, Accounting::Exact] {
            for (front, sheaf_capacity) in [
                (Front::CpuSlabs, 0),
                (Front::SheavesOverCpuSlabs, 3),
                (Front::Sheaves, 3),
                (Front::Nothing, 0),
            ] {
                for (cpu_partial_lists, cpu_partial) in [(true, 6), (true, 0), (false, 0)] {
                    for node_of in [&[0][..], &[0, 0, 0], &[0, 1, 0, 1]] {
                        let rules = Rules {
                            freezing,
                            accounting,
                            front,
                            sheaf_capacity,
                            cpu_partial_lists,
                            cpu_partial,
                            cpu_partial_slabs: cpu_partial / 2,
                            ..RULES
                        };
                        f(rules, node_of);
                    }
                }
            }
        }
    }
}
