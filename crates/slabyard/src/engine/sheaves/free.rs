//! The slow path of a free: it makes room in this CPU's sheaf. Where neither spare nor barn
//! has room, [`super::flush`] returns objects to their slabs.

use super::Sheaves;
use crate::engine::PageSlabs;
use crate::pages::{Cause, Sheaf};
use crate::platform::Platform;
use crate::sync::Ordering;

impl Sheaves {
    /// Frees an object. Called when the fast path found this CPU's stack full, stopped or
    /// asked to drain, or found the object on its top.
    pub fn free_slow<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = on.cache.moving();
        let shape = on.cache.shape();
        let capacity = on.cache.sheaf_capacity();
        if self.should_bypass(on, address, capacity) {
            on.free_direct(address);
            self.count_flushed(1);
            return;
        }
        let Ok(main) = self.check_out(on, shape.main()) else {
            return on.free_direct(address);
        };
        let twice = main.as_ref().and_then(|sheaf| on.heap.sheaves.top(sheaf)) == Some(address);
        let room = match main {
            Some(sheaf) if sheaf.len() < capacity.min(on.heap.sheaves.room(&sheaf)) => Some(sheaf),
            Some(full) => Some(self.make_room(on, full)),
            None => self.barn_take_empty(on),
        };
        let Some(mut sheaf) = room else {
            return on.free_direct(address);
        };
        if twice {
            on.heap.misuse(Cause::DoubleFree, address, shape.slot);
        } else {
            on.heap.sheaves.push(&mut sheaf, address);
        }
        self.check_in(on, shape.main(), sheaf, capacity);
    }

    /// True if an object that [may bypass](super::Shape::may_bypass) the sheaves should: this
    /// CPU's sheaves and the barn are full, as far as one can see without checking them out.
    /// False for the object on top, which is free already.
    fn should_bypass<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        address: usize,
        capacity: u32,
    ) -> bool {
        let shape = on.cache.shape();
        let Some(row) = on.heap.platform.row_hint().filter(|_| shape.may_bypass()) else {
            return false;
        };
        let top = |slot| on.heap.platform.rows().entry(row, slot).top();
        if self.barn_has_room(on) || on.heap.sheaves.count_of(top(shape.spare())) < Some(capacity) {
            return false;
        }
        let main = on.heap.sheaves.objects_of(top(shape.main()));
        main.len() >= capacity as usize
            && main.last().is_some_and(|top| top.load(Ordering::Relaxed) != address)
    }

    /// Makes the main sheaf the spare and returns a sheaf with room: the old spare, if it has
    /// room, else an empty one that the barn gives for the old spare. So parked objects are
    /// allocated in the opposite order of the frees, and neighbours in a structure stay
    /// neighbours in memory (as the depot's magazines of Bonwick and Adams, USENIX 2001).
    ///
    /// # Errors
    /// Gives the main one back if neither the spare nor the barn has room.
    fn exchange_spare<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        main: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let (capacity, spare) = (on.cache.sheaf_capacity(), on.cache.shape().spare());
        let has_room = |objects| objects < capacity || self.barn_has_room(on);
        if !self.peek(on, spare).is_some_and(has_room) {
            return Err(main);
        }
        let Ok(Some(other)) = self.check_out(on, spare) else { return Err(main) };
        let room = if other.len() < capacity.min(on.heap.sheaves.room(&other)) {
            Ok(other)
        } else {
            self.barn_put_full(on, other)
        };
        match room {
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
    /// spare. Else it flushes a piece of the full one, what was freed last: these elements
    /// are still in the CPU's cache.
    fn make_room<P: Platform>(&self, on: PageSlabs<'_, P>, full: Sheaf) -> Sheaf {
        let mut full = match self.exchange_spare(on, full) {
            Ok(room) => return room,
            Err(full) => full,
        };
        if self.peek(on, on.cache.shape().spare()).is_none()
            && let Some(empty) = self.barn_take_empty(on)
        {
            self.check_in_spare(on, full);
            return empty;
        }
        let flushed = self.flush(on, &mut full, on.cache.shape().piece);
        self.count_flushed(flushed);
        self.outgrow(on, full)
    }

    /// Moves the objects of a sheaf that was made before the capacity rose above its room
    /// into a larger one.
    fn outgrow<P: Platform>(&self, on: PageSlabs<'_, P>, mut sheaf: Sheaf) -> Sheaf {
        let capacity = on.cache.sheaf_capacity();
        if on.heap.sheaves.room(&sheaf) >= capacity {
            return sheaf;
        }
        let Some(mut larger) = on.heap.sheaves.take(&on.heap.platform, capacity) else {
            return sheaf;
        };
        while let Some(object) = on.heap.sheaves.pop(&mut sheaf) {
            on.heap.sheaves.push(&mut larger, object);
        }
        on.heap.sheaves.give(&on.heap.platform, sheaf);
        larger
    }

    /// Returns the top objects of a sheaf to their slabs, by at most so many slab operations;
    /// says how many objects.
    pub(super) fn flush<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        sheaf: &mut Sheaf,
        most: u32,
    ) -> u32 {
        let flushed = on.return_to_slabs(on.heap.sheaves.objects(sheaf), most);
        on.heap.sheaves.shorten(sheaf, flushed);
        flushed
    }
}
