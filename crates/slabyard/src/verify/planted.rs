//! Bugs planted in a yard, so that tests see its checks find them. In a library that people use
//! there are none, and no code for them.
//!
//! Neighbours: [`crate::yard::stacks`] and [`crate::yard::reclaim::ticker`] ask; the modelled
//! machine plants others (`platform::machine`).

#[cfg(any(test, feature = "machine"))]
use crate::sync::{AtomicU32, Ordering};

/// The bugs planted in a yard.
#[cfg(any(test, feature = "machine"))]
pub(crate) struct Planted {
    /// 1: slow paths make whole passes.
    whole_passes: AtomicU32,
    /// Not 0: the row before this one is skipped.
    skipped: AtomicU32,
    /// Not 0: the child of a fork leaves this part of the repair out.
    unrepaired: AtomicU32,
}

#[cfg(any(test, feature = "machine"))]
impl Planted {
    pub(crate) const fn new() -> Self {
        Planted {
            whole_passes: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
            unrepaired: AtomicU32::new(0),
        }
    }

    /// True if a slow path shall make a whole pass, against the bound on a call.
    pub(crate) fn makes_whole_passes(&self) -> bool {
        self.whole_passes.load(Ordering::Relaxed) != 0
    }

    /// True if walks over one cache's stacks shall pass this row by.
    pub(crate) fn skips(&self, row: usize) -> bool {
        self.skipped.load(Ordering::Relaxed) == row as u32 + 1
    }

    /// True if the child of a fork shall leave a part of the repair out.
    pub(crate) fn leaves_out(&self, part: Part) -> bool {
        self.unrepaired.load(Ordering::Relaxed) == part as u32
    }
}

/// Parts of what the child of a fork repairs.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    All = 1,
    Caches = 2,
    Stopped = 3,
    Slabs = 4,
}

/// The bugs planted in a yard: none.
#[cfg(not(any(test, feature = "machine")))]
pub(crate) struct Planted;

#[cfg(not(any(test, feature = "machine")))]
impl Planted {
    pub(crate) const fn new() -> Self {
        Planted
    }

    pub(crate) fn makes_whole_passes(&self) -> bool {
        false
    }

    pub(crate) fn skips(&self, _row: usize) -> bool {
        false
    }

    pub(crate) fn leaves_out(&self, _part: Part) -> bool {
        false
    }
}

#[cfg(any(test, feature = "machine"))]
impl<P: crate::platform::Platform, E: crate::engine::Engine> crate::yard::Yard<P, E> {
    /// Plants a bug: slow paths make whole passes.
    pub fn plant_whole_passes(&self) {
        self.planted.whole_passes.store(1, Ordering::Relaxed);
    }

    /// Plants a bug: the child of a fork leaves a part of the repair out: 1, all of it; 2, that of
    /// caches; 3, that of stopped stacks; 4, that of pages and slabs.
    pub fn plant_unrepaired(&self, part: u32) {
        self.planted.unrepaired.store(part, Ordering::Relaxed);
    }

    /// Plants a bug: caches are destroyed and drained without a look at this row.
    pub fn plant_skipped_row(&self, row: usize) {
        self.planted.skipped.store(row as u32 + 1, Ordering::Relaxed);
    }
}
