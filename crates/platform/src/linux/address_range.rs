//! Chooses the addresses that yards use: far below all mappings of the process, and mapped only
//! when they are committed.
//!
//! The kernel maps from high addresses down, into the first gap that is large enough. Addresses far
//! below the kernel's choice stay free, unless the program requests an address there, or maps more
//! than the gap. Then the kernel fills the gaps between our parts, from their ends. A commit does
//! not replace a foreign mapping: it fails there.
//!
//! ```text
//!   range                             gap                     the kernel's choice
//! - - -+---------+--------+------+- - - - - - - - - - - - -+----------------------+
//!      | tables  | region | rows |  8 TiB, or under a     | ... program, library |
//! - - -+---------+--------+------+- limit 16 times it - - -+----------------------+
//!                              <- next
//! ```
//!
//! Under a limit on address space (`ulimit -v`) a process cannot map more than the limit, so it
//! cannot fill a gap of several times that size. In a program with ThreadSanitizer the gap is
//! small, because that tool's shadow memory covers only the uppermost 1.5 TiB of addresses
//! (compiler-rt, `tsan_platform.h`); MemorySanitizer's covers the uppermost 16 TiB. Tried and
//! rejected: reserving 1 TiB, or half of what `ulimit -v` allows. Small objects then ran at half
//! the speed of the C library's malloc (2b6459f), and a limit set by another process went
//! unnoticed. The price of reserving nothing: a program that maps more than 9 TiB, or exactly these
//! addresses, keeps the heap from growing there.
//!
//! Invariant: no two parts, of the same or of different yards, overlap or touch.

use super::calls::{PROT_NONE, PROT_RW, is_mapped_here, unmap};
use crate::sync::{AtomicUsize, Ordering};

/// The gap between the range and the addresses that the kernel chooses, in limits.
const LIMITS: usize = 16;
const LEAST_GAP: usize = 64 << 30;
const MOST_GAP: usize = 8 << 40;
/// The gap is at most this part of what is below the kernel's choice.
const PART: usize = 8;
/// Ranges of several libraries of ours in a process are so far apart, or a gap; more than a yard
/// takes.
const APART: usize = 2 << 40;
const RANGES: usize = 4;
/// A system that maps below this maps from low addresses up.
const LOW: usize = 1 << 36;
/// Addresses that are tried for one that is free.
const LOOKS: usize = 16;
/// Addresses between two parts, so that the kernel makes no one mapping of both.
const BETWEEN: usize = 64 << 10;

/// The address below which the next part of the process is; 0 before the first.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Chooses the range, if there is none, in a process of such a limit and such a mapping.
pub(super) fn find(chosen: usize, page: usize, limit: Option<usize>) {
    if NEXT.load(Ordering::Relaxed) != 0 {
        return;
    }
    let gap = match limit {
        _ if has_thread_sanitizer() => LEAST_GAP,
        Some(bytes) => bytes.saturating_mul(LIMITS).clamp(LEAST_GAP, MOST_GAP),
        None => MOST_GAP,
    };
    let gap = gap.min(chosen / PART);
    let marked = if chosen < LOW { above(page) } else { below(chosen - gap, gap, page) };
    let first = marked.unwrap_or((chosen - gap) & !(page - 1));
    // Another thread's choice is as good.
    let _ = NEXT.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
}

/// The end of a range below an address, which a page marks that stays: another library of ours in
/// the process finds it and takes the next range.
fn below(address: usize, gap: usize, page: usize) -> Option<usize> {
    let apart = APART.min(1 << gap.checked_ilog2()?);
    let highest = address & !(apart - 1);
    let ends = (0..RANGES).map_while(|nth| highest.checked_sub(nth * apart));
    ends.take_while(|end| *end > apart).find(|end| is_mapped_here(*end, page, PROT_NONE))
}

/// As [`below`], where a system maps from low addresses up (valgrind, which lets programs have the
/// lowest 64 GiB or more): the end of the highest power of two of addresses that can be mapped.
fn above(page: usize) -> Option<usize> {
    let ends = (LOW.ilog2()..47).rev().map(|bits| (1usize << bits) - page);
    ends.into_iter().find(|end| is_mapped_here(*end, page, PROT_NONE))
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn has_thread_sanitizer() -> bool {
    crate::weak_address!("__tsan_init", "__tsan_init") != 0
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
fn has_thread_sanitizer() -> bool {
    false
}

/// Takes a part of this many bytes, whose first bytes are mapped: its first address, and how many
/// are, which may be none. Nothing else of it is.
pub(super) fn take(bytes: usize, align: usize, first: usize) -> Option<(usize, usize)> {
    for _ in 0..LOOKS {
        let next = NEXT.load(Ordering::Relaxed);
        let at = next.checked_sub(bytes.checked_add(BETWEEN)?)? & !(align - 1);
        // Programs lie at low addresses, and their heaps behind them.
        if at < bytes {
            return None;
        }
        let taken = NEXT.compare_exchange(next, at, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if taken && first > 0 && is_mapped_here(at, first, PROT_RW) {
            return Some((at, first));
        }
        if taken && is_mapped_here(at, align, PROT_NONE) {
            unmap(at, align);
            return Some((at, 0));
        }
    }
    None
}
