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

use super::{Cache, Shape};
use crate::page::{Cause, Ground};
use crate::platform::Platform;
use crate::slab::freeset::Word;
use crate::slab::{Object, Put};
use crate::sync::Ordering;

/// Words gathered at a time; a power of two.
const GROUPS: usize = 32;

/// Slabs are fetched ahead of so many objects: as many misses at a time as a core's
/// buffers take.
const AHEAD: usize = 12;

/// Bits of one word, gathered.
#[derive(Clone, Copy)]
struct Group {
    slab: u32,
    word: Word,
    mask: u64,
}

impl Group {
    const NONE: Group = Group { slab: 0, word: Word::FIRST, mask: 0 };

    /// Place of a word in the table: Fibonacci hashing (Knuth, TAOCP 6.4).
    fn place(slab: u32, word: Word) -> usize {
        let key = slab.wrapping_mul(4).wrapping_add(word.0);
        (key.wrapping_mul(0x9E37_79B9) >> (32 - GROUPS.ilog2())) as usize
    }
}

impl Cache {
    /// One object to its slab, past the sheaves.
    pub fn free_direct<P: Platform>(&self, g: &Ground<P>, address: usize) {
        self.put_home(g, core::iter::once(address), u32::MAX);
    }

    /// Objects go home, the first of them, for at most so many slab operations: how many.
    /// What is no object of this cache is told and set aside.
    pub fn put_home<P: Platform>(
        &self,
        g: &Ground<P>,
        objects: impl Iterator<Item = usize> + Clone,
        most: u32,
    ) -> u32 {
        let shape = self.shape();
        let geometry = &shape.geometry;
        let mut groups = [Group::NONE; GROUPS];
        // The slab of the last object, which often is the next one's.
        let (mut slab, mut begin, mut bytes) = (0, 0, 0);
        // The word of the last object, and its bits; what the table has of it is old.
        let mut last = Group::NONE;
        let (mut home, mut opened, mut gone) = (0, 0, 0);
        let mut ahead = objects.clone();
        // The slab that was fetched last, which often is the next one's too.
        let mut fetched = u32::MAX;
        let mut fetch = |address| {
            let slab = g.slab_at(geometry, address);
            if slab != fetched {
                g.region.fetch_frame_ahead(slab);
                fetched = slab;
            }
        };
        ahead.by_ref().take(AHEAD).for_each(&mut fetch);
        for address in objects {
            ahead.next().into_iter().for_each(&mut fetch);
            gone += 1;
            if address.wrapping_sub(begin) >= bytes {
                match g.slab_of(geometry, shape.slot, address) {
                    Ok(found) => slab = found,
                    Err(cause) => {
                        g.bad(cause, address, shape.slot);
                        continue;
                    }
                }
                (begin, bytes) = (g.region.address(slab), geometry.slab_bytes());
            }
            let Some(index) = geometry.object_at((address - begin) as u32) else {
                g.bad(Cause::Interior, address, shape.slot);
                continue;
            };
            let (word, bit) = Word::of(index);
            if (slab, word) != (last.slab, last.word) {
                // The last one rests in the table, where this one may be already.
                groups[Group::place(last.slab, last.word)] = last;
                let other = &groups[Group::place(slab, word)];
                if (slab, word) == (other.slab, other.word) {
                    last = *other;
                } else if opened == most {
                    gone -= 1;
                    break;
                } else {
                    opened += 1;
                    home += self.put_group(g, shape, other);
                    last = Group { slab, word, mask: 0 };
                }
            }
            if last.mask & bit != 0 {
                g.bad(Cause::DoubleFree, address, shape.slot);
            }
            last.mask |= bit;
        }
        groups[Group::place(last.slab, last.word)] = last;
        for group in &groups {
            home += self.put_group(g, shape, group);
        }
        self.shown.out.fetch_sub(home, Ordering::Relaxed);
        gone
    }

    /// Returns how many went home.
    fn put_group<P: Platform>(&self, g: &Ground<P>, shape: &Shape, group: &Group) -> u64 {
        let &Group { slab, word, mask } = group;
        if mask == 0 {
            return 0;
        }
        let Put { version, before, added, mut twice } = g.put(slab, word, mask);
        while twice != 0 {
            let index = word.index_of(twice.trailing_zeros());
            let address = g.address_of(&shape.geometry, Object { slab, index });
            g.bad(Cause::DoubleFree, address, shape.slot);
            twice &= twice - 1;
        }
        if added > 0 && (before == 0 || before + added == shape.geometry.objects) {
            self.settle(g, slab, version);
        }
        u64::from(added)
    }
}
