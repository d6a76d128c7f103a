//! Blocks that grow step by step: they get room in proportion to their size, so that a buffer
//! to which a program appends moves a number of times that is logarithmic in its size.
//!
//! A block that grows for the first time gets what was asked for. Its new address is recorded in
//! a small table; if it grows again from there by a small step, it gets a [`PART`]th more than
//! was asked for. A program that grows its blocks by factors leaves room itself, and gets none.
//! The room is a part of the block: the program may use it (`malloc_usable_size`). Pages of it
//! that were never touched are not resident, and a run or mapping that is asked to become smaller
//! gives back all that is above that size.
//!
//! Neighbours: [`crate::large`] grows and shrinks runs and mappings where they are.
//! Invariant: the table is a hint. Threads overwrite each other's entries, and a new block at
//! the address of one that grew may get room one growth too early.

use crate::cache::classes::{LARGEST, STEP};
use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::large::LARGEST_RUN;
use crate::pages::Kind;
use crate::place::Place;
use crate::platform::{GRANULE, Platform, Slot};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::yard::Yard;

/// Entries of the table: so many blocks that grow in turns are known.
const KNOWN: usize = 512;
/// A step is small up to this part of the block. The room is the same part of it.
const PART: usize = 4;
/// The most room.
const MOST: usize = 64 << 20;
/// A known block that becomes smaller by up to this part keeps its pages: it may grow again.
const KEPT_PART: usize = 8;

/// In place of the granules of an object, which keeps its size where it becomes smaller.
const OBJECT: u32 = u32::MAX;

/// What a yard remembers of blocks that grew.
pub(crate) struct Growth {
    /// The key of an address (32 bits), and the granules last asked for there, or [`OBJECT`].
    known: [AtomicU64; KNOWN],
    /// 1: a block grew.
    any: AtomicU32,
    /// A bit for each class: it has an object that `realloc` gave more room than the class of
    /// the size has. The last one stands for further classes.
    roomy: AtomicU64,
}

impl Growth {
    pub(crate) const fn new() -> Self {
        Growth {
            known: [const { AtomicU64::new(0) }; KNOWN],
            any: AtomicU32::new(0),
            roomy: AtomicU64::new(0),
        }
    }

    fn entry(&self, key: u32) -> &AtomicU64 {
        // Fibonacci hashing (Knuth, TAOCP 6.4).
        let hash = key.wrapping_mul(0x9E37_79B9) >> (u32::BITS - KNOWN.ilog2());
        &self.known[hash as usize]
    }
}

