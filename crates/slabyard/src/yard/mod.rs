//! Floor 5: the yard, one whole allocator as a value: page heap, caches, gate.
//!
//! The slow paths of `malloc` and `free` call the functions of this module; the fast paths are
//! a pop and a push. [`reclaim`] returns idle memory to the system, [`bound`] limits how much
//! of that one call does, [`crate::observe::count`] reports how many objects and bytes are in each state, and
//! [`crate::verify`] checks the whole yard.

pub mod bound;
#[doc(hidden)] // For tests.
pub mod reclaim;
pub(crate) mod seen;
pub(crate) mod slow_path;
pub(crate) mod stacks;

pub use crate::large::{LARGEST_RUN, LARGEST_WARM_RUN};
pub use crate::place::Place;

use crate::cache::slots::slot_of;
use crate::cache::{Cache, CacheId, Caches, classes};
use crate::engine::{Engine, Shape, Sheaves};
use crate::gate::Gate;
use crate::growth::Growth;
use crate::guarded::{alloc_nothing, map_block};
use crate::large::{Large, alloc_large, bank, free_large, take_banked};
use crate::pages::{Misuse, PageHeap};
use crate::place::may_begin;
use crate::platform::mark::Mark;
use crate::platform::{FastPath, GRANULE, Platform, Slot};
use crate::prefetch::{fetch_for_alloc, fetch_for_free};
use crate::sized::is_sized;
use crate::sparse::look_at_parked;
use crate::surplus::Surplus;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Once, Ordering, Rank, fence};
use crate::verify::close::{Checks, check_free};
use crate::verify::debugging::{debug_of, is_to_fail};
use crate::waiting::Waiting;
use crate::waiting::deferred::defer;
use crate::yard::reclaim::countdown::is_countdown_over;
use crate::yard::reclaim::drain::drain_all;
use crate::yard::slow_path::{enter, slow_path_of_free};
use reclaim::pass::Pass;
use reclaim::rate::{EVERY_CALL, Rate};
use seen::Seen;
use slabyard_abi::engines::EngineName;
use slow_path::{Background, RUN_CALLS};

/// Addresses that the system chooses have 48 bits at most.
const MOST_BYTES: usize = if usize::BITS == 64 { 1 << 48 } else { isize::MAX as usize };

/// Address space that a yard reserves if nobody says how much: 1 TiB, where addresses reach so far.
pub(crate) const RESERVE_BYTES: usize = if usize::BITS == 64 { 1 << 40 } else { 1 << 28 };

/// Settings of a yard.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address space to reserve, in bytes.
    pub reserve_bytes: usize,
    /// The decay time: free pages go back to the system after it, in milliseconds.
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
    pub(crate) seen: Seen,
    pub(crate) drain: Lock<Pass>,
    pub(crate) last_tick: AtomicU64,
    /// 1 while a pass is open: a copy of what the drain lock protects, read without it.
    pub(crate) open: AtomicU32,
    pub(crate) rate: Rate,
    /// The reclaim ticker's interval, in frees of a row; 0 while it does not run.
    pub(crate) interval: AtomicU32,
    /// How often [`reclaim::ticker::ask_all`] ran: a slow path under way at that time asks again.
    asked: AtomicU32,
    /// Passes in a row that reclaimed nothing.
    idle_passes: AtomicU32,
    /// Passes since the program became slow.
    slow_passes: AtomicU32,
    on_ticking: Once<fn(bool)>,
    on_every_call: Once<fn()>,
    /// How often a drain was requested of rows that cannot be stopped: their owners drain them.
    pub(crate) drain_requests: AtomicU32,
    pub(crate) large: Large,
    pub(crate) growth: Growth,
    /// Frees made by handlers that interrupted a slow path: a list through the objects.
    pub(crate) deferred: AtomicUsize,
    /// Threads that free what was deferred.
    pub(crate) running_deferred: AtomicU32,
    /// What waits for readers.
    pub(crate) waiting: Waiting<P, E>,
    /// The purge backlog: free granules that the next slow paths purge, however young they are.
    pub(crate) backlog: AtomicUsize,
    pub(crate) surplus: Surplus,
}

