//! Caches with debugging, like the kernel's `slab_debug=`: red zones, poison, tracks and
//! consistency checks in each call.
//!
//! The entries of such a cache stay zero, so every call takes the slow path, and caches without
//! debugging pay nothing. Objects are allocated from slabs as in the engine `tiny`. A freed object
//! waits in quarantine ([`quarantine`]) before it returns to its slab, so that no new allocation
//! hides a second free of the object or a write to it.
//!
//! Empty slabs are kept, up to [`EMPTY_BYTES`], so that writes to their objects are detected, too.
//! Other empty slabs are discarded after a last check.
//!
//! [`findings`] reports an error and sets the slab aside: the slab's objects are not allocated any
//! more. It also checks all objects of a cache.
//!
//! # Locks
//!
//! The list lock protects the list, the quarantine and the clearing of free bits. The thread that
//! owns an object, according to the object's state, fills and checks the object's parts without a
//! lock.
//!
//! # Equations (asserted by `verify`)
//!
//! In a slab that is not set aside, an object's state is Free if and only if its bit is set or it
//! is in quarantine; otherwise its state is Live. An object that waits for readers is Live.

pub mod findings;
mod quarantine;

use super::page_slabs::Ruled;
use super::slabs::{Group, Links, NodeList, Rules};
use super::{
    EngineFacts, EngineKind, Inspect, Moving, PageSlabs, PassState, Repair, Shape, SlowPaths,
    orphans, partial, tiny,
};
use crate::pages::PageHeap;
use crate::pages::finding::{By, Bytes, Call, FindingKind};
use crate::platform::Platform;
use crate::slab;
use crate::slab::debug::{
    Known, Layout, LayoutRequest, State, TrackKind, object, track, unused, whole,
};
use crate::slab::{Geometry, Object, Word, freeset};
use crate::sync::{AtomicU32, Once, Ordering};
use quarantine::Quarantine;
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

/// Debugging of one cache.
pub struct Debug {
    flags: AtomicU32,
    layout: Once<Layout>,
    quarantine: Quarantine,
}

/// The kernel's rules, for slabs whose objects are prepared.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a>(&'a Debug);

impl Ruled for Checked<'_> {
    const RULES: Rules = Rules::KERNEL;

    fn look_at_taken<P: Platform>(on: &PageSlabs<'_, P, Self>, shape: &Shape, slab: u32) {
        if on.rules.0.flags().has(Debug::LOOKS_AT) {
            unused::look_at_taken(on.heap, slab, 1 << shape.geometry.order);
        }
    }

    fn frees_clean(self) -> bool {
        self.0.flags().has(Debug::LOOKS_AT)
    }

    fn prepare<P: Platform>(on: &PageSlabs<'_, P, Self>, shape: &Shape, slab: u32) {
        whole::prepare_slab(on.heap, slab, on.rules.0.layout(), &shape.geometry);
    }

    fn ended<P: Platform>(on: &PageSlabs<'_, P, Self>, _shape: &Shape, slab: u32) {
        on.rules.0.look_at_ended(on.by(()), slab);
    }
}

/// Objects of malloc's larger classes, by which a multiple of this is aligned, are so too: a
/// request of more alignment is a run.
const MOST_ALIGN: u32 = 64;

/// Bytes of empty slabs that stay in a cache.
const EMPTY_BYTES: usize = 256 << 10;

impl Debug {
    /// Debugging of a cache that begins later.
    #[must_use]
    pub const fn with(flags: DebugFlags) -> Self {
        Debug {
            flags: AtomicU32::new(flags.bits() as u32),
            layout: Once::new(),
            quarantine: Quarantine::new(),
        }
    }

    /// With one of these the whole free object is looked at.
    const LOOKS_AT: DebugFlags = DebugFlags::CHECK.with(DebugFlags::POISON);

    /// What the cache has.
    pub fn flags(&self) -> DebugFlags {
        DebugFlags::of(self.flags.load(Ordering::Relaxed) as u8)
    }

