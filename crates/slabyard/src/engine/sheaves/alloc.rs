//! The slow path of an allocation: the fast path found this CPU's stack empty or stopped.

use super::NodeSheaves;
use crate::engine::slabs::{Held, Refill, Stacks};
use crate::engine::{Counter, Moving, partial};
use crate::slab::Word;
use core::mem;

/// Objects that a cache of few slabs puts into a sheaf.
const FIRST_OBJECTS: u32 = Word::OBJECTS;

/// About this many objects, in whole words of a bitmap where these are fewer.
fn in_whole_words(objects: u32) -> u32 {
    const WORD: u32 = Word::OBJECTS;
    if objects < WORD { objects } else { (objects + WORD / 2) / WORD * WORD }
}

impl<C> NodeSheaves<C> {
    /// Allocates an object and returns its address; `None` if there is no memory.
    pub fn alloc_slow<S: Stacks<Chain = C>>(&self, on: S) -> Option<S::Object> {
        let _moving = Moving::new(on);
        let main = on.cache().shape().main();
        let Ok(first) = Self::check_out(on, main) else {
            return on.alloc_below();
        };
        let full = match first {
            // The thread moved to another CPU, a push came between, or an entry of zeros
            // sends every call to the slow path.
            Some(sheaf) if !sheaf.is_empty() => Ok(sheaf),
            first => self.fill(on, first),
        };
        let mut full = match full {
            Ok(full) => full,
            Err(Some(elsewhere)) => return Some(elsewhere),
            // Without memory for a sheaf, a slab may still have an object.
            Err(None) => return on.alloc_below(),
        };
        let object = on.pop(&mut full);
        self.check_in(on, main, full, on.cache().sheaf_capacity());
        object
    }

    /// Exchanges an empty sheaf (or none) for one with objects: this CPU's spare, else a full
    /// one from the barn, else the same sheaf refilled.
    ///
    /// # Errors
    /// Nothing is free at the node, which need not have new slabs: an object of another node; none
    /// if there is no memory.
    #[inline]
    fn fill<S: Stacks<Chain = C>>(
        &self,
        on: S,
        empty: Option<S::Sheaf>,
    ) -> Result<S::Sheaf, Option<S::Object>> {
        let spare = on.cache().shape().spare();
        if on.spare_len().is_some_and(|n| n > 0) {
            match Self::check_out(on, spare).ok().flatten() {
                Some(mut sheaf) if !sheaf.is_empty() => {
                    let Some(mut empty) = empty else { return Ok(sheaf) };
                    if Self::divide(on, &mut sheaf, &mut empty) {
                        mem::swap(&mut sheaf, &mut empty);
                    }
                    self.check_in_spare(on, empty);
                    return Ok(sheaf);
                }
                Some(second) => self.check_in_spare(on, second),
                None => {}
            }
        }
        let empty = empty.or_else(|| self.barn_take_empty(on)).ok_or(None)?;
        let mut empty = match self.barn_swap(on, empty) {
            Ok(full) => return Ok(full),
            Err(empty) => empty,
        };
        if let Some(elsewhere) = on.alloc_elsewhere() {
            self.barn_put_empty(on, empty);
            return Err(Some(elsewhere));
        }
        self.refill(on, &mut empty);
        if empty.is_empty() {
            self.barn_put_empty(on, empty);
            return Err(None);
        }
        on.count(Counter::SheafRefill, empty.len());
        self.count_refilled(on, empty.len());
        Ok(empty)
    }

    /// Refills an empty sheaf from the slabs: by our rules to the half, because the program
    /// frees too: its next free would have to put a full one away.
    /// In a cache of few slabs it takes fewer: most caches of a small process stay so, and
    /// the elements of each sheaf would touch two pages.
    fn refill<S: Stacks<Chain = C>>(&self, on: S, sheaf: &mut S::Sheaf) {
        let capacity = on.cache().sheaf_capacity();
        let want = match on.rules().refill {
            Refill::Whole | Refill::Below => capacity,
            Refill::Half => {
                let half = in_whole_words(capacity.div_ceil(2));
                if on.cache().is_busy() { half } else { half.min(FIRST_OBJECTS) }
            }
        };
        let want = want.min(on.room(sheaf));
        if on.rules().refill != Refill::Below {
            return partial::take_objects(on, want, &mut on.filling(sheaf));
        }
        while sheaf.len() < want
            && let Some(object) = on.alloc_below()
        {
            on.push(sheaf, object);
        }
    }
}
