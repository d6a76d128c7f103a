//! The flush: returns the objects of a sheaf to their slabs, as bits of the free sets.
//!
//! Neighbours: engines call it; the free set ([`crate::slab::freeset`]) takes the bits;
//! [`super::partial`] relists or ends a slab that stopped being full or became empty.
//!
//! Objects that were freed one after the other often lie near each other. So the flush
//! groups them by bitmap word in a small hash table, and puts a group into its slab when
//! another word needs the bucket, or at the end. It runs over the objects once and sorts
//! nothing; for any order in which a program frees a structure, it makes no more operations
//! than one for each bitmap word and one for its slab.
//!
//! It checks that an address lies in a slab of this cache once for each group, and that it
//! is the begin of an object for each object.

use super::{PageSlabs, Shape};
use crate::pages::{Cause, PageHeap};
use crate::platform::Platform;
use crate::slab::freeset::Word;
use crate::slab::{Geometry, Object, Put};
use crate::sync::{AtomicUsize, Ordering};

/// Groups at a time; a power of two, and a bit of a `u32` for each.
const GROUPS: usize = 32;

/// Where the flush begins a group, it fetches the slabs of so many next objects ahead: as
/// many misses at a time as a core's buffers take.
const AHEAD: u32 = 12;

/// Objects of one bitmap word, which are to be put into their slab by one operation.
#[derive(Clone, Copy)]
struct Group {
    slab: u32,
    word: Word,
    mask: u64,
}

impl Group {
    /// A free bucket.
    const NONE: Group = Group { slab: u32::MAX, word: Word::FIRST, mask: 0 };

    /// Bucket of a word in the table: Fibonacci hashing (Knuth, TAOCP 6.4).
    fn bucket(slab: u32, word: Word) -> usize {
        let key = slab.wrapping_mul(4).wrapping_add(word.0);
        (key.wrapping_mul(0x9E37_79B9) >> (32 - GROUPS.ilog2())) as usize
    }
}

impl<P: Platform> PageSlabs<'_, P> {
    /// Returns one object to its slab and bypasses the sheaves.
    pub fn free_direct(self, address: usize) {
        let shape = self.cache.shape();
        match self.heap.resolve(&shape.geometry, shape.slot, address) {
            Ok(Object { slab, index }) => {
                let (word, mask) = Word::of(index);
                let returned = self.put_group(shape, &Group { slab, word, mask });
                self.cache.shown.out.fetch_sub(returned, Ordering::Relaxed);
            }
            Err(cause) => self.heap.misuse(cause, address, shape.slot),
        }
    }

    /// Returns objects to their slabs, the last of them first, by at most so many slab
    /// operations; says how many objects. It reports an address that is no object of this
    /// cache as misuse, and counts it among them.
    pub fn return_to_slabs(self, objects: &[AtomicUsize], most: u32) -> u32 {
        let shape = self.cache.shape();
        // A copy: the compiler would read shared memory again for each object.
        let geometry = shape.geometry;
        let mut groups = [Group::NONE; GROUPS];
        // A bit for each group that is not empty.
        let mut used = 0u32;
        let (mut returned, mut opened) = (0, 0);
        let (mut left, mut fetched) = (objects, objects.len());
        while let Some((top, others)) = left.split_last() {
            let address = top.load(Ordering::Relaxed);
            let Some((slab, word)) = self.heap.word_at(&geometry, address) else {
                report(self.heap, shape, address);
                left = others;
                continue;
            };
            let bucket = Group::bucket(slab, word);
            let group = &mut groups[bucket];
            if (slab, word) != (group.slab, group.word) {
                if !self.heap.is_slab(slab, shape.slot) {
                    report(self.heap, shape, address);
                    left = others;
                    continue;
                }
                if opened == most {
                    break;
                }
                opened += 1;
                used |= 1 << bucket;
                if group.mask != 0 {
                    returned += self.put_group(shape, group);
                }
                *group = Group { slab, word, mask: 0 };
                // Fetches for each object once at most, and for none that is in a group.
                let ahead = left.len().saturating_sub(AHEAD.min(most - opened) as usize);
                fetched = fetched.min(left.len());
                while fetched > ahead {
                    fetched -= 1;
                    let address = objects[fetched].load(Ordering::Relaxed);
                    self.heap.region.fetch_descriptor_ahead(self.heap.slab_at(&geometry, address));
                }
            }
            left = group_objects(self.heap, shape, &geometry, group, left);
        }
        while used != 0 {
            returned += self.put_group(shape, &groups[used.trailing_zeros() as usize]);
            used &= used - 1;
        }
        self.cache.shown.out.fetch_sub(returned, Ordering::Relaxed);
        (objects.len() - left.len()) as u32
    }

    /// Puts a group into its slab; returns how many objects. If all were free already,
    /// nothing changes.
    fn put_group(self, shape: &Shape, group: &Group) -> u64 {
        let &Group { slab, word, mask } = group;
        let Put { version, before, added, mut twice } = self.heap.put(slab, word, mask);
        while twice != 0 {
            let index = word.index_of(twice.trailing_zeros());
            let address = self.heap.address_of(&shape.geometry, Object { slab, index });
            self.heap.misuse(Cause::DoubleFree, address, shape.slot);
            twice &= twice - 1;
        }
        if added > 0 && (before == 0 || before + added == shape.geometry.objects) {
            self.relist(slab, version);
        }
        u64::from(added)
    }
}

/// Moves the last objects into a group, as long as they lie in its word; returns the
/// others.
#[inline]
fn group_objects<'a, P: Platform>(
    g: &PageHeap<P>,
    shape: &Shape,
    geometry: &Geometry,
    group: &mut Group,
    mut objects: &'a [AtomicUsize],
) -> &'a [AtomicUsize] {
    let (offset, bytes) = geometry.span_of(group.word);
    let begin = g.region.address(group.slab) + offset;
    let mut mask = group.mask;
    while let Some((top, others)) = objects.split_last() {
        let address = top.load(Ordering::Relaxed);
        let offset = address.wrapping_sub(begin);
        if offset >= bytes {
            break;
        }
        objects = others;
        let (nth, begins) = geometry.divide(offset as u32);
        let bit = 1u64.wrapping_shl(nth);
        if !begins {
            g.misuse(Cause::Interior, address, shape.slot);
        } else if mask & bit != 0 {
            g.misuse(Cause::DoubleFree, address, shape.slot);
        } else {
            mask |= bit;
        }
    }
    group.mask = mask;
    objects
}

/// Reports an address that is no object of this cache.
#[cold]
fn report<P: Platform>(g: &PageHeap<P>, shape: &Shape, address: usize) {
    let cause = g.resolve(&shape.geometry, shape.slot, address).err().unwrap_or(Cause::WrongSize);
    g.misuse(cause, address, shape.slot);
}
