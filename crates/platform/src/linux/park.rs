//! How threads wait for locks: by process-private futexes.

use super::on_linux::{Counting, OnLinux};
use crate::birth::CHILD;
use crate::sync::{AtomicU32, Ordering};
use crate::{Park, Threads, rseq, sys};

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
const ETIMEDOUT: isize = 110;

impl<C: Counting> Park for OnLinux<C> {
    fn wait(&self, word: &AtomicU32, value: u32) {
        let address = word.as_ptr() as usize;
        // SAFETY: the word lives while we borrow it.
        unsafe { sys::call(sys::FUTEX, [address, FUTEX_WAIT_PRIVATE, value as usize, 0, 0, 0]) };
    }

    fn wait_at_most(&self, word: &AtomicU32, value: u32, ms: u64) {
        self.wait_for_living(word, value, ms);
    }

    fn wait_for_living(&self, word: &AtomicU32, value: u32, ms: u64) -> bool {
        let time = [(ms / 1000) as i64, (ms % 1000 * 1_000_000) as i64];
        let (address, time) = (word.as_ptr() as usize, time.as_ptr() as usize);
        // SAFETY: the word and the time live while we borrow them.
        let ended = unsafe {
            sys::call(sys::FUTEX, [address, FUTEX_WAIT_PRIVATE, value as usize, time, 0, 0])
        };
        ended == -ETIMEDOUT
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, word: &AtomicU32) {
        // SAFETY: as above; waking needs no memory.
        unsafe { sys::call(sys::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]) };
    }

    #[inline(always)]
    fn is_only_thread(&self) -> bool {
        let byte = self.setup.is_only_thread.load(Ordering::Relaxed);
        // SAFETY: the C library's byte, which it writes and anyone may read, or our own.
        unsafe { byte.read_volatile() != 0 }
    }

    fn is_orphan(&self) -> bool {
        self.birth().load(Ordering::Relaxed) == CHILD
    }

    fn held(&self) -> &AtomicU32 {
        &rseq::thread().own.held
    }
}
