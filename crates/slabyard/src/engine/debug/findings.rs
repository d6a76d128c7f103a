//! Findings: checks all objects of a cache, reports errors, and sets the slab of a broken object
//! aside.
//!
//! Neighbours: [`crate::slab::debug`] compares bytes; the yard's hooks print reports
//! ([`crate::pages::finding`]). No lock is held in these functions.

use super::Debug;
use crate::engine::PageSlabs;
use crate::pages::finding::{By, Bytes, Finding, FindingKind};
use crate::platform::Platform;
use crate::slab;
use crate::slab::debug::{Known, State, object, whole};
use crate::slab::{Object, freeset};

/// Looks at an object that changes meanwhile, at most.
const LOOKS: usize = 8;

impl Debug {
    /// Reports what is wrong with an object, and sets its slab aside.
    #[cold]
    pub(super) fn found<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        what: FindingKind,
        object: usize,
        bytes: Option<Bytes>,
    ) {
        self.set_aside(on, object);
        self.report(on, (what, By::Call), object, object, bytes);
    }

    /// Reports a free of an address in a slab of the cache where no object begins.
    #[cold]
    pub(super) fn found_pointer<P: Platform>(&self, on: PageSlabs<'_, P>, pointer: usize) {
        let object = self.nearest(on, pointer);
        self.report(on, (FindingKind::Pointer, By::Call), object, pointer, None);
    }

    /// The object in whose stride an address is, its left zone included.
    fn nearest<P: Platform>(&self, on: PageSlabs<'_, P>, pointer: usize) -> usize {
        let geometry = &on.cache.shape().geometry;
        let begin = pointer & !(geometry.slab_bytes() - 1);
        let first = geometry.address_of(begin, 0) - self.layout().left as usize;
        let index = pointer.saturating_sub(first) / geometry.size as usize;
        geometry.address_of(begin, (index as u32).min(geometry.objects - 1))
    }

    pub(super) fn report<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        (what, by): (FindingKind, By),
        object: usize,
        pointer: usize,
        bytes: Option<Bytes>,
    ) {
        let (shape, layout) = (on.cache.shape(), self.layout());
        let geometry = &shape.geometry;
        let slab = object & !(geometry.slab_bytes() - 1);
        let state = |object| object::read_state(&on.heap.platform, layout, object);
        // By their states: of a slab that was set aside no object is in the free set.
        let is_used = |index: &u32| {
            let known = state(geometry.address_of(slab, *index));
            known.is_none_or(|known| known.state != State::Free)
        };
        on.heap.reports.finding(|| {
            let [allocated, freed] = object::tracks(&on.heap.platform, layout, object);
            Finding {
                what,
                by,
                slot: shape.slot,
                slab,
                slab_bytes: geometry.slab_bytes(),
                objects: [geometry.objects, (0..geometry.objects).filter(is_used).count() as u32],
                object,
                object_bytes: geometry.object,
                requested: state(object).map_or(geometry.object, |known| known.requested),
                pointer,
                bytes,
                allocated,
                freed,
            }
        });
    }

    /// Looks at each object of a slab of the cache, while others use them. Reports what is wrong,
    /// and restores it, so that the next look finds it sound; returns how many objects were wrong.
    pub fn look_through<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32) -> u32 {
        let shape = on.cache.shape();
        let geometry = &shape.geometry;
        let mut wrong = 0;
        for index in 0..geometry.objects {
            let object = slab::address_of(&on.heap.region, geometry, Object { slab, index });
            let version = freeset::free_of(&on.heap.region, slab).0;
            let Some((what, bytes, known)) = self.look_at(on, object) else { continue };
            if !slab::is_slab(&on.heap.region, slab, shape.slot)
                || freeset::free_of(&on.heap.region, slab).0 != version
            {
                // It ended meanwhile.
                return wrong;
            }
            wrong += 1;
            self.set_aside(on, object);
            self.report(on, (what, By::Look), object, object, bytes);
            object::restore_state(&on.heap.platform, self.layout(), object, known);
            object::repair(&on.heap.platform, self.layout(), object, known);
        }
        let begin = on.heap.region.address(slab);
        let version = freeset::free_of(&on.heap.region, slab).0;
        if let Some(bytes) = whole::wrong_tail(&on.heap.platform, self.layout(), geometry, begin)
            && slab::is_slab(&on.heap.region, slab, shape.slot)
            && freeset::free_of(&on.heap.region, slab).0 == version
        {
            wrong += 1;
            let last = geometry.address_of(begin, geometry.objects - 1);
            self.set_aside(on, last);
            self.report(on, (FindingKind::Tail, By::Look), last, last, Some(bytes));
            whole::fill_tail(&on.heap.platform, self.layout(), geometry, begin);
        }
        wrong
    }

    /// A last look at a discarded slab: all of its objects are free, and nobody else knows it.
    pub(super) fn look_at_ended<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32) {
        if !self.flags().has(Self::LOOKS_AT) {
            return;
        }
        let geometry = &on.cache.shape().geometry;
        let begin = on.heap.region.address(slab);
        for index in 0..geometry.objects {
            let object = geometry.address_of(begin, index);
            if let Err((what, bytes)) = self.expect_free(on, object) {
                self.report(on, (what, By::Call), object, object, bytes);
            }
        }
        if let Some(bytes) = whole::wrong_tail(&on.heap.platform, self.layout(), geometry, begin) {
            let last = geometry.address_of(begin, geometry.objects - 1);
            self.report(on, (FindingKind::Tail, By::Call), last, last, Some(bytes));
        }
    }

    /// At the free of a slab's last object: looks at what is behind it.
    pub(super) fn look_at_tail<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) {
        let geometry = &on.cache.shape().geometry;
        let slab = object & !(geometry.slab_bytes() - 1);
        if object == geometry.address_of(slab, geometry.objects - 1)
            && let Some(bytes) = whole::wrong_tail(&on.heap.platform, self.layout(), geometry, slab)
        {
            self.found(on, FindingKind::Tail, object, Some(bytes));
            whole::fill_tail(&on.heap.platform, self.layout(), geometry, slab);
        }
    }

    /// Reports the live objects of a slab of a cache that is to be destroyed; returns how many.
    pub fn report_live<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32) -> u32 {
        let geometry = &on.cache.shape().geometry;
        let mut live = 0;
        for index in 0..geometry.objects {
            let object = slab::address_of(&on.heap.region, geometry, Object { slab, index });
            if object::read_state(&on.heap.platform, self.layout(), object)
                .is_some_and(|k| k.state == State::Live)
            {
                self.report(on, (FindingKind::Remaining, By::Look), object, object, None);
                live += 1;
            }
        }
        live
    }

    /// What is wrong with an object, and what it should be; `None` also for one that a call
    /// changes all the time.
    fn look_at<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        object: usize,
    ) -> Option<(FindingKind, Option<Bytes>, Known)> {
        let layout = self.layout();
        for _ in 0..LOOKS {
            let Some(known) = object::read_state(&on.heap.platform, layout, object) else {
                // It is nobody's to change but a program's with a bug.
                let (what, bytes) = self.overwritten(on, object);
                return Some((what, bytes, Known::new(State::Live, layout.object)));
            };
            if known.state == State::Busy {
                continue;
            }
            let (what, bytes) = object::wrong_of(&on.heap.platform, layout, object, known)?;
            if object::is_still(&on.heap.platform, layout, object, known)
                && object::wrong_of(&on.heap.platform, layout, object, known) == Some((what, bytes))
                && object::is_still(&on.heap.platform, layout, object, known)
            {
                return Some((what, Some(bytes), known));
            }
        }
        None
    }
}
