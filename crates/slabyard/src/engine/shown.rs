//! The words of a cache that other processes read (`abi::region::CacheWord`): where its
//! objects are, its shape and its tunables.
//!
//! Neighbours: the barn and the partial list keep their counts under their locks, and publish them
//! here before they unlock; [`super::Header`] and the engines read tunables from here.
//!
//! # The version rule
//!
//! Each slow path that moves objects holds a [`Moving`](super::Moving): `begun` is incremented
//! before its first change, `ended` after its last. If a reader finds `begun` and `ended` equal,
//! reads the other words, and finds both unchanged, no slow path was under way meanwhile. Then live
//! = `out` - the objects in stacks and the barn.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use core::fmt::{self, Write};
use core::mem::offset_of;
use slabyard_abi::region::CacheWord;

/// The words, in the order of `CacheWord`.
#[repr(C)]
pub(super) struct PublishedWords {
    pub begun: AtomicU32,
    pub ended: AtomicU32,
    pub out: AtomicU64,
    pub nr_slabs: AtomicU64,
    pub nr_partial: AtomicU64,
    pub partial_head: AtomicU64,
    pub barn_objects: AtomicU64,
    pub barn_full: AtomicU64,
    pub barn_empty: AtomicU64,
    pub barn_head: AtomicU64,
    pub slot: AtomicU64,
    pub object_size: AtomicU64,
    pub slab_size: AtomicU64,
    pub order: AtomicU64,
    pub objects: AtomicU64,
    pub sheaf_capacity: AtomicU64,
    pub min_partial: AtomicU64,
    pub barn_full_limit: AtomicU64,
    pub barn_empty_limit: AtomicU64,
    pub front: AtomicU64,
    pub cpu_partial: AtomicU64,
    pub cpu_partial_slabs: AtomicU64,
    pub below: AtomicU64,
    pub generation: AtomicU64,
    pub name: [AtomicU64; 4],
}

macro_rules! same_offset {
    ($($field:ident: $word:ident;)*) => {
        $(assert!(offset_of!(PublishedWords, $field) == CacheWord::$word.index() * 8);)*
    };
}

const _: () = {
    same_offset! {
        begun: Version;
        out: Out;
        nr_slabs: NrSlabs;
        nr_partial: NrPartial;
        partial_head: PartialHead;
        barn_objects: BarnObjects;
        barn_full: BarnFull;
        barn_empty: BarnEmpty;
        barn_head: BarnHead;
        slot: Slot;
        object_size: ObjectSize;
        slab_size: SlabSize;
        order: Order;
        objects: Objects;
        sheaf_capacity: SheafCapacity;
        min_partial: MinPartial;
        barn_full_limit: BarnFullLimit;
        barn_empty_limit: BarnEmptyLimit;
        front: Front;
        cpu_partial: CpuPartial;
        cpu_partial_slabs: CpuPartialSlabs;
        below: Below;
        generation: Generation;
        name: Name0;
    }
    assert!(size_of::<PublishedWords>() == CacheWord::Name3.index() * 8 + 8);
    assert!(offset_of!(PublishedWords, ended) == 4);
};

impl PublishedWords {
    pub(super) const fn new() -> Self {
        PublishedWords {
            begun: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            out: AtomicU64::new(0),
            nr_slabs: AtomicU64::new(0),
            nr_partial: AtomicU64::new(0),
            partial_head: AtomicU64::new(0),
            barn_objects: AtomicU64::new(0),
            barn_full: AtomicU64::new(0),
            barn_empty: AtomicU64::new(0),
            barn_head: AtomicU64::new(slabyard_abi::region::sheaf::NONE as u64),
            slot: AtomicU64::new(0),
            object_size: AtomicU64::new(0),
            slab_size: AtomicU64::new(0),
            order: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            sheaf_capacity: AtomicU64::new(0),
            min_partial: AtomicU64::new(0),
            barn_full_limit: AtomicU64::new(0),
            barn_empty_limit: AtomicU64::new(0),
            front: AtomicU64::new(0),
            cpu_partial: AtomicU64::new(0),
            cpu_partial_slabs: AtomicU64::new(0),
            below: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; 4],
        }
    }

    /// Writes the first 32 bytes of a name.
    pub(super) fn set_name(&self, name: impl fmt::Display) {
        for (word, bytes) in self.name.iter().zip(NameBytes::of(name).bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Reads the words that say what the cache holds, by the version rule.
    pub(super) fn words(&self, to: &mut [u64; CacheWord::Name3.index() + 1]) {
        // Acquire: what was done before these paths ended is seen below. Pairs with the Release of
        // `Moving`'s end. That half first: slow paths only begin later.
        let ended = self.ended.load(Ordering::Acquire);
        to[0] = u64::from(ended) << 32 | u64::from(self.begun.load(Ordering::Acquire));
        // Acquire: no word is read before one that was read earlier in this look.
        let mut read = |word: CacheWord, from: &AtomicU64| {
            to[word.index()] = from.load(Ordering::Acquire);
        };
        read(CacheWord::Out, &self.out);
        read(CacheWord::NrSlabs, &self.nr_slabs);
        read(CacheWord::NrPartial, &self.nr_partial);
        read(CacheWord::BarnObjects, &self.barn_objects);
        read(CacheWord::Slot, &self.slot);
        read(CacheWord::ObjectSize, &self.object_size);
        read(CacheWord::SlabSize, &self.slab_size);
        read(CacheWord::Order, &self.order);
        read(CacheWord::Objects, &self.objects);
        read(CacheWord::SheafCapacity, &self.sheaf_capacity);
        read(CacheWord::MinPartial, &self.min_partial);
        read(CacheWord::Front, &self.front);
        read(CacheWord::Generation, &self.generation);
        let names = [CacheWord::Name0, CacheWord::Name1, CacheWord::Name2, CacheWord::Name3];
        names.into_iter().zip(&self.name).for_each(|(word, from)| read(word, from));
    }

    /// True if as many slow paths ended as begun.
    pub(super) fn is_still(&self) -> bool {
        // Acquire: the caller sees what the slow paths that ended did. Pairs with the Release of
        // `Moving`'s end. That word first: slow paths only begin later.
        let ended = self.ended.load(Ordering::Acquire);
        self.begun.load(Ordering::Relaxed) == ended
    }

    /// In the child of a fork: as many ended as began.
    pub(super) fn end_all(&self) {
        self.ended.store(self.begun(), Ordering::Relaxed);
    }

    /// Slow paths begun: a wrapping count, compared with an earlier one.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }
}

/// The first 32 bytes of a cache's name.
pub(crate) struct NameBytes {
    bytes: [u8; 32],
    len: usize,
}

impl NameBytes {
    pub(crate) fn of(name: impl fmt::Display) -> Self {
        let mut bytes = NameBytes { bytes: [0; 32], len: 0 };
        // `write_str` cuts off what does not fit, and never fails.
        let _ = write!(bytes, "{name}");
        bytes
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Write for NameBytes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes().take(self.bytes.len() - self.len) {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}
