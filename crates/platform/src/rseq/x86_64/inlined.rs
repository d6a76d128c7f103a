//! The restartable sequences of [`super`], inlined into the caller's function without a call.
//!
//! Each copy has its own descriptor, besides those of the functions. A copy reads the slot in the
//! part that the kernel aborts, so that after a fence of all CPUs no sequence uses an old slot.

use crate::fast::{FastPath, at};
use crate::stack::COUNTDOWN_AT;
use core::arch::asm;

/// Pops from this CPU's stack; 0 if the call must take the slow path.
///
/// # Safety
/// The words are those of valid rows and of a registered area or a thread block with a private
/// slot.
#[inline(always)]
pub unsafe fn pop_inlined(words: &FastPath) -> usize {
    let object: usize;
    // SAFETY: the caller's promise; the sequence changes the registers that are named, the
    // entry and the announcement.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{words} + {cs_offset}]",
            rseq_announce!(),
            "mov rsi, qword ptr [{words} + {pops}]",
            "mov cx, word ptr [rsi]",
            "mov rsi, qword ptr [{words} + {rows}]",
            rseq_pop!("rax"),
            "29:",
            words = in(reg) words,
            rows = const at::ROWS,
            cs_offset = const at::CS_OFFSET,
            pops = const at::POPS,
            out("rax") object,
            out("rcx") _,
            out("rdx") _,
            out("rsi") _,
            options(nostack),
        );
    }
    object
}

/// Counts the row's countdown down and pushes to this CPU's stack; false if the call must take
/// the slow path. It does not look whether the object is on top already: who owns an object frees
/// it once.
///
/// # Safety
/// As [`pop_inlined`].
#[inline(always)]
pub unsafe fn push_inlined(words: &FastPath, object: usize) -> bool {
    // SAFETY: as in `pop_inlined`.
    unsafe {
        asm!(
            "mov rdx, qword ptr [{words} + {cs_offset}]",
            rseq_announce!(),
            "mov rsi, qword ptr [{words} + {rows}]",
            "dec dword ptr [rsi + rcx + {countdown}]",
            "js 29f",
            "mov cx, word ptr [{words} + {slot}]",
            rseq_push!("rsi", "rdi", ""),
            // Out of the way of calls that are not slow.
            ".pushsection .text.rseq_abort, \"ax\", @progbits",
            "29: jmp {slow}",
            ".popsection",
            words = in(reg) words,
            rows = const at::ROWS,
            cs_offset = const at::CS_OFFSET,
            slot = const at::SLOT,
            countdown = const COUNTDOWN_AT,
            in("rdi") object,
            out("rcx") _,
            out("rdx") _,
            out("rsi") _,
            slow = label { return false },
            options(nostack),
        );
    }
    true
}
