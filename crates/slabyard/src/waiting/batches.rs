//! Fills batches of freed objects that wait for readers. Once a batch's epoch is over, its objects
//! are pushed onto the CPU's stack, so that they are soon allocated again; full sheaves move from
//! there to the barn.
//!
//! Neighbours: [`crate::yard::waiting`] stores the batches; [`super`] decides when to free one.

use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::inside::{free_inside, push};
use crate::pages::sheaf::NO_SHEAF;
use crate::pages::{Sheaf, held};
use crate::platform::Platform;
use crate::sync::Ordering;
use crate::yard::waiting::{BATCH, BatchShard, PARTS, Tickets};
use crate::yard::{AddressKind, Yard};

/// Bytes of objects that may wait.
pub const MOST_BYTES: usize = 32 << 20;

/// A batch that is not full is closed after this many milliseconds, at the next slow path.
const OLD_MS: u64 = 20;

/// Puts an object into the caller's open batch.
pub(crate) fn take_for_readers<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    bytes: usize,
) -> Result<(), NotTaken> {
    let batches = &yard.waiting.batches;
    // Counted first: a slow path that frees it counts it off.
    batches.objects.fetch_add(1, Ordering::Relaxed);
    let waiting = batches.bytes.fetch_add(bytes, Ordering::Relaxed);
    let mut taken = if waiting > MOST_BYTES { Err(NotTaken::Full) } else { put(yard, address) };
    if taken == Err(NotTaken::Full) {
        hurry(yard);
        if batches.bytes.load(Ordering::Relaxed) <= MOST_BYTES {
            taken = put(yard, address);
        }
    }
    if taken.is_err() {
        batches.objects.fetch_sub(1, Ordering::Relaxed);
        batches.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    taken
}

/// Closes all batches, and frees what readers let: there are too many.
#[cold]
fn hurry<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let all = Tickets([u64::MAX; PARTS]);
    close_batches(yard, &all);
    for _ in 0..PARTS {
        serve_waiting(yard);
    }
}

fn put<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Result<(), NotTaken> {
    let (p, sheaves) = (yard.platform(), &yard.heap.sheaves);
    let mut part = yard.waiting.batches.own(p);
    let mut batch = match sheaves.unlink(&mut part.open) {
        Some(batch) => {
            if batch.len() < BATCH {
                batch
            } else {
                sheaves.link(&mut part.open, batch);
                if !part.close(&yard.heap) {
                    return Err(NotTaken::Full);
                }
                open_batch(yard, &mut part)?
            }
        }
        None => open_batch(yard, &mut part)?,
    };
    sheaves.push(&mut batch, address);
    let is_full = batch.len() == BATCH;
    sheaves.link(&mut part.open, batch);
    if is_full {
        // Else the next free finds it full.
        part.close(&yard.heap);
    }
    Ok(())
}

fn open_batch<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    part: &mut BatchShard,
) -> Result<Sheaf, NotTaken> {
    let p = yard.platform();
    let batch = yard.heap.sheaves.take(p, BATCH).ok_or(NotTaken::Memory)?;
    part.opened_ms = p.now_ms();
    Ok(batch)
}

/// Frees an object that waited; returns its bytes.
fn free_waited<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> usize {
    let (AddressKind::Object { bytes, .. } | AddressKind::Large(bytes)) = yard.place_of(address)
    else {
        // The program freed it meanwhile, and its pages are gone.
        return 0;
    };
    let cache = yard.heap.class_at(address).map(|class| yard.caches.get(class));
    if !cache.is_some_and(|cache| push(yard, cache, address)) {
        let _ = free_inside(yard, cache, address);
    }
    bytes
}

/// Closes the caller's open batch, if it is old.
fn close_old_batch<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    if yard.waiting.batches.nr_waiting() == 0 {
        return;
    }
    let mut part = yard.waiting.batches.own(p);
    if part.open != NO_SHEAF && p.now_ms() >= part.opened_ms + OLD_MS {
        part.close(&yard.heap);
    }
}

/// Closes the open batches that are among a barrier's.
pub(crate) fn close_batches<P: Platform, E: Engine>(yard: &Yard<P, E>, tickets: &Tickets) {
    for (part, ticket) in yard.waiting.batches.parts.iter().zip(tickets.0) {
        let mut part = part.lock(yard.platform());
        if part.closed < ticket {
            part.close(&yard.heap);
        }
    }
}

/// Frees the objects of a batch whose epoch is over.
fn free_waited_batch<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let (p, batches) = (yard.platform(), &yard.waiting.batches);
    let found = batches.each(p).find_map(|part| {
        let batch = part.lock(p).take_first(&yard.heap)?;
        Some((part, batch))
    });
    let Some((part, mut batch)) = found else { return };
    let objects = batch.len() as usize;
    let mut bytes = 0;
    while let Some(address) = yard.heap.sheaves.pop(&mut batch) {
        bytes += free_waited(yard, address);
    }
    yard.heap.sheaves.give(p, batch);
    batches.objects.fetch_sub(objects, Ordering::Relaxed);
    batches.bytes.fetch_sub(bytes, Ordering::Relaxed);
    part.lock(p).freed += 1;
}

/// Frees a part of what has waited long enough, and advances the grace period. The caller is in
/// a slow path and holds no lock.
pub(crate) fn serve_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if !has_waiting(yard) {
        return;
    }
    let p = yard.platform();
    close_old_batch(yard);
    let first = held::first(&yard.heap).into_iter().chain(yard.waiting.batches.first(p)).min();
    if first.is_none_or(|first| !yard.heap.rcu.poll(p, first)) {
        return;
    }
    free_waited_slabs(yard);
    free_waited_batch(yard);
}

fn free_waited_slabs<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    for _ in 0..MOST_SLABS {
        let Some(waited) = held::take_waited(&yard.heap) else { return };
        // The cache is there as long as one of its slabs waits.
        if let Some(number) = number_of(waited.slot) {
            let cache = yard.caches.get(number);
            cache.on(&yard.heap).free_waited(waited.slab);
        }
    }
}

/// Something waits for readers, as of a moment ago.
#[inline(always)]
pub(crate) fn has_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.waiting.batches.nr_waiting() + held::nr(&yard.heap) != 0
}

/// Slabs that one slow path frees after readers.
const MOST_SLABS: usize = 16;

/// Why an object was not taken to be freed after readers. It is the caller's as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It is not the start of a live object, or not of this cache's: where it is.
    Place(AddressKind),
    /// More than [`MOST_BYTES`], or as many batches as there are, wait for readers that stay.
    /// Try again after sections, or wait by [`free_after_waiting`](crate::calls::readers::free_after_waiting).
    Full,
    /// The kernel refuses memory for a batch. As above.
    Memory,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}
