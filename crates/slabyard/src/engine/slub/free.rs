//! The slow path of a free, and the way home from a sheaf to the slabs.
//!
//! Objects go home sorted by address: one operation for each bitmap word, one
//! for each slab.

use super::Cache;
use super::alloc::Beat;
use crate::page::{Cause, Ground, Sheaf};
use crate::platform::Platform;
use crate::sync::Ordering;

/// Objects that go home at a time: they lie on the stack, which may be small.
pub(super) const BATCH: usize = 256;

impl Cache {
    /// Frees an object. Called when the fast path found this CPU's stack full,
    /// asked for or stopped, or the object on its top.
    pub fn free_slow<P: Platform>(&self, g: &Ground<P>, address: usize, beat: Beat) {
        let _moving = self.moving();
        let shape = self.shape();
        let capacity = self.sheaf_capacity();
        let Ok(main) = self.check_out(g, shape.main()) else {
            return self.free_direct(g, address);
        };
        let twice = main.as_ref().and_then(|sheaf| g.sheaves.top(sheaf)) == Some(address);
        let room = match main {
            Some(sheaf) if sheaf.len() < capacity => Some(sheaf),
            Some(full) => Some(self.make_room(g, full)),
            None => self.barn_take_empty(g),
        };
        let Some(mut sheaf) = room else {
            return self.free_direct(g, address);
        };
        if twice {
            g.bad(Cause::DoubleFree, address, shape.slot);
        } else {
            g.sheaves.push(&mut sheaf, address);
        }
        let room = beat.capacity(sheaf.len(), capacity);
        self.check_in(g, shape.main(), sheaf, room);
    }

    /// A sheaf with room in place of a full one. The spare, if it has room; else
    /// the barn takes the full one for an empty one; else the spare goes home,
    /// whose objects rest longer.
    fn make_room<P: Platform>(&self, g: &Ground<P>, full: Sheaf) -> Sheaf {
        let (capacity, spare) = (self.sheaf_capacity(), self.shape().spare());
        let looks = self.peek(g, spare);
        if looks.is_some_and(|n| n < capacity) {
            match self.check_out(g, spare).ok().flatten() {
                Some(sheaf) if sheaf.len() < capacity => {
                    self.check_in_spare(g, full);
                    return sheaf;
                }
                Some(sheaf) => self.check_in_spare(g, sheaf),
                None => {}
            }
        }
        if looks.is_none()
            && let Some(empty) = self.barn_take_empty(g)
        {
            self.check_in_spare(g, full);
            return empty;
        }
        let full = match self.barn_put_full(g, full) {
            Ok(empty) => return empty,
            Err(full) => full,
        };
        let mut home = match self.check_out(g, spare).ok().flatten() {
            Some(other) => {
                self.check_in_spare(g, full);
                other
            }
            None => full,
        };
        self.flush(g, &mut home);
        home
    }

    /// One object to its slab, past the sheaves.
    pub fn free_direct<P: Platform>(&self, g: &Ground<P>, address: usize) {
        self.put_home(g, &mut [address]);
    }

    /// All objects of a sheaf go home.
    pub(super) fn flush<P: Platform>(&self, g: &Ground<P>, sheaf: &mut Sheaf) {
        while !sheaf.is_empty() {
            let mut objects = [0usize; BATCH];
            let mut n = 0;
            while n < BATCH
                && let Some(address) = g.sheaves.pop(sheaf)
            {
                objects[n] = address;
                n += 1;
            }
            self.put_home(g, &mut objects[..n]);
        }
    }

    /// Objects go home: at most 256. What is no object of this cache is
    /// told and set aside.
    pub fn put_home<P: Platform>(&self, g: &Ground<P>, objects: &mut [usize]) {
        let shape = self.shape();
        objects.sort_unstable();
        let mut indices = [0u32; BATCH];
        let (mut rest, mut home) = (&*objects, 0);
        while let Some(&first) = rest.first() {
            let slab = match g.resolve(&shape.geometry, shape.slot, first) {
                Ok(object) => object.slab,
                Err(cause) => {
                    g.bad(cause, first, shape.slot);
                    rest = &rest[1..];
                    continue;
                }
            };
            let end = g.region.address(slab) + shape.geometry.slab_bytes();
            let together = rest.partition_point(|address| *address < end);
            let mut n = 0;
            for &address in &rest[..together] {
                match g.resolve(&shape.geometry, shape.slot, address) {
                    Ok(object) => {
                        indices[n] = object.index;
                        n += 1;
                    }
                    Err(cause) => g.bad(cause, address, shape.slot),
                }
            }
            home += self.put_group(g, slab, &indices[..n]);
            rest = &rest[together..];
        }
        self.shown.out.fetch_sub(home, Ordering::Relaxed);
    }

    /// Returns how many went home.
    fn put_group<P: Platform>(&self, g: &Ground<P>, slab: u32, indices: &[u32]) -> u64 {
        let shape = self.shape();
        let put = g.put(slab, indices, |index| {
            let object = crate::slab::Object { slab, index };
            g.bad(Cause::DoubleFree, g.address_of(&shape.geometry, object), shape.slot);
        });
        if put.added > 0 && (put.before == 0 || put.before + put.added == shape.geometry.objects) {
            self.settle(g, slab, put.version);
        }
        u64::from(put.added)
    }
}
