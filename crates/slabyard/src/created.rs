//! Creates caches, serves their calls, and destroys them while other CPUs run.
//!
//! Destroying a cache needs a complete drain: both stacks of every row are stopped (one fence
//! serves many stacks) and flushed; then the barn is flushed; then all slabs are discarded. If an
//! object is still live, the flushed cache is kept. If stacks cannot be stopped, they are taken out
//! of their rows unstopped, which is safe because no call uses the cache.
//!
//! Closing the gate instead of fencing was not tried: it would wait for every slow path under way,
//! even those of threads that the kernel has preempted.
//!
//! Neighbours: [`crate::cache::table`] holds the caches, `reclaim::drain` drains them.
//! Invariants: creating and destroying hold the drain lock, so reclaim passes, drains, checks and
//! requests see a whole cache or none. If the kernel refuses memory, everything stays as it was.

pub mod abandoned;

use crate::cache::slots::slot_of;
use crate::cache::{Cache, CacheId, CacheSettings, classes};
use crate::calls::prefetch::fetch_for_alloc;
use crate::calls::readers::{NotWaited, wait_for_slabs};
use crate::calls::trim::drain_all;
use crate::debugging::large::map_block;
use crate::debugging::{debug_of_created, is_to_fail_in, report_remaining};
use crate::engine::{CacheFlags, Engine, Shape};
use crate::inside::push;
use crate::platform::{GRANULE, Platform, count_down};
use crate::reclaim::drain::{drain_rows, drain_stacks, take_stack};
use crate::reclaim::walk::{Stacks, entries};
use crate::slab::Geometry;
use crate::slab::debug::LayoutRequest;
use crate::slow_path::{SlowPath, enter_slow_path};
use crate::waiting::batches::has_waiting;
use crate::waiting::deferred::finish_deferred;
use crate::waiting::{begin_waiting, holds_slabs};
use crate::yard::depth::{LOOK_CALLS, RUN_CALLS};
use crate::yard::{AddressKind, Yard};
use core::fmt;
use slabyard_abi::debug::DebugFlags;

/// A cache of which so often in a row something was left, while no object was, is in use.
const MOST_TURNS: u32 = 64;

/// Why no cache was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// These are no objects for slabs: too large, an alignment that is no power of two or too large,
    /// or none fits into slabs of the orders that were set.
    Settings,
    /// A full sheaf is to have more objects than it has room for ([`Shape::STACK_OBJECTS`]).
    SheafCapacity,
    /// The yard has not the engine that was asked for.
    Engine,
    /// As many caches are there as rows have slots for.
    TooMany,
    /// The kernel refuses memory.
    Memory,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}

