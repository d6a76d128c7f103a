//! Models CPUs whose calls overlap in time: each operation of a slow path takes time on its CPU's
//! clock, calls wait for the locks of lists and barns, and compare-exchanges can fail.
//!
//! Calls are simulated one after the other, in order of their start; each has a clock of its own,
//! which its operations advance by [`Costs`]. A lock is held during intervals of that time: a call
//! that needs it within such an interval waits for the interval's end; a refill does not wait for
//! the list of another node, but passes it over (40fd0acc45d0). A barn's lock is held while a full
//! sheaf is exchanged for an empty one: two links. A compare-exchange
//! lasts from its load to its store. If other CPUs' exchanges on the same slab are under way when
//! it starts, it fails once for each of these, and completes after them. A kernel that freezes
//! slabs under the list lock (up to 6.7) does not retry there, but leaves the list
//! ([`Counts::breaks`]).
//!
//! Neighbours: [`super::slabs`] and [`super::on_cpu`] call the hooks where the policy takes locks,
//! links slabs and changes slab words; the lab sets the calls' start times.
//!
//! Invariants: without [`super::KernelCache::contend`] nothing here runs, and the model executes
//! one call at a time; with costs of 0 nothing overlaps and nothing fails.

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
    /// Times that a node's list was left for that: the slow path continues at the next place.
    pub breaks: u64,
    /// List locks taken.
    pub locks: u64,
    /// Locks that another CPU held when a call came to them.
    pub waited: u64,
    /// Sum over `waited`.
    pub wait_ns: u64,
    /// Of a single lock; 0 if no call waited.
    pub longest_wait_ns: u64,
    /// Time that list locks were held.
    pub held_ns: u64,
    /// Other nodes' lists that a refill passed over, because their locks were held.
    pub passed_over: u64,
    /// Barns' locks taken.
    pub barn_locks: u64,
    /// Those that another CPU held.
    pub barn_waited: u64,
    /// Sum over `barn_waited`.
    pub barn_wait_ns: u64,
    /// Allocations and frees that were made.
    pub calls: u64,
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
        self.passed_over += other.passed_over;
        self.barn_locks += other.barn_locks;
        self.barn_waited += other.barn_waited;
        self.barn_wait_ns += other.barn_wait_ns;
        self.calls += other.calls;
        self.call_ns += other.call_ns;
    }
}

const NOBODY: usize = usize::MAX;
/// The CPU that made the slab, which nobody else knows yet.
const MAKER: usize = usize::MAX - 1;

/// The exchanges that were last under way on a slab.
#[derive(Clone, Copy)]
struct SlabExchanges {
    cpu: usize,
    from: u64,
    to: u64,
}

const UNTOUCHED: SlabExchanges = SlabExchanges { cpu: NOBODY, from: 0, to: 0 };

/// The lock of a node's list or barn.
struct NodeLock {
    holder: usize,
    /// When it is held, in order and with gaps between: none ends before the call under way began.
    held: Vec<(u64, u64)>,
}

impl NodeLock {
    fn new() -> RefCell<NodeLock> {
        RefCell::new(NodeLock { holder: NOBODY, held: Vec::new() })
    }

    /// A CPU comes and takes it: when it has it, and true if another CPU had it last.
    fn take(&mut self, cpu: usize, come: u64) -> (u64, bool) {
        let now = self.until(come).unwrap_or(come);
        let last = std::mem::replace(&mut self.holder, cpu);
        (now, last != cpu && last != NOBODY)
    }

    /// It is held for a while. (A call that came into a gap may hold it beyond the gap.)
    fn hold(&mut self, since: u64, to: u64) {
        let first = self.held.partition_point(|(_, end)| *end < since);
        let behind = self.held.partition_point(|(from, _)| *from <= to);
        let joined = &self.held[first..behind];
        let since = joined.first().map_or(since, |held| held.0.min(since));
        let to = joined.last().map_or(to, |held| held.1.max(to));
        self.held.splice(first..behind, [(since, to)]);
    }

    /// If it is held at a time: until when.
    fn until(&self, now: u64) -> Option<u64> {
        let at = self.held.partition_point(|(_, to)| *to <= now);
        self.held.get(at).filter(|(from, _)| *from <= now).map(|(_, to)| *to)
    }
}

/// A list lock in this call's hands.
#[derive(Clone, Copy)]
struct HeldLock {
    node: usize,
    since: u64,
}

/// The overlapping calls of a cache.
pub(crate) struct Contention {
    costs: Costs,
    cpu: Cell<usize>,
    now: Cell<u64>,
    held: Cell<Option<HeldLock>>,
    /// Exchanges that were counted as made under a lock that is taken next.
    before_lock: Cell<u32>,
    lists: Vec<RefCell<NodeLock>>,
    barns: Vec<RefCell<NodeLock>>,
    words: RefCell<Vec<SlabExchanges>>,
    counts: Cell<Counts>,
}

impl Contention {
    /// For a cache with this many nodes, whose slabs have numbers below `slabs`.
    pub(super) fn new(costs: Costs, nodes: usize, slabs: u32) -> Self {
        Contention {
            costs,
            cpu: Cell::new(0),
            now: Cell::new(0),
            held: Cell::new(None),
            before_lock: Cell::new(0),
            lists: (0..nodes).map(|_| NodeLock::new()).collect(),
            barns: (0..nodes).map(|_| NodeLock::new()).collect(),
            words: RefCell::new(vec![UNTOUCHED; slabs as usize]),
            counts: Cell::default(),
        }
    }

