//! What a cache did: the kernel's counters under their names (`SLUB_STATS`), and what the kernel
//! does not count.
//!
//! A process that counts keeps [`CACHE_WORDS`] 64-bit words for each row of stacks and each cache:
//! one for each [`Counter`], in order, and behind them three for each of the [`DRAINS`].

use core::fmt;

macro_rules! counters {
    ($($name:ident $text:literal $help:literal,)*) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $name,)*
        }

        impl Counter {
            /// All counters, with name and meaning.
            pub const ALL: &'static [(Counter, &'static str, &'static str)] =
                &[$((Counter::$name, $text, $help),)*];

            /// Those that a model of a kernel tells: in a model one call is under way at a time, so
            /// that no exchange fails and nobody waits.
            pub fn of_models() -> impl Iterator<Item = &'static (Counter, &'static str, &'static str)>
            {
                use Counter::{CmpxchgFail, ListLockWaitNs, ListLockWaited};
                let real = [CmpxchgFail, ListLockWaited, ListLockWaitNs];
                Self::ALL.iter().filter(move |(counter, ..)| !real.contains(counter))
            }
        }
    };
}

counters! {
    AllocFastpath "alloc_fastpath" "Allocations from the CPU slab's own list.",
    AllocSlowpath "alloc_slowpath" "Allocations that found it empty.",
    FreeFastpath "free_fastpath" "Frees to this CPU's slab.",
    FreeSlowpath "free_slowpath" "Frees to another slab.",
    FreeFrozen "free_frozen" "Frees to a slab that some CPU has frozen.",
    FreeAddPartial "free_add_partial" "Slabs that joined a node's list by a free or a drain.",
    FreeRemovePartial "free_remove_partial" "Slabs that left a node's list empty.",
    AllocFromPartial "alloc_from_partial" "Slabs taken from a node's list to be used.",
    AllocSlab "alloc_slab" "Slabs made.",
    AllocRefill "alloc_refill" "CPU slabs whose remotely freed objects were taken over.",
    AllocNodeMismatch "alloc_node_mismatch" "CPU slabs of another node than the wanted one.",
    FreeSlab "free_slab" "Slabs given back.",
    CpuslabFlush "cpuslab_flush" "CPU slabs put back by a flush.",
    DeactivateFull "deactivate_full" "CPU slabs put back without a free object.",
    DeactivateEmpty "deactivate_empty" "Slabs put back or drained that were empty and ended.",
    DeactivateToHead "deactivate_to_head" "CPU slabs put to the head of a node's list.",
    DeactivateToTail "deactivate_to_tail" "CPU slabs put to its tail.",
    DeactivateRemoteFrees "deactivate_remote_frees" "CPU slabs put back with objects that others freed.",
    DeactivateBypass "deactivate_bypass" "CPU slabs left behind full.",
    OrderFallback "order_fallback" "Slabs of a lower order, for want of a block of their cache's.",
    CpuPartialAlloc "cpu_partial_alloc" "Slabs taken from a CPU partial list to be used.",
    CpuPartialFree "cpu_partial_free" "Slabs put on a CPU partial list by a free.",
    CpuPartialNode "cpu_partial_node" "Slabs put there from a node's list.",
    CpuPartialDrain "cpu_partial_drain" "CPU partial lists drained.",
    AllocCpuSheaf "alloc_cpu_sheaf" "Allocations from a sheaf.",
    FreeCpuSheaf "free_cpu_sheaf" "Frees to a sheaf.",
    SheafFlush "sheaf_flush" "Objects that went from sheaves to slabs.",
    SheafRefill "sheaf_refill" "Objects that went from slabs to sheaves.",
    BarnGet "barn_get" "Full sheaves from the barn.",
    BarnGetFail "barn_get_fail" "Asks for one that the barn had not.",
    BarnPut "barn_put" "Full sheaves to the barn.",
    BarnPutFail "barn_put_fail" "Full sheaves that it did not take.",
    CmpxchgSlab "cmpxchg_slab" "Compare-exchanges of a slab's word that a kernel would make.",
    CmpxchgFail "cmpxchg_double_fail" "Those of them that failed, because another CPU changed the word.",
    CmpxchgUnderLock "cmpxchg_under_list_lock" "Those of them made under a list lock.",
    ListLock "list_lock" "Acquisitions of a list lock.",
    ListLockWaited "list_lock_waited" "Those of them that found it taken.",
    ListLockWaitNs "list_lock_wait_ns" "Nanoseconds that they waited.",
    ListLockSlabs "list_lock_slabs" "Slabs linked or unlinked under it.",
    ListLockVain "list_lock_vain" "Acquisitions by a free that then had nothing to do.",
    EmptyKept "empty_kept" "Empty slabs kept because a node's list was short (min_partial).",
    EmptyParked "empty_parked" "Frees that made a slab on a CPU partial list empty.",
    PageHit "page_hit" "Slabs whose pages came from a CPU's page list without a refill.",
    PageRefill "page_refill" "Refills of CPUs' page lists by new slabs.",
    PageRefilled "page_refilled" "Pages of them.",
    PageGiveBack "page_give_back" "Times that freed slabs made a CPU's page list give pages back.",
    PageGivenBack "page_given_back" "Pages of them.",
    PageColdHit "page_cold_hit" "As page_hit, of lists of cold pages.",
    PageColdRefill "page_cold_refill" "As page_refill, of lists of cold pages.",
    PageColdRefilled "page_cold_refilled" "Pages of them.",
    PageColdGiveBack "page_cold_give_back" "As page_give_back, of lists of cold pages.",
    PageColdGivenBack "page_cold_given_back" "Pages of them.",
    PageLock "page_lock" "Times that page lists, or slabs without one, took the buddy's lock.",
    NodeAllocs "node_allocs" "Allocations from another node than the CPU's, by an engine of several nodes.",
    NodeFrees "node_frees" "Frees of objects of another node, by an engine of several nodes.",
    NodeOverflow "node_overflow" "Alien arrays that were full and handed over.",
}

