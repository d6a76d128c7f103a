//! Bulk calls on a created cache: each restartable sequence moves many objects.
//!
//! A bulk call pops several objects off this CPU's stack, or pushes several, with one committing
//! store ([`PerCpu::pop_many`](crate::platform::PerCpu::pop_many)). When the stack is empty, or
//! full, one object takes the slow path, which exchanges or refills the sheaf; then the bulk call
//! continues on the stack.
//!
//! Neighbours: [`crate::created`] allocates and frees single objects; [`crate::calls::prefill`]
//! fills its sheaves with bulk calls.

use crate::cache::CacheId;
use crate::engine::Engine;
use crate::inside::taken;
use crate::platform::{Platform, count_down};
use crate::slab::Geometry;
use crate::yard::{AddressKind, Yard};

/// Objects of one sequence at most: a longer one would be interrupted, and begin again, more often.
pub const PIECE: usize = 64;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Allocates as many objects of a cache as `out` has room for, or none: false if there is no
    /// memory, or no such cache.
    pub fn alloc_bulk_from(&self, id: CacheId, out: &mut [usize]) -> bool {
        let mut done = 0;
        while done < out.len() {
            let wanted = (out.len() - done).min(PIECE);
            let piece = &mut out[done..done + wanted];
            let popped = if self.wants_every_call() {
                0
            } else {
                self.platform().pop_many(id.slot(), piece)
            };
            done += popped;
            if popped == wanted {
                continue;
            }
            match self.alloc_from_slow(id) {
                Some(object) => out[done] = object,
                None => {
                    let freed = self.free_bulk_to(id, &out[..done]);
                    debug_assert!(freed.is_ok(), "they were allocated here");
                    return false;
                }
            }
            done += 1;
        }
        true
    }

    /// Frees objects of a cache.
    ///
    /// # Errors
    /// The number of the first that is no live object of this cache, and where it is: those
    /// before it are freed, it and those behind it are not.
    pub fn free_bulk_to(&self, id: CacheId, objects: &[usize]) -> Result<(), (usize, AddressKind)> {
        let geometry = self.caches.find(id).map(|cache| cache.shape().geometry);
        let mut done = 0;
        while done < objects.len() {
            let left = &objects[done..objects.len().min(done + PIECE)];
            let run = geometry.map_or(0, |geometry| run_of(self, id, geometry, left));
            let pushed = push_run(self, id, &left[..run]);
            done += pushed;
            if pushed < left.len() {
                self.free_to(id, objects[done]).map_err(|place| (done, place))?;
                done += 1;
            }
        }
        Ok(())
    }
}

/// Puts objects of a cache on this CPU's stack; returns how many. None if the row's countdown
/// runs out: the call for one object takes the periodic slow path.
pub(crate) fn push_run<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    objects: &[usize],
) -> usize {
    let p = yard.platform();
    let has_turn = count_down(p, objects.len() as u32);
    if has_turn { p.push_many(id.slot(), objects, taken::<E>()) } else { 0 }
}

/// How many of the first addresses are objects of a cache, none of them the one before: that
/// is a double free, which the call for one object finds.
fn run_of<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    geometry: Geometry,
    objects: &[usize],
) -> usize {
    let region = &yard.heap.region;
    let is_mapped = |granule| region.map_value(granule) == id.slot().offset() as u16;
    // Slabs are aligned to their size.
    let within = geometry.slab_bytes() - 1;
    let mut last = 0;
    for (nth, object) in objects.iter().enumerate() {
        // Most often it lies in the slab of the one before, of which the map was read.
        let is_near = nth > 0 && (object ^ last) & !within == 0;
        let is_of = is_near || region.granule_of(*object).is_some_and(is_mapped);
        if !is_of || *object == last || geometry.object_at((object & within) as u32).is_none() {
            return nth;
        }
        last = *object;
    }
    objects.len()
}
