//! The slow path of a free. From a sheaf that found no room the way goes [`home`].
//!
//! [`home`]: super::flush

use super::Cache;
use crate::pages::{Cause, PageHeap, Sheaf};
use crate::platform::Platform;
use crate::sync::Ordering;

impl Cache {
    /// Frees an object. Called when the fast path found this CPU's stack full,
    /// asked for or stopped, or the object on its top.
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

    /// True if an object that may go straight home is to: this CPU's sheaves are full, and
    /// the barn is, as far as one can see without taking them out. Not the object on top,
    /// which is free already.
    fn should_bypass<P: Platform>(&self, g: &PageHeap<P>, address: usize, capacity: u32) -> bool {
        let shape = self.shape();
        let Some(row) = g.platform.row_hint().filter(|_| shape.goes_straight()) else {
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

    /// A sheaf with room for a main one, which becomes the spare: the old spare, if it has
    /// room, else an empty one of the barn's, which takes the old spare. So what is parked is
    /// handed out again in the order opposite to that of the frees, and neighbours in a
    /// structure stay neighbours in memory (as the depot's magazines of Bonwick and Adams,
    /// USENIX 2001).
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

    /// A sheaf with room in place of a full one. The spare's, or an empty one where there is
    /// no spare; else a piece of the full one goes home, what was freed last: its elements are
    /// in the cache still.
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
        let gone = self.flush(g, &mut full, self.shape().piece);
        self.count_flushed(gone);
        self.outgrow(g, full)
    }

    /// A larger sheaf, with the same objects, in place of one that was made before the
    /// capacity rose above its room.
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

    /// The top objects of a sheaf go home, for at most so many slab operations: how many.
    pub(super) fn flush<P: Platform>(&self, g: &PageHeap<P>, sheaf: &mut Sheaf, most: u32) -> u32 {
        let gone = self.return_to_slabs(g, g.sheaves.objects(sheaf), most);
        g.sheaves.shorten(sheaf, gone);
        gone
    }
}
