//! Readers (of RCU) on Linux: the fence of all threads by `membarrier`, and the detection
//! of the exit of threads that have a reader slot.
//!
//! The fence is `membarrier`'s private expedited command, which needs no restartable sequences
//! (membarrier(2)). A thread-specific key of the C library, with a destructor, detects a thread's
//! exit. A key beyond the first 32 is not used: glibc allocates memory for such a key's first
//! value, and a reader may be a signal handler that interrupted the allocator.

use crate::reader::{ENDED, ReaderSlot};
use crate::sync::{AtomicU32, OnceNumber, Ordering};
use crate::{rseq, sys};

const MEMBARRIER_QUERY: usize = 0;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
/// Values of keys below this are in the thread's own block.
const KEYS_IN_BLOCK: u32 = 32;

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_key_delete(key: u32) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
}

/// What readers need of the kernel.
pub(super) struct Readers {
    /// 1: `membarrier` was refused.
    refused: AtomicU32,
    /// 1: the kernel names the command.
    named: AtomicU32,
    /// The key, plus one.
    key: OnceNumber,
}

/// The destructor: the thread ends, and its place is free.
unsafe extern "C" fn end_reader(place: *mut u8) {
    rseq::thread().own.reader[0].store(ENDED, Ordering::Relaxed);
    // SAFETY: `on_thread_end` set the value: a place, in a table that stays.
    unsafe { &*place.cast::<ReaderSlot>() }.leave();
}

impl Readers {
    pub(super) const fn new() -> Self {
        Readers { refused: AtomicU32::new(0), named: AtomicU32::new(0), key: OnceNumber::new() }
    }

    /// From now on no fence is asked of the kernel.
    pub(super) fn restrict(&self) {
        self.refused.store(1, Ordering::Relaxed);
    }

    fn key(&self) -> Option<u32> {
        let known = self.key.get();
        if known != 0 {
            return Some(known as u32 - 1);
        }
        let mut key = 0;
        // SAFETY: a plain call of the C library.
        if unsafe { pthread_key_create(&raw mut key, Some(end_reader)) } != 0 {
            return None;
        }
        if let Err(other) = self.key.set(key as usize + 1) {
            // SAFETY: the key is ours, and no thread has a value for it.
            unsafe { pthread_key_delete(key) };
            key = other as u32 - 1;
        }
        Some(key)
    }

    /// True if the end of this thread will free a place.
    pub(super) fn ends(&self, place: &ReaderSlot) -> bool {
        let place = core::ptr::from_ref(place).cast::<u8>();
        self.key().is_some_and(|key| {
            // SAFETY: the key was made.
            key < KEYS_IN_BLOCK && unsafe { pthread_setspecific(key, place) } == 0
        })
    }

    /// Fences all threads of the process; false if the kernel refuses.
    pub(super) fn fence_all(&self) -> bool {
        if self.refused.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // SAFETY: no memory is passed.
        let call = |command| unsafe { sys::call(sys::MEMBARRIER, [command, 0, 0, 0, 0, 0]) };
        // Who answers 0 to everything does not fence: the command must be named, once.
        let known = self.named.load(Ordering::Relaxed) != 0
            || call(MEMBARRIER_QUERY) & MEMBARRIER_PRIVATE_EXPEDITED as isize > 0;
        self.named.store(u32::from(known), Ordering::Relaxed);
        // The first of a process, and of the child of a fork, is not registered.
        let done = known
            && (call(MEMBARRIER_PRIVATE_EXPEDITED) == 0
                || call(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED) == 0
                    && call(MEMBARRIER_PRIVATE_EXPEDITED) == 0);
        if !done {
            // A filter, or a kernel without it. It stays.
            self.refused.store(1, Ordering::Relaxed);
        }
        done
    }
}
