//! On x86-64.

use core::arch::asm;

/// The instruction pointer, the stack pointer and the frame pointer of this call.
#[inline(always)]
pub(crate) fn registers() -> [usize; 3] {
    let (ip, sp, bp);
    // SAFETY: reads registers.
    unsafe {
        asm!(
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

/// The thread pointer, below which the stack of a thread ends that the C library made.
pub(crate) fn thread_pointer() -> usize {
    let thread: usize;
    // SAFETY: the word at fs:0 is the thread pointer.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",
            out(reg) thread,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    thread
}

/// Address of this thread's words of the gap.
pub(crate) fn gap() -> usize {
    let offset: usize;
    // SAFETY: reads an entry of the global offset table that the loader filled.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + slabyard_gap@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    thread_pointer().wrapping_add(offset)
}
