//! From events to steps and to the kernel's own slab counts: each rule on a handmade trace, and the
//! invariants on random traces.

mod frames;
mod input;
mod known;
mod matching;
mod naming;
mod order;
mod streamed;
mod truth;

use proptest::prelude::*;
use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::lists::Lists;
use slabyard_lab::prepare::truth::{Curve, grid};
use slabyard_lab::prepare::{
    CacheFacts, Error, Input, Order, Prepared, StepKind, Truth, Via, grace, left_out, prepare,
};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{Events, Frames, Names};
use std::collections::BTreeMap;

/// Where the traced machine has its memory.
const BASE: u64 = 0x8880_0000_0000;
const PAGE: u64 = 4096;

/// A trace, made event by event. Times in microseconds.
struct Case {
    events: Vec<Event>,
    names: Names,
    frames: Frames,
    caches: Vec<CacheFacts>,
    aliases: BTreeMap<String, String>,
    lists: Option<Lists>,
    order: Order,
}

/// Cache with slabs of one page, unless changed.
fn cache(id: &str, slab_size: u32) -> CacheFacts {
    CacheFacts {
        id: id.into(),
        slab_size,
        objects: 4096 / slab_size,
        order: 0,
        rcu: false,
        sheaf_capacity: 0,
        slabs: 0,
    }
}

impl Case {
    fn new(caches: &[CacheFacts]) -> Case {
        Case {
            events: Vec::new(),
            names: Names::new(),
            frames: Frames { page_offset: BASE, page_shift: 12 },
            caches: caches.to_vec(),
            aliases: BTreeMap::new(),
            lists: None,
            order: Order::AS_TRACED,
        }
    }

    /// Cache 0 has objects of 1 KiB, four a slab.
    fn plain() -> Case {
        Case::new(&[cache("filp", 1024)])
    }

    fn add(&mut self, us: f64, cpu: u16, kind: EventKind, name: &str, address: u64) -> &mut Event {
        let name = self.names.intern(name);
        self.events.push(Event {
            time: (us * 1000.0).round() as u64,
            address,
            name,
            pid: 1,
            requested: 0,
            allocated: 0,
            gfp: 0,
            cpu,
            node: ANY_NODE,
            order: 0,
            kind,
            accounted: false,
            site: 0,
        });
        self.events.last_mut().unwrap()
    }

    /// Allocates and frees the nth KiB of a frame in cache `filp`.
    fn alloc(&mut self, us: f64, cpu: u16, frame: u64, nth: u64) {
        self.add(us, cpu, EventKind::CacheAlloc, "filp", at(frame, nth * 1024));
    }

    fn free(&mut self, us: f64, cpu: u16, frame: u64, nth: u64) {
        self.add(us, cpu, EventKind::CacheFree, "filp", at(frame, nth * 1024));
    }

    fn pages(&mut self, us: f64, cpu: u16, kind: EventKind, frame: u64, order: u8) {
        self.add(us, cpu, kind, "", frame).order = order;
    }

    fn kmalloc(&mut self, site: &str, address: u64, bytes: u32, gfp: u32) {
        let us = self.events.len() as f64;
        let event = self.add(us, 0, EventKind::Kmalloc, site, address);
        (event.allocated, event.gfp) = (bytes, gfp);
    }

    fn input(&self) -> Input<'_> {
        Input {
            events: Events::Held(&self.events),
            names: &self.names,
            frames: self.frames,
            caches: &self.caches,
            aliases: &self.aliases,
            lists: self.lists.as_ref(),
            order: self.order,
        }
    }

    fn prepare(&self) -> Prepared {
        let prepared = prepare(&self.input()).unwrap();
        hold(&prepared);
        prepared
    }
}

fn at(frame: u64, offset: u64) -> u64 {
    BASE + frame * PAGE + offset
}

