//! The live objects of a typed cache: how many they are, and their addresses.
//!
//! The walk gives addresses and no references: the objects belong to boxes, whose owners may write
//! to them and free them meanwhile.
//!
//! Neighbour: [`crate::live`] does the walk.

use super::handle::ObjectCache;
use super::home::Home;
use super::kind::ObjectKind;
use super::record::Record;
use crate::live::{self, Walked};

/// What a walk over the live objects of a cache met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveObjects {
    /// This many there were, which may be more than there was room for.
    pub count: usize,
    /// True if free ones were among them: where CPUs cannot be stopped, what other threads keep
    /// for their next allocations.
    pub with_free: bool,
}

impl<T, K: ObjectKind, Y: Home> ObjectCache<T, K, Y> {
    /// Writes the addresses of the live objects to `out`, in the order of the slabs, as many as
    /// there is room for; those that prefilled sheaves hold are among them, and those that were
    /// allocated in a handler that interrupted a slow path are not.
    ///
    /// They are of a moment that is over when the call returns. To look at an object is the
    /// caller's risk: its owner may write to it, or have freed it. Other threads' calls wait
    /// during the walk. `None` in a signal handler that interrupted a slow path, and if a fork
    /// takes longer than a second.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let held = nodes.alloc_bulk([7; 3]);
    /// let mut addresses = [std::ptr::null(); 10];
    /// let live = nodes.live_objects(&mut addresses).unwrap();
    /// assert_eq!((live.count, live.with_free), (3, false));
    /// let is_live = |pointer: *const u64| addresses[..live.count].contains(&pointer);
    /// assert!(held.iter().all(|object| is_live(&**object)));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn live_objects(&self, out: &mut [*const T]) -> Option<LiveObjects> {
        let &Record { yard, id, .. } = self.record();
        let mut count = 0;
        let walked = live::each_live(yard, id, |address| {
            if let Some(place) = out.get_mut(count) {
                *place = core::ptr::with_exposed_provenance(address);
            }
            count += 1;
        })?;
        Some(LiveObjects { count, with_free: walked == Walked::WithFree })
    }
}
