//! Runs any kernel's load on SLOB, starting on an empty machine.
//!
//! The trace's requests go to the model ([`slabyard_model::slob`]): `kmalloc` requests with the
//! requested bytes, a cache's requests with its object size and alignment. Objects from before the
//! trace are missing, and their frees are left out: the page counts are those of the trace's own
//! objects, whatever kernel was traced.
//!
//! [`super`] compares the model with a kernel that had SLOB.

use super::TooFew;
use crate::event::{Event, EventKind};
use crate::trace::Trace;
pub use slabyard_model::slob::Kernel;
use std::collections::HashMap;

/// A sample of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageUse {
    /// When, in nanoseconds since the trace began.
    pub time: u64,
    /// Pages of blocks and of large objects.
    pub pages: u32,
    /// Requested bytes.
    pub live: u64,
    /// Those that were allocated and are not freed yet.
    pub objects: u64,
}

/// Totals of a load, and samples of it on the way.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Objects allocated.
    pub allocated: u64,
    /// Objects freed.
    pub freed: u64,
    /// Frees of objects from before the trace.
    pub left_out: u64,
    /// Allocations at the address of an object whose free is missing: it is freed there.
    pub again: u64,
    /// The moment with the most pages, and of these the one with the most bytes live.
    pub peak: PageUse,
    /// The last moment.
    pub end: PageUse,
    /// Free bytes of pages of blocks at the end.
    pub free_at_end: u64,
    /// Every so many events.
    pub series: Vec<PageUse>,
}

/// A request of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Bytes that users see.
    pub bytes: u32,
    /// Where objects begin: at multiples of it.
    pub align: u32,
}

/// A live object: its address in the model, its bytes, whether `kmalloc` made it.
struct LiveObject(u64, u32, bool);

/// Makes a load's requests. `object_of` says what a cache's objects are; after every `every` events
/// a sample is added to the series (0: never).
///
/// # Errors
/// The kernel has no more pages, and needs more.
pub fn run(
    trace: &Trace,
    kernel: &Kernel,
    object_of: impl Fn(&Event) -> Object,
    every: usize,
) -> Result<Load, TooFew> {
    let mut load = Load::default();
    let mut live: HashMap<u64, LiveObject> = HashMap::new();
    let mut now = PageUse::default();
    for (nth, event) in trace.events.iter().enumerate() {
        now.time = event.time;
        match event.kind {
            EventKind::Kmalloc | EventKind::CacheAlloc => {
                if let Some(old) = live.remove(&event.address) {
                    load.again += 1;
                    free(kernel, &old, &mut now);
                }
                let is_kmalloc = event.kind == EventKind::Kmalloc;
                let (bytes, at) = if is_kmalloc {
                    let bytes = event.requested.max(1);
                    (bytes, kernel.kmalloc(bytes))
                } else {
                    let Object { bytes, align } = object_of(event);
                    (bytes.max(1), kernel.cache_alloc(bytes.max(1), align))
                };
                live.insert(event.address, LiveObject(at.ok_or(TooFew)?, bytes, is_kmalloc));
                now.live += u64::from(bytes);
                now.objects += 1;
                load.allocated += 1;
            }
            EventKind::Kfree | EventKind::KfreeRcu | EventKind::CacheFree => {
                match live.remove(&event.address) {
                    None => load.left_out += 1,
                    Some(old) => {
                        free(kernel, &old, &mut now);
                        load.freed += 1;
                    }
                }
            }
            _ => {}
        }
        now.pages = kernel.nr_pages();
        if (now.pages, now.live) > (load.peak.pages, load.peak.live) {
            load.peak = now;
        }
        if every > 0 && nth % every == 0 {
            load.series.push(now);
        }
    }
    load.end = now;
    load.free_at_end = kernel.free_bytes();
    Ok(load)
}

fn free(kernel: &Kernel, LiveObject(at, bytes, is_kmalloc): &LiveObject, now: &mut PageUse) {
    if *is_kmalloc {
        kernel.kfree(*at);
    } else {
        kernel.cache_free(*at, *bytes);
    }
    now.live -= u64::from(*bytes);
    now.objects -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, address: u64, bytes: u32) -> Event {
        let allocated = bytes.next_power_of_two();
        Event { kind, address, requested: bytes, allocated, ..Event::BLANK }
    }

    fn run_all(events: Vec<Event>) -> Load {
        let trace = Trace { events, ..Trace::default() };
        let kernel = Kernel::new(4096, 8, 100);
        run(&trace, &kernel, |event| Object { bytes: event.requested, align: 8 }, 1).unwrap()
    }

    #[test]
    fn pages_hold_what_was_asked_for_and_headers() {
        // 39 of 92 bytes with headers of 8, at multiples of 8, leave room for one of 40 bytes in
        // their page; one of a page and more is two pages.
        let mut events: Vec<Event> =
            (0..39).map(|n| event(EventKind::Kmalloc, 4096 + n * 128, 92)).collect();
        events.push(event(EventKind::Kmalloc, 1 << 20, 5000));
        events.push(event(EventKind::CacheAlloc, 1 << 21, 40));
        let held = run_all(events.clone());
        assert_eq!((held.end.pages, held.end.objects, held.end.live), (3, 41, 39 * 92 + 5040));
        assert_eq!(held.peak.pages, 3);
        assert_eq!(held.free_at_end, 4096 - 39 * 100 - 40);

        events.extend((0..39).map(|n| event(EventKind::Kfree, 4096 + n * 128, 0)));
        events.push(event(EventKind::Kfree, 1 << 20, 0));
        events.push(event(EventKind::Kfree, 1 << 30, 0));
        events.push(event(EventKind::CacheAlloc, 1 << 21, 40));
        events.push(event(EventKind::CacheFree, 1 << 21, 0));
        let released = run_all(events);
        assert_eq!((released.end.pages, released.end.objects, released.end.live), (0, 0, 0));
        assert_eq!((released.left_out, released.again, released.freed), (1, 1, 41));
        assert_eq!((released.peak.pages, released.series.len()), (3, 84));
    }

    #[test]
    fn too_few_pages_are_said() {
        let trace = Trace { events: vec![event(EventKind::Kmalloc, 8, 9000)], ..Trace::default() };
        let object = |_: &Event| Object { bytes: 8, align: 8 };
        assert!(run(&trace, &Kernel::new(4096, 8, 2), object, 0).is_err());
    }
}
