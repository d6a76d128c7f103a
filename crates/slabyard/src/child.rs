//! The child of a fork: it has a copy of its parent's yard at the moment of the fork. The parent's
//! other threads, each of which may have been anywhere in a slow path, are gone.
//!
//! A fork waits for no thread. Between the fork handlers and the fork itself the C library waits
//! for locks (of streams, of the loader, of registered handlers) whose holders may in turn wait for
//! memory. So the child repairs the yard, in its first slow path, if any other thread was in a slow
//! path at the fork. A CPU's stack is always consistent, because one store commits each change, so
//! the fast path needs no repair. While the kernel copies page tables, a running thread writes to
//! pages that the child shares, until a store faults and waits for the fork. Later stores in program
//! order are not made then, and the kernel's flush of the TLBs waits for all earlier ones: x86-64 and
//! aarch64 have precise faults. So slow paths write in an order that makes repair possible:
//!
//! * the bitmap of a slab is authoritative: an object's bit is set when the object is in no stack,
//!   no barn and no thread's hands, and is cleared before the object enters one of them;
//! * a descriptor's kind is authoritative for its pages
//!   ([`rebuild`](crate::pages::rebuild::rebuild));
//! * one store commits each change of a list of sheaves;
//! * the top of a stopped stack is saved beside it ([`crate::yard::idle_stacks`]) until the thread
//!   that stopped it begins to flush its objects.
//!
//! The repair derives everything else: it frees all locks, rebuilds the lists and recounts. Objects
//! that a thread was moving at the fork stay live in the child for ever: at most a sheaf per
//! thread, and a run on its way to or from a bank.
//!
//! Two other designs were rejected. A gate that is closed for a fork makes threads wait for locks
//! that the allocator does not know. Letting threads bypass the gate after a millisecond (an
//! earlier version) cost a mapping per object. A log of each slow path's changes slows every call.
//!
//! Neighbours: [`crate::platform::birth`] detects that a process is a child; [`crate::gate`] knows
//! whether the parent's threads were in slow paths; engines repair their own state
//! ([`crate::engine::Repair`]).
//! Invariant: while the repair runs, no other thread is in a slow path; fast paths continue.
//!

use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::mail;
use crate::pages::{bank, held, rebuild};
use crate::platform::birth::{CHILD, REPAIRING, WHOLE};
use crate::platform::{Planted, Platform, Repair, Slot};
use crate::quiesced::as_it_is;
use crate::reclaim::walk::{Stacks, entries};
use crate::slab::freeset;
use crate::sync::Ordering;
use crate::waiting::{each_waiting, forget_readers};
use crate::yard::pass::Pass;
use crate::yard::{AddressKind, Yard};

/// On a slab's descriptor, instead of whether it is listed: a CPU has it. (A check has a mark of
/// its own, which may be left there.)
const OF_CPU: u32 = 3;

/// Called in the child of a fork, where a handler can be: it needs none where the kernel tells
/// a child by itself.
pub fn mark_child<P: Platform>(p: &P) {
    p.mark_child();
    p.end_fork();
}

/// At the start of a slow path, outside of the gate.
#[inline(always)]
pub(crate) fn look_at_birth<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    // Acquire pairs with the Release in `begin_child`.
    if yard.platform().birth().load(Ordering::Acquire) != WHOLE {
        begin_child(yard);
    }
}

#[cold]
#[inline(never)]
fn begin_child<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    let word = p.birth();
    loop {
        // Acquire, of who finds it repaired: pairs with the Release below.
        let (set, seen) = (Ordering::Relaxed, Ordering::Acquire);
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
    mail::forget_mail(yard);
    forget_readers(yard);
    // A handler makes and frees mappings outside of slow paths.
    yard.large.guarded.begin_child();
    let others = yard.gate.forget();
    if (others.inside || others.looked) && !p.has_planted(Planted::Unrepaired(Repair::All)) {
        repair(yard, others.looked);
    }
    word.store(WHOLE, Ordering::Release);
    p.wake(word);
}