/// About how many calls about a cache, or about runs, make one slow path.
#[inline]
fn calls_of<E: Engine>(cache: Option<&Cache<E>>) -> u32 {
    cache.map_or(RUN_CALLS, |cache| cache.shape().calls())
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
            seen: Seen::new(),
            drain: Lock::new(Rank::Drain, Pass::new()),
            last_tick: AtomicU64::new(0),
            open: AtomicU32::new(0),
            rate: Rate::new(),
            interval: AtomicU32::new(0),
            asked: AtomicU32::new(0),
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
        if !(self.heap.init(settings.reserve_bytes) && self.seen.init(p)) {
            return false;
        }
        let page_order = (p.page_bytes() / GRANULE).ilog2();
        let caches = self.caches.classes().iter().zip(classes::ROWS).enumerate();
        for (class, (cache, (size, order))) in caches {
            let geometry = cache.engine.geometry(size, order, page_order);
            let shape = Shape::new(geometry, slot_of(class).0);
            cache.begin(classes::Name(class), shape, 1);
        }
        true
    }

    /// The decay time: free pages go back to the system after it, in milliseconds.
    pub fn decay_ms(&self) -> u32 {
        self.decay_ms.load(Ordering::Relaxed) as u32
    }

    /// Changes the decay time.
    pub fn set_decay_ms(&self, ms: u32) {
        self.decay_ms.store(ms.into(), Ordering::Relaxed);
    }

    /// Sets the function that slow paths call when they find misuse.
    pub fn on_misuse(&self, call: fn(&Misuse)) {
        self.heap.on_misuse(call);
    }

    /// Sets the function to call when the reclaim ticker begins (true) or ends.
    pub fn on_ticking(&self, call: fn(bool)) {
        self.on_ticking.set(call);
    }

    /// Sets the function to call when [`Yard::wants_every_call`] may have changed.
    pub fn on_every_call(&self, call: fn()) {
        self.on_every_call.set(call);
    }

    /// The platform.
    #[inline]
    pub fn platform(&self) -> &P {
        &self.heap.platform
    }

    /// The engine that serves.
    pub fn engine(&self) -> EngineName {
        self.caches.classes()[0].engine.name()
    }

    /// All caches.
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
        self.platform().fast_path(slot, self.caches.pops(id.number()))
    }

    /// Allocates `bytes` aligned to `align` (a power of two). `None` if there is no memory even
    /// after all that is parked was drained.
    #[inline]
    pub fn alloc(&self, bytes: usize, align: usize) -> Option<usize> {
        // Larger than each class.
        if bytes > classes::LARGEST
            && let Some(address) = take_banked(self, bytes, align)
        {
            return Some(address);
        }
        alloc_in_slow_path(self, bytes, align)
    }

    /// Allocates by the fast path first.
    #[inline]
    pub fn alloc_fast(&self, bytes: usize, align: usize) -> Option<usize> {
        if !self.wants_every_call()
            && let Some(class) = classes::class_for_aligned(bytes, align)
            && let Some(address) = self.platform().pop(slot_of(class))
        {
            return Some(address);
        }
        self.alloc(bytes, align)
    }

    /// Frees an allocation in the slow path.
    ///
    /// # Errors
    /// Where the address lies, if it is not the begin of a live allocation; nothing has changed.
    #[inline]
    pub fn free(&self, address: usize) -> Result<(), Place> {
        let class = self.class_at(address);
        if class.is_none() && bank(self, address) {
            return Ok(());
        }
        free_in_slow_path(self, class, address)
    }

    /// Frees by the fast path first.
    ///
    /// # Errors
    /// As [`Yard::free`].
    #[inline]
    pub fn free_fast(&self, address: usize) -> Result<(), Place> {
        // The countdown counts the frees of runs, too.
        let class = self.class_at(address);
        if self.platform().count_down()
            && let Some(class) = class
            && push(self, self.caches.get(class), address)
        {
            return Ok(());
        }
        self.free(address)
    }
}

/// Sets the offsets of which inlined calls pop: when the interval has changed, and for a new
/// cache.
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

