//! Floor 6: the yard, one whole allocator in one struct: page heap, caches, gate, and the state of
//! reclaim, checks and readers. Each part is a file of this directory.
//!
//! Neighbours: [`crate::calls`] has the functions for programs, [`crate::reclaim`] returns idle
//! memory to the kernel, [`crate::bound`] limits the reclaim work of one call, [`crate::observe`]
//! computes the counters, and [`crate::verify`] checks the whole yard.
//! Invariant: no part calls another part's functions.

pub(crate) mod checks;
pub(crate) mod depth;
pub(crate) mod growth;
pub(crate) mod guarded;
pub(crate) mod idle_stacks;
pub mod large;
pub mod looks;
pub(crate) mod pass;
mod place;
pub mod rate;
pub(crate) mod sparse;
pub(crate) mod surplus;
pub(crate) mod waiting;

pub use large::{LARGEST_RUN, LARGEST_WARM_RUN};
pub use place::AddressKind;

use crate::cache::slots::slot_of;
use crate::cache::{Cache, CacheId, Caches, classes};
use crate::engine::{Engine, Shape, Sheaves};
use crate::gate::Gate;
use crate::pages::{Misuse, PageHeap};
use crate::platform::{FastPath, GRANULE, Platform, Slot};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Once, Ordering, Rank, fence};
use crate::yard::checks::Checks;
use crate::yard::growth::Growth;
use crate::yard::large::Large;
use crate::yard::surplus::Surplus;
use crate::yard::waiting::Waiting;
use idle_stacks::IdleStacks;
use pass::Pass;
use rate::{EVERY_CALL, Rate};
use slabyard_abi::engines::EngineName;

/// Addresses that the kernel chooses have 48 bits at most.
pub(crate) const MOST_BYTES: usize = if usize::BITS == 64 { 1 << 48 } else { isize::MAX as usize };

/// Address space that a yard reserves if nobody says how much: 1 TiB, where addresses reach so far.
pub(crate) const RESERVE_BYTES: usize = if usize::BITS == 64 { 1 << 40 } else { 1 << 28 };

/// What a yard begins with: the default suits most programs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// The decay time: free pages go back to the kernel after it, in milliseconds.
    pub decay_ms: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { reserve_bytes: RESERVE_BYTES, decay_ms: 250 }
    }
}

/// One whole allocator.
pub struct Yard<P, E = Sheaves> {
    /// Platform and pages.
    pub heap: PageHeap<P>,
    pub(crate) caches: Caches<E>,
    pub(crate) gate: Gate,
    pub(crate) checks: Checks,
    /// Free pages go back after this time, in milliseconds.
    pub(crate) decay_ms: AtomicU64,
    pub(crate) idle_stacks: IdleStacks,
    pub(crate) drain: Lock<Pass>,
    pub(crate) last_tick: AtomicU64,
    /// 1 while a pass is open: a copy of what the drain lock protects, read without it.
    pub(crate) open: AtomicU32,
    pub(crate) rate: Rate,
    /// The reclaim ticker's interval, in frees of a row; 0 while it does not run.
    pub(crate) interval: AtomicU32,
    /// How often [`kick_all_rows`](crate::reclaim::countdown::kick_all_rows) ran: a slow path under way
    /// at that time asks again.
    pub(crate) kicks: AtomicU32,
    /// Passes in a row that reclaimed nothing.
    pub(crate) idle_passes: AtomicU32,
    /// Passes since the program became slow.
    pub(crate) slow_passes: AtomicU32,
    pub(crate) on_ticking: Once<fn(bool)>,
    pub(crate) on_every_call: Once<fn()>,
    /// How often a drain was requested of rows that cannot be stopped: their owners drain them.
    pub(crate) drain_requests: AtomicU32,
    pub(crate) large: Large,
    pub(crate) growth: Growth,
    /// Frees made by handlers that interrupted a slow path: a list through the objects.
    pub(crate) deferred: AtomicUsize,
    /// Threads that free what was deferred.
    pub(crate) running_deferred: AtomicU32,
    /// What waits for readers.
    pub(crate) waiting: Waiting<Yard<P, E>>,
    /// The purge backlog: free granules that the next slow paths purge, however young they are.
    pub(crate) backlog: AtomicUsize,
    pub(crate) surplus: Surplus,
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// A yard before [`Yard::init`].
    pub const fn new(platform: P) -> Self {
        Yard {
            heap: PageHeap::new(platform),
            caches: Caches::new(),
            gate: Gate::new(),
            checks: Checks::new(),
            decay_ms: AtomicU64::new(0),
            idle_stacks: IdleStacks::new(),
            drain: Lock::new(Rank::Drain, Pass::new()),
            last_tick: AtomicU64::new(0),
            open: AtomicU32::new(0),
            rate: Rate::new(),
            interval: AtomicU32::new(0),
            kicks: AtomicU32::new(0),
            idle_passes: AtomicU32::new(0),
            slow_passes: AtomicU32::new(0),
            on_ticking: Once::new(),
            on_every_call: Once::new(),
            drain_requests: AtomicU32::new(0),
            large: Large::new(),
            growth: Growth::new(),
            deferred: AtomicUsize::new(0),
            running_deferred: AtomicU32::new(0),
            waiting: Waiting::new(),
            backlog: AtomicUsize::new(0),
            surplus: Surplus::new(),
        }
    }

