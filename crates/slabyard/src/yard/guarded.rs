//! A yard's state for large blocks with debugging: their flags, and the quarantine of freed
//! mappings, a ring of addresses.
//!
//! Neighbours: [`crate::debugging::large`] makes and frees such blocks; [`super::looks`] prevents
//! checks of changing blocks.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::yard::looks::Looks;
use slabyard_abi::debug::DebugFlags;

/// Freed mappings that stay.
const QUARANTINE: usize = 64;

/// Debugging of large blocks.
pub(crate) struct Guarded {
    pub(crate) flags: AtomicU32,
    /// Addresses of freed mappings, in a ring.
    pub(crate) freed: [AtomicUsize; QUARANTINE],
    pub(crate) next: AtomicUsize,
    pub(crate) looks: Looks,
    /// 1: some blocks may be half made, or half freed.
    pub(crate) half_done: AtomicU32,
}

impl Guarded {
    pub(crate) const fn new() -> Self {
        Guarded {
            flags: AtomicU32::new(0),
            freed: [const { AtomicUsize::new(0) }; QUARANTINE],
            next: AtomicUsize::new(0),
            looks: Looks::new(),
            half_done: AtomicU32::new(0),
        }
    }

    /// Puts a freed mapping into quarantine, in a change; returns the one that leaves it, or 0.
    pub(crate) fn park(&self, address: usize) -> usize {
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed) % QUARANTINE;
            let oldest = self.freed[nth].load(Ordering::Relaxed);
            if oldest != 0 && self.looks.is_at(oldest) {
                continue;
            }
            // Who takes the mapping out, to unmap it, comes after who put it in.
            let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.freed[nth].compare_exchange(oldest, address, set, seen).is_ok() {
                return oldest;
            }
        }
    }

    /// In the child of a fork. A block that a thread which is gone was about to make or to free has
    /// pages that fault, or no seal: nobody looks at blocks from now on but their owners' calls.
    pub(crate) fn begin_child(&self) {
        if self.looks.forget() {
            self.half_done.store(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn choose(&self, flags: DebugFlags) {
        self.flags.store(flags.bits().into(), Ordering::Relaxed);
    }
}
