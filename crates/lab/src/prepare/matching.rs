//! The object of each event, and the frees that the trace missed.
//!
//! An object's number is its slab's first plus its place in the slab, so matching
//! frees to allocations is one array. An allocation of a live object says that its
//! free was missed, and so does the closing of a slab with live objects. An object
//! of an initial slab that is freed first was live at the start, one that is
//! allocated first was free. Of those never seen nothing is known: in a slab that is
//! closed later they were free, else they are taken for live: a free object would
//! have been likely to be handed out.
//!
//! Neighbours: [`super::frames`] gives the slabs, [`super::order`] the times.

use super::frames::{NO_SLAB, Placed, Slab};
use super::input::{CacheNumber, Input};
use super::oddities::Oddities;
use super::order::Clocks;
use crate::event::{Event, Kind};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Hands the object out.
    Alloc,
    /// Takes it back.
    Free,
}

/// One allocation or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it runs.
    pub time_ns: u64,
    /// The object's number.
    pub object: u32,
    /// Number of the slab that the kernel had it in.
    pub slab: u32,
    /// Its cache.
    pub cache: CacheNumber,
    /// The task, as the trace numbers it; 0: an idle CPU, or an interrupt of one.
    pub task: u32,
    /// On which CPU.
    pub cpu: u16,
    /// Node asked for, or [`crate::event::ANY_NODE`].
    pub node: i16,
    /// What is done.
    pub op: Op,
    /// The trace missed this one: it is put in so that the objects' lives fit.
    pub missed: bool,
}

const _: () = assert!(size_of::<Step>() == 32);

/// The steps, in the trace's order.
pub(super) struct Matched {
    pub(super) steps: Vec<Step>,
    pub(super) live_at_start: Vec<bool>,
    /// Per cache: frees of objects that no event had allocated.
    pub(super) unallocated: Vec<u64>,
}

/// Finds the objects and when each event ran.
pub(super) fn match_events(input: &Input, placed: &Placed, oddities: &mut Oddities) -> Matched {
    let mut walk = Walk {
        input,
        slabs: &placed.slabs,
        oddities,
        clocks: Clocks::new(input.order),
        objects: vec![Object { ran: 0, state: State::Unseen }; placed.nr_objects as usize],
        pages: vec![Pages::default(); placed.slabs.len()],
        live_at_start: initially_live(placed),
        steps: Vec::with_capacity(input.events.len()),
        unallocated: vec![0; input.caches.len()],
    };
    let mut closings = placed.closings.iter().peekable();
    for (index, (event, &slab)) in input.events.iter().zip(&placed.slab_of).enumerate() {
        let time = walk.clocks.event(event.cpu, event.time);
        while let Some((_, closed)) = closings.next_if(|(at, _)| *at == index) {
            walk.close(event, *closed, time);
        }
        match event.kind {
            Kind::PageAlloc => walk.open(event, slab, time),
            Kind::PageFree => {
                walk.clocks.traced_before(event.cpu, time, 0);
            }
            _ if slab == NO_SLAB => {
                // It ran, in a cache that is not looked at.
                walk.clocks.traced_before(event.cpu, time, 0);
            }
            Kind::CacheAlloc | Kind::Kmalloc => walk.alloc(event, slab, time),
            Kind::CacheFree | Kind::Kfree => walk.free(event, slab, time),
        }
    }
    let Walk { steps, live_at_start, unallocated, .. } = walk;
    Matched { steps, live_at_start, unallocated }
}

/// Brings the steps into the order in which they ran. Steps at the same time stay as
/// they are, which keeps each object's own order.
pub(super) fn sort(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| step.time_ns);
    steps
}

/// As far as slabs tell: the objects never seen.
fn initially_live(placed: &Placed) -> Vec<bool> {
    let mut live = vec![false; placed.nr_objects as usize];
    for slab in placed.slabs.iter().filter(|slab| slab.initial && slab.closed_at.is_none()) {
        live[slab.objects_range()].fill(true);
    }
    live
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    Live,
    Free,
}

#[derive(Clone, Copy)]
struct Object {
    /// When its last step ran.
    ran: u64,
    state: State,
}

#[derive(Clone, Copy, Default)]
struct Pages {
    /// When the getting of them ran; 0 if the trace does not show it.
    got: u64,
    /// They were got, and no allocation has come of them yet.
    fresh: bool,
}

