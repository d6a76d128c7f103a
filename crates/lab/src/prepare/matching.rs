//! Finds the object of each event, and the frees that the trace missed.
//!
//! An object's number is the first number of its slab plus its index in the slab, so one array
//! matches frees to allocations. An allocation of a live object shows that the trace missed its
//! free; so does the free of a slab that still has live objects. If the first event of an object in
//! an initial slab is a free, the object was live at the start; if it is an allocation, the object
//! was free. Nothing is known about objects without an event. In a slab that is freed later they
//! count as free; in other slabs they count as live, because a free object would probably have been
//! allocated.
//!
//! [`super::frames`] supplies the slabs; [`super::order`] decides when each step runs.

use super::error::Error;
use super::frames::{NO_SLAB, Slab};
use super::input::{CacheFacts, CacheNumber};
use super::numbers::{NO_NUMBER, Numbering, Numbers};
use super::oddities::Oddities;
use super::order::{Clocks, Order};
use crate::event::{ANY_NODE, Event, EventKind};
use crate::trace::Frames;
use slabyard_model::cache::AllocCall;
use std::collections::HashMap;
use std::sync::Arc;

/// Of an object, by the model's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StepKind {
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
    /// Of the object.
    pub cache: CacheNumber,
    /// The task, as the trace numbers it; 0: an idle CPU, or an interrupt of one.
    pub task: u32,
    /// As the trace numbers it.
    pub cpu: u16,
    /// The requested node, or [`ANY_NODE`].
    pub node: i16,
    /// What is done.
    pub op: StepKind,
    /// By which call.
    pub via: Via,
    /// The trace missed this one: it is put in so that the objects' lives fit.
    pub missed: bool,
    /// An allocation that may not wait for memory.
    pub nowait: bool,
}

/// The call that a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// `kmem_cache_alloc()`, `kmem_cache_free()` and the like.
    Plain,
    /// `kmem_cache_alloc_from_sheaf()`. The caller's sheaf has so many objects before, as it was
    /// prefilled; 1 where that was for an allocation before.
    Prefilled(u8),
    /// An allocation for which the kernel made so many slabs, and that took an object of another one:
    /// its refill was delayed, and another task gave the CPU a sheaf, or it went on at another CPU.
    Delayed(u8),
    /// `kfree_rcu()`, when it was called.
    Rcu,
    /// A missed free of a cache that misses many: `kfree_rcu()`, or another call without an event,
    /// whose grace period was over here.
    AfterReaders,
}

const _: () = assert!(size_of::<Step>() == 32);

impl Via {
    /// That of an allocation, by the model.
    #[must_use]
    pub fn alloc_call(self) -> AllocCall {
        match self {
            Via::Prefilled(least) => AllocCall::Prefilled(least.into()),
            Via::Delayed(slabs) => AllocCall::Delayed(slabs.into()),
            Via::Plain | Via::Rcu | Via::AfterReaders => AllocCall::Plain,
        }
    }
}

/// Brings the steps into the order in which they ran. Steps at the same time stay as
/// they are, which keeps each object's own order.
pub(super) fn sort(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| step.time_ns);
    steps
}

/// Finds the object of each event, and when it ran, one event at a time. Memory is that of
/// objects and, a few words each, slabs.
pub(super) struct Walk {
    caches: Arc<[CacheFacts]>,
    frames: Frames,
    slabs: Arc<Vec<Slab>>,
    pub(super) oddities: Oddities,
    clocks: Clocks,
    objects: Vec<Object>,
    /// Per slab.
    pages: Vec<Pages>,
    numbers: Numbers,
    nodes: Option<CacheNumber>,
    /// Slabs that a task made of a cache with sheaves, and has not allocated since.
    refills: HashMap<(u32, CacheNumber), Vec<u32>>,
    /// Of each task that has a prefilled sheaf, what it asked for; 1 once it took an object. `None` where
    /// no event tells of prefilled sheaves.
    prefilled: Option<HashMap<u32, u8>>,
    /// As far as it is known by now, of the objects of initial slabs.
    pub(super) live_at_start: Vec<bool>,
    /// Per cache: frees of objects that no event had allocated.
    pub(super) unallocated: Vec<u64>,
    /// Found since it was taken, in the trace's order.
    pub(super) steps: Vec<Step>,
}

