//! Runs calls of several CPUs that overlap in time, and tests them against outcomes computed by
//! hand.
//!
//! Neighbour: [`super::contention`] models the clocks and the locks.

use super::KernelCache;
use super::contention::{Contention, Costs, Counts};

impl KernelCache {
    /// From now on calls take time, and overlap: each is to be run by [`KernelCache::call_at`].
    pub fn contend(&mut self, costs: Costs) {
        let slabs = self.numbers.table.len();
        self.contention = Some(Contention::new(costs, self.nodes.len(), slabs));
    }

    /// Runs a call of a CPU that begins at a time; calls that are run later begin no earlier than
    /// `no_earlier_ns`. Returns what the call returns, and when it ends.
    pub fn call_at<T>(
        &mut self,
        cpu: usize,
        at_ns: u64,
        no_earlier_ns: u64,
        call: impl FnOnce(&mut Self) -> T,
    ) -> (T, u64) {
        if let Some(contention) = &self.contention {
            contention.begin(cpu, at_ns);
            contention.forget_before(no_earlier_ns);
        }
        let done = call(self);
        (done, self.contention.as_ref().map_or(at_ns, |contention| contention.end(at_ns)))
    }

    /// What came of overlapping until now.
    #[must_use]
    pub fn contended(&self) -> Counts {
        self.contention.as_ref().map_or_else(Counts::default, Contention::counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Accounting, Freezing, Front, Planted, Rules};
    use slabyard::engine::Counter;

    const COSTS: Costs = Costs {
        fast: 1,
        slow: 10,
        exchange: 20,
        exchange_moved: 100,
        lock: 30,
        lock_moved: 200,
        link: 5,
        pages: 1000,
    };

    fn cache(freezing: Freezing) -> KernelCache {
        let rules = Rules {
            objects: 4,
            cpu_partial: 4,
            cpu_partial_slabs: 2,
            ..Rules::of_kind(freezing, Accounting::Slabs, true)
        };
        KernelCache::new(rules, &[0, 0, 0])
    }

    /// A CPU takes a slab from the node's list, and two for its own list, whose first free objects
    /// belong to other CPUs.
    fn taken(freezing: Freezing) -> (u64, Counts) {
        let mut cache = cache(freezing);
        (0..3).for_each(|_| _ = cache.install_node_partial(0, 1));
        cache.contend(COSTS);
        let (_, end) = cache.call_at(0, 0, 0, |cache| cache.alloc(0, None));
        (end, cache.contended())
    }

    #[test]
    fn eager_freezing_holds_the_list_lock_for_each_exchange() {
        // Fast and slow path, lock, three slabs unlinked; an exchange of each of them, or of one
        // that is used, after the lock.
        let lock = 30 + 3 * 5;
        let counts = Counts { locks: 1, calls: 1, ..Counts::default() };
        let eager = 11 + lock + 3 * 20;
        let want = Counts { exchanges: 3, held_ns: lock + 60, call_ns: eager, ..counts };
        assert_eq!(taken(Freezing::Eager), (eager, want));
        let delayed = 11 + lock + 20;
        let want = Counts { exchanges: 1, held_ns: lock, call_ns: delayed, ..counts };
        assert_eq!(taken(Freezing::Delayed), (delayed, want));
    }

    #[test]
    fn who_comes_while_a_list_lock_is_held_waits_and_who_comes_before_does_not() {
        let mut cache = cache(Freezing::Delayed);
        (0..9).for_each(|_| _ = cache.install_node_partial(0, 1));
        cache.contend(COSTS);
        let mut alloc = |cpu, at| {
            let before = cache.contended();
            cache.call_at(cpu, at, 0, |cache| cache.alloc(cpu, None));
            let after = cache.contended();
            (after.waited - before.waited, after.wait_ns - before.wait_ns)
        };
        // Held from 1011 to 1056.
        assert_eq!(alloc(0, 1000), (0, 0));
        // Comes at 1021; then held until 1056 + 200 + 15.
        assert_eq!(alloc(1, 1010), (1, 35));
        // Comes at 21, long before.
        assert_eq!(alloc(2, 10), (0, 0));
    }

    #[test]
    fn exchanges_that_meet_fail_once_for_each_that_is_before_them() {
        let mut cache = cache(Freezing::Delayed);
        let slab = cache.install_cpu_slab(0, 0);
        cache.contend(COSTS);
        let mut free = |cpu, at| {
            let before = cache.contended().failed;
            let (_, end) = cache.call_at(cpu, at, 0, |cache| cache.free(cpu, slab));
            (cache.contended().failed - before, end)
        };
        assert_eq!(free(1, 0), (0, 31));
        // At 16 the first one's is under way, until 31; the line moves.
        assert_eq!(free(2, 5), (1, 131));
        // Behind both: one stores at 31, the other one at 131.
        assert_eq!(free(1, 6), (2, 231));
        // At its own CPU after all.
        assert_eq!(free(1, 400), (0, 431));
    }

    #[test]
    fn a_kernel_that_freezes_under_the_lock_leaves_a_list_whose_slab_is_contended() {
        let after = |freezing: Freezing, at| {
            let mut cache = cache(freezing);
            let slab = cache.install_node_partial(0, 2);
            cache.contend(COSTS);
            // Its exchange is under way from 11 to 31.
            cache.call_at(1, 0, 0, |cache| cache.free(1, slab));
            let (got, _) = cache.call_at(0, at, 0, |cache| cache.alloc(0, None));
            cache.audit(None).unwrap();
            (got == slab, cache.contended().breaks)
        };
        // With the lock from 11 on: the exchange would begin at 41.
        assert_eq!(after(Freezing::Delayed, 0), (true, 0));
        assert_eq!(after(Freezing::Eager, 0), (true, 0));
        let fast = Costs { lock: 5, ..COSTS };
        let mut cache = cache(Freezing::Eager);
        let slab = cache.install_node_partial(0, 2);
        cache.begin();
        cache.contend(fast);
        cache.call_at(1, 0, 0, |cache| cache.free(1, slab));
        // The exchange would begin at 16: a new slab.
        let (got, end) = cache.call_at(0, 0, 0, |cache| cache.alloc(0, None));
        assert_ne!(got, slab);
        assert_eq!((cache.contended().breaks, end), (1, 11 + 5 + 100 + 1000));
        assert_eq!(cache.counters().get(Counter::AllocSlab), 1);
    }

    #[test]
    fn a_call_waits_for_a_barn_and_passes_over_another_nodes_list() {
        let all = Contention::new(COSTS, 1, 1);
        let does = |cpu, at_ns, counter| {
            all.begin(cpu, at_ns);
            all.follow(counter, 1, 0);
            all.end(at_ns)
        };
        // From 1 to 41: the lock and two links.
        assert_eq!(does(0, 0, Counter::BarnGet), 41);
        assert_eq!(does(1, 5, Counter::BarnPut), 41 + 210);
        // The list, which is another lock, from 6 to 36.
        assert_eq!(does(0, 5, Counter::ListLock), 36);
        all.begin(1, 20);
        assert!(all.passes_over(0));
        all.begin(1, 36);
        assert!(!all.passes_over(0));
        let counts = all.counts();
        assert_eq!((counts.barn_locks, counts.barn_waited, counts.barn_wait_ns), (2, 1, 35));
        assert_eq!((counts.locks, counts.waited, counts.passed_over, counts.calls), (1, 0, 1, 3));
    }

    #[test]
    fn a_refill_passes_over_no_list_that_it_does_not_need() {
        let passed_over = |own: u32| {
            let rules = Rules {
                objects: 64,
                front: Front::Sheaves,
                sheaf_capacity: 64,
                min_partial: 1,
                remote_ratio: 1024,
                ..Rules::of_kind(Freezing::Delayed, Accounting::Slabs, true)
            };
            let mut cache = KernelCache::new(rules, &[0, 1]);
            (0..70).for_each(|_| _ = cache.install_node_partial(0, 1));
            if own > 0 {
                cache.install_node_partial(1, own);
            }
            cache.contend(COSTS);
            // It holds the first node's list while it takes 64 slabs.
            cache.call_at(0, 0, 0, |cache| cache.alloc(0, None));
            cache.call_at(1, 0, 0, |cache| cache.alloc(1, None));
            cache.contended().passed_over
        };
        assert_eq!([passed_over(0), passed_over(64)], [1, 0]);
    }

    #[test]
    fn without_costs_nothing_overlaps() {
        let mut cache = KernelCache::new(
            Rules {
                front: Front::Sheaves,
                sheaf_capacity: 2,
                planted: Planted::None,
                ..*cache(Freezing::Eager).rules()
            },
            &[0, 0],
        );
        cache.contend(Costs::NONE);
        let slabs: Vec<u32> =
            (0..50).map(|nth| cache.call_at(nth % 2, 7, 7, |c| c.alloc(nth % 2, None)).0).collect();
        for slab in slabs {
            cache.call_at(0, 7, 7, |cache| cache.free(0, slab));
        }
        let counts = cache.contended();
        assert!(counts.locks > 0 && counts.exchanges > 0);
        assert_eq!((counts.failed, counts.waited, counts.call_ns), (0, 0, 0));
    }
}
