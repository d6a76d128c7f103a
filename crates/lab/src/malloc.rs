//! Turns a process's calls to malloc into a kernel's trace, so that any engine can replay them.
//!
//! [`crate::record`] writes the requested sizes and malloc's size classes. Here each class becomes
//! a cache `malloc-N` of a kernel that has no other caches and starts empty; [`snapshot`] describes
//! these caches. The model itself decides in which slab an object is; the trace only has to give
//! the order of allocations and frees. [`placed`] therefore gives each object an address in slabs
//! of the caches' geometry: the most recently freed one first. Invariant: at every moment the trace
//! has the same live objects as the process, except objects from before the recording and those
//! larger than any class.

use crate::event::{Event, EventKind};
use crate::geometry::{self, Request};
use crate::rules::{Machine, Settings};
use crate::trace::{Header, NO_NAME, Names, Trace};
use serde_json::json;
use slabyard::cache::classes::ROWS;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The rules by which the snapshot's caches are laid out.
pub const RELEASE: &str = "6.18";
/// The first page frame of a slab.
const FIRST: u64 = 1 << 16;
/// The flags with which a slab's pages are allocated (`GFP_KERNEL`).
const GFP: u32 = 0xcc0;

/// The rules of a machine with so many CPUs and pages of that size.
fn settings(cpus: u32, page_size: u32) -> Option<Settings> {
    Settings::of_version(RELEASE, Machine::new(page_size, cpus)).ok().map(|(settings, _)| settings)
}

/// The caches of malloc's classes on such a machine, empty, as a snapshot of a kernel.
#[must_use]
pub fn snapshot(cpus: u32, page_size: u32) -> Vec<u8> {
    let range = format!("0-{}", cpus.max(1) - 1);
    let mut slab = serde_json::Map::new();
    let settings = settings(cpus.max(1), page_size);
    for (size, _) in ROWS {
        let request = Request { size, sheaf_capacity: 0, debug: false, boot: false };
        let geometry = settings.as_ref().and_then(|s| geometry::of_cache(&request, s).ok());
        let Some(geometry) = geometry else { continue };
        let cache = json!({
            "object_size": size, "slab_size": size, "align": 16,
            "objs_per_slab": geometry.objects, "order": geometry.order,
            "cpu_partial": geometry.cpu_partial, "min_partial": geometry.min_partial,
            "slabs": 0, "objects": 0, "total_objects": 0, "partial": 0, "objects_partial": 0,
            "cpu_slabs": 0, "slabs_cpu_partial": "0(0)", "destroy_by_rcu": 0,
        });
        slab.insert(name(size), cache);
    }
    let snapshot = json!({
        "kernel": RELEASE, "page_size": page_size, "possible_cpus": range, "present_cpus": range,
        "online_cpus": range, "nodes": "0", "aliases": {}, "slab": slab,
    });
    snapshot.to_string().into_bytes()
}

fn name(size: u32) -> String {
    format!("malloc-{size}")
}

/// Events of the process that the trace with slabs does not have as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Allocations that are larger than any class.
    pub large: u64,
    /// Frees of objects that were live before the recording, or were large.
    pub unknown: u64,
    /// Allocations of live objects: the frees that the trace missed are inserted before them.
    pub missed: u64,
}

struct Class {
    name: u32,
    order: u8,
    objects: u32,
    size: u32,
    free: Vec<u64>,
}

