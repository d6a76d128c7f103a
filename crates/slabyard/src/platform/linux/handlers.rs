//! For calls that may be those of a signal handler ([`crate::jumped`]): compares a word whose
//! memory may be gone, and blocks all signals.

use super::on_linux::{Counting, OnLinux};
use crate::platform::sys;

/// True if the C library has made no other thread: glibc says so since 2.32, and others nothing.
pub(super) fn is_only_thread() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let at = crate::weak_address!("__libc_single_threaded", "__libc_single_threaded");
        // SAFETY: a byte of the C library's, which it writes and anyone may read.
        at != 0 && unsafe { (at as *const u8).read_volatile() } != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

impl<C: Counting> OnLinux<C> {
    /// True if a word is there and differs. The system compares it, so that memory that was
    /// unmapped is no fault (`EFAULT`): a requeue of no waiter from the word to itself, which fails
    /// where it differs (futex(2)). A wait would sleep where it does not.
    pub(super) fn is_other_word(&self, at: usize, value: u32) -> bool {
        const FUTEX_CMP_REQUEUE_PRIVATE: usize = 132;
        const EAGAIN: isize = 11;
        let arguments = [at, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, at, value as usize];
        // SAFETY: the system reads the word.
        unsafe { sys::call(sys::FUTEX, arguments) == -EAGAIN }
    }

    /// Runs `f` with all signals blocked. `None`, and nothing is run, if that is refused.
    pub(super) fn while_blocked<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
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
}
