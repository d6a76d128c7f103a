//! Reads the registers and copies a piece of the stack, which the reader unwinds from outside: by
//! the tables of `.eh_frame` where there are no frame pointers, as in most programs.
//!
//! Invariant: nothing here touches memory that may not be there. Where a stack ends is not known to
//! it (coroutines and signal handlers have stacks of their own), so the kernel copies, and stops at
//! the end. A process that may make few system calls copies to the end of the page.

use crate::library::Library;

/// The instruction pointer, the stack pointer and the frame pointer of this call.
#[inline(always)]
pub(super) fn registers() -> [usize; 3] {
    #[cfg(target_arch = "x86_64")]
    {
        let (ip, sp, bp);
        // SAFETY: reads registers.
        unsafe {
            core::arch::asm!(
                "lea {0}, [rip]",
                "mov {1}, rsp",
                "mov {2}, rbp",
                out(reg) ip,
                out(reg) sp,
                out(reg) bp,
                options(nomem, nostack, preserves_flags),
            );
        }
        [ip, sp, bp]
    }
    #[cfg(not(target_arch = "x86_64"))]
    [0; 3]
}

/// Copies the stack from an address on; returns how many bytes were there.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy<L: Library>(from: usize, to: usize) -> usize {
    use slabyard_abi::profile::STACK_BYTES;
    const PAGE: usize = 4096;
    const PARTS: usize = STACK_BYTES.div_ceil(PAGE) + 1;
    let platform = L::yard().platform();
    let first = PAGE - from % PAGE;
    if platform.is_restricted() {
        // SAFETY: the rest of the page in which this call's own stack frame is.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, first) };
        return first;
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

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy<L: Library>(_from: usize, _to: usize) -> usize {
    0
}
