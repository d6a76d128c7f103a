//! The flush: returns the objects of a sheaf to their slabs, by setting bits of the free sets.
//!
//! Neighbours: engines call it; the free set ([`crate::slab::freeset`]) sets the bits;
//! [`super::partial`] relists a slab that is no longer full, and discards or keeps one that became
//! empty.
//!
//! Objects that were freed one after another are often neighbours in memory. So the flush groups
//! them by bitmap word in a small hash table, and adds a group to its slab when another word needs
//! the group's bucket, or at the end. It visits each object once and sorts nothing; in whatever
//! order the objects were freed, it makes at most one operation per bitmap word and one per slab.
//!
//! Tried and rejected: sorting by address first, 256 objects at a time (a tree of small nodes took
//! 17 % longer, a899870); comparing each object with the one flushed before it (1 to 6 % more
//! instructions in four loads, and no gain).
//!
//! The flush checks once per group that the addresses are in a slab of this cache, and for each
//! address that an object starts there.

use super::slabs::{FlushTarget, Group, Slabs};
use super::{Counter, Shape};
use crate::slab::Word;
use crate::sync::Ordering;

/// Groups at a time; a power of two, and a bit of a `u32` for each.
const GROUPS: usize = 32;

/// Where the flush begins a group, it fetches the slabs of this many next objects ahead: as
/// many misses at a time as a core's buffers take.
const AHEAD: u32 = 12;

impl Group {
    /// A free bucket.
    const NONE: Group = Group { slab: u32::MAX, word: Word::FIRST, mask: 0 };

    /// Bucket of a word in the table: Fibonacci hashing (Knuth, TAOCP 6.4).
    fn bucket(slab: u32, word: Word) -> usize {
        let key = slab.wrapping_mul(4).wrapping_add(word.0);
        (key.wrapping_mul(0x9E37_79B9) >> (32 - GROUPS.ilog2())) as usize
    }
}

/// Returns one group to its slab and bypasses the sheaves.
pub fn put_one<S: Slabs>(on: S, shape: &Shape, group: &Group) {
    on.count(Counter::FreeSlowpath, 1);
    let returned = put_group(on, shape, group);
    on.cache().shown.out.fetch_sub(returned, Ordering::Relaxed);
}

/// Returns objects to their slabs, the last of them first, by at most this many slab
/// operations; says how many objects. It reports an address that is no object of this
/// cache as misuse, and counts it among them.
pub fn return_to_slabs<S: FlushTarget>(on: S, objects: &[S::Element], most: u32) -> u32 {
    let cache = on.cache();
    let shape = cache.shape();
    // A copy: the compiler would read shared memory again for each object.
    let geometry = shape.geometry;
    let mut groups = [Group::NONE; GROUPS];
    // A bit for each group that is not empty.
    let mut used = 0u32;
    let (mut returned, mut opened) = (0, 0);
    let (mut left, mut fetched) = (objects, objects.len());
    while let Some((top, others)) = left.split_last() {
        let object = S::load(top);
        let Some((slab, word)) = on.word_of(&geometry, object) else {
            on.report(shape, object);
            left = others;
            continue;
        };
        let bucket = Group::bucket(slab, word);
        let group = &mut groups[bucket];
        if (slab, word) != (group.slab, group.word) {
            if !on.is_slab(shape, slab) {
                on.report(shape, object);
                left = others;
                continue;
            }
            if opened == most {
                break;
            }
            opened += 1;
            used |= 1 << bucket;
            if group.mask != 0 {
                returned += put_group(on, shape, group);
            }
            *group = Group { slab, word, mask: 0 };
            // Fetches for each object once at most, and for none that is in a group.
            let ahead = left.len().saturating_sub(AHEAD.min(most - opened) as usize);
            fetched = fetched.min(left.len());
            while fetched > ahead {
                fetched -= 1;
                on.fetch_object_ahead(&geometry, S::load(&objects[fetched]));
            }
        }
        left = on.group(shape, &geometry, group, left);
    }
    while used != 0 {
        returned += put_group(on, shape, &groups[used.trailing_zeros() as usize]);
        used &= used - 1;
    }
    cache.shown.out.fetch_sub(returned, Ordering::Relaxed);
    (objects.len() - left.len()) as u32
}

/// Puts a group into its slab; returns how many objects. If all were free already, nothing changes.
pub(super) fn put_group<S: Slabs>(on: S, shape: &Shape, group: &Group) -> u64 {
    let put = on.put(shape, group);
    on.report_twice(shape, group.slab, group.word, put.twice);
    on.count(Counter::CmpxchgSlab, 1);
    on.freed(shape, group.slab, &put);
    u64::from(put.added)
}
