//! The whole-yard checker: it checks the engine's equations on every slab, list, stack and page.
//!
//! * every object is in one state: free in its slab, parked in one place, or live;
//! * bits of a slab >= its counted free objects; bits of all slabs = free +
//!   parked;
//! * a slab is on its cache's partial list if and only if it has free objects;
//! * the words of a cache that are published to readers agree with its lists and its barn;
//! * for each cache, slabs found in the region = slabs counted; objects counted as out of their
//!   slabs = objects - free;
//! * only slots in use have stacks, and every slab belongs to an existing cache;
//! * every granule below the top has exactly one owner; free granules are on the buddy's lists,
//!   where dirty ones are counted, parked ones on a CPU's list.
//!
//! While it runs, the yard is quiesced ([`Yard::quiesce`]). If the platform cannot stop other CPUs'
//! stacks, the checker skips the objects that are parked there.

pub mod close;
mod fault;
pub(crate) mod marks;

pub use fault::Fault;

use crate::cache::slots::{number_of, slot_of};
use crate::debugging::validate_inside;
use crate::engine::Engine;
use crate::observe::Quiesced;
use crate::pages::descriptor::Descriptor;
use crate::pages::{GranuleKind, PageHeap, held, runs};
use crate::platform::stack::ENTRY_BYTES;
use crate::platform::{GRANULE, Platform, Slot};
use crate::reclaim::walk::Stacks;
use crate::slab::freeset;
use crate::slow_path::enter_slow_path;
use crate::sync::Ordering;
use crate::waiting::count_held;
use crate::yard::Yard;
use crate::yard::depth::RUN_CALLS;
use fault::expect;
use marks::Marks;
use slabyard_abi::region::row;

/// The contents of a sound yard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Those of all caches, empty ones included.
    pub slabs: u64,
    /// Live objects in slabs.
    pub live: u64,
    /// Objects parked in stacks and barns, and freed ones that wait for readers.
    pub parked: u64,
    /// Free objects in slabs.
    pub free: u64,
    /// Live page runs.
    pub runs: u64,
    /// Those that are in no slab and no live run.
    pub free_granules: u64,
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Checks the whole yard. `None` where it cannot be [quiesced](Yard::quiesce).
    ///
    /// # Errors
    /// The first fault found.
    pub fn verify(&self) -> Option<Result<Sound, Fault>> {
        self.quiesce(|quiesced| {
            let marks = Marks::set(quiesced, Stacks::All);
            mark_held(quiesced, HELD);
            let checked = marks.fault.map_or(Ok(()), Err).and_then(|()| {
                check_unused(quiesced)?;
                check_pages(quiesced, marks.count)
            });
            mark_held(quiesced, 0);
            marks.clear(quiesced);
            checked
        })
    }

    /// Looks through the objects of all caches with debugging; returns how many were wrong, each
    /// of which was reported. `None` in a signal handler that interrupted a slow path.
    pub fn validate(&self) -> Option<u64> {
        let _slow_path = enter_slow_path(self, RUN_CALLS)?;
        Some(validate_inside(self))
    }
}

/// Value of a slab descriptor's `time` while it is known that a CPU has the slab.
const HELD: u32 = 2;

/// Marks the slabs that CPUs have; one that is listed, too, keeps its mark as such, and is found
/// by that.
fn mark_held<P: Platform, E: Engine>(quiesced: &Quiesced<'_, P, E>, mark: u32) {
    let region = &quiesced.yard().heap.region;
    quiesced.each_slab_of_cpus(&mut |slab| {
        let time = &region.descriptor(slab).time;
        let from = if mark == HELD { 0 } else { HELD };
        let _ = time.compare_exchange(from, mark, Ordering::Relaxed, Ordering::Relaxed);
    });
}