    /// The parts of its objects.
    #[inline]
    pub fn layout(&self) -> &Layout {
        self.layout.get()
    }

    /// The geometry for these objects, which without debugging would have slabs of
    /// `order`. Called once, before the cache begins. `None` if these are no objects for slabs.
    pub fn lay_out(&self, asked: &LayoutRequest, order: u32, page_order: u32) -> Option<Geometry> {
        let first = asked.first;
        let mut flags = self.flags();
        let mut layout = Layout::new(flags, asked);
        let slab_bytes = (crate::platform::GRANULE as u32) << order;
        let is_low = flags.has(DebugFlags::LOW_ORDER);
        if is_low && layout.stride + layout.left + first > slab_bytes {
            flags = flags.without(DebugFlags::ROOM);
            self.flags.store(flags.bits().into(), Ordering::Relaxed);
            layout = Layout::new(flags, asked);
        }
        let geometry = layout.geometry(first, page_order)?;
        self.layout.set(layout);
        Some(if is_low { geometry.lowered(order) } else { geometry })
    }

    /// The link of a deferred free of an object.
    pub fn link_of(&self, address: usize) -> usize {
        object::link_of(self.layout(), address)
    }

    /// True if an object begins at an address and is not live.
    pub fn is_freed<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> bool {
        slab::begins_object(&on.heap.region, &on.cache.shape().geometry, address)
            && object::read_state(&on.heap.platform, self.layout(), address)
                .is_some_and(|k| k.state == State::Free)
    }

    /// True if an allocation is to fail.
    pub fn fails<P: Platform>(&self, heap: &PageHeap<P>) -> bool {
        self.flags().has(DebugFlags::FAIL)
            && heap.reports.hooks.try_get().is_some_and(|hooks| (hooks.fails)())
    }