    /// What came of overlapping until now.
    pub(super) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Calls that run after this begin no earlier than `ns`.
    pub(super) fn forget_before(&self, ns: u64) {
        for lock in self.lists.iter().chain(&self.barns) {
            let held = &mut lock.borrow_mut().held;
            let over = held.iter().take_while(|(_, to)| *to <= ns).count();
            held.drain(..over);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn pass(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }

    pub(super) fn begin(&self, cpu: usize, at_ns: u64) {
        self.cpu.set(cpu);
        self.now.set(at_ns);
        self.pass(self.costs.fast.into());
    }

    pub(super) fn end(&self, begun_ns: u64) -> u64 {
        self.unlock();
        self.before_lock.set(0);
        let end = self.now.get();
        self.change(|counts| {
            counts.calls += 1;
            counts.call_ns += end - begun_ns;
        });
        end
    }

    /// Something was counted that takes time.
    #[inline]
    pub(super) fn follow(&self, counter: Counter, n: u32, node: u16) {
        match counter {
            Counter::AllocSlowpath | Counter::FreeSlowpath => self.pass(self.costs.slow.into()),
            Counter::ListLock => self.lock(node.into()),
            Counter::BarnGet | Counter::BarnPut => self.exchange_sheaves(node.into()),
            Counter::ListLockSlabs => self.pass(u64::from(n) * u64::from(self.costs.link)),
            Counter::CmpxchgUnderLock if self.held.get().is_none() => {
                self.before_lock.set(self.before_lock.get() + n);
            }
            _ => {}
        }
    }

    fn lock(&self, node: usize) {
        self.unlock();
        let come = self.now.get();
        let (now, moved) = self.lists[node].borrow_mut().take(self.cpu.get(), come);
        self.change(|counts| {
            counts.locks += 1;
            counts.waited += u64::from(now > come);
            counts.wait_ns += now - come;
            counts.longest_wait_ns = counts.longest_wait_ns.max(now - come);
        });
        self.held.set(Some(HeldLock { node, since: now }));
        self.now.set(now + self.locking(moved));
        // A kernel has the lock before it exchanges.
        self.pass(u64::from(self.before_lock.take()) * u64::from(self.costs.exchange));
    }

    fn locking(&self, moved: bool) -> u64 {
        u64::from(if moved { self.costs.lock_moved } else { self.costs.lock })
    }

    /// A CPU exchanges a sheaf at a node's barn: where there is nothing to exchange, a kernel sees it
    /// without the lock.
    fn exchange_sheaves(&self, node: usize) {
        self.unlock();
        let come = self.now.get();
        let mut barn = self.barns[node].borrow_mut();
        let (now, moved) = barn.take(self.cpu.get(), come);
        let done = now + self.locking(moved) + 2 * u64::from(self.costs.link);
        barn.hold(now, done);
        self.now.set(done);
        self.change(|counts| {
            counts.barn_locks += 1;
            counts.barn_waited += u64::from(now > come);
            counts.barn_wait_ns += now - come;
        });
    }

    /// True if a node's list is locked, so that a refill from another node passes it over.
    pub(super) fn passes_over(&self, node: usize) -> bool {
        let is_held = self.lists[node].borrow().until(self.now.get()).is_some();
        self.change(|counts| counts.passed_over += u64::from(is_held));
        is_held
    }

    /// The list lock is released, if one is held.
    pub(super) fn unlock(&self) {
        let Some(HeldLock { node, since }) = self.held.take() else { return };
        let to = self.now.get();
        self.lists[node].borrow_mut().hold(since, to);
        self.change(|counts| counts.held_ns += to - since);
    }

    /// A slab's word is exchanged.
    pub(super) fn exchange(&self, slab: u32) {
        let mut words = self.words.borrow_mut();
        let word = &mut words[slab as usize];
        let (cpu, come) = (self.cpu.get(), self.now.get());
        if word.cpu == MAKER {
            *word = SlabExchanges { cpu, ..UNTOUCHED };
            return;
        }
        let other = word.cpu != cpu && word.cpu != NOBODY;
        let length = u64::from(if other { self.costs.exchange_moved } else { self.costs.exchange });
        let under_way = other && word.from <= come && come < word.to;
        let failed = if under_way { (word.to - come).div_ceil(length.max(1)) } else { 0 };
        let at = if under_way { word.to } else { come };
        // Exchanges that wait for one another are one: what comes next is behind them all.
        let from = if under_way { word.from } else { at };
        *word = SlabExchanges { cpu, from, to: at + length };
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

    /// No exchange on a new slab's word fails: nobody but its maker knows it yet.
    pub(super) fn begin_slab(&self, slab: u32) {
        self.unlock();
        let mut words = self.words.borrow_mut();
        let len = words.len().max(slab as usize + 1);
        words.resize(len, UNTOUCHED);
        words[slab as usize] = SlabExchanges { cpu: MAKER, ..UNTOUCHED };
        self.pass(self.costs.pages.into());
    }

    /// A slab's pages are freed.
    pub(super) fn give_pages_back(&self) {
        self.unlock();
        self.pass(self.costs.pages.into());
    }
}