struct Walk<'a> {
    input: &'a Input<'a>,
    slabs: &'a [Slab],
    oddities: &'a mut Oddities,
    clocks: Clocks,
    objects: Vec<Object>,
    /// Per slab.
    pages: Vec<Pages>,
    live_at_start: Vec<bool>,
    steps: Vec<Step>,
    unallocated: Vec<u64>,
}

impl Walk<'_> {
    fn open(&mut self, event: &Event, slab: u32, time: u64) {
        let got = self.clocks.pages_got(event.cpu, time);
        if slab != NO_SLAB {
            self.pages[slab as usize] = Pages { got, fresh: true };
        }
    }

    fn close(&mut self, event: &Event, slab: u32, time: u64) {
        let ran = self.clocks.traced_before(event.cpu, time, 0);
        for object in self.slabs[slab as usize].objects_range() {
            if self.objects[object].state == State::Live {
                self.oddities.missed_before_close += 1;
                self.missed_free(event, slab, object as u32, ran);
            }
        }
    }

    fn alloc(&mut self, event: &Event, slab: u32, time: u64) {
        let Some(object) = self.object(event, slab) else { return };
        let Object { ran: freed, state } = self.objects[object as usize];
        let pages = &mut self.pages[slab as usize];
        let ran = if std::mem::take(&mut pages.fresh) {
            self.clocks.first_of_slab(event.cpu, time, pages.got)
        } else {
            self.clocks.traced_after(event.cpu, time, freed.max(pages.got))
        };
        match state {
            State::Live => {
                self.oddities.missed_before_alloc += 1;
                self.missed_free(event, slab, object, ran);
            }
            State::Unseen => self.live_at_start[object as usize] = false,
            State::Free => {}
        }
        self.push(event, slab, object, ran, Op::Alloc);
    }

    fn free(&mut self, event: &Event, slab: u32, time: u64) {
        let Some(object) = self.object(event, slab) else { return };
        let Object { ran: allocated, state } = self.objects[object as usize];
        let ran = self.clocks.traced_before(event.cpu, time, allocated);
        match state {
            State::Live => {}
            State::Unseen if self.slabs[slab as usize].initial => {
                self.live_at_start[object as usize] = true;
            }
            State::Unseen => {
                self.oddities.freed_unallocated += 1;
                self.unallocated[self.slabs[slab as usize].cache as usize] += 1;
                return;
            }
            State::Free => {
                self.oddities.freed_twice += 1;
                self.unallocated[self.slabs[slab as usize].cache as usize] += 1;
                return;
            }
        }
        self.push(event, slab, object, ran, Op::Free);
    }

    fn missed_free(&mut self, event: &Event, slab: u32, object: u32, ran: u64) {
        let ran = ran.max(self.objects[object as usize].ran);
        self.push(event, slab, object, ran, Op::Free);
        if let Some(step) = self.steps.last_mut() {
            step.missed = true;
            step.node = crate::event::ANY_NODE;
        }
    }

    fn push(&mut self, event: &Event, slab: u32, object: u32, ran: u64, op: Op) {
        let state = if op == Op::Alloc { State::Live } else { State::Free };
        self.objects[object as usize] = Object { ran, state };
        self.steps.push(Step {
            time_ns: ran,
            object,
            slab,
            cache: self.slabs[slab as usize].cache,
            task: event.pid,
            cpu: event.cpu,
            node: event.node,
            op,
            missed: false,
        });
    }

    /// The object at the event's address.
    fn object(&mut self, event: &Event, slab: u32) -> Option<u32> {
        let slab = &self.slabs[slab as usize];
        let frames = &self.input.frames;
        // The slab was found by the address's frame, so this does not wrap.
        let within_page = event.address.wrapping_sub(frames.page_offset) % (1 << frames.page_shift);
        let pages = frames.of(event.address).wrapping_sub(slab.frame);
        let offset = (pages << frames.page_shift) + within_page;
        let nth = offset / u64::from(self.input.caches[slab.cache as usize].slab_size);
        if nth >= u64::from(slab.objects) {
            self.oddities.astray += 1;
            return None;
        }
        Some(slab.first_object + nth as u32)
    }
}
