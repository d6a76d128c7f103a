//! The whole-yard checker: the engine's equations, asked of every slab, list,
//! stack and page.
//!
//! * every object is in one place: free in its slab, parked once, or live;
//! * bits of a slab >= its counted free objects; bits of all slabs = free +
//!   parked;
//! * a slab is on its cache's partial list just when it has free objects;
//! * what readers outside are told of a cache is what its lists and its barn hold;
//! * slabs found in the region = slabs counted, for each cache; objects counted as
//!   out of their slabs = objects - free;
//! * every granule below the top belongs to one thing, and free granules are in
//!   the buddy's lists, dirty ones counted; parked ones in a CPU's list.
//!
//! While it runs, the yard stands still ([`Yard::quietly`]). Where the platform
//! cannot stop other rows, what threads park there is not looked at.

use crate::cache::classes::{self, CLASSES};
use crate::pages::{Cause, Kind};
use crate::platform::{GRANULE, Platform, Slot};
use crate::slab::Object;
use crate::sync::Ordering;
use crate::yard::{Quiet, Yard};
use core::fmt;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The equation that does not hold.
    pub what: &'static str,
    /// Address, granule or class that it is about.
    pub at: usize,
    /// What was found.
    pub found: u64,
    /// What was to be.
    pub expected: u64,
}

impl Fault {
    const PARKED_NONE: &str = "parked object is none";
    const TWICE: &str = "object free or parked twice";

    /// The misuse by the program that leads to it, if one does.
    #[must_use]
    pub fn misuse(&self) -> Option<Cause> {
        match self.what {
            Self::PARKED_NONE => Some(Cause::Interior),
            Self::TWICE => Some(Cause::DoubleFree),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {:#x}: found {}, expected {}",
            self.what, self.at, self.found, self.expected
        )
    }
}

/// What a sound yard holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Slabs.
    pub slabs: u64,
    /// Live objects in slabs.
    pub live: u64,
    /// Objects parked in stacks and barns.
    pub parked: u64,
    /// Free objects in slabs.
    pub free: u64,
    /// Live page runs.
    pub runs: u64,
    /// Free granules.
    pub free_granules: u64,
}

fn expect(what: &'static str, at: usize, found: u64, expected: u64) -> Result<(), Fault> {
    if found == expected { Ok(()) } else { Err(Fault { what, at, found, expected }) }
}

impl<P: Platform> Yard<P> {
    /// Checks everything. `None` inside of a slow path that a signal interrupted.
    ///
    /// # Errors
    /// The first fault found.
    pub fn verify(&self) -> Option<Result<Sound, Fault>> {
        self.quietly(|quiet| {
            let marked = mark_parked(quiet);
            let checked = marked.and_then(|parked| check_pages(quiet, parked));
            unmark_parked(quiet, marked.is_err());
            checked
        })
    }
}

/// Calls `f` with each parked object, and with its slot.
fn each_parked<P: Platform>(quiet: &Quiet<'_, P>, mut f: impl FnMut(Slot, usize)) {
    if quiet.stopped || quiet.is_alone() {
        quiet.each_parked_cpu(&mut f);
    }
    let yard = quiet.yard();
    for class in 0..CLASSES {
        yard.cache(class).each_parked_node(&yard.heap, |a| f(classes::slot_of(class), a));
    }
}

/// Marks the bit of each parked object: one that is set already is a fault.
/// Marks are made until the first fault, and taken away in the same order.
fn mark_parked<P: Platform>(quiet: &Quiet<'_, P>) -> Result<u64, Fault> {
    let g = &quiet.yard().heap;
    let (mut n, mut fault) = (0, None);
    each_parked(quiet, |slot, address| {
        if fault.is_some() {
            return;
        }
        let Some(class) = classes::class_of(slot) else {
            if g.parked_granules(address) == 0 {
                fault = Some(Fault {
                    what: "parked run is no run",
                    at: address,
                    found: 0,
                    expected: 1,
                });
            }
            return;
        };
        let shape = quiet.yard().cache(class).shape();
        match g.resolve(&shape.geometry, shape.slot, address) {
            Err(_) => {
                fault =
                    Some(Fault { what: Fault::PARKED_NONE, at: address, found: 0, expected: 1 });
            }
            Ok(Object { slab, index }) => {
                if g.mark(slab, index, true) {
                    let what = Fault::TWICE;
                    fault = Some(Fault { what, at: address, found: 2, expected: 1 });
                    return;
                }
                n += 1;
            }
        }
    });
    match fault {
        Some(fault) => {
            unmark_first(quiet, n);
            Err(fault)
        }
        None => Ok(n),
    }
}

fn unmark_first<P: Platform>(quiet: &Quiet<'_, P>, mut n: u64) {
    let g = &quiet.yard().heap;
    each_parked(quiet, |slot, address| {
        let Some(class) = classes::class_of(slot) else {
            return;
        };
        if n == 0 {
            return;
        }
        n -= 1;
        let shape = quiet.yard().cache(class).shape();
        if let Ok(Object { slab, index }) = g.resolve(&shape.geometry, shape.slot, address) {
            g.mark(slab, index, false);
        }
    });
}