    fn checked<'a, P>(&'a self, on: PageSlabs<'a, P>) -> PageSlabs<'a, P, Checked<'a>> {
        on.by(Checked(self))
    }

    fn trace<P: Platform>(&self, on: PageSlabs<'_, P>, call: Call, address: usize) {
        if self.flags().has(DebugFlags::TRACE)
            && let Some(hooks) = on.heap.reports.hooks.try_get()
        {
            (hooks.trace)(call, on.cache.shape().slot, address);
        }
    }

    /// Takes the object out of its slab that the next allocation gets, and claims it: one of which
    /// nothing was written to.
    fn take_sound<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        loop {
            let object = tiny::alloc_one(self.checked(on))?;
            let Err((what, bytes)) = self.claim_sound(on, object) else { return Some(object) };
            self.found(on, what, object, bytes);
            self.restore_free(on, object);
        }
    }

    /// Claims a free object for its allocation; says what is wrong with it.
    fn claim_sound<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        object: usize,
    ) -> Result<(), (FindingKind, Option<Bytes>)> {
        let known = self.expect_free(on, object)?;
        // Else a program wrote to its state between the two.
        let is_claimed = object::claim(&on.heap.platform, self.layout(), object, known);
        is_claimed.then_some(()).ok_or((FindingKind::State, None))
    }

    /// The state of an object that should be free; what is wrong with it if a program wrote there.
    fn expect_free<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        object: usize,
    ) -> Result<Known, (FindingKind, Option<Bytes>)> {
        let p = &on.heap.platform;
        let known = object::read_state(p, self.layout(), object)
            .filter(|known| known.state == State::Free)
            .ok_or((FindingKind::State, None))?;
        if self.flags().has(Self::LOOKS_AT)
            && let Some((what, bytes)) = object::wrong_of(p, self.layout(), object, known)
        {
            return Err((what, Some(bytes)));
        }
        Ok(known)
    }

    /// What is wrong with an object whose state a program wrote over: what ran over the state ran
    /// over the zone in front of it, most often.
    fn overwritten<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        object: usize,
    ) -> (FindingKind, Option<Bytes>) {
        let all = Known::new(State::Live, self.layout().object);
        let zone = object::wrong_of(&on.heap.platform, self.layout(), object, all);
        zone.map_or((FindingKind::State, None), |(what, bytes)| (what, Some(bytes)))
    }

    /// Makes an object of a slab that was set aside sound again, so that it is reported once.
    fn restore_free<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) {
        let known = Known::new(State::Free, 0);
        object::repair(&on.heap.platform, self.layout(), object, known);
    }

    /// Claims a live object for its free; says why it is none.
    fn claim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        object: usize,
    ) -> Result<Known, FindingKind> {
        loop {
            let known = object::read_state(&on.heap.platform, self.layout(), object)
                .ok_or(FindingKind::State)?;
            if known.state != State::Live {
                return Err(FindingKind::Free);
            }
            if object::claim(&on.heap.platform, self.layout(), object, known) {
                return Ok(known);
            }
        }
    }

    /// Returns an object, which is free, to its slab, unless a program wrote to it meanwhile: the
    /// slab may end with it.
    fn return_to_slab<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) {
        let shape = on.cache.shape();
        let resolved = slab::resolve(&on.heap.region, &shape.geometry, shape.slot, object);
        let Ok(Object { slab, index }) = resolved else {
            debug_assert!(false, "what is in quarantine is an object");
            return;
        };
        if let Err((what, bytes)) = self.expect_free(on, object) {
            self.found(on, what, object, bytes);
            self.restore_free(on, object);
        }
        if whole::is_slab_aside(&on.heap.region, slab) {
            on.heap.reports.set_aside.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (word, mask) = Word::of(index);
        tiny::free_one(self.checked(on), shape, &Group { slab, word, mask });
    }

    /// Sets the slab of an object aside.
    fn set_aside<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) {
        let shape = on.cache.shape();
        let resolved = slab::resolve(&on.heap.region, &shape.geometry, shape.slot, object);
        let Ok(Object { slab, .. }) = resolved else { return };
        let checked = self.checked(on);
        let mut list = partial::lock(&checked);
        if whole::is_slab_aside(&on.heap.region, slab) {
            return;
        }
        let lost = whole::set_slab_aside(on.heap, slab);
        on.cache.shown.out.fetch_add(lost.into(), Ordering::Relaxed);
        if NodeList::links(&checked, slab).is_listed() {
            list.unlink(checked, slab);
            list.publish(on.cache);
        }
    }
}

impl EngineKind for Debug {
    const NEW: Self =
        Debug::with(DebugFlags::CHECK.with(DebugFlags::RED_ZONE).with(DebugFlags::POISON));
    const SIZED: bool = true;

    fn like(other: &Self) -> Self {
        Debug::with(other.flags())
    }

    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        let align = (1 << object.trailing_zeros()).min(MOST_ALIGN);
        let asked = LayoutRequest { object, align, first: 0, body: object };
        self.lay_out(&asked, order.max(page_order), page_order)
            .expect("each class of malloc's fits the largest slab")
    }

    /// It parks nothing for a CPU.
    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts::of(EngineName::Tiny)
    }
}

