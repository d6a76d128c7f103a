//! The running thread, and its process, on Linux.
//!
//! Neighbours: [`super::birth`] stores the word that a fork wipes; [`super::readers`] fences all
//! threads and detects the exit of threads with a reader slot. To repair slow paths that a thread
//! left by a non-local jump, `is_other` compares a word that may be unmapped, and
//! `without_handlers` blocks signals.

use super::on_linux::{Counting, OnLinux};
use crate::reader::ReaderSlot;
use crate::rseq::{self, flags};
use crate::sync::lock::may_call;
use crate::sync::{AtomicU32, Ordering};
use crate::{ThreadWords, Threads, sys};

impl<C: Counting> Threads for OnLinux<C> {
    const HAS_MARKS: bool = true;

    #[inline(always)]
    fn thread(&self) -> &ThreadWords {
        &rseq::thread().own
    }

    fn is_other(&self, at: usize, value: u32) -> bool {
        // The system compares it, so that memory that was unmapped is no fault (`EFAULT`): a requeue
        // of no waiter from the word to itself, which fails where it differs (futex(2)). A wait would
        // sleep where it does not.
        const FUTEX_CMP_REQUEUE_PRIVATE: usize = 132;
        const EAGAIN: isize = 11;
        let arguments = [at, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, at, value as usize];
        // SAFETY: the system reads the word.
        unsafe { sys::call(sys::FUTEX, arguments) == -EAGAIN }
    }

    fn without_handlers<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        const SIG_SETMASK: usize = 2;
        const SET_BYTES: usize = 8;
        let (all, mut old) = (u64::MAX, 0u64);
        let set = |new: *const u64, old: *mut u64| {
            let arguments = [SIG_SETMASK, new as usize, old as usize, SET_BYTES, 0, 0];
            // SAFETY: our own words, of the system's size; what is blocked comes afterwards.
            unsafe { sys::call(sys::RT_SIGPROCMASK, arguments) == 0 }
        };
        if !set(&raw const all, &raw mut old) {
            return None;
        }
        let result = f();
        set(&raw const old, core::ptr::null_mut());
        Some(result)
    }

    #[inline]
    fn birth(&self) -> &AtomicU32 {
        self.birth.word()
    }

    fn begin_fork(&self) {
        rseq::thread().flags.fetch_or(flags::FORKING, Ordering::Relaxed);
    }

    fn end_fork(&self) {
        rseq::thread().flags.fetch_and(!flags::FORKING, Ordering::Relaxed);
    }

    fn mark_child(&self) {
        rseq::thread().number.store(0, Ordering::Relaxed);
        self.birth.mark_child();
    }

    fn begin_child(&self) {
        self.birth.claim();
        // Its registration for fences is the process's: a child has none.
        if !self.is_restricted() {
            self.fence.forget();
        }
    }

    fn on_thread_end(&self, place: &ReaderSlot) -> bool {
        self.readers.ends(place)
    }

    fn fence_readers(&self) -> bool {
        may_call(self);
        self.readers.fence_all()
    }
}
