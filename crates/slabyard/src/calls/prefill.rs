//! Prefilled sheaves (as SLUB's since 6.18): objects reserved for a part of the program in which an
//! allocation must not fail, because it holds a lock or is half through a change.
//!
//! The caller that prefills a sheaf owns the sheaf and its objects. An allocation from it reads one
//! element: it takes no lock, makes no system call, and succeeds as long as the sheaf has objects.
//! The sheaf's objects count as live, because they left the cache.
//!
//! Neighbours: [`crate::calls::bulk`] fills the sheaf; the pool of sheaves supplies its memory.

use crate::cache::CacheId;
use crate::calls::bulk::PIECE;
use crate::engine::{Engine, Shape};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::Platform;
use crate::slow_path::enter_slow_path;
use crate::yard::Yard;
use crate::yard::depth::{RUN_CALLS, is_inside};

/// A prefilled sheaf: [`Yard::return_prefilled`] takes it back. One of more than 1022 objects is a
/// list of sheaves.
#[derive(Debug)]
#[must_use]
pub struct Prefilled {
    id: CacheId,
    len: u32,
    /// The sheaf in use.
    sheaf: Option<Sheaf>,
    /// Lists of sheaves without room, and without objects.
    full: u32,
    empty: u32,
}

impl Prefilled {
    const fn new(id: CacheId) -> Self {
        Prefilled { id, len: 0, sheaf: None, full: NO_SHEAF, empty: NO_SHEAF }
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
        self.len as usize
    }

    /// True without objects.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Makes a sheaf with this many objects of a cache. `None` without memory, and in a signal
    /// handler that interrupted a slow path.
    pub fn prefill(&self, id: CacheId, objects: usize) -> Option<Prefilled> {
        let mut prefilled = Prefilled::new(id);
        if self.refill(&mut prefilled, objects) {
            return Some(prefilled);
        }
        // Inside of a handler it has got nothing; its memory is lost then.
        if let Err(prefilled) = self.return_prefilled(prefilled) {
            core::mem::forget(prefilled.sheaf);
        }
        None
    }

    /// Fills a sheaf until it has this many objects; one that has more keeps them. False without
    /// memory: it may have got some of them.
    pub fn refill(&self, prefilled: &mut Prefilled, objects: usize) -> bool {
        while prefilled.len() < objects {
            let missing = objects - prefilled.len();
            let room = room_for(self, prefilled, missing);
            let mut piece = [0; PIECE];
            let piece = &mut piece[..missing.min(room).min(PIECE)];
            if piece.is_empty() || !self.alloc_bulk_from(prefilled.id, piece) {
                return false;
            }
            let Some(sheaf) = &mut prefilled.sheaf else { return false };
            // The one that is handed out first was on top of the stack: the last in.
            piece.iter().rev().for_each(|object| self.heap.sheaves.push(sheaf, *object));
            prefilled.len += piece.len() as u32;
        }
        true
    }

    /// Allocates from a prefilled sheaf: `None` only if it has no object.
    #[inline]
    pub fn alloc_prefilled(&self, prefilled: &mut Prefilled) -> Option<usize> {
        loop {
            if let Some(sheaf) = &mut prefilled.sheaf
                && let Some(object) = self.heap.sheaves.pop(sheaf)
            {
                prefilled.len -= 1;
                return Some(object);
            }
            next_sheaf(self, prefilled)?;
        }
    }

    /// Frees what a prefilled sheaf still has, and the sheaf.
    ///
    /// # Errors
    /// Gives it back, maybe without its objects, in a signal handler that interrupted a slow path.
    pub fn return_prefilled(&self, mut prefilled: Prefilled) -> Result<(), Prefilled> {
        if is_inside(self.platform()) {
            return Err(prefilled);
        }
        let mut piece = [0; PIECE];
        while !prefilled.is_empty() {
            let mut nr = 0;
            while nr < PIECE
                && let Some(object) = self.alloc_prefilled(&mut prefilled)
            {
                piece[nr] = object;
                nr += 1;
            }
            // The next to be handed out are on top again.
            piece[..nr].reverse();
            let freed = self.free_bulk_to(prefilled.id, &piece[..nr]);
            debug_assert!(freed.is_ok(), "they were allocated for it");
        }
        let Some(_slow_path) = enter_slow_path(self, RUN_CALLS) else {
            return Err(prefilled);
        };
        let sheaves = &self.heap.sheaves;
        let Prefilled { sheaf, mut empty, .. } = prefilled;
        let rest = core::iter::from_fn(|| sheaves.unlink(&mut empty));
        sheaf.into_iter().chain(rest).for_each(|sheaf| sheaves.give(self.platform(), sheaf));
        Ok(())
    }
}

/// Makes room for further objects, of which this many are to come; says for how many. 0 without
/// memory.
fn room_for<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    prefilled: &mut Prefilled,
    objects: usize,
) -> usize {
    let sheaves = &yard.heap.sheaves;
    let room = |sheaf: &Sheaf| (sheaves.room(sheaf) - sheaf.len()) as usize;
    if let Some(left) = prefilled.sheaf.as_ref().map(room).filter(|left| *left > 0) {
        return left;
    }
    let other = sheaves.unlink(&mut prefilled.empty).or_else(|| {
        let _slow_path = enter_slow_path(yard, RUN_CALLS)?;
        sheaves.take(yard.platform(), objects.min(Shape::STACK_OBJECTS as usize) as u32)
    });
    let Some(other) = other else { return 0 };
    if let Some(full) = prefilled.sheaf.take() {
        sheaves.link(&mut prefilled.full, full);
    }
    let room = room(&other);
    prefilled.sheaf = Some(other);
    room
}

#[cold]
fn next_sheaf<P: Platform, E: Engine>(yard: &Yard<P, E>, prefilled: &mut Prefilled) -> Option<()> {
    let full = yard.heap.sheaves.unlink(&mut prefilled.full)?;
    if let Some(empty) = prefilled.sheaf.replace(full) {
        yard.heap.sheaves.link(&mut prefilled.empty, empty);
    }
    Some(())
}