/// Checks that no entry has a stack but those of slots in use.
fn check_unused<P: Platform, E: Engine>(quiesced: &Quiesced<'_, P, E>) -> Result<(), Fault> {
    let (rows, used) = (quiesced.yard().platform().rows(), &quiesced.yard().caches().used);
    let slots = (rows.row_bytes() / ENTRY_BYTES) as u16;
    // Row by row, as they lie in memory.
    for row in 0..rows.len() {
        let mut next = row::FIRST_RUNS as u16;
        while next < slots {
            let end = used.next_slot(next).map_or(slots, |slot| slot.0.min(slots));
            for slot in next..end {
                let top = rows.entry(row, Slot(slot)).top();
                expect("stack of no cache", slot.into(), top.into(), 0)?;
            }
            next = end + 1;
        }
    }
    Ok(())
}

/// Checks a live run, or one in a bank: the granules of one that a bank has or gave are all dirty.
fn check_run<P: Platform>(
    heap: &PageHeap<P>,
    at: usize,
    run: &Descriptor,
    granules: usize,
) -> Result<(), Fault> {
    if run.is_banked() || run.is_known_dirty() {
        let dirty = heap.region.dirty_in(at, granules) as u64;
        expect("dirty granules of a bank's run", at, dirty, granules as u64)?;
    }
    Ok(())
}