#[inline(never)]
fn alloc_in_slow_path<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    // Larger than the address space: a drain would not help.
    if bytes > MOST_BYTES || align > MOST_BYTES || is_to_fail(yard, bytes, align) {
        return None;
    }
    let class = yard.class_for(bytes, align);
    let cache = class.map(|class| &yard.caches.classes()[class]);
    fetch_for_alloc(yard, cache);
    let mark = Mark::new();
    let Some(_slow_path) = enter(yard, calls_of(cache), Background::Any, Some(&mark)) else {
        return alloc_outside(yard, bytes, align);
    };
    alloc_or_drain(yard, cache, bytes, align)
}

/// The caller is in a slow path.
pub(crate) fn alloc_or_drain<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    if let Some(address) = alloc_once(yard, cache, bytes, align) {
        return Some(address);
    }
    yard.platform().page_refused();
    drain_all(yard);
    alloc_once(yard, cache, bytes, align)
}

/// Allocates outside of a slow path: in a handler that interrupted one of this thread, which
/// may hold locks. Makes a mapping, which needs no lock.
///
/// A class's object is aligned by its size, and who asks for an alignment may ask for a class
/// instead ([`classes::request_for_aligned`]): so a mapping in place of one has its size's
/// alignment, too.
#[cold]
pub(crate) fn alloc_outside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let by_size = classes::class_for_aligned(bytes, align)
        .map_or(1, |class| 1 << classes::ROWS[class].0.trailing_zeros());
    map_block(yard, bytes, align.max(by_size))
}

fn alloc_once<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    match cache {
        Some(cache) if E::SIZED && bytes == 0 => alloc_nothing(yard, cache, align),
        Some(cache) if E::SIZED => cache.engine.alloc_sized(cache.on(&yard.heap), bytes, align),
        Some(cache) => cache.engine.alloc(cache.on(&yard.heap)),
        None => alloc_large(yard, bytes, align),
    }
}

#[inline(never)]
fn free_in_slow_path<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: Option<usize>,
    address: usize,
) -> Result<(), Place> {
    let spent = is_countdown_over(yard);
    let cache = class.map(|class| yard.caches.get(class));
    fetch_for_free(yard, cache, address);
    let mark = Mark::new();
    let is_close = yard.checks.are_close();
    let calls = if is_close { RUN_CALLS } else { calls_of(cache) };
    let Some(_slow_path) = slow_path_of_free(yard, calls, spent, &mark) else {
        defer(yard, address);
        return Ok(());
    };
    if is_close {
        return free_closely(yard, class, address, spent);
    }
    // The periodic slow path: the sheaf may have room.
    if !(spent && cache.is_some_and(|cache| push(yard, cache, address))) {
        free_inside(yard, cache, address)?;
    }
    look_at_parked(yard, cache, spent);
    Ok(())
}

/// As [`free_inside`], with the close checks of [`crate::verify::close`].
#[cold]
#[inline(never)]
fn free_closely<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: Option<usize>,
    address: usize,
    spent: bool,
) -> Result<(), Place> {
    let cache = class.map(|class| yard.caches.get(class));
    if !is_sized(yard)
        && let Some((class, cache)) = class.zip(cache)
        && debug_of(cache).is_none()
        && (!check_free(yard, class, address)? || spent && push(yard, cache, address))
    {
        return Ok(());
    }
    free_inside(yard, cache, address)
}

pub(crate) fn free_inside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    address: usize,
) -> Result<(), Place> {
    match cache {
        Some(cache) if may_begin(yard, cache, address) => {
            cache.engine.free(cache.on(&yard.heap), address);
            Ok(())
        }
        None if free_large(yard, address) => Ok(()),
        _ => Err(yard.place_of(address)),
    }
}

/// Pushes onto this CPU's stack; false for an interior pointer, a full stack, and one that
/// takes other objects.
#[inline]
pub(crate) fn push<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
    address: usize,
) -> bool {
    let (p, main) = (yard.platform(), cache.shape().main());
    let push = if E::TAGGED { P::push_if } else { P::push };
    may_begin(yard, cache, address) && push(p, main, address)
}
