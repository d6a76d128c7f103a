//! The samples that live, by address: a hash table of buckets of [`WAYS`] blocks.
//!
//! A block is added before its address is given out and removed before it is freed, so one thread
//! at a time has a block's slot. Neighbours: the memory's layout is in `slabyard_abi::profile`; it
//! is the process's own, and no reader looks at it.
//! Invariants: no address is in the table twice; a bucket that is full refuses, and so nobody
//! searches further than one bucket.

use super::rings::word_at;
use slabyard::sync::{AtomicU64, AtomicUsize, Ordering};
use slabyard_abi::profile::{BLOCKS, BLOCKS_AT};

/// Blocks of a bucket: four cache lines.
const WAYS: usize = 16;
/// A slot that a thread is filling.
const FILLING: u64 = 1;

/// How many there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// True if there are any.
#[inline(always)]
pub(super) fn any() -> bool {
    LIVE.load(Ordering::Relaxed) != 0
}

/// The address and the sequence of each slot in the bucket of an address.
fn bucket(memory: usize, address: usize) -> impl Iterator<Item = [&'static AtomicU64; 2]> {
    let mixed = (address as u64 >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bucket = (mixed >> 40) as usize % (BLOCKS / WAYS);
    (0..WAYS).map(move |way| {
        let at = memory + BLOCKS_AT + (bucket * WAYS + way) * 16;
        [word_at(at), word_at(at + 8)]
    })
}

/// Adds a block; false if its bucket is full.
pub(super) fn add(memory: usize, address: usize, sequence: u64) -> bool {
    let claim = |slot: &AtomicU64| {
        // Acquire: who removed a block from the slot has loaded its sequence. Pairs with `remove`.
        slot.compare_exchange(0, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some([key, value]) = bucket(memory, address).find(|[key, _]| claim(key)) else {
        return false;
    };
    value.store(sequence, Ordering::Relaxed);
    // Release: who finds the address sees the sequence.
    key.store(address as u64, Ordering::Release);
    LIVE.fetch_add(1, Ordering::Relaxed);
    true
}

fn find(memory: usize, address: usize) -> Option<[&'static AtomicU64; 2]> {
    // Acquire: as in `add`.
    let is_it = |[key, _]: &[&AtomicU64; 2]| key.load(Ordering::Acquire) == address as u64;
    // A sample is aligned to a granule.
    if memory == 0 || !address.is_multiple_of(4096) {
        return None;
    }
    bucket(memory, address).find(is_it)
}

/// True if an address is a block's.
pub(super) fn has(memory: usize, address: usize) -> bool {
    find(memory, address).is_some()
}

/// Removes the block at an address; its sequence.
pub(super) fn remove(memory: usize, address: usize) -> Option<u64> {
    let [key, value] = find(memory, address)?;
    let sequence = value.load(Ordering::Relaxed);
    // Of two threads that free it, one frees it: the other's is a misuse, which the yard reports.
    let won = key.compare_exchange(address as u64, 0, Ordering::Release, Ordering::Relaxed).is_ok();
    won.then(|| {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        sequence
    })
}
