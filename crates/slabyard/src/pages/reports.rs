//! The counts of errors that the yard found in the program, and the hooks that it calls for them:
//! misuse, which every yard reports, and findings of debugging ([`super::finding`]).
//!
//! Neighbours: [`super::PageHeap::misuse`] reports misuse; [`crate::engine::debug`] and
//! [`crate::slab::debug`] find errors in debugged caches. Invariant: an object that was reported is
//! in no stack, barn or free set; it counts as set aside.

use super::finding;
use crate::sync::{AtomicU64, Once, Ordering};

/// Why an address is not a live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Freed twice.
    DoubleFree,
    /// Not at the start of an object.
    Interior,
    /// The size that the caller named is not the object's.
    WrongSize,
    /// Memory of the allocator's was written to: a free block, or what is in front of an object.
    Overwritten,
}

/// Misuse: a free of what is no live object, found when the object returns to its slab.
#[derive(Clone, Copy, Debug)]
pub struct Misuse {
    /// What is wrong with the free.
    pub cause: Cause,
    /// The address that was freed.
    pub address: usize,
    /// Slot of the cache that the address belongs to.
    pub slot: u16,
}

/// Reports, and the functions that get them.
pub struct Reports {
    /// Frees that were reported as misuse; their objects are set aside.
    pub set_aside: AtomicU64,
    /// Gets the reports of misuse; without one, misuse is only counted.
    pub(crate) on_misuse: Once<fn(&Misuse)>,
    /// What caches with debugging call.
    pub hooks: Once<finding::Hooks>,
    /// What caches with debugging found.
    pub findings: AtomicU64,
}

impl Reports {
    pub(super) const fn new() -> Self {
        Reports {
            set_aside: AtomicU64::new(0),
            on_misuse: Once::new(),
            hooks: Once::new(),
            findings: AtomicU64::new(0),
        }
    }

    /// Counts a finding of debugging, and reports it.
    pub(crate) fn finding(&self, found: impl FnOnce() -> finding::Finding) {
        self.findings.fetch_add(1, Ordering::Relaxed);
        if let Some(hooks) = self.hooks.try_get() {
            (hooks.report)(&found());
        }
    }

    /// Reports misuse and sets the object aside: from then on no container owns it.
    #[inline]
    pub(super) fn misuse(&self, cause: Cause, address: usize, slot: u16) {
        self.set_aside.fetch_add(1, Ordering::Relaxed);
        if let Some(call) = self.on_misuse.try_get() {
            call(&Misuse { cause, address, slot });
        }
    }
}
