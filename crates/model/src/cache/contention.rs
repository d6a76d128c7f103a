//! CPUs that overlap in time: each operation of a slow path takes time on its CPU's clock, list
//! locks are waited for, and compare-exchanges fail.
//!
//! Calls are run one after the other, in the order of their begin; each has a clock of its own,
//! which what it does moves on by [`Costs`]. A list lock is held during intervals of that time: a
//! call that comes during one waits for its end. An exchange takes from its load to its store: one
//! that begins while another CPU's is under way on the same slab fails, once for each that is
//! before it, and is done after them. A kernel that freezes under the list lock (to 6.7) does not
//! try again there: it leaves the list ([`Counts::breaks`]).
//!
//! Neighbours: [`super::slabs`] and [`super::on_cpu`] call the hooks where policy takes locks,
//! links slabs and changes their words; the lab gives the calls their times.
//!
//! Invariants: without [`KernelCache::contend`] nothing here runs, and the model is that of one call
//! at a time; with costs of 0 nothing overlaps and nothing fails.

use super::KernelCache;
use slabyard::engine::Counter;
use std::cell::{Cell, RefCell};

/// How long operations take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A call that finds its object on its CPU.
    pub fast: u32,
    /// What a slow path takes beside the operations below.
    pub slow: u32,
    /// A compare-exchange of a slab's word that this CPU changed last.
    pub exchange: u32,
    /// One that another CPU changed last: the line moves first.
    pub exchange_moved: u32,
    /// Taking and releasing a list lock that this CPU held last.
    pub lock: u32,
    /// One that another CPU held last.
    pub lock_moved: u32,
    /// Linking or unlinking a slab.
    pub link: u32,
    /// Getting a slab's pages, or giving them back.
    pub pages: u32,
}

impl Costs {
    /// Nothing takes time, so that nothing overlaps.
    pub const NONE: Costs = Costs {
        fast: 0,
        slow: 0,
        exchange: 0,
        exchange_moved: 0,
        lock: 0,
        lock_moved: 0,
        link: 0,
        pages: 0,
    };
}

/// What came of overlapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Compare-exchanges of slabs' words, done or failed.
    pub exchanges: u64,
    /// Those that failed, because another CPU's was under way.
    pub failed: u64,
    /// Those of the failed ones that held a list lock.
    pub failed_under_lock: u64,
    /// Times that a node's list was left for that: the slow path goes on to the next place.
    pub breaks: u64,
    /// List locks taken.
    pub locks: u64,
    /// Those that were waited for.
    pub waited: u64,
    /// Waiting for them.
    pub wait_ns: u64,
    /// The longest wait.
    pub longest_wait_ns: u64,
    /// Time that list locks were held.
    pub held_ns: u64,
    /// Time that calls took.
    pub call_ns: u64,
}

impl Counts {
    /// Adds another cache's.
    pub fn merge(&mut self, other: &Counts) {
        self.exchanges += other.exchanges;
        self.failed += other.failed;
        self.failed_under_lock += other.failed_under_lock;
        self.breaks += other.breaks;
        self.locks += other.locks;
        self.waited += other.waited;
        self.wait_ns += other.wait_ns;
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.held_ns += other.held_ns;
        self.call_ns += other.call_ns;
    }
}

/// Nobody.
const NOBODY: usize = usize::MAX;
/// The CPU that made the slab, which nobody else knows yet.
const MAKER: usize = usize::MAX - 1;

/// The exchanges that were last under way on a slab.
#[derive(Clone, Copy)]
struct Word {
    cpu: usize,
    from: u64,
    to: u64,
}

const UNTOUCHED: Word = Word { cpu: NOBODY, from: 0, to: 0 };

/// A node's list lock.
struct ListLock {
    holder: usize,
    /// When it is held, in order: none ends before the call under way began.
    held: Vec<(u64, u64)>,
}

/// A list lock in this call's hands.
#[derive(Clone, Copy)]
struct Held {
    node: usize,
    since: u64,
}

/// The overlapping calls of a cache.
pub(crate) struct Contention {
    costs: Costs,
    cpu: Cell<usize>,
    now: Cell<u64>,
    held: Cell<Option<Held>>,
    /// Exchanges that were counted as made under a lock that is taken next.
    before_lock: Cell<u32>,
    locks: Vec<RefCell<ListLock>>,
    words: RefCell<Vec<Word>>,
    counts: Cell<Counts>,
}

impl Contention {
    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn pass(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }

    fn begin(&self, cpu: usize, at_ns: u64) {
        self.cpu.set(cpu);
        self.now.set(at_ns);
        self.pass(self.costs.fast.into());
    }

    fn end(&self, begun_ns: u64) -> u64 {
        self.unlock();
        self.before_lock.set(0);
        let end = self.now.get();
        self.change(|counts| counts.call_ns += end - begun_ns);
        end
    }

    /// Something was counted that takes time.
    #[inline]
    pub(super) fn follow(&self, counter: Counter, n: u32, node: u16) {
        match counter {
            Counter::AllocSlowpath | Counter::FreeSlowpath => self.pass(self.costs.slow.into()),
            Counter::ListLock => self.lock(node.into()),
            Counter::ListLockSlabs => self.pass(u64::from(n) * u64::from(self.costs.link)),
            Counter::CmpxchgUnderLock if self.held.get().is_none() => {
                self.before_lock.set(self.before_lock.get() + n);
            }
            _ => {}
        }
    }

