//! A board for memory that processes share on Linux: a lock that is released when its owner dies,
//! and a live map, by which the next owner repairs the yard.
//!
//! The lock is a robust mutex of the C library (POSIX, `pthread_mutexattr_setrobust`): when a
//! thread ends in any way, the kernel walks its list of held locks (`man 2 set_robust_list`), marks
//! each, and wakes a waiter. So neither a zombie nor a reused process id can mislead anyone.
//!
//! Neighbours: [`crate::live_map`]; [`crate::shared`] sets up a yard in shared memory. Invariant: a
//! new owner that learns that the last owner died marks the mutex as consistent at once; the live
//! map records that the yard itself is inconsistent until a call has completed
//! ([`LiveMap::end_call`]).

use crate::board::Board;
use crate::live_map::LiveMap;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long};

/// Room for a `pthread_mutex_t`, or the attributes of one: 48 bytes at most, in glibc and musl.
#[repr(C, align(16))]
struct PthreadBytes([u8; Self::BYTES]);

impl PthreadBytes {
    const BYTES: usize = 64;
}

unsafe extern "C" {
    fn pthread_mutexattr_init(attributes: *mut PthreadBytes) -> c_int;
    fn pthread_mutexattr_setpshared(attributes: *mut PthreadBytes, shared: c_int) -> c_int;
    fn pthread_mutexattr_setrobust(attributes: *mut PthreadBytes, robust: c_int) -> c_int;
    fn pthread_mutexattr_destroy(attributes: *mut PthreadBytes) -> c_int;
    fn pthread_mutex_init(mutex: *mut PthreadBytes, attributes: *const PthreadBytes) -> c_int;
    fn pthread_mutex_lock(mutex: *mut PthreadBytes) -> c_int;
    fn pthread_mutex_consistent(mutex: *mut PthreadBytes) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut PthreadBytes) -> c_int;
    fn sched_getcpu() -> c_int;
    fn mmap(
        at: *mut u8,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut u8;
}

const PTHREAD_PROCESS_SHARED: c_int = 1;
const PTHREAD_MUTEX_ROBUST: c_int = 1;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED_ANONYMOUS: c_int = match () {
    #[cfg(any(target_arch = "mips", target_arch = "mips64"))]
    () => 0x801,
    #[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
    () => 0x21,
};
const MAP_FAILED: *mut u8 = core::ptr::without_provenance_mut(usize::MAX);
const EOWNERDEAD: c_int = match () {
    #[cfg(any(target_arch = "mips", target_arch = "mips64"))]
    () => 165,
    #[cfg(any(target_arch = "sparc", target_arch = "sparc64"))]
    () => 132,
    #[cfg(not(any(
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "sparc",
        target_arch = "sparc64"
    )))]
    () => 130,
};

/// Processes that share a yard, each of which may be killed at any instruction: see
/// [`crate::Yard::share`].
pub struct Robust<const PAGE_BYTES: usize = 4096, const CPUS: usize = 1> {
    mutex: UnsafeCell<PthreadBytes>,
    live: LiveMap,
}

// SAFETY: the lock lets one in at a time; the map is used under it.
unsafe impl<const PAGE_BYTES: usize, const CPUS: usize> Sync for Robust<PAGE_BYTES, CPUS> {}

impl<const PAGE_BYTES: usize, const CPUS: usize> Robust<PAGE_BYTES, CPUS> {
    /// A board that is to [begin](Robust::begin) where it stays.
    #[allow(clippy::new_without_default, reason = "it is for a static")]
    pub const fn new() -> Self {
        Robust {
            mutex: UnsafeCell::new(PthreadBytes([0; PthreadBytes::BYTES])),
            live: LiveMap::new(),
        }
    }

    /// Makes the lock; false if the C library refuses one. It must not be moved after this.
    pub fn begin(&self) -> bool {
        let mut attributes = PthreadBytes([0; PthreadBytes::BYTES]);
        // SAFETY: room for both, which nobody else uses yet.
        unsafe {
            pthread_mutexattr_init(&raw mut attributes) == 0
                && pthread_mutexattr_setpshared(&raw mut attributes, PTHREAD_PROCESS_SHARED) == 0
                && pthread_mutexattr_setrobust(&raw mut attributes, PTHREAD_MUTEX_ROBUST) == 0
                && pthread_mutex_init(self.mutex.get(), &raw const attributes) == 0
                && pthread_mutexattr_destroy(&raw mut attributes) == 0
        }
    }
}

// SAFETY: the mutex lets one in at a time, and pairs its unlock with the next lock. The CPU is asked
// for once a call.
unsafe impl<const PAGE_BYTES: usize, const CPUS: usize> Board for Robust<PAGE_BYTES, CPUS> {
    const PAGE_BYTES: usize = PAGE_BYTES;
    const CPUS: usize = CPUS;

    fn enter(&self) -> usize {
        // SAFETY: `begin` made the mutex, which stays where it is.
        let result = unsafe {
            match pthread_mutex_lock(self.mutex.get()) {
                EOWNERDEAD => pthread_mutex_consistent(self.mutex.get()),
                result => result,
            }
        };
        assert!(result == 0, "the lock of a shared yard was written over, or is this thread's");
        0
    }

    fn leave(&self, _: usize) {
        // SAFETY: this thread has it.
        unsafe { pthread_mutex_unlock(self.mutex.get()) };
    }

    fn cpu(&self) -> usize {
        if CPUS == 1 {
            return 0;
        }
        // SAFETY: it has no precondition. A failure is -1.
        unsafe { sched_getcpu() }.max(0) as usize % CPUS
    }

    #[inline(always)]
    fn live_map(&self) -> Option<&LiveMap> {
        Some(&self.live)
    }
}

/// New memory that children share, for as long as one of them lives.
pub fn map_shared(bytes: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping, of no file.
    let at =
        unsafe { mmap(core::ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0) };
    (at != MAP_FAILED).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_types_of_the_c_library() {
        assert!(size_of::<libc::pthread_mutex_t>() <= size_of::<PthreadBytes>());
        assert!(align_of::<libc::pthread_mutex_t>() <= align_of::<PthreadBytes>());
        assert!(size_of::<libc::pthread_mutexattr_t>() <= size_of::<PthreadBytes>());
        assert!(align_of::<libc::pthread_mutexattr_t>() <= align_of::<PthreadBytes>());
        assert_eq!(PTHREAD_PROCESS_SHARED, libc::PTHREAD_PROCESS_SHARED);
        assert_eq!(PTHREAD_MUTEX_ROBUST, libc::PTHREAD_MUTEX_ROBUST);
        assert_eq!(EOWNERDEAD, libc::EOWNERDEAD);
        assert_eq!(PROT_READ_WRITE, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(MAP_SHARED_ANONYMOUS, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        assert_eq!(MAP_FAILED.cast(), libc::MAP_FAILED);
    }
}
