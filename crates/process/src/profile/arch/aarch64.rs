//! On aarch64.

use core::arch::asm;

/// The program counter, the stack pointer and the frame pointer of this call. Its caller calls others, so
/// its link register is on the stack, where the tables of unwinding find it.
#[inline(always)]
pub(crate) fn registers() -> [usize; 3] {
    let (pc, sp, fp);
    // SAFETY: reads registers.
    unsafe {
        asm!(
            "adr {0}, .",
            "mov {1}, sp",
            "mov {2}, x29",
            out(reg) pc,
            out(reg) sp,
            out(reg) fp,
            options(nomem, nostack, preserves_flags),
        );
    }
    [pc, sp, fp]
}

/// The thread pointer, below which the stack of a thread ends that the C library made: what the C
/// library knows of the thread lies between, in the same memory.
pub(crate) fn thread_pointer() -> usize {
    let thread: usize;
    // SAFETY: reads a register that no instruction of ours writes.
    unsafe {
        asm!(
            "mrs {0}, tpidr_el0",
            out(reg) thread,
            options(pure, nomem, nostack, preserves_flags),
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
            "adrp {0}, :gottprel:slabyard_gap",
            "ldr {0}, [{0}, :gottprel_lo12:slabyard_gap]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    thread_pointer().wrapping_add(offset)
}