    fn lock(&self, node: usize) {
        self.unlock();
        let mut lock = self.locks[node].borrow_mut();
        let come = self.now.get();
        let mut now = come;
        for (from, to) in &lock.held {
            if *from <= now && now < *to {
                now = *to;
            }
        }
        let moved = lock.holder != self.cpu.get() && lock.holder != NOBODY;
        lock.holder = self.cpu.get();
        self.change(|counts| {
            counts.locks += 1;
            counts.waited += u64::from(now > come);
            counts.wait_ns += now - come;
            counts.longest_wait_ns = counts.longest_wait_ns.max(now - come);
        });
        self.held.set(Some(Held { node, since: now }));
        self.now.set(now);
        self.pass(u64::from(if moved { self.costs.lock_moved } else { self.costs.lock }));
        // A kernel has the lock before it exchanges.
        self.pass(u64::from(self.before_lock.take()) * u64::from(self.costs.exchange));
    }

    /// The list lock is released, if one is held.
    pub(super) fn unlock(&self) {
        let Some(Held { node, since }) = self.held.take() else { return };
        let to = self.now.get();
        let held = &mut self.locks[node].borrow_mut().held;
        let at = held.partition_point(|(from, _)| *from <= since);
        held.insert(at, (since, to));
        self.change(|counts| counts.held_ns += to - since);
    }

    /// A slab's word is exchanged.
    pub(super) fn exchange(&self, slab: u32) {
        let mut words = self.words.borrow_mut();
        let word = &mut words[slab as usize];
        let (cpu, come) = (self.cpu.get(), self.now.get());
        if word.cpu == MAKER {
            *word = Word { cpu, ..UNTOUCHED };
            return;
        }
        let other = word.cpu != cpu && word.cpu != NOBODY;
        let length = u64::from(if other { self.costs.exchange_moved } else { self.costs.exchange });
        let under_way = other && word.from <= come && come < word.to;
        let failed = if under_way { (word.to - come).div_ceil(length.max(1)) } else { 0 };
        let at = if under_way { word.to } else { come };
        // Exchanges that wait for one another are one: what comes next is behind them all.
        let from = if under_way { word.from } else { at };
        *word = Word { cpu, from, to: at + length };
        drop(words);
        self.count_exchange(failed);
        self.now.set(at + length);
    }

    fn count_exchange(&self, failed: u64) {
        let locked = self.held.get().is_some();
        self.change(|counts| {
            counts.exchanges += 1 + failed;
            counts.failed += failed;
            counts.failed_under_lock += if locked { failed } else { 0 };
        });
    }

    /// True if an exchange of a slab's word that is not tried again fails, which takes its time.
    pub(super) fn fails_once(&self, slab: u32) -> bool {
        let word = self.words.borrow()[slab as usize];
        let now = self.now.get();
        let fails = word.cpu != self.cpu.get() && word.from <= now && now < word.to;
        if fails {
            self.pass(self.costs.exchange_moved.into());
            self.change(|counts| {
                counts.exchanges += 1;
                counts.failed += 1;
                counts.failed_under_lock += 1;
                counts.breaks += 1;
            });
        }
        fails
    }

    /// A slab begins.
    pub(super) fn begin_slab(&self, slab: u32) {
        self.unlock();
        let mut words = self.words.borrow_mut();
        let len = words.len().max(slab as usize + 1);
        words.resize(len, UNTOUCHED);
        words[slab as usize] = Word { cpu: MAKER, ..UNTOUCHED };
        self.pass(self.costs.pages.into());
    }

    /// A slab's pages are given back.
    pub(super) fn give_pages_back(&self) {
        self.unlock();
        self.pass(self.costs.pages.into());
    }
}

impl KernelCache {
    /// From now on calls take time, and overlap: each is to be run by [`KernelCache::call_at`].
    pub fn contend(&mut self, costs: Costs) {
        let lock = |_| RefCell::new(ListLock { holder: NOBODY, held: Vec::new() });
        self.contention = Some(Contention {
            costs,
            cpu: Cell::new(0),
            now: Cell::new(0),
            held: Cell::new(None),
            before_lock: Cell::new(0),
            locks: (0..self.nodes.len()).map(lock).collect(),
            words: RefCell::new(vec![UNTOUCHED; self.numbers.table.len() as usize]),
            counts: Cell::default(),
        });
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
            for lock in &contention.locks {
                let held = &mut lock.borrow_mut().held;
                let over = held.iter().take_while(|(_, to)| *to <= no_earlier_ns).count();
                held.drain(..over);
            }
        }
        let done = call(self);
        (done, self.contention.as_ref().map_or(at_ns, |contention| contention.end(at_ns)))
    }

    /// What came of overlapping until now.
    #[must_use]
    pub fn contended(&self) -> Counts {
        self.contention.as_ref().map_or_else(Counts::default, |of| of.counts.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Accounting, Freezing, Front, Planted, Rules};

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

    /// A CPU takes a slab from the node's list, and two for its own list, of which the first free
    /// objects are other CPUs'.
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
        let counts = Counts { locks: 1, ..Counts::default() };
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
