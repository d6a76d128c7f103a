//! The address range that a process uses where its address space is limited: far below all that
//! is mapped, and mapped only as it is committed.
//!
//! Under such a limit (`ulimit -v`) nothing is reserved. The kernel maps from high addresses
//! down, into the first gap that is large enough, and a process cannot map more than its limit;
//! so what lies several limits below its lowest library stays free, unless the program asks for
//! an address there. A mapping that is there nevertheless is not replaced: a commit there
//! fails.
//!
//! ```text
//!   range                             gap                     the kernel's choice
//! - - -+---------+--------+------+- - - - - - - - - - - - -+----------------------+
//!      | tables  | region | rows |  as much as the limit,   | ... program, library |
//! - - -+---------+--------+------+- 16 times - - - - - - - -+----------------------+
//!                              <- next
//! ```

use super::calls::{MAP_NORESERVE, PROT_NONE, is_mapped_here, mmap, unmap};
use crate::sync::{AtomicUsize, Ordering};

/// The gap between the range and the addresses that the kernel chooses, in limits.
const LIMITS: usize = 16;
const LEAST_GAP: usize = 64 << 30;
const MOST_GAP: usize = 8 << 40;
/// The gap is at most this part of what lies below the kernel's choice.
const PART: usize = 8;
/// Addresses that are tried for one that is free.
const LOOKS: usize = 16;

/// The address below which the next part lies; 0 where there is no range.
pub(super) struct AddressRange {
    next: AtomicUsize,
}

impl AddressRange {
    pub(super) const fn new() -> Self {
        AddressRange { next: AtomicUsize::new(0) }
    }

    pub(super) fn is_there(&self) -> bool {
        self.next.load(Ordering::Relaxed) != 0
    }

    /// Chooses the range, for a process of such a limit.
    pub(super) fn find(&self, page: usize, limit: usize) {
        let Some(chosen) = mmap(page, PROT_NONE, MAP_NORESERVE) else {
            return;
        };
        unmap(chosen, page);
        let gap = limit.saturating_mul(LIMITS).clamp(LEAST_GAP, MOST_GAP).min(chosen / PART);
        self.next.store((chosen - gap) / page * page, Ordering::Relaxed);
    }

    /// Takes a part of so many bytes, of which nothing is mapped: its first address.
    pub(super) fn take(&self, bytes: usize, align: usize) -> Option<usize> {
        for _ in 0..LOOKS {
            let next = self.next.load(Ordering::Relaxed);
            let at = next.checked_sub(bytes)? / align * align;
            // Programs lie at low addresses, and their heaps behind them.
            if at < bytes {
                return None;
            }
            self.next.store(at, Ordering::Relaxed);
            if is_mapped_here(at, align, PROT_NONE) {
                unmap(at, align);
                return Some(at);
            }
        }
        None
    }
}