/// The trace with each object in a slab of its class.
#[must_use]
pub fn placed(trace: &Trace) -> (Trace, LeftOut) {
    let cpus = trace.header.cpus.unwrap_or(1).max(1);
    let page_size = trace.header.page_size.unwrap_or(4096);
    let shift = page_size.trailing_zeros();
    let settings = settings(cpus, page_size);
    let (mut names, mut left) = (Names::new(), LeftOut::default());
    let mut classes: HashMap<u32, Class> = HashMap::new();
    let mut live: HashMap<u64, (u32, u64)> = HashMap::new();
    let mut events = Vec::with_capacity(trace.events.len());
    let mut frame = FIRST;
    for event in &trace.events {
        let freed = live.remove(&event.address);
        if event.kind == EventKind::Kmalloc {
            left.missed += u64::from(freed.is_some());
        } else if freed.is_none() {
            left.unknown += 1;
        }
        if let Some((size, address)) = freed
            && let Some(class) = classes.get_mut(&size)
        {
            class.free.push(address);
            events.push(Event { kind: EventKind::CacheFree, name: class.name, address, ..*event });
        }
        if event.kind != EventKind::Kmalloc {
            continue;
        }
        let size = event.allocated;
        let Some(class) = class_of(&mut classes, &mut names, settings.as_ref(), size) else {
            left.large += 1;
            continue;
        };
        if class.free.is_empty() {
            let pages = 1 << class.order;
            frame = frame.next_multiple_of(pages);
            let page =
                Event { kind: EventKind::PageAlloc, name: NO_NAME, address: frame, ..*event };
            events.push(Event { order: class.order, gfp: GFP, requested: 0, allocated: 0, ..page });
            let nth = |nth: u32| (frame << shift) + u64::from(nth * class.size);
            class.free.extend((0..class.objects).rev().map(nth));
            frame += pages;
        }
        let Some(address) = class.free.pop() else { continue };
        live.insert(event.address, (size, address));
        let (kind, name) = (EventKind::CacheAlloc, class.name);
        events.push(Event { kind, name, address, gfp: GFP, ..*event });
    }
    let header =
        Header { page_size: Some(page_size), page_offset: Some(0), ..trace.header.clone() };
    (
        Trace {
            events,
            names,
            header,
            attached: Vec::new(),
            damaged: trace.damaged.clone(),
            lost: trace.lost,
        },
        left,
    )
}

fn class_of<'a>(
    classes: &'a mut HashMap<u32, Class>,
    names: &mut Names,
    settings: Option<&Settings>,
    size: u32,
) -> Option<&'a mut Class> {
    if size == 0 {
        return None;
    }
    match classes.entry(size) {
        Entry::Occupied(known) => Some(known.into_mut()),
        Entry::Vacant(new) => {
            let request = Request { size, sheaf_capacity: 0, debug: false, boot: false };
            let geometry = geometry::of_cache(&request, settings?).ok()?;
            let name = names.intern(&name(size));
            let (order, objects) = (geometry.order, geometry.objects);
            Some(new.insert(Class { name, order, objects, size, free: Vec::new() }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::KernelSnapshot;

    fn call(kind: EventKind, address: u64, allocated: u32) -> Event {
        let requested = allocated;
        Event { kind, address, name: NO_NAME, pid: 1, requested, allocated, ..Event::BLANK }
    }

    #[test]
    fn every_class_is_a_cache() {
        let snapshots = KernelSnapshot::parse(&snapshot(4, 4096)).unwrap();
        assert_eq!(snapshots[0].caches.len(), ROWS.len());
        assert_eq!(snapshots[0].machine().unwrap().online_cpus, 4);
        let small = snapshots[0].cache("malloc-64").unwrap();
        assert_eq!((small.slab_size, small.objs_per_slab), (64, 64));
    }

    #[test]
    fn what_lives_is_what_the_process_had() {
        use EventKind::{CacheAlloc, CacheFree, Kfree, Kmalloc, PageAlloc};
        let calls = [
            call(Kmalloc, 0x10, 64),
            call(Kmalloc, 0x90, 64),
            call(Kfree, 0x10, 0),
            call(Kfree, 0x777, 0),
            call(Kmalloc, 0x10, 96),
            call(Kmalloc, 0x500, 0),
            call(Kmalloc, 0x90, 64),
        ];
        let trace = Trace { events: calls.into(), ..Trace::default() };
        let (placed, left) = placed(&trace);
        let told: Vec<(EventKind, &str)> =
            placed.events.iter().map(|e| (e.kind, placed.names.get(e.name))).collect();
        let (small, other) = ("malloc-64", "malloc-96");
        assert_eq!(
            told,
            [
                (PageAlloc, ""),
                (CacheAlloc, small),
                (CacheAlloc, small),
                (CacheFree, small),
                (PageAlloc, ""),
                (CacheAlloc, other),
                (CacheFree, small),
                (CacheAlloc, small),
            ]
        );
        assert_eq!(placed.events[1].address, placed.events[3].address);
        assert_eq!(placed.events[6].address, placed.events[7].address, "the place freed last");
        assert_eq!(left, LeftOut { large: 1, unknown: 1, missed: 1 });
    }
}
