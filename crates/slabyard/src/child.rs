//! The child of a fork: it has its parent's yard as it was at that moment, with the parent's other
//! threads wherever they were in their slow paths, and without them.
//!
//! A fork waits for no thread: between its handlers and the fork itself the C library waits for
//! locks (of streams, of the loader, of handlers that programs register) whose holders may wait for
//! memory. So the child repairs, at its first slow path, if a thread was inside. A stack of a row is always whole, because
//! one store commits it, so the fast path needs no repair. The others' slow paths keep an order that
//! makes repair possible, whatever their last store was (x86-64 shows stores in their order, and a
//! fork takes a consistent cut of them: a thread that runs on while the kernel copies page tables
//! writes to pages that the child shares, until its next store faults and waits for the fork):
//!
//! * the bitmap of a slab is its truth: an object's bit is set when it is in no stack, no barn and
//!   no hand, and cleared before it is in one;
//! * a descriptor's kind is the truth about pages ([`PageHeap::rebuild`]);
//! * a list of sheaves changes by one store;
//! * the top of a stopped stack is kept beside it ([`crate::yard::seen`]) until its objects begin to return
//!   to their slabs.
//!
//! All else follows: locks are free, lists are made anew, counts are counted. What a thread had in
//! its hands at the fork is live in the child for ever: at most a sheaf a thread, and a run on its
//! way to a bank or from there.
//!
//! Neighbours: [`crate::platform::birth`] tells a child; [`crate::gate`] knows where the parent's
//! threads were; engines do their part ([`Engine::begin_child`], [`Engine::adopt`]).
//! Invariant: while it works, no other thread is in a slow path; fast paths go on.
//!
//! [`PageHeap::rebuild`]: crate::pages::PageHeap

use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::pages::bank;
use crate::platform::birth::{CHILD, REPAIRING, WHOLE};
use crate::platform::{Platform, Slot};
use crate::slab::Object;
use crate::sync::Ordering;
use crate::verify::planted::Part;
use crate::yard::reclaim::pass::Pass;
use crate::yard::stacks::Stacks;
use crate::yard::{Place, Yard};

