//! The system calls that change mappings, each with its fallback in case a filter (seccomp) refuses
//! one of its options.
//!
//! Neighbour: [`super::memory`] decides what to map where.

use crate::memory::round_up;
use crate::{Stretch, sys};

pub(super) const PROT_NONE: usize = 0;
pub(super) const PROT_RW: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub(super) const MAP_NORESERVE: usize = 0x4000;
pub(super) const MAP_FIXED: usize = 0x10;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
pub(super) const MREMAP_MAYMOVE: usize = 1;
pub(super) const MREMAP_FIXED: usize = 2;
pub(super) const MREMAP_DONTUNMAP: usize = 4;
const MADV_DONTNEED: usize = 4;

pub(super) fn advise(address: usize, bytes: usize, advice: usize) {
    // SAFETY: a part of our own reservation; what it holds is kept.
    unsafe { sys::call(sys::MADVISE, [address, bytes, advice, 0, 0, 0]) };
}

/// Purges pages of ours that hold no object; false if the kernel refuses.
pub(super) fn purge(address: usize, bytes: usize) -> bool {
    // SAFETY: committed pages of ours, whose contents nobody needs.
    unsafe { sys::call(sys::MADVISE, [address, bytes, MADV_DONTNEED, 0, 0, 0]) == 0 }
}

/// The same for several stretches, by the call that is there since Linux 6.15 for a process's own
/// memory without a descriptor (process_madvise(2)). Returns how many of their bytes it purged.
pub(super) fn purge_several(stretches: &[Stretch]) -> usize {
    /// The calling process, as a descriptor.
    const PIDFD_SELF: usize = -10_000isize as usize;
    let (first, n) = (stretches.as_ptr() as usize, stretches.len());
    let arguments = [PIDFD_SELF, first, n, MADV_DONTNEED, 0, 0];
    // SAFETY: as above; a stretch is an `iovec`.
    let done = unsafe { sys::call(sys::PROCESS_MADVISE, arguments) };
    done.max(0).cast_unsigned()
}

/// Bit 0 of a byte for each page says whether it is resident. False if the kernel refuses, or a
/// page is not mapped.
pub(super) fn find_resident(address: usize, bytes: usize, pages: &mut [u8]) -> bool {
    let arguments = [address, bytes, pages.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: it writes a byte for each page of them; the callers have as many.
    unsafe { sys::call(sys::MINCORE, arguments) == 0 }
}

/// Resizes or moves a mapping of ours, `to` an address if the flags fix it.
pub(super) fn remap(
    address: usize,
    [old, new]: [usize; 2],
    flags: usize,
    to: usize,
) -> Option<usize> {
    // SAFETY: the caller owns this mapping, and what is at a fixed address.
    ok_address(unsafe { sys::call(sys::MREMAP, [address, old, new, flags, to, 0]) })
}

pub(super) fn protect(address: usize, bytes: usize) -> bool {
    // SAFETY: a part of our own reservation.
    let done = unsafe { sys::call(sys::MPROTECT, [address, bytes, PROT_RW, 0, 0, 0]) };
    // A filter refused it. The new mapping replaces what is there, which is ours, and is not charged, so that this
    // is not refused half done. (Kernels before 6.12 unmap first.)
    done == 0
        || is_filtered(done)
            && ok_address(try_mmap(address, bytes, PROT_RW, MAP_FIXED | MAP_NORESERVE)).is_some()
}

pub(super) fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller owns this mapping.
    unsafe { sys::call(sys::MUNMAP, [address, bytes, 0, 0, 0, 0]) };
}

pub(super) fn is_mapped_here(address: usize, bytes: usize, protection: usize) -> bool {
    match mmap_at(address, bytes, protection, MAP_FIXED_NOREPLACE) {
        Some(at) if at == address => true,
        // A kernel before 4.17 takes the address as a hint.
        Some(elsewhere) => {
            unmap(elsewhere, bytes);
            false
        }
        None => false,
    }
}

pub(super) fn ok_address(result: isize) -> Option<usize> {
    // Errors are -4095 to -1.
    (!(-4095..0).contains(&result)).then_some(result as usize)
}

pub(super) fn mmap(bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    mmap_at(0, bytes, protection, extra)
}

pub(super) fn mmap_at(at: usize, bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    /// The options that a filter may refuse. Without them, memory is charged when it becomes
    /// usable, and the address is a hint.
    const OPTIONAL: usize = MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    let made = try_mmap(at, bytes, protection, extra);
    if extra & OPTIONAL != 0 && is_filtered(made) {
        return ok_address(try_mmap(at, bytes, protection, extra & !OPTIONAL));
    }
    ok_address(made)
}

fn try_mmap(at: usize, bytes: usize, protection: usize, extra: usize) -> isize {
    let arguments = [at, bytes, protection, MAP_PRIVATE_ANONYMOUS | extra, usize::MAX, 0];
    // SAFETY: a fresh private mapping touches nothing that exists, but with `MAP_FIXED`, of
    // which the callers see to it that what is there is ours.
    unsafe { sys::call(sys::MMAP, arguments) }
}

/// True if a call was refused, and not for want of memory or because something is there.
fn is_filtered(result: isize) -> bool {
    const ENOMEM: isize = 12;
    const EEXIST: isize = 17;
    ok_address(result).is_none() && result != -ENOMEM && result != -EEXIST
}

/// Maps with alignment by cutting the ends off a larger mapping. Memory that will be written is
/// charged, so it is made usable only after the cut.
pub(super) fn mmap_aligned(
    bytes: usize,
    align: usize,
    page: usize,
    protection: usize,
    extra: usize,
) -> Option<usize> {
    if align <= page {
        return mmap(bytes, protection, extra);
    }
    let total = bytes.checked_add(align)?;
    let first = if protection == PROT_RW { PROT_NONE } else { protection };
    let start = mmap(total, first, extra)?;
    let aligned = round_up(start, align);
    let (head, tail) = (aligned - start, start + total - (aligned + bytes));
    // Both ends belong to the mapping just made.
    if head > 0 {
        unmap(start, head);
    }
    if tail > 0 {
        unmap(aligned + bytes, tail);
    }
    if first == protection || protect(aligned, bytes) {
        return Some(aligned);
    }
    unmap(aligned, bytes);
    None
}