    /// Makes the yard ready; its platform is ready already. False if there is no memory, and on
    /// machines of 32 bits, where `slabyard_fixed` has yards: elements and list links of this one
    /// need 64. Call it once.
    pub fn init(&self, settings: Settings) -> bool {
        if usize::BITS != 64 {
            return false;
        }
        let p = &self.heap.platform;
        self.set_decay_ms(settings.decay_ms);
        // The first pass comes a tick later: a short program has none.
        self.last_tick.store(p.now_ms(), Ordering::Relaxed);
        if !(self.heap.init(settings.reserve_bytes) && self.idle_stacks.init(p)) {
            return false;
        }
        let page_order = (p.page_bytes() / GRANULE).trailing_zeros();
        let caches = self.caches.classes().iter().zip(classes::ROWS).enumerate();
        for (class, (cache, (size, order))) in caches {
            let geometry = cache.engine.geometry(size, order, page_order);
            let shape = Shape::new(geometry, slot_of(class).0);
            cache.begin(&self.heap, classes::Name(class), shape, 1);
        }
        true
    }

    /// The decay time: free pages go back to the kernel after it, in milliseconds.
    pub fn decay_ms(&self) -> u32 {
        self.decay_ms.load(Ordering::Relaxed) as u32
    }

    /// Changes the decay time.
    pub fn set_decay_ms(&self, ms: u32) {
        self.decay_ms.store(ms.into(), Ordering::Relaxed);
    }

    /// Sets the function that slow paths call when they find misuse.
    pub fn on_misuse(&self, call: fn(&Misuse)) {
        self.heap.reports.on_misuse.set(call);
    }

    /// Sets the function to call when the reclaim ticker begins (true) or ends.
    pub fn on_ticking(&self, call: fn(bool)) {
        self.on_ticking.set(call);
    }

    /// Sets the function to call when [`Yard::wants_every_call`] may have changed.
    pub fn on_every_call(&self, call: fn()) {
        self.on_every_call.set(call);
    }

    /// The machine that it runs on.
    #[inline]
    pub fn platform(&self) -> &P {
        &self.heap.platform
    }

    /// The engine that serves.
    pub fn engine(&self) -> EngineName {
        self.caches.classes()[0].engine.facts().name
    }

    /// Malloc's classes, and what programs created.
    #[inline]
    pub fn caches(&self) -> &Caches<E> {
        &self.caches
    }

    /// The cache of a number: of a class of malloc's, or a created one.
    ///
    /// # Panics
    /// If there never was a cache of this number.
    #[inline]
    pub fn cache(&self, number: usize) -> &Cache<E> {
        self.caches.get(number)
    }

    /// True while the reclaim ticker runs.
    pub fn is_ticking(&self) -> bool {
        self.interval.load(Ordering::Relaxed) != 0
    }

    /// True while each allocation and each free must take the slow path: fewer slow paths would
    /// not make the slices of the reclaim work in time.
    #[inline]
    pub fn wants_every_call(&self) -> bool {
        self.interval.load(Ordering::Relaxed) == EVERY_CALL
    }

    /// The words of a slot of a created cache, for calls that are inlined.
    pub fn fast_path(&'static self, id: CacheId, slot: Slot) -> FastPath {
        choose_pops(self);
        FastPath::new(self.platform().rows(), slot, self.caches.pops(id.number()))
    }
}

/// Sets the offsets of which inlined calls pop: when the interval has changed, and for a new cache.
pub(crate) fn choose_pops<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    loop {
        let none = yard.wants_every_call();
        yard.caches.choose_pops(none);
        // Of two threads that store different values, one sees here that the other changed the
        // interval, and stores again. The fence keeps the stores before the load; its partner
        // is the exchange that changes the interval.
        fence(Ordering::SeqCst);
        if yard.wants_every_call() == none {
            return;
        }
    }
}