/// Why a cache was not destroyed. It serves calls as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDestroyed {
    /// There is no such cache, or it is a class of malloc's.
    Unknown,
    /// This many of its objects are live, in the hands of a call that is under way, or wait for
    /// readers among whom the caller is.
    Live(u64),
    /// Slabs that it had wait for readers among whom the caller is. Destroy the cache after the
    /// section.
    InSection,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Makes a cache. A name of more than 32 bytes is cut off.
    ///
    /// # Errors
    /// See [`NotCreated`]; nothing has changed then.
    pub fn create_cache(
        &self,
        name: impl fmt::Display,
        settings: &CacheSettings,
    ) -> Result<CacheId, NotCreated> {
        let mut slow_path = None;
        let result = create(self, &name, settings, &mut slow_path);
        // The background work at its end has the stack to itself.
        drop(slow_path);
        result
    }

    /// Destroys a cache that has no live object.
    ///
    /// # Errors
    /// See [`NotDestroyed`]: then the cache is there as before, and nothing is parked of it.
    ///
    /// # Safety
    /// No other thread makes a call on this cache meanwhile, with one exception: where the
    /// platform can stop other CPUs, threads may free objects of it, and that the last of them
    /// is freed is found out here. No call names the cache afterwards.
    pub unsafe fn destroy_cache(&self, id: CacheId) -> Result<(), NotDestroyed> {
        if has_waiting(self) {
            // In a section the objects that wait count as live, below.
            let _ = self.rcu_barrier();
        }
        // Without the locks of a try: readers may need them.
        while !destroy_once(self, id)? {
            wait_for_slabs(self, id).map_err(|not_waited| match not_waited {
                NotWaited::InSection => NotDestroyed::InSection,
                NotWaited::Interrupted => NotDestroyed::Interrupted,
            })?;
        }
        Ok(())
    }

    /// Drains a cache's stacks and barn, and ends its empty slabs. False if it is not there, and
    /// in a signal handler that interrupted a slow path.
    pub fn shrink_cache(&self, id: CacheId) -> bool {
        let Some(_slow_path) = enter_slow_path(self, LOOK_CALLS) else {
            return false;
        };
        let _guard = self.drain.lock(self.platform());
        let Some(cache) = self.caches.find(id) else { return false };
        drain_stacks(self, Stacks::Cache(id.number()));
        cache.engine.shrink(cache.on(&self.heap));
        true
    }

    /// The cache that an id names, if it is there.
    pub fn find_cache(&self, id: CacheId) -> Option<&Cache<E>> {
        self.caches.find(id)
    }

    /// Allocates an object of a cache, by the fast path first. `None` if there is no memory, and
    /// no such cache.
    #[inline]
    pub fn alloc_from(&self, id: CacheId) -> Option<usize> {
        if !self.wants_every_call()
            && let Some(address) = self.platform().pop(id.slot())
        {
            return Some(address);
        }
        self.alloc_from_slow(id)
    }

    /// Allocates an object of a cache in the slow path.
    pub fn alloc_from_slow(&self, id: CacheId) -> Option<usize> {
        let cache = self.caches.find(id)?;
        if is_to_fail_in(self, cache) {
            return None;
        }
        fetch_for_alloc(self, Some(cache));
        let Some(_slow_path) = enter_slow_path(self, cache.shape().calls()) else {
            return alloc_from_outside(self, cache);
        };
        alloc_or_drain_from(self, id, cache)
    }

    /// As [`Yard::alloc_from`], of a memory node as long as that has memory. In a yard of one node
    /// this is `alloc_from`, and so it is for the running CPU's own node and for one that is not
    /// there; of another one each call takes the slow path, because CPUs keep objects of their own
    /// node alone.
    pub fn alloc_from_node(&self, id: CacheId, node: usize) -> Option<usize> {
        let nodes = self.heap.region.nodes();
        let own = || self.heap.node_of_row(self.platform().row_hint());
        if nodes == 1 || node >= nodes || node == own() {
            return self.alloc_from(id);
        }
        let cache = self.caches.find(id)?;
        if is_to_fail_in(self, cache) {
            return None;
        }
        let Some(_slow_path) = enter_slow_path(self, cache.shape().calls()) else {
            return alloc_from_outside(self, cache);
        };
        self.caches.begin_use(id.number());
        let object = cache.engine.alloc_at(cache.on(&self.heap), node);
        object.or_else(|| alloc_or_drain_from(self, id, cache))
    }

    /// Frees an object of a cache, by the fast path first.
    ///
    /// # Errors
    /// Where the address is, if it is no live object of this cache; nothing has changed.
    #[inline]
    pub fn free_to(&self, id: CacheId, address: usize) -> Result<(), AddressKind> {
        match self.heap.class_at(address) {
            Some(number) if number == id.number() => {
                if count_down(self.platform(), 1) && push(self, self.caches.get(number), address) {
                    return Ok(());
                }
                self.free(address)
            }
            Some(_) => Err(self.place_of(address)),
            None => free_outside(self, id, address),
        }
    }
}

/// The geometry of a cache by its settings, as its engine has it without debugging.
fn plain<E: Engine>(
    engine: &E,
    settings: &CacheSettings,
    page_order: u32,
) -> Result<Geometry, NotCreated> {
    let fitting = settings.geometry(page_order).ok_or(NotCreated::Settings)?;
    let (least, most) = settings.limits(page_order);
    let order = engine.order(fitting.size, fitting.order, page_order).clamp(least, most);
    Ok(fitting.lowered(order))
}