impl SlowPaths for Debug {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let slab_bytes = on.cache.shape().geometry.slab_bytes();
        on.cache.set_min_partial((EMPTY_BYTES / slab_bytes) as u32);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let bytes = on.cache.shape().geometry.object as usize;
        self.alloc_sized(on, bytes, 1)
    }

    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        bytes: usize,
        _align: usize,
    ) -> Option<usize> {
        let _moving = Moving::new(on);
        let object = self.take_sound(on)?;
        let requested = (bytes as u32).min(on.cache.shape().geometry.object);
        track::set_track(on.heap, self.layout(), object, TrackKind::Alloc, requested);
        object::hand_out(&on.heap.platform, self.layout(), object, requested);
        self.trace(on, Call::Alloc(bytes), object);
        Some(object)
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = Moving::new(on);
        let (shape, layout) = (on.cache.shape(), self.layout());
        if slab::resolve(&on.heap.region, &shape.geometry, shape.slot, address).is_err() {
            return self.found_pointer(on, address);
        }
        match self.claim(on, address) {
            Ok(known) => {
                let wrong = object::wrong_of(&on.heap.platform, layout, address, known);
                if let Some((what, bytes)) = wrong {
                    self.found(on, what, address, Some(bytes));
                }
                self.look_at_tail(on, address);
                track::set_track(on.heap, layout, address, TrackKind::Free, known.requested);
                object::release(&on.heap.platform, layout, address);
                self.trace(on, Call::Free, address);
                // The oldest returns to its slab where there is no room for both.
                if let Some(oldest) = self.quarantine.push(on, address) {
                    self.return_to_slab(on, oldest);
                }
            }
            // Nothing is corrupt.
            Err(FindingKind::Free) => {
                self.report(on, (FindingKind::Free, By::Call), address, address, None);
            }
            Err(_) => {
                let (what, bytes) = self.overwritten(on, address);
                self.found(on, what, address, bytes);
                self.restore_free(on, address);
            }
        }
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let moving = Moving::aside(on);
        while let Some(oldest) = self.quarantine.pop(on) {
            self.return_to_slab(on, oldest);
        }
        drop(moving);
        self.discard_empty(on);
    }

    /// Empty slabs stay until they are asked for, as what waits in quarantine does.
    fn reclaim<P: Platform>(&self, _: PageSlabs<'_, P>, _: &mut PassState, _: u32) -> bool {
        false
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        partial::discard_all_empty(self.checked(on));
    }

    fn end<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.quarantine.end(on);
    }
}

impl Inspect for Debug {
    fn size_at<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> Option<usize> {
        let geometry = &on.cache.shape().geometry;
        if !slab::begins_object(&on.heap.region, geometry, address) {
            return None;
        }
        let known = object::read_state(&on.heap.platform, self.layout(), address);
        let has_zones = self.flags().has(DebugFlags::RED_ZONE);
        match known {
            Some(Known { state: State::Free, .. }) => None,
            Some(known) if has_zones => Some(known.requested as usize),
            _ => Some(geometry.object as usize),
        }
    }

    fn check_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slab: u32,
    ) -> Result<u32, &'static str> {
        if whole::is_slab_aside(&on.heap.region, slab) {
            return Ok(0);
        }
        let geometry = &on.cache.shape().geometry;
        for index in 0..geometry.objects {
            let object = slab::address_of(&on.heap.region, geometry, Object { slab, index });
            let known = object::read_state(&on.heap.platform, self.layout(), object);
            let expected =
                if freeset::is_free(on.heap, slab, index) { State::Free } else { State::Live };
            if known.is_none_or(|known| known.state != expected) {
                return Err("state of an object with debugging");
            }
        }
        Ok(0)
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        self.quarantine.each(on, f);
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        self.quarantine.is_published(on)
    }
}

impl Repair for Debug {
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        self.quarantine.forget(on);
        0
    }

    /// The state of an object is the truth here: one in nobody's hands is free.
    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        if whole::is_slab_aside(&on.heap.region, slab) {
            orphans::list(on, slab, 0);
            return 0;
        }
        let geometry = &on.cache.shape().geometry;
        for index in 0..geometry.objects {
            let object = slab::address_of(&on.heap.region, geometry, Object { slab, index });
            match object::read_state(&on.heap.platform, self.layout(), object)
                .map(|known| known.state)
            {
                Some(State::Live) => _ = freeset::mark(on.heap, slab, index, false),
                Some(State::Free) => _ = freeset::mark(on.heap, slab, index, true),
                Some(State::Busy) => {
                    object::release(&on.heap.platform, self.layout(), object);
                    freeset::mark(on.heap, slab, index, true);
                }
                // A program wrote there: the next look finds it.
                None => {}
            }
        }
        orphans::adopt(on, slab, of_cpu)
    }
}
