//! Memory from Linux: pages, separate mappings, and the contents of memory for objects.
//!
//! Neighbours: [`super::reservations`] records what is reserved, [`super::calls`] makes the system
//! calls, [`super::promises`] finds out which of these can be trusted.
//! Invariant: once the process is sealed (strict seccomp), it makes no system call about memory.

use super::bytes;
use super::calls::{
    self, MAP_FIXED, MAP_NORESERVE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE,
    PROT_RW, advise, find_resident, mmap_aligned, mmap_at, unmap,
};
use super::huge::allow_huge_pages;
use super::on_linux::{Counting, OnLinux};
use super::promises::{MOVES_OUT, PURGES, PURGES_SEVERAL, RESIZES, TELLS_RESIDENT};
use crate::sync::lock::may_call;
use crate::sync::{AtomicU64, Ordering};
use crate::{Advice, Memory, ObjectMemory, Stretch, Use};

/// Since Linux 5.14; before that each page is faulted in as it is written.
const MADV_POPULATE_WRITE: usize = 23;

impl<C: Counting> Memory for OnLinux<C> {
    const MOST_NODES: usize = if C::COUNTS { super::nodes::MOST } else { 1 };

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn node_of_row(&self, row: usize) -> usize {
        self.nodes.of_row(row)
    }

    fn page_bytes(&self) -> usize {
        self.setup.page_bytes.load(Ordering::Relaxed)
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        self.reservations.reserve(self.page_bytes(), bytes, align, what)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        may_call(self);
        !self.is_sealed() && self.reservations.commit(address, bytes)
    }

    fn forget_commit(&self, address: usize, most: usize) {
        may_call(self);
        self.reservations.forget_commit(self.page_bytes(), address, most);
    }

    fn advise(&self, address: usize, bytes: usize, advice: Advice) {
        // A signal handler that interrupts a thread which holds a lock maps its blocks, as in `map`.
        if advice != Advice::NoAccess {
            may_call(self);
        }
        if self.is_sealed() {
            return;
        }
        match advice {
            Advice::WrittenSoon => advise(address, bytes, MADV_POPULATE_WRITE),
            // Where the system makes no huge page of what did not ask for them, no call is needed.
            Advice::SmallPages if self.is_restricted() || self.has_huge_pages() => {
                self.reservations.keep_small_pages(address, bytes);
            }
            Advice::SmallPages => (),
            Advice::HugePages => allow_huge_pages(address, bytes),
            Advice::Node(node) => self.nodes.bind(address, bytes, node),
            // New pages in place of these, without access: what was there goes back to the system.
            Advice::NoAccess => {
                let _ = mmap_at(address, bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED);
            }
        }
    }

    fn give_back(&self, stretches: &mut [Stretch]) {
        may_call(self);
        if self.is_sealed() {
            return stretches.fill(Stretch::NONE);
        }
        give_back(self.page_bytes(), stretches, !self.is_restricted());
    }

    fn has_huge_pages(&self) -> bool {
        may_call(self);
        !self.is_restricted() && self.huge_pages.is_everywhere()
    }

    fn resident(&self, address: usize, bytes: usize) -> usize {
        may_call(self);
        if self.is_restricted() { 0 } else { resident(self.page_bytes(), address, bytes) }
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        let page = self.page_bytes();
        if self.is_sealed() { None } else { mmap_aligned(bytes, align, page, PROT_RW, 0) }
    }

    fn unmap(&self, address: usize, bytes: usize) {
        // It stays, where the system cannot be asked.
        if !self.is_sealed() {
            calls::unmap(address, bytes);
        }
    }

    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        let can = !self.is_sealed() && RESIZES.is_kept(self.page_bytes());
        can.then(|| calls::remap(address, [old_bytes, new_bytes], MREMAP_MAYMOVE, 0))?
    }

    fn move_out(&self, address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
        let can = !self.is_sealed() && MOVES_OUT.is_kept(self.page_bytes());
        if can { move_out(address, bytes, new_bytes) } else { None }
    }
}

impl<C: Counting> ObjectMemory for OnLinux<C> {
    #[inline]
    unsafe fn word(&self, address: usize) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { &*(address as *const AtomicU64) }
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut u8).write_bytes(value, bytes) };
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        // SAFETY: the caller's promise.
        unsafe { bytes::first_other(address, bytes, value) }
    }
}

/// Bytes of whole pages that are in memory.
fn resident(page: usize, address: usize, bytes: usize) -> usize {
    const PAGES: usize = 128;
    if !TELLS_RESIDENT.is_kept(page) {
        return 0;
    }
    let mut seen = [0u8; PAGES];
    let mut nr = 0;
    for first in (address..address + bytes).step_by(PAGES * page) {
        let part = (address + bytes - first).min(PAGES * page);
        if find_resident(first, part, &mut seen) {
            nr += seen[..part / page].iter().filter(|page| **page & 1 == 1).count();
        }
    }
    nr * page
}

/// Purges stretches: by one call for all if `together` and the kernel has that call; else one by
/// one.
fn give_back(page: usize, stretches: &mut [Stretch], together: bool) {
    let mut nr_done = 0;
    if together && stretches.len() > 1 && PURGES_SEVERAL.is_kept(page) {
        let mut done = calls::purge_several(stretches);
        while let Some(stretch) = stretches.get(nr_done)
            && done >= stretch.bytes
        {
            done -= stretch.bytes;
            nr_done += 1;
        }
    }
    let purges = PURGES.is_kept(page);
    for stretch in &mut stretches[nr_done..] {
        let Stretch { address, bytes } = *stretch;
        // Where no purge is to be had, new pages in their place.
        let new = || mmap_at(address, bytes, PROT_RW, MAP_FIXED | MAP_NORESERVE).is_some();
        if !(if purges { calls::purge(address, bytes) } else { new() }) {
            *stretch = Stretch::NONE;
        }
    }
}

/// Moves pages out, which Linux does since 5.7.
fn move_out(address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
    let moved = calls::remap(address, [bytes; 2], MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0)?;
    let grown = calls::remap(moved, [bytes, new_bytes], MREMAP_MAYMOVE, 0);
    if grown.is_none() {
        // To where it came from, which no other thread uses meanwhile.
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        if calls::remap(moved, [bytes; 2], flags, address).is_none() {
            // SAFETY: both are ours, of so many bytes, and not the same.
            unsafe {
                core::ptr::copy_nonoverlapping(moved as *const u8, address as *mut u8, bytes);
            }
            unmap(moved, bytes);
        }
    }
    grown
}
