//! Copies a piece of the stack, which the reader unwinds from outside: by
//! the tables of `.eh_frame` where there are no frame pointers, as in most programs.
//!
//! The stack of a thread that the C library made ends at its thread pointer, that of the first
//! thread at `__libc_stack_end`; few programs are far from there, so most copies are short.
//!
//! Invariant: nothing here touches memory that may not be there. Where another stack ends is not
//! known (coroutines and signal handlers have their own), so the kernel copies, and stops at
//! the end. A process that may make few system calls copies to the end of the page.

use super::arch;
use crate::control::OWNER;
use crate::library::Library;
use slabyard::sync::Ordering;

/// The smallest stack of a thread is twice as large (pthread_attr_setstacksize(3)): who is at most
/// so far from an end is on that stack, and all between is memory.
const SURELY_ON_STACK: usize = 8 << 10;
/// Bytes beyond the end of a stack that unwinding may ask for: a frame pointer's pair.
const BEYOND_END: usize = 16;

/// Bytes from an address on the stack to the stack's end, if that is near. The thread pointer of the
/// first thread is on no stack, and what is before it may end between.
fn bytes_to_end(from: usize, is_first: bool) -> Option<usize> {
    let first = arch::end_of_first_stack();
    // SAFETY: the loader wrote the word before any code of a library ran, and it stays.
    let first = if first.is_null() { 0 } else { unsafe { first.read() } };
    let thread = if is_first { 0 } else { arch::thread_pointer() };
    [thread, first]
        .into_iter()
        .filter_map(|end| end.checked_sub(from))
        .map(|bytes| bytes + BEYOND_END)
        .filter(|bytes| *bytes <= SURELY_ON_STACK)
        .min()
}

/// Copies the stack from an address on; returns how many bytes were there.
pub(super) fn copy<L: Library>(from: usize, to: usize) -> usize {
    use slabyard_abi::profile::STACK_BYTES;
    const PAGE: usize = 4096;
    const PARTS: usize = STACK_BYTES.div_ceil(PAGE) + 1;
    let platform = L::yard().platform();
    let first = PAGE - from % PAGE;
    let number = platform.thread_number();
    let is_first = number == 0 || number == OWNER.load(Ordering::Relaxed);
    let known = bytes_to_end(from, is_first).or(platform.is_restricted().then_some(first));
    if let Some(bytes) = known {
        // SAFETY: what is below the end of a stack, or the rest of the page in which this call's
        // own stack frame is; the record has more room.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        return bytes;
    }
    // The kernel copies whole parts alone (process_vm_readv(2)): one for each page.
    let mut parts = [[0; 2]; PARTS];
    let (mut at, mut bytes) = (from, first.min(STACK_BYTES));
    for part in &mut parts {
        *part = [at, bytes];
        at += bytes;
        bytes = PAGE.min(from + STACK_BYTES - at);
    }
    // SAFETY: the record has room for the `STACK_BYTES` of all parts.
    unsafe { platform.copy_own(&parts, to) }
}
