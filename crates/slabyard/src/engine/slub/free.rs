//! The slow path of a free: it makes room in this CPU's sheaf. Where neither spare nor barn
//! has room, [`super::flush`] returns objects to their slabs.

use super::Cache;
use crate::pages::{Cause, PageHeap, Sheaf};
use crate::platform::Platform;
use crate::sync::Ordering;

impl Cache {
    /// Frees an object. Called when the fast path found this CPU's stack full, stopped or
    /// asked to drain, or found the object on its top.
    pub fn free_slow<P: Platform>(&self, g: &PageHeap<P>, address: usize) {
        let _moving = self.moving();
        let shape = self.shape();
        let capacity = self.sheaf_capacity();
        if self.should_bypass(g, address, capacity) {
            self.free_direct(g, address);
            self.count_flushed(1);
            return;
        }
        let Ok(main) = self.check_out(g, shape.main()) else {
            return self.free_direct(g, address);
        };
        let twice = main.as_ref().and_then(|sheaf| g.sheaves.top(sheaf)) == Some(address);
        let room = match main {
            Some(sheaf) if sheaf.len() < capacity.min(g.sheaves.room(&sheaf)) => Some(sheaf),
            Some(full) => Some(self.make_room(g, full)),
            None => self.barn_take_empty(g),
        };
        let Some(mut sheaf) = room else {
            return self.free_direct(g, address);
        };
        if twice {
            g.misuse(Cause::DoubleFree, address, shape.slot);
        } else {
            g.sheaves.push(&mut sheaf, address);
        }
        self.check_in(g, shape.main(), sheaf, capacity);
    }

    /// True if an object that [may bypass](super::Shape::may_bypass) the sheaves should: this
    /// CPU's sheaves and the barn are full, as far as one can see without checking them out.
    /// False for the object on top, which is free already.
    fn should_bypass<P: Platform>(&self, g: &PageHeap<P>, address: usize, capacity: u32) -> bool {
        let shape = self.shape();
        let Some(row) = g.platform.row_hint().filter(|_| shape.may_bypass()) else {
            return false;
        };
        let top = |slot| g.platform.rows().entry(row, slot).top();
        if self.barn_has_room(g) || g.sheaves.count_of(top(shape.spare())) < Some(capacity) {
            return false;
        }
        let main = g.sheaves.objects_of(top(shape.main()));
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
    fn exchange_spare<P: Platform>(&self, g: &PageHeap<P>, main: Sheaf) -> Result<Sheaf, Sheaf> {
        let (capacity, spare) = (self.sheaf_capacity(), self.shape().spare());
        let has_room = |objects| objects < capacity || self.barn_has_room(g);
        if !self.peek(g, spare).is_some_and(has_room) {
            return Err(main);
        }
        let Ok(Some(other)) = self.check_out(g, spare) else { return Err(main) };
        let room = if other.len() < capacity.min(g.sheaves.room(&other)) {
            Ok(other)
        } else {
            self.barn_put_full(g, other)
        };
        match room {
            Ok(room) => {
                self.check_in_spare(g, main);
                Ok(room)
            }
            Err(other) => {
                self.check_in_spare(g, other);
                Err(main)
            }
        }
    }

    /// Exchanges a full sheaf for one with room: the spare, or an empty one where there is no
    /// spare. Else it flushes a piece of the full one, what was freed last: these elements
    /// are still in the CPU's cache.
    fn make_room<P: Platform>(&self, g: &PageHeap<P>, full: Sheaf) -> Sheaf {
        let mut full = match self.exchange_spare(g, full) {
            Ok(room) => return room,
            Err(full) => full,
        };
        if self.peek(g, self.shape().spare()).is_none()
            && let Some(empty) = self.barn_take_empty(g)
        {
            self.check_in_spare(g, full);
            return empty;
        }
        let flushed = self.flush(g, &mut full, self.shape().piece);
        self.count_flushed(flushed);
        self.outgrow(g, full)
    }

    /// Moves the objects of a sheaf that was made before the capacity rose above its room
    /// into a larger one.
    fn outgrow<P: Platform>(&self, g: &PageHeap<P>, mut sheaf: Sheaf) -> Sheaf {
        let capacity = self.sheaf_capacity();
        if g.sheaves.room(&sheaf) >= capacity {
            return sheaf;
        }
        let Some(mut larger) = g.sheaves.take(&g.platform, capacity) else {
            return sheaf;
        };
        while let Some(object) = g.sheaves.pop(&mut sheaf) {
            g.sheaves.push(&mut larger, object);
        }
        g.sheaves.give(&g.platform, sheaf);
        larger
    }

    /// Returns the top objects of a sheaf to their slabs, by at most so many slab operations;
    /// says how many objects.
    pub(super) fn flush<P: Platform>(&self, g: &PageHeap<P>, sheaf: &mut Sheaf, most: u32) -> u32 {
        let flushed = self.return_to_slabs(g, g.sheaves.objects(sheaf), most);
        g.sheaves.shorten(sheaf, flushed);
        flushed
    }
}