/// Sizes of drains that are told apart: frees that drained no slab, 1, 2, 3 to 4, 5 to 8 ...
pub const DRAINS: usize = 13;

/// Words that a process keeps of one cache in one row.
pub const CACHE_WORDS: usize = 128;

/// From the words of one cache to those of the next: 1 KiB.
pub const CACHE_BYTES: usize = CACHE_WORDS * 8;

const _: () = assert!(Counter::ALL.len() + 3 * DRAINS <= CACHE_WORDS);

/// Which of the [`DRAINS`] counts a slow free that drained so many slabs.
#[must_use]
pub const fn drain_of(slabs: u32) -> usize {
    if slabs == 0 {
        return 0;
    }
    // The power of two that is at least as many.
    let nth = 1 + (u32::BITS - (slabs - 1).leading_zeros()) as usize;
    if nth < DRAINS { nth } else { DRAINS - 1 }
}

/// The least and the most slabs that one of the [`DRAINS`] counts; `u32::MAX` for the last one's
/// most.
#[must_use]
pub const fn slabs_of(drain: usize) -> (u32, u32) {
    match drain {
        0 => (0, 0),
        1 => (1, 1),
        _ if drain == DRAINS - 1 => ((1 << (drain - 2)) + 1, u32::MAX),
        _ => ((1 << (drain - 2)) + 1, 1 << (drain - 1)),
    }
}

/// The words of one of the [`DRAINS`]: slow frees, their nanoseconds together, the longest's.
#[must_use]
pub const fn drain_words(drain: usize) -> [usize; 3] {
    let first = Counter::ALL.len() + 3 * drain;
    [first, first + 1, first + 2]
}

/// The name of one of a cache's words: a counter's own, or `drain_N`, `drain_N_ns` and
/// `drain_N_longest_ns` of the `N`th of the [`DRAINS`]. It shows nothing for words beyond these.
#[derive(Clone, Copy, Debug)]
pub struct WordName(pub usize);

impl fmt::Display for WordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(nth) = self.0.checked_sub(Counter::ALL.len()) else {
            return f.write_str(Counter::ALL[self.0].1);
        };
        match (nth / 3, nth % 3) {
            (drain, _) if drain >= DRAINS => Ok(()),
            (drain, 0) => write!(f, "drain_{drain}"),
            (drain, 1) => write!(f, "drain_{drain}_ns"),
            (drain, _) => write!(f, "drain_{drain}_longest_ns"),
        }
    }
}

/// Adds what one row counted of a cache to what others did.
pub fn add_row(all: &mut [u64; CACHE_WORDS], row: &[u64; CACHE_WORDS]) {
    for (nth, (all, row)) in all.iter_mut().zip(row).enumerate() {
        add_word(all, nth, *row);
    }
}

/// Adds a word of a row to the same word of all.
pub fn add_word(all: &mut u64, nth: usize, row: u64) {
    let is_longest = (0..DRAINS).any(|drain| drain_words(drain)[2] == nth);
    *all = if is_longest { row.max(*all) } else { all.wrapping_add(row) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_slabs_is_within_the_bounds_of_its_drain() {
        for slabs in (0..5000).chain([u32::MAX]) {
            let (least, most) = slabs_of(drain_of(slabs));
            assert!((least..=most).contains(&slabs), "{slabs}");
        }
        assert_eq!(drain_words(DRAINS - 1)[2], Counter::ALL.len() + 3 * DRAINS - 1);
    }

    #[test]
    fn rows_add_up_but_for_the_longest() {
        let [frees, _, longest] = drain_words(3);
        let mut all = [0; CACHE_WORDS];
        for ns in [700, 300] {
            let mut row = [0; CACHE_WORDS];
            (row[frees], row[longest]) = (1, ns);
            add_row(&mut all, &row);
        }
        assert_eq!((all[frees], all[longest]), (2, 700));
    }
}
