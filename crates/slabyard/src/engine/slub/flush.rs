//! The way home: objects that leave a sheaf become bits of their slabs.
//!
//! Neighbours: [`super::free`] and [`super::age`] send objects here; the free set
//! ([`crate::slab::freeset`]) takes them; [`super::node`] settles what a slab became.
//!
//! Objects that were freed one after the other often lie near each other. So they are
//! gathered by bitmap word in a small table and put when another word wants the place
//! in it, and at the end: one pass, no sort, and no more operations than one for each
//! bitmap word and one for its slab when objects come in any order in which a program
//! frees a structure.
//!
//! Whether an address lies in a slab of this cache is asked where a word is opened, and
//! whether it is the begin of an object, of each.

use super::{Cache, Shape};
use crate::pages::{Cause, PageHeap};
use crate::platform::Platform;
use crate::slab::freeset::Word;
use crate::slab::{Geometry, Object, Put};
use crate::sync::{AtomicUsize, Ordering};

/// Words gathered at a time; a power of two, and a bit of a `u32` for each.
const GROUPS: usize = 32;

/// Slabs are fetched ahead of so many objects, where a word is opened: as many misses at a
/// time as a core's buffers take.
const AHEAD: u32 = 12;

/// Bits of one word, gathered.
#[derive(Clone, Copy)]
struct Group {
    slab: u32,
    word: Word,
    mask: u64,
}

impl Group {
    /// Of no slab.
    const NONE: Group = Group { slab: u32::MAX, word: Word::FIRST, mask: 0 };

    /// Place of a word in the table: Fibonacci hashing (Knuth, TAOCP 6.4).
    fn place(slab: u32, word: Word) -> usize {
        let key = slab.wrapping_mul(4).wrapping_add(word.0);
        (key.wrapping_mul(0x9E37_79B9) >> (32 - GROUPS.ilog2())) as usize
    }
}

impl Cache {
    /// One object to its slab, past the sheaves.
    pub fn free_direct<P: Platform>(&self, g: &PageHeap<P>, address: usize) {
        let shape = self.shape();
        match g.resolve(&shape.geometry, shape.slot, address) {
            Ok(Object { slab, index }) => {
                let (word, mask) = Word::of(index);
                let home = self.put_group(g, shape, &Group { slab, word, mask });
                self.shown.out.fetch_sub(home, Ordering::Relaxed);
            }
            Err(cause) => g.misuse(cause, address, shape.slot),
        }
    }

    /// Objects go home, the last of them first, for at most so many slab operations: how
    /// many. What is no object of this cache is told and set aside.
    pub fn return_to_slabs<P: Platform>(
        &self,
        g: &PageHeap<P>,
        objects: &[AtomicUsize],
        most: u32,
    ) -> u32 {
        let shape = self.shape();
        // A copy: what others may change would be read again for each object.
        let geometry = shape.geometry;
        let mut groups = [Group::NONE; GROUPS];
        // A bit for each group that is not empty.
        let mut used = 0u32;
        let (mut home, mut opened) = (0, 0);
        let (mut left, mut fetched) = (objects, objects.len());
        while let Some((top, others)) = left.split_last() {
            let address = top.load(Ordering::Relaxed);
            let Some((slab, word)) = g.word_at(&geometry, address) else {
                report(g, shape, address);
                left = others;
                continue;
            };
            let place = Group::place(slab, word);
            let group = &mut groups[place];
            if (slab, word) != (group.slab, group.word) {
                if !g.is_slab(slab, shape.slot) {
                    report(g, shape, address);
                    left = others;
                    continue;
                }
                if opened == most {
                    break;
                }
                opened += 1;
                used |= 1 << place;
                if group.mask != 0 {
                    home += self.put_group(g, shape, group);
                }
                *group = Group { slab, word, mask: 0 };
                // Each object once at most, and none that was gathered.
                let ahead = left.len().saturating_sub(AHEAD.min(most - opened) as usize);
                fetched = fetched.min(left.len());
                while fetched > ahead {
                    fetched -= 1;
                    let address = objects[fetched].load(Ordering::Relaxed);
                    g.region.fetch_descriptor_ahead(g.slab_at(&geometry, address));
                }
            }
            left = group_objects(g, shape, &geometry, group, left);
        }
        while used != 0 {
            home += self.put_group(g, shape, &groups[used.trailing_zeros() as usize]);
            used &= used - 1;
        }
        self.shown.out.fetch_sub(home, Ordering::Relaxed);
        (objects.len() - left.len()) as u32
    }