/// The invariants that the module promises.
fn hold(prepared: &Prepared) {
    let mut live = prepared.live_at_start.clone();
    let mut last = 0;
    for step in &prepared.steps {
        assert!(step.time_ns >= last, "{step:?} is before the last one");
        last = step.time_ns;
        let slab = prepared.slabs[step.slab as usize];
        assert_eq!(slab.cache, step.cache);
        assert!(slab.objects_range().contains(&(step.object as usize)), "{step:?} of {slab:?}");
        let live = &mut live[step.object as usize];
        assert_eq!(*live, step.op == StepKind::Free, "{step:?}");
        *live = !*live;
    }
    let mut next = 0;
    for slab in prepared.slabs.iter() {
        assert_eq!(slab.first_object, next);
        next += slab.objects;
        assert!(slab.initial || prepared.nr_live_at_start(slab) == 0);
        assert!(slab.closed_at.is_none() || !live[slab.objects_range()].contains(&true));
    }
    assert_eq!(next as usize, prepared.nr_objects());
    assert!(prepared.slabs.is_sorted_by_key(|slab| !slab.initial));
}

/// The cache that each step is of.
fn cache_names<'a>(case: &'a Case, prepared: &Prepared) -> Vec<&'a str> {
    prepared.steps.iter().map(|step| case.caches[step.cache as usize].id.as_str()).collect()
}

/// What runs when: (ns, operation, missed).
fn runs(prepared: &Prepared) -> Vec<(u64, StepKind, bool)> {
    prepared.steps.iter().map(|step| (step.time_ns, step.op, step.missed)).collect()
}

fn any_event() -> impl Strategy<Value = (u8, u16, u64, u64, u64, u8)> {
    (0u8..6, 0u16..3, 0u64..8, 0u64..4096, 0u64..3000, 0u8..3)
}

/// A frame, objects, and those that are free.
fn any_listed() -> impl Strategy<Value = (u64, u32, Option<u64>)> {
    (0u64..8, 5u32..7, prop::option::of(0u64..32))
}

proptest! {
    #[test]
    fn whatever_the_events_the_steps_fit_together(
        events in prop::collection::vec(any_event(), 0..300),
        order in 0..4,
        seed: u64,
        on_lists in prop::option::of(prop::collection::vec(any_listed(), 0..6)),
        read_at in 0u64..200_000,
    ) {
        let mut case = Case::new(&[
            cache("kmalloc-64", 64),
            CacheFacts { objects: 6, order: 1, ..cache("filp", 1300) },
        ]);
        case.order = match order {
            0 => Order::AS_TRACED,
            1 => Order::HOST,
            2 => Order { pause_ns: Some(2000), ..Order::GUEST },
            _ => Order { pause_ns: Some(2000), ..Order::GUEST }.shaken(seed),
        };
        case.lists = on_lists.map(|slabs| known::lists_of("filp", slabs, read_at));
        let mut time = 0;
        for (kind, cpu, frame, offset, gap, order) in events {
            time += gap;
            let us = time as f64 / 1000.0;
            // Also at the end of what frames and addresses there are.
            let far = if seed.is_multiple_of(2) { 0 } else { u64::MAX - 3 };
            let (frame, address) = (far.wrapping_add(frame), at(0, 0)
                .wrapping_add(far.wrapping_add(frame).wrapping_mul(PAGE)).wrapping_add(offset));
            match kind {
                0 => { case.add(us, cpu, EventKind::CacheAlloc, "filp", address); }
                1 => { case.add(us, cpu, EventKind::CacheFree, "filp", address); }
                2 => { case.add(us, cpu, EventKind::Kmalloc, "site", address).allocated = 64; }
                3 => { case.add(us, cpu, EventKind::Kfree, "site", address); }
                4 => case.pages(us, cpu, EventKind::PageAlloc, frame, order),
                _ => case.pages(us, cpu, EventKind::PageFree, frame, order),
            }
        }
        let prepared = case.prepare();
        streamed::hold_streamed(&case, &prepared)?;
        let truth = Truth::of(&prepared, 50);
        let closed = prepared.slabs.iter().filter(|slab| slab.closed_at.is_some()).count();
        // Also of the caches that the total leaves out.
        let sum = |of: fn(&Curve) -> u32| truth.caches.iter().map(of).sum::<u32>() as usize;
        prop_assert_eq!(sum(|curve| curve.freed), closed);
        let opened = prepared.slabs.iter().filter(|slab| !slab.initial).count();
        prop_assert_eq!(sum(|curve| curve.allocated), opened);
    }
}
