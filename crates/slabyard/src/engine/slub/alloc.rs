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
    /// Allocates an object: its address; `None` if there is no memory.
    pub fn alloc_slow<P: Platform>(&self, g: &PageHeap<P>) -> Option<usize> {
        let _moving = self.moving();
        let main = self.shape().main();
        let Ok(first) = self.check_out(g, main) else {
            return self.alloc_direct(g);
        };
        let full = match first {
            // The thread moved to another CPU, a push came between, or each call comes by.
            Some(sheaf) if !sheaf.is_empty() => Some(sheaf),
            first => self.fill(g, first),
        };
        // There may be objects where there is no memory for a sheaf.
        let Some(mut full) = full else { return self.alloc_direct(g) };
        let object = g.sheaves.pop(&mut full);
        self.check_in(g, main, full, self.sheaf_capacity());
        object
    }

    /// A sheaf with objects in place of an empty one (or none): this CPU's other
    /// one, else one from the barn, else half filled from slabs. Half, because
    /// frees come too: a full one would have to be put away with the next of them.
    /// Fewer in a cache of few slabs: most caches of a small process stay so, and the
    /// elements of each sheaf would be two pages.
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
            self.took_out(g, empty.len());
            return Some(empty);
        }
        self.barn_put_empty(g, empty);
        None
    }

    /// One object from the slabs, past the sheaves: for a CPU whose stack is
    /// stopped and a thread that has no row.
    pub fn alloc_direct<P: Platform>(&self, g: &PageHeap<P>) -> Option<usize> {
        let mut one = None;
        self.take_objects(g, 1, |begin, stride, mask| {
            one = Some(begin + mask.trailing_zeros() as usize * stride);
        });
        one
    }
}