/// Gives an engine its debugging, if it is to have any: the geometry then, `None` inside if
/// there is none.
fn debugged<E: Engine>(
    engine: &E,
    debug: DebugFlags,
    settings: &CacheSettings,
    plain: &Geometry,
    page_order: u32,
) -> Option<Option<Geometry>> {
    if !E::SIZED {
        return None;
    }
    if !debug.is_empty() {
        engine.choose_debug(debug);
    }
    let CacheSettings { align, first, constructor, destructor, flags, .. } = *settings;
    // An object has a byte at least, for its poison's end.
    let object = settings.object.max(1);
    // What a free object holds is somebody's.
    let keeps =
        constructor.is_some() || destructor.is_some() || flags.has(CacheFlags::TYPESAFE_BY_RCU);
    let body = if keeps { 0 } else { object };
    let asked = LayoutRequest { object, align: align.max(8), first, body };
    Some(engine.debug()?.lay_out(&asked, plain.order, page_order))
}

/// Makes a cache in a slow path, which the caller ends.
#[inline(never)]
fn create<'a, P: Platform, E: Engine>(
    yard: &'a Yard<P, E>,
    name: &impl fmt::Display,
    settings: &CacheSettings,
    slow_path: &mut Option<SlowPath<'a, P, E>>,
) -> Result<CacheId, NotCreated> {
    let page_order = (yard.platform().page_bytes() / GRANULE).ilog2();
    if settings.sheaf_capacity.is_some_and(|objects| objects > Shape::STACK_OBJECTS) {
        return Err(NotCreated::SheafCapacity);
    }
    let debug = debug_of_created(yard, name, settings.debug);
    let (plain, geometry) = lay_out(yard, settings, debug, page_order)?;
    let debugged = |engine: &E| self::debugged(engine, debug, settings, &plain, page_order);
    *slow_path = Some(enter_slow_path(yard, RUN_CALLS).ok_or(NotCreated::Interrupted)?);
    if settings.flags.has(CacheFlags::TYPESAFE_BY_RCU) {
        begin_waiting(yard);
    }
    match create_once(yard, name, settings, geometry, &debugged) {
        Err(NotCreated::Memory) => {
            drain_all(yard);
            create_once(yard, name, settings, geometry, &debugged)
        }
        result => result,
    }
}

/// The geometry of a cache that is to be made: without its debugging and with it.
fn lay_out<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    settings: &CacheSettings,
    debug: DebugFlags,
    page_order: u32,
) -> Result<(Geometry, Geometry), NotCreated> {
    let usual = &yard.caches.classes()[0].engine;
    if !debug.is_empty() || settings.engine.is_some_and(|name| name != usual.facts().name) {
        return lay_out_of_another(yard, settings, debug, page_order);
    }
    let plain = self::plain(usual, settings, page_order)?;
    Ok((plain, plain))
}

/// The same where no cache has such an engine yet. Apart from its caller, so that the engine
/// that it asks is on the stack meanwhile alone.
#[inline(never)]
fn lay_out_of_another<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    settings: &CacheSettings,
    debug: DebugFlags,
    page_order: u32,
) -> Result<(Geometry, Geometry), NotCreated> {
    let mut engine = E::NEW;
    if !choose_engine(yard, &mut engine, settings) {
        return Err(NotCreated::Engine);
    }
    let plain = self::plain(&engine, settings, page_order)?;
    match self::debugged(&engine, debug, settings, &plain, page_order) {
        Some(geometry) => Ok((plain, geometry.ok_or(NotCreated::Settings)?)),
        None => Ok((plain, plain)),
    }
}

fn create_once<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    name: &impl fmt::Display,
    settings: &CacheSettings,
    geometry: Geometry,
    debugged: &dyn Fn(&E) -> Option<Option<Geometry>>,
) -> Result<CacheId, NotCreated> {
    let p = yard.platform();
    let _guard = yard.drain.lock(p);
    // A sequence that read the page map before a destroyed cache's slabs ended is over after
    // the fence. Where it is refused, there is none: that would be a call about an object
    // of a destroyed cache.
    let fence = || {
        let _ = p.can_stop() && p.fence();
    };
    let number = yard.caches.vacant(fence).ok_or(NotCreated::TooMany)?;
    let shape = settings.shape(geometry, slot_of(number).0);
    let has_room = yard.caches.ensure(p, number)
        && yard.idle_stacks.ensure(p, shape.spare())
        && yard.heap.commit_slot(shape.spare());
    if !has_room {
        return Err(NotCreated::Memory);
    }
    let choose = |engine: &mut E| {
        let is_there = choose_engine(yard, engine, settings);
        debug_assert!(is_there, "it was asked for its geometry");
    };
    Ok(yard.caches.put(number, choose, |cache, generation| {
        debugged(&cache.engine);
        cache.begin(&yard.heap, name, shape, generation);
        if let Some(slabs) = settings.min_partial {
            cache.set_min_partial(slabs);
        }
    }))
}

