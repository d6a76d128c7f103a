//! Debugging of caches in a yard: which cache has which debugging flags, and the check of all
//! objects of all such caches.
//!
//! Neighbours: [`large`] debugs runs and mappings; [`crate::engine::debug`] checks each object;
//! `abi::debug` has flags and rules; [`crate::verify`] enters the slow path when a
//! program requests a check. Invariant: an engine that does not serve requests by size class has no
//! debugging, and includes none of this code.

pub mod large;

use crate::cache::{Cache, debug_of};
use crate::debugging::large::{look_at_blocks, maker_of_guarded, note_maker_of_guarded};
use crate::engine::{Debug, Engine, NameBytes};
use crate::pages::GranuleKind;
use crate::pages::finding::Hooks;
use crate::platform::{GRANULE, Platform};
use crate::slab;
use crate::slab::debug::{Maker, State, block, object, unused};
use crate::sync::Ordering;
use crate::yard::Yard;
use core::fmt;
use slabyard_abi::debug::DebugFlags;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Sets the functions that caches with debugging call.
    pub fn on_findings(&self, hooks: Hooks) {
        self.heap.reports.hooks.set(hooks);
    }

    /// What caches with debugging found so far.
    pub fn findings(&self) -> u64 {
        self.heap.reports.findings.load(Ordering::Relaxed)
    }
}

/// True if an address is in a cache with debugging.
pub fn is_debugged<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    debug_at(yard, address).is_some()
}

/// True if an address is in a cache that knows what was requested of each object.
pub fn knows_requests<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    debug_at(yard, address).is_some_and(|(_, debug)| debug.flags().has(DebugFlags::RED_ZONE))
}

/// True if an object of a cache with debugging begins at an address and is free.
pub fn is_known_free<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    debug_at(yard, address)
        .is_some_and(|(cache, debug)| debug.is_freed(cache.on(&yard.heap), address))
}

/// Notes which function of a program allocated what begins at an address, and is about to be
/// its owner's: where consistency is checked.
pub fn note_maker<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize, maker: Maker) {
    match checking_at(yard, address) {
        Some((_, debug)) => {
            object::note_maker(&yard.heap.platform, debug.layout(), address, maker);
        }
        None if yard.is_guarded() => note_maker_of_guarded(yard, address, maker),
        None => {}
    }
}

/// Which function allocated what begins at an address and is live, where that is noted.
pub fn maker_at<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Option<Maker> {
    if let Some((cache, debug)) = checking_at(yard, address) {
        let begins = slab::begins_object(&yard.heap.region, &cache.shape().geometry, address);
        let known =
            begins.then(|| object::read_state(&yard.heap.platform, debug.layout(), address))??;
        return (known.state == State::Live).then_some(known.maker);
    }
    if yard.is_guarded() { maker_of_guarded(yard, address) } else { None }
}

/// True if a cache has debugging, or large blocks have.
pub fn has_debugging<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.is_guarded()
        || E::SIZED
            && yard.caches.numbers().any(|number| debug_of(yard.caches.get(number)).is_some())
}

/// The debugging of a cache that is created.
pub(crate) fn debug_of_created<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    name: &impl fmt::Display,
    asked: DebugFlags,
) -> DebugFlags {
    let rules = yard.caches.debug_rules.try_get();
    asked.with(rules.map_or(DebugFlags::NONE, |rules| rules(NameBytes::of(name).as_bytes())))
}

/// True if a request is to fail by rule.
#[inline(always)]
pub(crate) fn is_to_fail<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> bool {
    E::SIZED
        && yard
            .class_for(bytes, align)
            .is_some_and(|class| is_to_fail_in(yard, &yard.caches.classes()[class]))
}

/// True if an allocation from a cache is to fail by rule.
#[inline(always)]
pub(crate) fn is_to_fail_in<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>) -> bool {
    debug_of(cache).is_some_and(|debug| debug.fails(&yard.heap))
}

/// Where the link of a deferred free is, of the live object at an address.
#[inline(always)]
pub(crate) fn link_of<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> usize {
    if yard.is_guarded()
        && let Some(bytes) = yard.heap.run_bytes(address)
    {
        return block::link_of_block(address + bytes);
    }
    debug_at(yard, address).map_or(address, |(_, debug)| debug.link_of(address))
}

/// The cache at an address, if it has debugging.
#[inline(always)]
fn debug_at<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
) -> Option<(&Cache<E>, &Debug)> {
    if !E::SIZED {
        return None;
    }
    let cache = yard.caches.get(yard.heap.class_at(address)?);
    Some((cache, debug_of(cache)?))
}

/// As [`debug_at`], if the cache has checks of consistency.
fn checking_at<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
) -> Option<(&Cache<E>, &Debug)> {
    debug_at(yard, address).filter(|(_, debug)| debug.flags().has(DebugFlags::CHECK))
}

/// As [`Yard::validate`], in a slow path.
pub(crate) fn validate_inside<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    let look =
        |cache: &Cache<E>, debug: &Debug, slab| debug.look_through(cache.on(&yard.heap), slab);
    let unused = if has_debugging(yard) { unused::look_at_unused(&yard.heap) } else { 0 };
    each_debugged_slab(yard, look) + look_at_blocks(yard) + unused
}

/// Reports the live objects of a cache that is to be destroyed, where it has debugging.
pub(crate) fn report_remaining<P: Platform, E: Engine>(yard: &Yard<P, E>, number: usize) {
    if E::SIZED && debug_of(yard.caches.get(number)).is_some() {
        each_debugged_slab(yard, |cache, debug, slab| {
            let is_it = core::ptr::eq(cache, yard.caches.get(number));
            if is_it { debug.report_live(cache.on(&yard.heap), slab) } else { 0 }
        });
    }
}

/// Calls `f` with each slab of a cache with debugging, and adds up what it returns.
fn each_debugged_slab<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    f: impl Fn(&Cache<E>, &Debug, u32) -> u32,
) -> u64 {
    if !E::SIZED {
        return 0;
    }
    let region = &yard.heap.region;
    let mut sum = 0;
    for slab in (yard.heap.platform.page_bytes() / GRANULE) as u32..region.top() as u32 {
        if region.descriptor(slab).kind() != GranuleKind::Slab {
            continue;
        }
        let Some(class) = yard.heap.class_at(region.address(slab)) else { continue };
        if yard.caches.is_there(class) {
            let cache = yard.caches.get(class);
            if let Some(debug) = debug_of(cache)
                && slab::is_slab(&yard.heap.region, slab, cache.shape().slot)
            {
                sum += u64::from(f(cache, debug, slab));
            }
        }
    }
    sum
}
