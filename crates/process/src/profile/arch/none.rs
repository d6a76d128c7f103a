//! Where there are no restartable sequences: no profiles.

use core::sync::atomic::AtomicU64;

/// No registers.
pub(crate) fn registers() -> [usize; 3] {
    [0; 3]
}

/// None that is known.
pub(crate) fn thread_pointer() -> usize {
    0
}

/// Nobody says it.
pub(crate) fn end_of_first_stack() -> *const usize {
    core::ptr::null()
}

/// Words of all threads, which nobody counts with.
pub(crate) fn gap() -> usize {
    static GAP: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    GAP.as_ptr() as usize
}
