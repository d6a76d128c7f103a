//! Decides which system calls the allocator still makes under a system-call filter (seccomp(2)).
//!
//! Neighbour: the malloc library detects the filters that a program installs.
//! Invariant: once restricted or sealed, a process stays so.

use super::on_linux::{Counting, OnLinux};
use crate::sync::Ordering;
use crate::{rseq, sys};

impl<C: Counting> OnLinux<C> {
    /// From now on no system call is made but those that any allocator makes: to map, unmap,
    /// resize and protect memory, to advise of it in the oldest ways, to sleep and to wake.
    pub fn restrict(&self) {
        self.restricted.store(true, Ordering::Relaxed);
        self.fence.refuse();
        self.readers.restrict();
    }

    /// From now on no system call about memory is made at all: each would end the process (strict
    /// mode, seccomp(2)). What is there serves on, and more is refused.
    pub fn seal(&self) {
        self.restrict();
        self.sealed.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Relaxed)
    }

    /// True if the process may make few system calls.
    pub fn is_restricted(&self) -> bool {
        self.restricted.load(Ordering::Relaxed)
    }

    /// Copies parts of this process's memory, each an address and its bytes, one behind the other;
    /// how many bytes. It ends at the first part that is not there as a whole.
    ///
    /// # Safety
    /// From `to` on there is room for all parts.
    pub unsafe fn copy_own(&self, parts: &[[usize; 2]], to: usize) -> usize {
        let room = [to, parts.iter().map(|[_, bytes]| bytes).sum()];
        // SAFETY: the kernel reads what is there, and writes where the caller has room.
        let copied = unsafe {
            let pid = sys::call(sys::GETPID, [0; 6]).unsigned_abs();
            let (room, all) = (&raw const room as usize, parts.as_ptr() as usize);
            sys::call(sys::PROCESS_VM_READV, [pid, room, 1, all, parts.len(), 0])
        };
        usize::try_from(copied).unwrap_or(0)
    }

    /// The kernel's number of this thread, asked for once, because a filter may end the process for
    /// the question later; 0 where it was not asked before the filter.
    pub fn thread_number(&self) -> u32 {
        let known = &rseq::thread().number;
        if known.load(Ordering::Relaxed) == 0 && !self.is_restricted() {
            // SAFETY: no memory is passed.
            let number = unsafe { sys::call(sys::GETTID, [0; 6]) };
            known.store(number as u32, Ordering::Relaxed);
        }
        known.load(Ordering::Relaxed)
    }
}
