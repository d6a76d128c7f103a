//! The slow path of an allocation: the fast path found this CPU's stack empty or stopped.

use super::Cache;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::Platform;
use crate::slab::Word;

/// Objects that a cache of few slabs puts into a sheaf.
const FIRST_OBJECTS: u32 = Word::OBJECTS;

/// About so many objects, in whole words of a bitmap where these are fewer.
fn in_whole_words(objects: u32) -> u32 {
    const WORD: u32 = Word::OBJECTS;
    if objects < WORD { objects } else { (objects + WORD / 2) / WORD * WORD }
}

impl Cache {
    /// Allocates an object and returns its address; `None` if there is no memory.
    pub fn alloc_slow<P: Platform>(&self, g: &PageHeap<P>) -> Option<usize> {
        let _moving = self.moving();
        let main = self.shape().main();
        let Ok(first) = self.check_out(g, main) else {
            return self.alloc_direct(g);
        };
        let full = match first {
            // The thread moved to another CPU, a push came between, or an entry of zeros
            // sends every call to the slow path.
            Some(sheaf) if !sheaf.is_empty() => Some(sheaf),
            first => self.fill(g, first),
        };
        // Without memory for a sheaf, a slab may still have an object.
        let Some(mut full) = full else { return self.alloc_direct(g) };
        let object = g.sheaves.pop(&mut full);
        self.check_in(g, main, full, self.sheaf_capacity());
        object
    }

    /// Exchanges an empty sheaf (or none) for one with objects: this CPU's spare, else a full
    /// one from the barn, else the same sheaf refilled from slabs to the half. Half, because
    /// the program frees too: its next free would have to put a full one away.
    /// In a cache of few slabs it takes fewer: most caches of a small process stay so, and
    /// the elements of each sheaf would touch two pages.
    fn fill<P: Platform>(&self, g: &PageHeap<P>, empty: Option<Sheaf>) -> Option<Sheaf> {
        let spare = self.shape().spare();
        let half = in_whole_words(self.sheaf_capacity().div_ceil(2));
        let want = if self.is_busy() { half } else { half.min(FIRST_OBJECTS) };
        if self.peek(g, spare).is_some_and(|n| n > 0) {
            match self.check_out(g, spare).ok().flatten() {
                Some(sheaf) if !sheaf.is_empty() => {
                    if let Some(empty) = empty {
                        self.check_in_spare(g, empty);
                    }
                    return Some(sheaf);
                }
                Some(second) => self.check_in_spare(g, second),
                None => {}
            }
        }
        let empty = empty.or_else(|| self.barn_take_empty(g))?;
        let mut empty = match self.barn_swap(g, empty) {
            Ok(full) => return Some(full),
            Err(empty) => empty,
        };
        if self.refill(g, &mut empty, want) {
            self.count_refilled(g, empty.len());
            return Some(empty);
        }
        self.barn_put_empty(g, empty);
        None
    }

    /// Allocates one object from the slabs and bypasses the sheaves: for a CPU whose stack
    /// is stopped and a thread that has no row.
    pub fn alloc_direct<P: Platform>(&self, g: &PageHeap<P>) -> Option<usize> {
        let mut one = None;
        self.take_objects(g, 1, |begin, stride, mask| {
            one = Some(begin + mask.trailing_zeros() as usize * stride);
        });
        one
    }
}
