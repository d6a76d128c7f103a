//! The barn: one node's full and empty sheaves of a cache, which CPUs exchange for their own.
//!
//! Neighbours: [`super::alloc`] takes full sheaves, [`super::free`] adds them, [`super::reclaim`]
//! flushes the unused ones; [`super::working_set`] sets the limit.

use crate::engine::header::BarnWords;
use crate::engine::slabs::{Held, Stacks};

/// Most full sheaves of a barn until its limit follows use ([`super::working_set`]).
const MOST_FULL: u32 = 2;
/// A barn keeps no objects above this many bytes: there are few of them, and two sheaves may be
/// more than all that live. To return them to their slabs costs little beside their use. Kept, they
/// raised a peak from 16.9 to 18.9 MiB (`aligned_mix`, 59eeeb3).
const LARGEST: u32 = 1024;

/// The first limit of full sheaves in the barn, for objects of this many bytes.
pub(super) const fn most_full(size: u32) -> u32 {
    if size <= LARGEST { MOST_FULL } else { 0 }
}

/// Most empty sheaves of a barn, until another number is set.
pub(super) const MOST_EMPTY: u32 = 2;

/// A barn; `C` is a list of sheaves.
pub(super) struct Barn<C> {
    pub(super) full: C,
    pub(super) nr_full: u32,
    /// Least `nr_full` since the last reclaim pass: that many sheaves were unused (the
    /// depot's working set of Bonwick and Adams, USENIX 2001).
    pub(super) least_full: u32,
    /// Objects in the full sheaves.
    pub(super) objects: u64,
    pub(super) empty: C,
    pub(super) nr_empty: u32,
}

impl<C> Barn<C> {
    /// An empty barn, of two empty lists.
    pub(super) const fn new(full: C, empty: C) -> Self {
        Barn { full, nr_full: 0, least_full: 0, objects: 0, empty, nr_empty: 0 }
    }

    pub(super) fn take_full<S: Stacks<Chain = C>>(&mut self, on: S) -> Option<S::Sheaf> {
        let full = on.unlink(&mut self.full)?;
        self.nr_full -= 1;
        self.least_full = self.least_full.min(self.nr_full);
        self.objects -= u64::from(full.len());
        Some(full)
    }

    pub(super) fn put_full<S: Stacks<Chain = C>>(&mut self, on: S, full: S::Sheaf) {
        self.objects += u64::from(full.len());
        on.link(&mut self.full, full);
        self.nr_full += 1;
    }

    pub(super) fn take_empty<S: Stacks<Chain = C>>(&mut self, on: S) -> Option<S::Sheaf> {
        let empty = on.unlink(&mut self.empty)?;
        self.nr_empty -= 1;
        Some(empty)
    }

    pub(super) fn put_empty<S: Stacks<Chain = C>>(&mut self, on: S, empty: S::Sheaf) {
        on.link(&mut self.empty, empty);
        self.nr_empty += 1;
    }

    #[inline]
    pub(super) fn words<S: Stacks<Chain = C>>(&self, _on: S) -> BarnWords {
        BarnWords {
            objects: self.objects,
            full: self.nr_full.into(),
            empty: self.nr_empty.into(),
            head: S::head(&self.full),
        }
    }
}
