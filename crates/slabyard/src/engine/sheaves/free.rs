//! The slow path of a free: it makes room in this CPU's sheaf. If neither spare nor barn has room,
//! [`crate::engine::flush`] returns objects to their slabs.

use super::NodeSheaves;
use crate::engine::slabs::{Flush, Held, Offered, Stacks};
use crate::engine::{Counter, Moving, flush};

impl<C> NodeSheaves<C> {
    /// Frees an object. Called when the fast path found this CPU's stack full, stopped or
    /// asked to drain, or found the object on its top.
    pub fn free_slow<S: Stacks<Chain = C>>(&self, on: S, object: S::Object) {
        let _moving = Moving::new(on);
        let shape = on.cache().shape();
        let capacity = on.cache().sheaf_capacity();
        if self.should_bypass(on, object, capacity) {
            on.free_below(object);
            self.count_flushed(1);
            return;
        }
        let Ok(main) = Self::check_out(on, shape.main()) else {
            return on.free_below(object);
        };
        let twice = main.as_ref().is_some_and(|sheaf| on.is_top(sheaf, object));
        let room = match main {
            Some(sheaf) if sheaf.len() < capacity.min(on.room(&sheaf)) => Some(sheaf),
            Some(full) => Some(self.make_room(on, full)),
            // A parked object would keep its slab.
            None if on.rules().adapts && on.cache().is_sparse() => None,
            None => self.barn_take_empty(on),
        };
        let Some(mut sheaf) = room else {
            return on.free_below(object);
        };
        if twice {
            on.report_double_free(object);
        } else {
            on.push(&mut sheaf, object);
        }
        self.check_in(on, shape.main(), sheaf, capacity);
    }

    /// True if an object that [may bypass](crate::engine::Shape::may_bypass) the sheaves
    /// should: this CPU's sheaves and the barn are full, as far as one can see without checking
    /// them out. False for the object on top, which is free already.
    fn should_bypass<S: Stacks<Chain = C>>(&self, on: S, object: S::Object, capacity: u32) -> bool {
        let cache = on.cache();
        let shape = cache.shape();
        on.rules().adapts
            && shape.may_bypass()
            && !self.barn_has_room(on)
            && on.is_full(shape, capacity, object)
    }

    /// Makes the main sheaf the spare and returns a sheaf with room: the old spare, if it has
    /// room, else an empty one that the barn gives for the old spare. So parked objects are
    /// allocated in the opposite order of the frees, and neighbours in a structure stay
    /// neighbours in memory (as the depot's magazines of Bonwick and Adams, USENIX 2001). With
    /// the main one in the barn, as in SLUB, trees had theirs anywhere after a few hundred of them:
    /// 12.6 million misses of 32 KiB in place of 11.0 (f907167).
    ///
    /// # Errors
    /// Gives the main one back if neither the spare nor the barn has room.
    fn exchange_spare<S: Stacks<Chain = C>>(
        &self,
        on: S,
        mut main: S::Sheaf,
    ) -> Result<S::Sheaf, S::Sheaf> {
        let (capacity, spare) = (on.cache().sheaf_capacity(), on.cache().shape().spare());
        let has_room = |objects| objects < capacity || self.barn_has_room(on);
        if !on.spare_len().is_some_and(has_room) {
            return Err(main);
        }
        let Ok(Some(mut other)) = Self::check_out(on, spare) else { return Err(main) };
        if other.len() < capacity.min(on.room(&other)) {
            if other.is_empty() {
                Self::divide(on, &mut main, &mut other);
            }
            self.check_in_spare(on, main);
            return Ok(other);
        }
        if on.rules().offered == Offered::Main {
            self.check_in_spare(on, other);
            return self.barn_put_full(on, main);
        }
        match self.barn_put_full(on, other) {
            Ok(room) => {
                self.check_in_spare(on, main);
                Ok(room)
            }
            Err(other) => {
                self.check_in_spare(on, other);
                Err(main)
            }
        }
    }

    /// Exchanges a full sheaf for one with room: the spare, or an empty one where there is no
    /// spare. Else it flushes a piece of the full one, what was freed last: these elements are
    /// still in the CPU's cache. The kernel flushes the spare. To flush the barn's oldest sheaf
    /// keeps the order of trees that outgrow the barn, but its elements and slabs are out of the
    /// cache by then: 3 to 7 % more misses in three loads, and none was faster (d354517).
    fn make_room<S: Stacks<Chain = C>>(&self, on: S, full: S::Sheaf) -> S::Sheaf {
        let mut full = match self.exchange_spare(on, full) {
            Ok(room) => return room,
            Err(full) => full,
        };
        if on.spare_len().is_none()
            && let Some(empty) = self.barn_take_empty(on)
        {
            self.check_in_spare(on, full);
            return empty;
        }
        on.count(Counter::BarnPutFail, 1);
        if on.rules().flush == Flush::Spare
            && let Ok(Some(mut spare)) = Self::check_out(on, on.cache().shape().spare())
        {
            self.flush(on, &mut spare, u32::MAX);
            self.check_in_spare(on, full);
            return spare;
        }
        let flushed = self.flush(on, &mut full, on.cache().shape().piece);
        self.count_flushed(flushed);
        self.outgrow(on, full)
    }

    /// Moves the objects of a sheaf that was made before the capacity rose above its room
    /// into a larger one.
    fn outgrow<S: Stacks<Chain = C>>(&self, on: S, mut sheaf: S::Sheaf) -> S::Sheaf {
        let capacity = on.cache().sheaf_capacity();
        if on.room(&sheaf) >= capacity {
            return sheaf;
        }
        let Some(mut larger) = on.new_sheaf(capacity) else {
            return sheaf;
        };
        while let Some(object) = on.pop(&mut sheaf) {
            on.push(&mut larger, object);
        }
        on.give_sheaf(sheaf);
        larger
    }

    /// Returns the top objects of a sheaf to their slabs, by at most this many slab operations;
    /// says how many objects.
    pub fn flush<S: Stacks<Chain = C>>(&self, on: S, sheaf: &mut S::Sheaf, most: u32) -> u32 {
        let objects = on.elements(sheaf);
        let flushed = match on.rules().flush {
            Flush::Piece => flush::return_to_slabs(on, objects, most),
            Flush::Spare => {
                on.free_all_below(objects);
                sheaf.len()
            }
        };
        on.count(Counter::SheafFlush, flushed);
        on.shorten(sheaf, flushed);
        flushed
    }
}