/// Repairs what threads left half done that are not there; with `marked`, one may have had marks
/// in bitmaps, as a check sets them.
pub(crate) fn repair<P: Platform, E: Engine>(yard: &Yard<P, E>, marked: bool) {
    let p = yard.platform();
    yard.drain.abandon();
    let mut pass = yard.drain.lock(p);
    *pass = Pass::new();
    yard.open.store(0, Ordering::Relaxed);
    yard.running_deferred.store(0, Ordering::Relaxed);
    rebuild::abandon_locks(&yard.heap);
    let mut parked_bytes = 0;
    for number in yard.caches.numbers() {
        if p.has_planted(Planted::Unrepaired(Repair::Caches)) {
            break;
        }
        let cache = yard.caches.get(number);
        let objects = cache.engine.begin_child(cache.on(&yard.heap));
        parked_bytes += objects as usize * cache.shape().geometry.size as usize;
    }
    yard.heap.barn_bytes.parked.store(parked_bytes, Ordering::Relaxed);
    yard.waiting.batches.begin_child(&yard.heap, |address| match yard.place_of(address) {
        AddressKind::Object { bytes, .. } | AddressKind::Large(bytes) => bytes,
        _ => 0,
    });
    held::count_anew(&yard.heap);
    if marked {
        clear_marks(yard);
    }
    if !p.has_planted(Planted::Unrepaired(Repair::Stopped)) {
        take_stopped(yard);
    }
    if !p.has_planted(Planted::Unrepaired(Repair::Slabs)) {
        adopt_slabs(yard);
    }
    for number in yard.caches.numbers() {
        let cache = yard.caches.get(number);
        cache.engine.end_begin_child(cache.on(&yard.heap));
    }
    drop(pass);
}

/// Clears the bits of parked objects: a check had set some of them.
fn clear_marks<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let clear = &mut |slot: Slot, address: usize| {
        if let Some(number) = number_of(slot) {
            yard.caches.get(number).mark(&yard.heap, address, false);
        }
    };
    // Of a stopped stack it finds nothing: its marked objects are free from now on.
    as_it_is(yard).each_parked_cpu(Stacks::All, clear);
    each_waiting(yard, clear);
    as_it_is(yard).each_parked_node(Stacks::All, clear);
}

/// Takes stopped stacks out of their entries: their objects that are not in their slabs yet
/// return there. (Runs in them are in no list, so they are free; those of a bank are said so.)
fn take_stopped<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let rows = yard.platform().rows();
    for (row, slot) in entries(yard, Stacks::All) {
        let entry = rows.entry(row, slot);
        if !entry.is_stopped() {
            continue;
        }
        if bank::is_bank(slot)
            && let Some(top) = yard.idle_stacks.kept_top(row, slot)
        {
            for run in yard.heap.sheaves.objects_of(top) {
                bank::forget(&yard.heap.region, run.load(Ordering::Relaxed));
            }
        }
        if let Some(number) = number_of(slot)
            && let Some(top) = yard.idle_stacks.kept_top(row, slot)
        {
            let cache = yard.caches.get(number);
            if slot == cache.shape().main() || cache.engine.facts().has_objects_in_spare {
                for object in yard.heap.sheaves.objects_of(top) {
                    cache.mark(&yard.heap, object.load(Ordering::Relaxed), true);
                }
            }
        }
        entry.start_without();
        yard.idle_stacks.forget_top(row, slot);
    }
}

/// Walks over all pages: makes the lists of free memory and of slabs.
fn adopt_slabs<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let heap = &yard.heap;
    let now = as_it_is(yard);
    now.each_slab_of_cpus(&mut |slab| {
        heap.region.descriptor(slab).time.store(OF_CPU, Ordering::Relaxed);
    });
    now.each_parked_cpu(Stacks::Runs, &mut |_, address| {
        rebuild::mark_on_list(&heap.region, address);
    });
    for number in yard.caches.numbers() {
        yard.caches.get(number).tally.take();
    }
    rebuild::rebuild(heap, |slab| {
        let descriptor = heap.region.descriptor(slab);
        let number = number_of(Slot(descriptor.slot()));
        let Some(number) = number.filter(|number| yard.caches.is_there(*number)) else {
            return;
        };
        let cache = yard.caches.get(number);
        let time = descriptor.time.load(Ordering::Relaxed);
        if time != 0 {
            // On no list so far.
            descriptor.time.store(0, Ordering::Relaxed);
        }
        let of_cpu = time == OF_CPU;
        freeset::write_map_anew(&heap.region, slab, &cache.shape().geometry);
        let free = cache.engine.adopt(cache.on(heap), slab, of_cpu);
        cache.tally.add([1, 0, free.into()]);
    });
    for number in yard.caches.numbers() {
        let cache = yard.caches.get(number);
        let [slabs, _, free] = cache.tally.take();
        let objects = slabs * u64::from(cache.shape().geometry.objects);
        cache.count_anew(slabs, objects - free);
    }
}
