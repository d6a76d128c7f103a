//! The restartable sequences of [`super`], inlined into the caller's function without a call.
//!
//! Each copy has its own descriptor, besides those of the functions. A copy reads the slot in the
//! part that the kernel aborts, so that after a fence of all CPUs no sequence uses an old slot.

use crate::fast::{FastPath, at};
use crate::stack::COUNTDOWN_AT;
use core::arch::asm;

// Both words are loaded at once.
const _: () = assert!(at::CS_OFFSET == at::ROWS + 8);

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
            "ldp x11, x10, [{words}, #{rows}]",
            rseq_announce!(),
            "ldr x9, [{words}, #{pops}]",
            "ldrh w9, [x9]",
            rseq_pop!(),
            "29:",
            words = in(reg) words,
            rows = const at::ROWS,
            pops = const at::POPS,
            out("x9") _,
            out("x10") _,
            out("x11") _,
            out("x12") _,
            out("x13") _,
            out("x14") object,
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
            "ldp x11, x10, [{words}, #{rows}]",
            rseq_announce!(),
            rseq_count_down!(),
            "ldrh w9, [{words}, #{slot}]",
            rseq_push!("x0", ""),
            // Out of the way of calls that are not slow.
            ".pushsection .text.rseq_abort, \"ax\", @progbits",
            ".balign 4",
            "29: b {slow}",
            ".popsection",
            words = in(reg) words,
            rows = const at::ROWS,
            slot = const at::SLOT,
            countdown = const COUNTDOWN_AT,
            in("x0") object,
            out("x9") _,
            out("x10") _,
            out("x11") _,
            out("x12") _,
            out("x13") _,
            out("x14") _,
            slow = label { return false },
            options(nostack),
        );
    }
    true
}