    /// Returns how many went home. Where all were bad, nothing changes.
    fn put_group<P: Platform>(&self, g: &PageHeap<P>, shape: &Shape, group: &Group) -> u64 {
        let &Group { slab, word, mask } = group;
        let Put { version, before, added, mut twice } = g.put(slab, word, mask);
        while twice != 0 {
            let index = word.index_of(twice.trailing_zeros());
            let address = g.address_of(&shape.geometry, Object { slab, index });
            g.misuse(Cause::DoubleFree, address, shape.slot);
            twice &= twice - 1;
        }
        if added > 0 && (before == 0 || before + added == shape.geometry.objects) {
            self.relist(g, slab, version);
        }
        u64::from(added)
    }
}

/// Gathers the bits of the last objects, as long as they lie in the group's word; returns
/// the others.
#[inline]
fn group_objects<'a, P: Platform>(
    g: &PageHeap<P>,
    shape: &Shape,
    geometry: &Geometry,
    group: &mut Group,
    mut objects: &'a [AtomicUsize],
) -> &'a [AtomicUsize] {
    let (offset, bytes) = geometry.span_of(group.word);
    let (last, _) = geometry.divide(bytes as u32 - 1);
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
            let (run, bits) = run_from(objects, address, geometry.size as usize, nth, last);
            // Else each is looked at by itself, and the one that is free already told.
            if mask & bits == 0 {
                mask |= bits;
                objects = &objects[..objects.len() - run];
            }
        }
    }
    group.mask = mask;
    objects
}

/// How many of the last objects lie side by side, each next to the one before, up or down,
/// from the one at an address, whose bit is `nth` in a word whose last object is `last`; and
/// their bits. A structure that is freed in the order in which it was made goes so, and what
/// a stack gave that was filled from a slab: then this is most of what goes home.
#[inline]
pub(crate) fn run_from(
    objects: &[AtomicUsize],
    address: usize,
    size: usize,
    nth: u32,
    last: u32,
) -> (usize, u64) {
    let Some(next) = objects.last() else { return (0, 0) };
    let step = next.load(Ordering::Relaxed).wrapping_sub(address);
    let bits = |run: usize| (1u64 << run) - 1;
    if step == size.wrapping_neg() {
        let run = run_length(objects, address, step, nth as usize);
        (run, bits(run) << (nth - run as u32))
    } else if step == size {
        let run = run_length(objects, address, step, (last - nth) as usize);
        (run, bits(run) << nth << 1)
    } else {
        (0, 0)
    }
}

/// How many of the last objects, at most so many, lie each a step from the one before, the
/// first of them from `address`.
#[inline]
fn run_length(objects: &[AtomicUsize], address: usize, step: usize, most: usize) -> usize {
    let objects = &objects[objects.len().saturating_sub(most)..];
    let (mut left, mut expected) = (objects, address.wrapping_add(step));
    while let Some((top, others)) = left.split_last()
        && top.load(Ordering::Relaxed) == expected
    {
        expected = expected.wrapping_add(step);
        left = others;
    }
    objects.len() - left.len()
}

/// Tells of an address that is no object of this cache.
#[cold]
fn report<P: Platform>(g: &PageHeap<P>, shape: &Shape, address: usize) {
    let cause = g.resolve(&shape.geometry, shape.slot, address).err().unwrap_or(Cause::WrongSize);
    g.misuse(cause, address, shape.slot);
}