/// The objects never seen, as far as slabs tell.
pub(super) fn initially_live(slabs: &[Slab]) -> Vec<bool> {
    let numbered = slabs.iter().filter(|slab| slab.first_object != NO_NUMBER);
    let mut live = vec![false; numbered.map(|slab| slab.objects as usize).sum()];
    for slab in slabs.iter().filter(|slab| slab.initial && slab.closed_at.is_none()) {
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

const UNSEEN: Object = Object { ran: 0, state: State::Unseen };

#[derive(Clone, Copy)]
struct Pages {
    /// When the getting of them ran; 0 if the trace does not show it.
    got: u64,
    /// Number of the first object, or [`NO_NUMBER`].
    first_object: u32,
    /// They were allocated, and no object in them has appeared yet.
    fresh: bool,
}

impl Walk {
    pub(super) fn new(
        caches: &Arc<[CacheFacts]>,
        frames: Frames,
        slabs: &Arc<Vec<Slab>>,
        order: Order,
        numbering: Numbering,
        live_at_start: Vec<bool>,
    ) -> Walk {
        let numbered = slabs.iter().filter(|slab| slab.first_object != NO_NUMBER);
        let objects = numbered.map(|slab| slab.objects).sum::<u32>();
        let pages = |slab: &Slab| Pages { got: 0, first_object: slab.first_object, fresh: false };
        Walk {
            caches: Arc::clone(caches),
            frames,
            slabs: Arc::clone(slabs),
            oddities: Oddities::default(),
            clocks: Clocks::new(order),
            objects: vec![UNSEEN; objects as usize],
            pages: slabs.iter().map(pages).collect(),
            numbers: Numbers::new(numbering, objects),
            nodes: CacheFacts::of_tree_nodes(caches),
            refills: HashMap::new(),
            prefilled: None,
            live_at_start,
            unallocated: vec![0; caches.len()],
            steps: Vec::new(),
        }
    }

    /// Number of objects so far.
    pub(super) fn nr_objects(&self) -> u32 {
        self.numbers.next()
    }

    /// For each initial slab, objects that no event has named so far.
    pub(super) fn untold(&self) -> Vec<u32> {
        let unseen = |object: &&Object| object.state == State::Unseen;
        let initial = self.slabs.iter().take_while(|slab| slab.initial);
        initial
            .map(|slab| self.objects[slab.objects_range()].iter().filter(unseen).count() as u32)
            .collect()
    }

    /// The next event, which is of a slab, or of none, and closed some.
    pub(super) fn event(&mut self, event: &Event, slab: u32, closed: &[u32]) -> Result<(), Error> {
        let time = self.clocks.event(event.cpu, event.time);
        for slab in closed {
            self.close(event, *slab, time);
        }
        match event.kind {
            EventKind::PageAlloc => self.open(event, slab, time)?,
            EventKind::PageFree => {
                self.clocks.traced_before(event.cpu, time, 0);
            }
            EventKind::PrefillSheaf => {
                let least = event.requested.clamp(1, u8::MAX.into()) as u8;
                self.prefilled.get_or_insert_default().insert(event.pid, least);
            }
            EventKind::ReturnSheaf => {
                self.prefilled.get_or_insert_default().remove(&event.pid);
            }
            _ if slab == NO_SLAB => {
                // It ran, in a cache that is not looked at.
                self.clocks.traced_before(event.cpu, time, 0);
            }
            EventKind::CacheAlloc | EventKind::Kmalloc => self.alloc(event, slab, time)?,
            EventKind::CacheFree | EventKind::Kfree | EventKind::KfreeRcu => {
                self.free(event, slab, time)?;
            }
            // They name no object.
            _ => {}
        }
        Ok(())
    }

    /// The cache of a slab, if the traced kernel has sheaves in it.
    fn cache_with_sheaves(&self, slab: u32) -> Option<CacheNumber> {
        let cache = self.slabs[slab as usize].cache;
        (self.caches[usize::from(cache)].sheaf_capacity > 0).then_some(cache)
    }

    /// By which call a node of a maple tree is allocated.
    fn via_of_node(&mut self, event: &Event) -> Via {
        if let Some(sheaves) = &mut self.prefilled {
            let least = sheaves.get_mut(&event.pid).map(|least| std::mem::replace(least, 1));
            return least.map_or(Via::Plain, Via::Prefilled);
        }
        // Such an allocation may not wait for memory.
        if event.may_wait() { Via::Plain } else { Via::Prefilled(1) }
    }

    fn open(&mut self, event: &Event, slab: u32, time: u64) -> Result<(), Error> {
        let got = self.clocks.pages_got(event.cpu, time);
        if slab != NO_SLAB {
            let pages = &mut self.pages[slab as usize];
            (pages.got, pages.fresh) = (got, true);
            if pages.first_object == NO_NUMBER {
                self.number(slab, got)?;
            }
            if let Some(cache) = self.cache_with_sheaves(slab) {
                self.refills.entry((event.pid, cache)).or_default().push(slab);
            }
        }
        Ok(())
    }

    fn number(&mut self, slab: u32, from: u64) -> Result<u32, Error> {
        let objects = self.slabs[slab as usize].objects;
        let first = self.numbers.take(objects, from)?;
        let end = first as usize + objects as usize;
        if end > self.objects.len() {
            self.objects.resize(end, UNSEEN);
        }
        self.objects[first as usize..end].fill(UNSEEN);
        self.pages[slab as usize].first_object = first;
        Ok(first)
    }

    fn close(&mut self, event: &Event, slab: u32, time: u64) {
        let ran = self.clocks.traced_before(event.cpu, time, 0);
        let first = self.pages[slab as usize].first_object;
        if first == NO_NUMBER {
            return;
        }
        let Slab { objects, initial, .. } = self.slabs[slab as usize];
        let mut until = ran;
        for object in first..first + objects {
            let state = self.objects[object as usize].state;
            // Only a list tells that an object was live which no event shows.
            let of_list = state == State::Unseen && initial && self.live_at_start[object as usize];
            if state == State::Live || of_list {
                self.oddities.missed_before_close += 1;
                self.missed_free(event, slab, object, ran);
            }
            until = until.max(self.objects[object as usize].ran);
        }
        if self.numbers.numbering == Numbering::Again && !initial {
            self.numbers.give_back(objects, until, first);
            self.pages[slab as usize].first_object = NO_NUMBER;
        }
    }

    fn alloc(&mut self, event: &Event, slab: u32, time: u64) -> Result<(), Error> {
        let Some(object) = self.object(event, slab)? else { return Ok(()) };
        let Object { ran: freed, state } = self.objects[object as usize];
        let with_sheaves = self.cache_with_sheaves(slab);
        let made = with_sheaves.and_then(|cache| self.refills.remove(&(event.pid, cache)));
        let pages = &mut self.pages[slab as usize];
        // A refill's last slab comes first; what is on top of a sheaf may come much later.
        let is_first = std::mem::take(&mut pages.fresh) && with_sheaves.is_none();
        let ran = if is_first {
            self.clocks.first_of_slab(event.cpu, time, pages.got)
        } else {
            self.clocks.traced_after(event.cpu, time, freed.max(pages.got))
        };
        match state {
            State::Live => {
                self.oddities.missed_before_alloc += 1;
                self.missed_free(event, slab, object, ran);
            }
            State::Unseen => self.begin(object, false),
            State::Free => {}
        }
        let is_node = self.nodes == Some(self.slabs[slab as usize].cache);
        let via = if is_node { self.via_of_node(event) } else { Via::Plain };
        let delayed = made.filter(|made| !made.contains(&slab));
        let via = match (via, delayed) {
            (Via::Plain, Some(made)) => Via::Delayed(made.len().min(u8::MAX.into()) as u8),
            (via, _) => via,
        };
        self.push(event, slab, object, ran, (StepKind::Alloc, via));
        Ok(())
    }

    fn free(&mut self, event: &Event, slab: u32, time: u64) -> Result<(), Error> {
        let Some(object) = self.object(event, slab)? else { return Ok(()) };
        let Object { ran: allocated, state } = self.objects[object as usize];
        let ran = self.clocks.traced_before(event.cpu, time, allocated);
        match state {
            State::Live => {}
            State::Unseen if self.slabs[slab as usize].initial => self.begin(object, true),
            State::Unseen => {
                self.oddities.freed_unallocated += 1;
                self.unallocated[self.slabs[slab as usize].cache as usize] += 1;
                return Ok(());
            }
            State::Free => {
                self.oddities.freed_twice += 1;
                self.unallocated[self.slabs[slab as usize].cache as usize] += 1;
                return Ok(());
            }
        }
        let via = if event.kind == EventKind::KfreeRcu { Via::Rcu } else { Via::Plain };
        self.push(event, slab, object, ran, (StepKind::Free, via));
        Ok(())
    }

    /// Records what an object's first event says of its start; objects in slabs that the trace
    /// itself opened are unknown here.
    fn begin(&mut self, object: u32, live: bool) {
        if let Some(at_start) = self.live_at_start.get_mut(object as usize) {
            *at_start = live;
        }
    }

    fn missed_free(&mut self, event: &Event, slab: u32, object: u32, ran: u64) {
        let ran = ran.max(self.objects[object as usize].ran);
        let event = Event { node: ANY_NODE, ..*event };
        self.push(&event, slab, object, ran, (StepKind::Free, Via::AfterReaders));
    }

    fn push(
        &mut self,
        event: &Event,
        slab: u32,
        object: u32,
        ran: u64,
        (op, via): (StepKind, Via),
    ) {
        let state = if op == StepKind::Alloc { State::Live } else { State::Free };
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
            via,
            missed: via == Via::AfterReaders,
            nowait: op == StepKind::Alloc && !event.may_wait(),
        });
    }

    /// The object at the event's address.
    fn object(&mut self, event: &Event, slab: u32) -> Result<Option<u32>, Error> {
        let (number, slab) = (slab, &self.slabs[slab as usize]);
        // The slab was found by the address's frame.
        let nth = self.frames.within(slab.frame, event.address)
            / u64::from(self.caches[slab.cache as usize].slab_size);
        if nth >= u64::from(slab.objects) {
            self.oddities.astray += 1;
            return Ok(None);
        }
        let first = match self.pages[number as usize].first_object {
            // The trace does not show when its pages were got.
            NO_NUMBER => self.number(number, 0)?,
            first => first,
        };
        Ok(Some(first + nth as u32))
    }
}