fn unmark_parked<P: Platform>(quiet: &Quiet<'_, P>, already: bool) {
    if !already {
        unmark_first(quiet, u64::MAX);
    }
}

/// Walks the region; the `parked` objects are marked as free.
fn check_pages<P: Platform>(quiet: &Quiet<'_, P>, parked: u64) -> Result<Sound, Fault> {
    let yard = quiet.yard();
    let g = &yard.heap;
    let mut sound = Sound { parked, ..Sound::default() };
    let mut slabs = [0u64; CLASSES];
    let mut listed = [0u64; CLASSES];
    let mut free = [0u64; CLASSES];
    let mut free_granules = 0usize;
    let mut dirty = 0usize;
    let mut run_granules = 0usize;
    let mut parked_granules = 0u64;
    let mut objects = 0;
    let mut at = g.platform.page_bytes() / GRANULE;
    while at < g.region.top() {
        let descriptor = g.region.descriptor(at as u32);
        let granules = match descriptor.kind() {
            Kind::None => {
                return Err(Fault { what: "granule of nobody", at, found: 0, expected: 1 });
            }
            Kind::Free => {
                free_granules += 1 << descriptor.order();
                dirty += g.region.dirty_in(at, 1 << descriptor.order());
                1 << descriptor.order()
            }
            Kind::Parked => {
                parked_granules += 1 << descriptor.order();
                1 << descriptor.order()
            }
            Kind::Purging => 1 << descriptor.order(),
            Kind::Freed => {
                let granules = descriptor.granules.load(Ordering::Relaxed) as usize;
                free_granules += granules;
                dirty += g.region.dirty_in(at, granules);
                granules
            }
            Kind::Run => {
                sound.runs += 1;
                run_granules += descriptor.granules.load(Ordering::Relaxed) as usize;
                descriptor.granules.load(Ordering::Relaxed) as usize
            }
            Kind::Slab => {
                let Some(class) = classes::class_of(Slot(descriptor.slot())) else {
                    return Err(Fault { what: "slab of no cache", at, found: 0, expected: 1 });
                };
                slabs[class] += 1;
                free[class] += u64::from(g.free_of(at as u32).1);
                listed[class] += u64::from(check_slab(quiet, class, at as u32, &mut sound)?);
                yard.cache(class).shape().geometry.granules() as usize
            }
        };
        at += granules.max(1);
    }
    expect("granules beyond the top", at, at as u64, g.region.top() as u64)?;
    for class in 0..CLASSES {
        let cache = yard.cache(class);
        expect("slabs of class", class, slabs[class], u64::from(cache.nr_slabs()))?;
        expect("listed slabs of class", class, listed[class], u64::from(cache.nr_partial(g)))?;
        let mut walked = 0;
        cache.each_partial(g, |_, _| walked += 1);
        expect("partial list of class", class, walked, listed[class])?;
        let whole = slabs[class] * u64::from(cache.shape().geometry.objects);
        expect("class told as it is", class, u64::from(cache.is_published(g)), 1)?;
        expect("objects out of class", class, cache.out(), whole - free[class])?;
        sound.slabs += slabs[class];
        objects += slabs[class] * u64::from(cache.shape().geometry.objects);
    }
    expect("bits of slabs", 0, objects - sound.live, sound.free + parked)?;
    // Runs are parked and taken in slow paths only: exact without a stop too.
    expect("parked granules", 0, quiet.parked_granules() as u64, parked_granules)?;
    let count = g.free_count();
    expect("free granules", 0, free_granules as u64, count.free as u64)?;
    let mut in_lists = 0u64;
    g.each_free_block(|_, order| in_lists += 1 << order);
    expect("granules in free lists", 0, in_lists, free_granules as u64)?;
    expect("dirty granules", 0, dirty as u64, count.dirty as u64)?;
    expect("granules of runs", 0, run_granules as u64, g.buddy.runs().1 as u64)?;
    expect("runs", 0, sound.runs, g.buddy.runs().0 as u64)?;
    sound.free_granules = free_granules as u64;
    Ok(sound)
}

/// Checks one slab; returns whether it is listed.
fn check_slab<P: Platform>(
    quiet: &Quiet<'_, P>,
    class: usize,
    slab: u32,
    sound: &mut Sound,
) -> Result<bool, Fault> {
    let g = &quiet.yard().heap;
    let geometry = &quiet.yard().cache(class).shape().geometry;
    let at = g.region.address(slab);
    let (_, free) = g.free_of(slab);
    let bits = g.bits_of(slab, geometry);
    if bits < free || bits > geometry.objects {
        return Err(Fault { what: "bits of slab", at, found: bits.into(), expected: free.into() });
    }
    let listed = g.region.descriptor(slab).time.load(Ordering::Relaxed) == 1;
    expect("slab listed", at, u64::from(listed), u64::from(free > 0))?;
    for granule in slab..slab + geometry.granules() {
        let map = usize::from(g.region.map_value(granule));
        expect("page map", at, map as u64, classes::slot_of(class).offset() as u64)?;
    }
    sound.free += u64::from(free);
    sound.live += u64::from(geometry.objects - bits);
    Ok(listed)
}