/// Walks the region; the `parked` objects are marked as free.
fn check_pages<P: Platform, E: Engine>(
    quiesced: &Quiesced<'_, P, E>,
    parked: u64,
) -> Result<Sound, Fault> {
    let yard = quiesced.yard();
    let g = &yard.heap;
    let mut sound = Sound { parked, ..Sound::default() };
    // Before the lists are locked here: who unlocks them publishes the counts.
    let published = (g.buddy.free_hint(), g.buddy.dirty_hint());
    // A check before this one may have ended with a fault.
    for number in yard.caches().numbers() {
        yard.cache(number).tally.take();
    }
    let mut free_granules = 0usize;
    let mut dirty = 0usize;
    let mut run_granules = 0usize;
    let (mut parked_granules, mut held, mut banked) = (0u64, 0u64, 0u64);
    // Bits of slabs that are set for no free object.
    let (mut objects, mut within) = (0, 0);
    let mut at = g.platform.page_bytes() / GRANULE;
    while at < g.region.top() {
        let descriptor = g.region.descriptor(at as u32);
        let kind = descriptor.kind();
        // In a bank, or in the hands of a thread on its way there or from there.
        let is_banked = descriptor.is_banked();
        let granules = match kind {
            GranuleKind::Run | GranuleKind::Freed => descriptor.granules.load(Ordering::Relaxed),
            GranuleKind::Parked if is_banked => descriptor.granules.load(Ordering::Relaxed),
            _ => 1 << descriptor.order(),
        } as usize;
        match kind {
            GranuleKind::None => expect("granule of nobody", at, 0, 1)?,
            GranuleKind::Free | GranuleKind::Freed => {
                free_granules += granules;
                dirty += g.region.dirty_in(at, granules);
            }
            GranuleKind::Parked if !is_banked => parked_granules += granules as u64,
            GranuleKind::Run | GranuleKind::Parked => {
                banked += u64::from(is_banked);
                sound.runs += 1;
                run_granules += granules;
                check_run(g, at, descriptor, granules)?;
            }
            GranuleKind::Purging => {}
            GranuleKind::Held => {
                held += 1;
                run_granules += granules;
            }
            GranuleKind::Slab => {
                let number = number_of(Slot(descriptor.slot()));
                let there = number.filter(|number| yard.caches().is_there(*number));
                expect("slab of no cache", at, u64::from(there.is_some()), 1)?;
                let (number, slab) = (there.unwrap_or(0), at as u32);
                let cache = yard.cache(number);
                let free = u64::from(freeset::free_of(&g.region, slab).1);
                let listed = check_slab(quiesced, number, slab, &mut sound)?;
                match cache.engine.check_slab(cache.on(g), slab) {
                    Ok(inside) => within += u64::from(inside),
                    Err(what) => expect(what, g.region.address(slab), 0, 1)?,
                }
                cache.tally.add([1, listed.into(), free]);
            }
        }
        at += granules.max(1);
    }
    expect("granules beyond the top", at, at as u64, g.region.top() as u64)?;
    for number in yard.caches().numbers() {
        let cache = yard.cache(number);
        let (on, objects_a_slab) = (cache.on(g), u64::from(cache.shape().geometry.objects));
        let [slabs, listed, free] = cache.tally.take();
        expect("slabs of cache", number, slabs, u64::from(cache.nr_slabs()))?;
        expect("listed slabs of cache", number, listed, u64::from(cache.engine.nr_partial(on)))?;
        let mut walked = 0;
        cache.engine.each_partial(on, |_, _| walked += 1);
        expect("partial list of cache", number, walked, listed)?;
        let published = cache.engine.is_list_published(on) && cache.engine.is_published(on);
        expect("cache published as it is", number, u64::from(published), 1)?;
        expect("objects out of cache", number, cache.out(), slabs * objects_a_slab - free)?;
        sound.slabs += slabs;
        objects += slabs * objects_a_slab;
    }
    expect("bits of slabs", 0, objects - sound.live, sound.free + parked + within)?;
    // Blocks are parked and taken in slow paths only: exact without a stop too.
    let in_lists = quiesced.parked_runs();
    expect("parked granules", 0, in_lists.granules as u64, parked_granules)?;
    let in_banks = if quiesced.reaches_all() { in_lists.banked as u64 } else { 0 };
    expect("runs in banks", 0, in_banks.min(banked), in_banks)?;
    expect("slabs that wait for readers", 0, count_held(yard), held)?;
    expect("slabs that wait for readers, as counted", 0, held::nr(g) as u64, held)?;
    let count = runs::free_count(g);
    expect("published free granules", 0, published.0 as u64, count.free as u64)?;
    expect("published dirty granules", 0, published.1 as u64, count.dirty as u64)?;
    expect("free granules", 0, free_granules as u64, count.free as u64)?;
    let mut in_blocks = 0u64;
    runs::each_free_block(g, |_, order| in_blocks += 1 << order);
    expect("granules in free lists", 0, in_blocks, free_granules as u64)?;
    expect("dirty granules", 0, dirty as u64, count.dirty as u64)?;
    expect("granules of runs", 0, run_granules as u64, g.buddy.runs().1 as u64)?;
    expect("runs", 0, sound.runs, g.buddy.runs().0 as u64)?;
    sound.runs = sound.runs.saturating_sub(in_lists.banked as u64);
    sound.free_granules = free_granules as u64;
    Ok(sound)
}

/// Checks one slab; returns whether it is listed.
fn check_slab<P: Platform, E: Engine>(
    quiesced: &Quiesced<'_, P, E>,
    number: usize,
    slab: u32,
    sound: &mut Sound,
) -> Result<bool, Fault> {
    let g = &quiesced.yard().heap;
    let geometry = &quiesced.yard().cache(number).shape().geometry;
    let at = g.region.address(slab);
    let (_, free) = freeset::free_of(&g.region, slab);
    let bits = freeset::bits_of(g, slab, geometry);
    if bits < free || bits > geometry.objects {
        return Err(Fault { what: "bits of slab", at, found: bits.into(), expected: free.into() });
    }
    let time = g.region.descriptor(slab).time.load(Ordering::Relaxed);
    let listed = time == 1;
    if time != HELD {
        expect("slab listed", at, u64::from(listed), u64::from(free > 0))?;
    }
    for granule in slab..slab + geometry.granules() {
        let map = usize::from(g.region.map_value(granule));
        expect("page map", at, map as u64, slot_of(number).offset() as u64)?;
    }
    sound.free += u64::from(free);
    sound.live += u64::from(geometry.objects - bits);
    Ok(listed)
}