fn bit(class: usize) -> u64 {
    1 << class.min(63)
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// The distance from the region's begin, so that the same calls make the same moves in each
    /// process. Not 0, which means none.
    fn growth_key(&self, address: usize) -> u32 {
        ((address.wrapping_sub(self.heap.region.base()) / STEP) as u32).max(1)
    }

    /// The granules last asked for by the block at an address, if it is known to have grown.
    fn asked(&self, address: usize) -> Option<usize> {
        let key = self.growth_key(address);
        let entry = self.growth.entry(key).load(Ordering::Relaxed);
        (entry >> 32 == u64::from(key)).then_some(entry as u32 as usize)
    }

    fn note_asked(&self, address: usize, bytes: usize) {
        let key = self.growth_key(address);
        let granules = if bytes > LARGEST { self.heap.granules_for(bytes) as u32 } else { OBJECT };
        let entry = u64::from(key) << 32 | u64::from(granules);
        self.growth.entry(key).store(entry, Ordering::Relaxed);
        self.growth.any.store(1, Ordering::Relaxed);
    }

    /// At the free of a large block.
    #[inline]
    pub(crate) fn forget_grown(&self, address: usize) {
        if self.growth.any.load(Ordering::Relaxed) == 0 {
            return;
        }
        let key = self.growth_key(address);
        let entry = self.growth.entry(key);
        if entry.load(Ordering::Relaxed) >> 32 == u64::from(key) {
            entry.store(0, Ordering::Relaxed);
        }
    }

    /// Bytes for a block of `have` bytes that is asked to grow.
    fn roomy_bytes(&self, address: usize, have: usize, bytes: usize) -> usize {
        let is_step = bytes - have <= have / PART;
        if !is_step
            || self.asked(address).is_none()
            || self.is_debugged(address)
            || self.is_guarded()
        {
            return bytes;
        }
        let room = bytes.saturating_add((bytes / PART).min(MOST));
        // A block stays of its kind; SLOB has other limits.
        let is_object = |bytes| self.class_for(bytes, STEP).is_some();
        if self.is_sized() && is_object(bytes) != is_object(room) {
            return bytes;
        }
        let limits = [LARGEST, LARGEST_RUN];
        limits.into_iter().find(|limit| bytes <= *limit).map_or(room, |limit| room.min(limit))
    }

    /// True if a block of the caller's stays as it is: an object that has room for so many bytes,
    /// not twice as much, or a run of which as many pages are asked for as before. As
    /// [`Yard::resize_at`] would say, but sooner; false says nothing.
    #[inline]
    pub fn stays(&self, address: usize, bytes: usize) -> bool {
        if E::SIZED {
            return false;
        }
        let region = &self.heap.region;
        let Some(granule) = region.granule_of(address) else { return false };
        let Some(class) = number_of(Slot::at(region.map_value(granule))) else {
            return bytes > LARGEST && self.run_stays(granule, address, bytes);
        };
        let Some(cache) = self.caches.classes().get(class) else { return false };
        let geometry = &cache.shape().geometry;
        let have = geometry.object as usize;
        let stays = bytes <= have
            && bytes >= have / 2
            && self.heap.begins_object(geometry, address)
            && !self.looks_freed(address);
        if stays {
            self.note_roomy(class, bytes);
        }
        stays
    }

    #[inline]
    fn run_stays(&self, granule: u32, address: usize, bytes: usize) -> bool {
        let run = self.heap.region.descriptor(granule);
        let have = run.granules.load(Ordering::Relaxed) as usize;
        address.is_multiple_of(GRANULE)
            && run.kind() == Kind::Run
            && bytes <= have * GRANULE
            && self.asked(address).unwrap_or(have) == self.heap.granules_for(bytes)
    }

    /// Resizes a block of the caller's where it is, or by moving its pages: returns its address.
    /// `None` if it must be copied: to a block of [`Yard::alloc_resized`]. The place is what
    /// [`Yard::place_of`] says of it.
    #[inline]
    pub fn resize_at(&self, place: Place, address: usize, bytes: usize) -> Option<usize> {
        match place {
            Place::Object { class, bytes: have, begin: true }
                if bytes <= have && bytes >= have / 2 =>
            {
                // A debugged object moves, so that stale pointers are found.
                if self.is_debugged(address) {
                    return None;
                }
                self.note_roomy(class, bytes);
                Some(address)
            }
            Place::Large(have) => self.resize_large(address, have, bytes),
            _ => None,
        }
    }

    fn resize_large(&self, address: usize, have: usize, bytes: usize) -> Option<usize> {
        if bytes <= have {
            return self.resize_inside(address, have, bytes);
        }
        let room = self.roomy_bytes(address, have, bytes);
        let resized = self.resize(address, room).or_else(|| {
            // There is less room behind it, or less memory.
            (room > bytes).then(|| self.resize(address, bytes))?
        })?;
        self.note_asked(resized, bytes);
        Some(resized)
    }

    /// Resizes a large block to what it has or less.
    fn resize_inside(&self, address: usize, have: usize, bytes: usize) -> Option<usize> {
        // SLOB's runs may be small.
        if self.class_for(bytes, STEP).is_some() || self.is_guarded() {
            return self.resize(address, bytes);
        }
        let granules = self.heap.granules_for(bytes);
        if let Some(asked) = self.asked(address) {
            if granules != asked {
                self.note_asked(address, bytes);
            }
            // It grows in its room, or may grow again.
            if granules >= asked || have - bytes <= have / KEPT_PART {
                return Some(address);
            }
        }
        if granules == self.heap.granules_for(have) {
            Some(address)
        } else {
            self.resize(address, bytes)
        }
    }

    /// A block to which the caller copies one that [`Yard::resize_at`] could not resize.
    pub fn alloc_resized(&self, address: usize, have: usize, bytes: usize) -> Option<usize> {
        if bytes <= have {
            return self.alloc_fast(bytes, STEP);
        }
        let room = self.roomy_bytes(address, have, bytes);
        let new = self
            .alloc_growing(room)
            .or_else(|| (room > bytes).then(|| self.alloc_growing(bytes))?)?;
        self.note_asked(new, bytes);
        if room > bytes
            && let Some(class) = self.class_at(new)
        {
            self.note_roomy(class, bytes);
        }
        Some(new)
    }

    /// Records that an object of a class serves so many bytes.
    #[inline]
    fn note_roomy(&self, class: usize, bytes: usize) {
        let is_sized = E::SIZED && self.is_sized();
        if (is_sized || self.class_for(bytes, STEP) != Some(class)) && !self.is_roomy(class) {
            self.growth.roomy.fetch_or(bit(class), Ordering::Relaxed);
        }
    }

    /// True if objects of a class may be larger than what was asked for last says, because
    /// `realloc` left them room.
    pub fn is_roomy(&self, class: usize) -> bool {
        self.growth.roomy.load(Ordering::Relaxed) & bit(class) != 0
    }
}
