//! Prefilled sheaves (as SLUB's since 6.18): objects reserved for a part of the program in which an
//! allocation must not fail, because the program holds a lock or is in the middle of a change.
//!
//! The caller that prefills a sheaf owns the sheaf and its objects. A block of the yard stores the
//! objects' addresses, the next to be allocated last. An allocation from the sheaf reads one
//! address: it takes no lock, makes no system call, and succeeds as long as the sheaf has objects.
//! These objects and the block count as live, because they left their caches.
//!
//! Neighbours: [`crate::calls::bulk`] fills the sheaf, and frees its objects.

use crate::cache::CacheId;
use crate::calls::bulk::PIECE;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};
use crate::yard::Yard;
use crate::yard::depth::is_inside;

/// A prefilled sheaf: [`Yard::return_prefilled`] takes it back.
#[derive(Debug)]
#[must_use]
pub struct Prefilled {
    id: CacheId,
    len: usize,
    /// Address of the block, and for how many objects it has room; without room none.
    block: usize,
    room: usize,
}

impl Prefilled {
    /// A sheaf without objects.
    pub(crate) const fn new(id: CacheId) -> Self {
        Prefilled { id, len: 0, block: 0, room: 0 }
    }

    /// The cache of its objects.
    #[must_use]
    pub const fn id(&self) -> CacheId {
        self.id
    }

    /// Objects in it.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// This many objects its block has room for.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// True without objects.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the address of an object is.
    #[inline]
    fn spot<'a, P: Platform>(&self, p: &'a P, nth: usize) -> &'a AtomicU64 {
        // SAFETY: in the block, which is live and the sheaf's alone.
        unsafe { p.word(self.block + nth * size_of::<u64>()) }
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Makes a sheaf with this many objects of a cache. `None` without memory, and in a signal
    /// handler that interrupted a slow path.
    pub fn prefill(&self, id: CacheId, objects: usize) -> Option<Prefilled> {
        if is_inside(self.platform()) {
            return None;
        }
        let mut prefilled = Prefilled::new(id);
        if self.refill(&mut prefilled, objects) {
            return Some(prefilled);
        }
        self.return_prefilled(prefilled);
        None
    }

    /// Fills a sheaf until it has this many objects; one that has more keeps them. False without
    /// memory: it may have got some of them.
    pub fn refill(&self, prefilled: &mut Prefilled, objects: usize) -> bool {
        if objects > prefilled.room && make_room(self, prefilled, objects).is_none() {
            return false;
        }
        while prefilled.len < objects {
            let mut piece = [0; PIECE];
            let piece = &mut piece[..(objects - prefilled.len).min(PIECE)];
            if !self.alloc_bulk_from(prefilled.id, piece) {
                return false;
            }
            // The one that is handed out first was on top of the stack: the last in.
            for object in piece.iter().rev() {
                let spot = prefilled.spot(self.platform(), prefilled.len);
                spot.store(*object as u64, Ordering::Relaxed);
                prefilled.len += 1;
            }
        }
        true
    }

    /// Allocates from a prefilled sheaf: `None` only if it has no object.
    #[inline]
    pub fn alloc_prefilled(&self, prefilled: &mut Prefilled) -> Option<usize> {
        prefilled.len = prefilled.len.checked_sub(1)?;
        let spot = prefilled.spot(self.platform(), prefilled.len);
        Some(spot.load(Ordering::Relaxed) as usize)
    }

    /// Frees what a prefilled sheaf still has, and the sheaf.
    pub fn return_prefilled(&self, mut prefilled: Prefilled) {
        let block = self.empty_prefilled(&mut prefilled);
        free_block(self, block);
    }

    /// Frees what a prefilled sheaf still has; returns its block, which is the caller's to free, or
    /// 0.
    pub fn empty_prefilled(&self, prefilled: &mut Prefilled) -> usize {
        let mut piece = [0; PIECE];
        while !prefilled.is_empty() {
            let nr = prefilled.len.min(PIECE);
            // The next to be handed out are on top again.
            for object in piece[..nr].iter_mut().rev() {
                *object = self.alloc_prefilled(prefilled).unwrap_or(0);
            }
            let freed = self.free_bulk_to(prefilled.id, &piece[..nr]);
            debug_assert!(freed.is_ok(), "they were allocated for it");
        }
        prefilled.room = 0;
        core::mem::take(&mut prefilled.block)
    }

    /// Gives a sheaf a larger block of the caller's, with room for this many objects; returns the one
    /// before, which is the caller's to free, or 0. A caller that tells other tools of its blocks
    /// does so before the sheaf is [filled](Yard::refill).
    pub fn move_prefilled(&self, prefilled: &mut Prefilled, block: usize, room: usize) -> usize {
        let larger = Prefilled { block, room, ..*prefilled };
        for nth in 0..prefilled.len {
            let object = prefilled.spot(self.platform(), nth).load(Ordering::Relaxed);
            larger.spot(self.platform(), nth).store(object, Ordering::Relaxed);
        }
        core::mem::replace(prefilled, larger).block
    }
}

/// Gives a sheaf a block with room for this many objects. `None` without memory.
#[cold]
fn make_room<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    prefilled: &mut Prefilled,
    objects: usize,
) -> Option<()> {
    let bytes = objects.checked_mul(size_of::<u64>())?;
    let block = yard.alloc_fast(bytes, align_of::<u64>())?;
    free_block(yard, yard.move_prefilled(prefilled, block, objects));
    Some(())
}

fn free_block<P: Platform, E: Engine>(yard: &Yard<P, E>, block: usize) {
    if block != 0 {
        let freed = yard.free_fast(block);
        debug_assert!(freed.is_ok(), "the block is of this yard");
    }
}