/// Chooses the engine of a cache that is to be made.
fn choose_engine<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    engine: &mut E,
    settings: &CacheSettings,
) -> bool {
    engine.be_like(&yard.caches.classes()[0].engine, settings.engine)
}

/// Ends the slabs, and destroys the cache if none of them waits for readers: else false.
fn destroy_once<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
) -> Result<bool, NotDestroyed> {
    let Some(_slow_path) = enter_slow_path(yard, RUN_CALLS) else {
        return Err(NotDestroyed::Interrupted);
    };
    finish_deferred(yard);
    let mut pass = yard.drain.lock(yard.platform());
    let cache = yard.caches.find(id).ok_or(NotDestroyed::Unknown)?;
    if id.number() < classes::CLASSES {
        return Err(NotDestroyed::Unknown);
    }
    // A free under way may put an empty sheaf into a row after its drain, or leave an empty slab
    // on the list after that was emptied: the next turn finds them. While no slow path is under
    // way and no object live, there is nothing that could bring one.
    let mut turns = 0;
    loop {
        take_stacks(yard, id.number());
        cache.engine.shrink(cache.on(&yard.heap));
        if cache.out() > 0 || !cache.is_still() || turns == MOST_TURNS {
            report_remaining(yard, id.number());
            return Err(NotDestroyed::Live(cache.out()));
        }
        let is_empty = cache.nr_slabs() == 0;
        if is_empty && entries(yard, Stacks::Cache(id.number())).next().is_none() {
            break;
        }
        turns += 1;
    }
    if holds_slabs(yard, id) {
        return Ok(false);
    }
    cache.engine.end(cache.on(&yard.heap));
    pass.forget(id.number());
    yard.caches.take_out(id.number());
    Ok(true)
}

/// Takes a cache's stacks out of all rows and returns their objects to the slabs. The drain
/// lock is held.
fn take_stacks<P: Platform, E: Engine>(yard: &Yard<P, E>, number: usize) {
    let stacks = Stacks::Cache(number);
    if !(yard.platform().can_stop() && drain_rows(yard, stacks)) {
        entries(yard, stacks).for_each(|(row, slot)| take_stack(yard, row, slot));
    }
}

fn alloc_or_drain_from<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    cache: &Cache<E>,
) -> Option<usize> {
    yard.caches.begin_use(id.number());
    let alloc = || cache.engine.alloc(cache.on(&yard.heap));
    alloc().or_else(|| {
        drain_all(yard);
        alloc()
    })
}

/// As [`Yard::alloc`] outside of a slow path: the object is a mapping. None of a cache whose
/// memory must stay what it is after a free.
#[cold]
fn alloc_from_outside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
) -> Option<usize> {
    let shape = cache.shape();
    if shape.flags.has(CacheFlags::TYPESAFE_BY_RCU) {
        return None;
    }
    let align = 1 << shape.geometry.size.trailing_zeros();
    let address = map_block(yard, shape.geometry.size as usize, align)?;
    if let Some(constructor) = &shape.constructor {
        constructor.call(address);
    }
    Some(address)
}

/// Frees what may be an object that was made outside of a slow path.
#[cold]
fn free_outside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    address: usize,
) -> Result<(), AddressKind> {
    let cache = yard.caches.find(id);
    if let Some(destructor) = cache.and_then(|cache| cache.shape().destructor)
        && yard.heap.mappings.bytes_of(address).is_some()
    {
        destructor.call(address);
    }
    yard.free(address)
}