/// On a slab's descriptor, in place of whether it is listed: a CPU has it. (A check has a mark of
/// its own, which may be left there.)
const OF_CPU: u32 = 3;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Called before a fork, where a handler can be.
    pub fn begin_fork(&self) {
        self.platform().begin_fork();
    }

    /// Called in the parent after a fork.
    pub fn end_fork(&self) {
        self.platform().end_fork();
    }

    /// Called in the child of a fork, where a handler can be: it needs none where the system tells
    /// a child by itself.
    pub fn mark_child(&self) {
        self.platform().mark_child();
        self.platform().end_fork();
    }

    /// At the begin of a slow path, outside of the gate.
    #[inline(always)]
    pub(crate) fn look_at_birth(&self) {
        // Acquire pairs with the Release in `begin_child`.
        if self.platform().birth().load(Ordering::Acquire) != WHOLE {
            self.begin_child();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_child(&self) {
        let p = self.platform();
        let word = p.birth();
        loop {
            let (set, seen) = (Ordering::Acquire, Ordering::Acquire);
            match word.compare_exchange(CHILD, REPAIRING, set, seen) {
                Ok(_) => break,
                Err(WHOLE) => {
                    // The one that repaired wakes one sleeper: each wakes the next.
                    p.wake(word);
                    return;
                }
                Err(other) => p.wait(word, other),
            }
        }
        p.begin_child();
        self.forget_mail();
        self.forget_readers();
        // A handler makes and frees mappings outside of slow paths.
        self.large.guarded.begin_child();
        let others = self.gate.forget();
        if (others.inside || others.looked) && !self.planted.leaves_out(Part::All) {
            self.repair(others.looked);
        }
        word.store(WHOLE, Ordering::Release);
        p.wake(word);
    }

    /// Repairs what threads left half done that are not there; with `marked`, one may have had marks
    /// in bitmaps, as a check sets them.
    pub(crate) fn repair(&self, marked: bool) {
        let p = self.platform();
        self.drain.abandon();
        let mut pass = self.drain.lock(p);
        *pass = Pass::new();
        self.open.store(0, Ordering::Relaxed);
        self.running_deferred.store(0, Ordering::Relaxed);
        self.heap.abandon_locks();
        let mut parked_bytes = 0;
        for number in self.caches.numbers() {
            if self.planted.leaves_out(Part::Caches) {
                break;
            }
            let cache = self.caches.get(number);
            let objects = cache.engine.begin_child(cache.on(&self.heap));
            parked_bytes += objects as usize * cache.shape().geometry.size as usize;
        }
        self.heap.parked_node_bytes.store(parked_bytes, Ordering::Relaxed);
        self.waiting.batches.begin_child(&self.heap, |address| match self.place_of(address) {
            Place::Object { bytes, .. } | Place::Large(bytes) => bytes,
            _ => 0,
        });
        self.heap.count_held_anew();
        if marked {
            self.clear_marks();
        }
        if !self.planted.leaves_out(Part::Stopped) {
            self.take_stopped();
        }
        if !self.planted.leaves_out(Part::Slabs) {
            self.adopt_slabs();
        }
        for number in self.caches.numbers() {
            let cache = self.caches.get(number);
            cache.engine.end_begin_child(cache.on(&self.heap));
        }
        drop(pass);
    }

    /// Clears the bits of parked objects: a check had set some of them.
    fn clear_marks(&self) {
        let clear = |slot: Slot, address: usize| {
            let Some(number) = number_of(slot) else { return };
            let shape = self.caches.get(number).shape();
            if let Ok(Object { slab, index }) =
                self.heap.resolve(&shape.geometry, shape.slot, address)
            {
                self.heap.mark(slab, index, false);
            }
        };
        // Of a stopped stack it finds nothing: its marked objects are free from now on.
        self.as_it_is().each_parked_cpu(&mut |slot, address| clear(slot, address));
        self.each_waiting(&mut |slot, address| clear(slot, address));
        for number in self.caches.used.caches() {
            let cache = self.caches.get(number);
            let slot = slot_of(number);
            cache.engine.each_parked(cache.on(&self.heap), |address| clear(slot, address));
        }
    }

    /// Takes stopped stacks out of their entries: their objects that are not in their slabs yet
    /// return there. (Runs in them are in no list, so they are free; those of a bank are said so.)
    fn take_stopped(&self) {
        let rows = self.platform().rows();
        for (row, slot) in self.entries(Stacks::All) {
            let entry = rows.entry(row, slot);
            if !entry.is_stopped() {
                continue;
            }
            if bank::is_bank(slot)
                && let Some(top) = self.seen.kept_top(row, slot)
            {
                for run in self.heap.sheaves.objects_of(top) {
                    self.heap.forget_banked(run.load(Ordering::Relaxed));
                }
            }
            if let Some(number) = number_of(slot)
                && let Some(top) = self.seen.kept_top(row, slot)
            {
                let cache = self.caches.get(number);
                let shape = cache.shape();
                if slot == shape.main() || cache.engine.has_objects_in_spare() {
                    for object in self.heap.sheaves.objects_of(top) {
                        let address = object.load(Ordering::Relaxed);
                        if let Ok(Object { slab, index }) =
                            self.heap.resolve(&shape.geometry, shape.slot, address)
                        {
                            self.heap.mark(slab, index, true);
                        }
                    }
                }
            }
            entry.start_without();
            self.seen.forget_top(row, slot);
        }
    }

    /// Walks over all pages: makes the lists of free memory and of slabs.
    fn adopt_slabs(&self) {
        let heap = &self.heap;
        let now = self.as_it_is();
        now.each_slab_of_cpus(&mut |slab| {
            heap.region.descriptor(slab).time.store(OF_CPU, Ordering::Relaxed);
        });
        now.each_parked_cpu(&mut |slot, address| {
            if number_of(slot).is_none() {
                heap.mark_on_list(address);
            }
        });
        for number in self.caches.numbers() {
            self.caches.get(number).tally.take();
        }
        heap.rebuild(|slab| {
            let descriptor = heap.region.descriptor(slab);
            let number = number_of(Slot(descriptor.slot()));
            let Some(number) = number.filter(|number| self.caches.is_there(*number)) else {
                return;
            };
            let cache = self.caches.get(number);
            let time = descriptor.time.load(Ordering::Relaxed);
            if time != 0 {
                // On no list so far.
                descriptor.time.store(0, Ordering::Relaxed);
            }
            let of_cpu = time == OF_CPU;
            heap.write_map_anew(slab, &cache.shape().geometry);
            let free = cache.engine.adopt(cache.on(heap), slab, of_cpu);
            cache.tally.add([1, 0, free.into()]);
        });
        for number in self.caches.numbers() {
            let cache = self.caches.get(number);
            let [slabs, _, free] = cache.tally.take();
            let objects = slabs * u64::from(cache.shape().geometry.objects);
            cache.count_anew(slabs, objects - free);
        }
    }
}
