//! The restartable sequences (rseq) on aarch64, little-endian.
//!
//! Each sequence is one function; its assembly text is a macro, because the malloc library puts the
//! same text into `malloc` and `free` themselves. Registers:
//!
//! | register | holds |
//! |---|---|
//! | `x0` | the object (push; with another's name where it is an argument of another place) |
//! | `x9` | the slot: the entry's distance from the row's begin |
//! | `x10` | offset of the field `rseq_cs` from the thread pointer; then its address |
//! | `x11` | row 0, from which elements are numbered |
//! | `x12` | this CPU's row |
//! | `x13` | the number of the top's element; of a push, with the end in its upper half |
//! | `x14` | the popped object |
//! | `x14` to `x17` | what is needed for a moment |
//!
//! Labels, aborts and the CPU number that is read two bytes too early are those of the sequences
//! on x86-64: the part from label 21 to 22 is restartable, 24 is where an aborted one continues,
//! and 29 is the caller's "slow" label. The last instruction before 22 is the committing store. A
//! number of -1 leads to the row of zeros, because the row's distance is kept in 32 bits.
//!
//! aarch64 may load and store in another order than the program's. Nothing here is a barrier:
//!
//! * an element's address is computed from the top, so it is loaded after it (an address
//!   dependency). Its partner is the Release store of [`start`](crate::stack::Entry::start);
//! * a push loads top and end by one instruction, so both are of one moment: a thread that sees the
//!   top 0 of [`start_without`](crate::stack::Entry::start_without) sees its end of 0, too. A pop
//!   does not read the end;
//! * a push stores the object first and the top next, but another CPU may see the second alone.
//!   Only who stopped the stack reads elements of another CPU, and that after a
//!   [fence](crate::PerCpu::fence): `membarrier` is a barrier on this CPU, or the switch to another
//!   thread was one. The next thread of this CPU sees its stores in order;
//! * so do the stores of who made a stack before an exchange puts it into the entry.
//!
//! Sources: `man 2 rseq`, the kernel's `Documentation/userspace-api/rseq.rst`; Arm Architecture
//! Reference Manual, B2.3 (address dependency, single-copy atomicity).

use crate::stack::{ROW_STRIDE, STOPPED, Stack, USED_BEFORE, begin_use};
use core::arch::naked_asm;

/// Signature in front of an abort address, as the C library registers it: `brk #0x45e0`.
pub const SIGNATURE: u32 = 0xd428_bc00;

// What the sequences read in front of the CPU number, and what `exchange_once` shifts by.
const _: () = assert!(ROW_STRIDE == 1 << 16 && cfg!(target_endian = "little"));

/// The descriptor (struct rseq_cs) and the abort stub of the sequence above. Each kind of sequence
/// has sections of its own, so that the linker leaves out those that a library does not call.
#[macro_export]
macro_rules! rseq_descriptor {
    ($kind:literal) => {
        $crate::rseq_descriptor!($kind, "")
    };
    // `aborted` comes before the jump to 29, in a text that the compiler does not know of.
    ($kind:literal, $aborted:literal) => {
        concat! {
            "\n.pushsection .data.rel.ro.rseq_cs.", $kind, ", \"aw\", @progbits",
            "\n.balign 32",
            "\n25: .long 0, 0",
            "\n.quad 21b, 22b - 21b, 24f",
            "\n.popsection",
            "\n.pushsection .text.rseq_abort.", $kind, ", \"ax\", @progbits",
            "\n.balign 4",
            "\n.inst 0xd428bc00",
            "\n24: ", $aborted,
            "\nb 29f",
            "\n.popsection",
        }
    };
}

/// Counts the row's frees down; to `29` at the end. The operand `countdown` is their place in the row.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_count_down {
    () => {
        "
            ldr w14, [x12, #{countdown}]
            subs w14, w14, #1
            str w14, [x12, #{countdown}]
            b.mi 29f
        "
    };
}

/// Announces the sequence, and finds the CPU's row.
#[macro_export]
macro_rules! rseq_announce {
    () => {
        "
            mrs x12, tpidr_el0
            add x10, x10, x12
            adrp x12, 25f
            add x12, x12, :lo12:25f
            str x12, [x10]
        21: ldur w12, [x10, #-6]
            add x12, x11, x12
        "
    };
}

/// Load the top's element, signed: -1 is an element too. It holds 0: slow; commit the
/// element below.
#[macro_export]
macro_rules! rseq_pop {
    () => {
        concat! {
            "\nldrsw x13, [x12, x9]",
            "\nldr x14, [x11, x13, lsl #3]",
            "\ncbz x14, 29f",
            "\nsub w13, w13, #1",
            "\nstr w13, [x12, x9]",
            "\n22:", $crate::rseq_descriptor!("pop", "mov x14, xzr")
        }
    };
}

/// `top >= end` (a stopped stack's top is above all), or the object is on top already: slow; store
/// the object above the top, and commit its element. An entry of zeros is slow before anything
/// is read.
#[macro_export]
macro_rules! rseq_push {
    () => {
        $crate::rseq_push!("x0")
    };
    ($object:literal) => {
        $crate::rseq_push!(
            $object,
            concat! {
                "\nldr x15, [x14]",
                "\ncmp x15, ", $object,
                "\nb.eq 29f",
            }
        )
    };
    // `same` looks whether the object is on top.
    ($object:literal, $same:expr) => {
        concat! {
            "\nldr x13, [x12, x9]",
            "\nlsr x14, x13, #32",
            "\ncmp w13, w14",
            "\nb.hs 29f",
            "\nadd x14, x11, w13, uxtw #3",
            $same,
            "\nstr ", $object, ", [x14, #8]",
            "\nadd w13, w13, #1",
            "\nstr w13, [x12, x9]",
            "\n22:", $crate::rseq_descriptor!("push")
        }
    };
}

/// As [`rseq_push`], and slow if the object in `x0` has not the [tag](crate::stack) that is
/// behind the stack's end.
#[macro_export]
macro_rules! rseq_push_if {
    () => {
        concat! {
            "\nldr x13, [x12, x9]",
            "\nlsr x14, x13, #32",
            "\ncmp w13, w14",
            "\nb.hs 29f",
            "\nadd x14, x11, x14, lsl #3",
            "\nldp x15, x16, [x14, #8]",
            "\neor x15, x15, x0",
            "\ntst x15, x16",
            "\nb.ne 29f",
            "\nadd x14, x11, w13, uxtw #3",
            "\nldr x15, [x14]",
            "\ncmp x15, x0",
            "\nb.eq 29f",
            "\nstr x0, [x14, #8]",
            "\nadd w13, w13, #1",
            "\nstr w13, [x12, x9]",
            "\n22:", $crate::rseq_descriptor!("push_if")
        }
    };
}

// Behind the macros that they use.
mod inlined;
mod many;
pub use inlined::{pop_inlined, push_inlined};
pub(super) use many::{pop_many_raw, push_many_if_raw, push_many_raw};

#[unsafe(naked)]
pub(super) unsafe extern "C" fn pop_raw(slot: usize, rows: usize, cs_offset: usize) -> usize {
    naked_asm!(
        "mov x9, x0",
        "mov x11, x1",
        "mov x10, x2",
        rseq_announce!(),
        rseq_pop!(),
        "29: mov x0, x14",
        "ret",
    )
}

#[unsafe(naked)]
pub(super) unsafe extern "C" fn push_raw(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        "mov x11, x1",
        "mov x10, x2",
        "mov x9, x3",
        rseq_announce!(),
        rseq_push!(),
        "mov w0, #1",
        "ret",
        "29: mov x0, xzr",
        "ret",
    )
}

#[unsafe(naked)]
pub(super) unsafe extern "C" fn push_if_raw(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        "mov x11, x1",
        "mov x10, x2",
        "mov x9, x3",
        rseq_announce!(),
        rseq_push_if!(),
        "mov w0, #1",
        "ret",
        "29: mov x0, xzr",
        "ret",
    )
}

// No row (negative CPU number): slow. Load the entry; no stack, and the row's bit of use is not set:
// say so, with the row's number in the upper half (who has a stack has the bit; a shift counts modulo
// 32). Stopped: slow; commit the new one by one aligned store.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn exchange_once(
    new: u64,
    rows: usize,
    slot: usize,
    cs_offset: usize,
) -> u64 {
    naked_asm!(
        "mrs x9, tpidr_el0",
        "add x10, x9, x3",
        "adrp x9, 25f",
        "add x9, x9, :lo12:25f",
        "str x9, [x10]",
        "21: ldrsw x11, [x10, #-4]",
        "tbnz w11, #31, 29f",
        "add x12, x1, x11, lsl #16",
        "ldr x13, [x12, x2]",
        "cbnz w13, 26f",
        "sub x14, x1, #{used}",
        "lsr w15, w11, #5",
        "ldr w14, [x14, x15, lsl #2]",
        "lsr w14, w14, w11",
        "tbz w14, #0, 28f",
        "26: cmn w13, #1",
        "b.eq 29f",
        "str x0, [x12, x2]",
        "22:",
        rseq_descriptor!("exchange"),
        "mov x0, x13",
        "ret",
        "29: mov x0, #-1",
        "ret",
        "28: mov w0, #-1",
        "bfi x0, x11, #32, #32",
        "ret",
        used = const USED_BEFORE,
    )
}

/// # Safety
/// As `exchange_once`.
pub(super) unsafe fn exchange_raw(new: u64, rows: usize, slot: usize, cs_offset: usize) -> u64 {
    loop {
        // SAFETY: the caller's promise.
        let old = unsafe { exchange_once(new, rows, slot, cs_offset) };
        let Stack { top, end } = Stack::of_word(old);
        if top != STOPPED || end == STOPPED {
            return old;
        }
        // SAFETY: the caller's promise, and the number of a row.
        unsafe { begin_use(rows, end as usize) };
    }
}

/// Of the thread's block: that of glibc's own rseq area; a library with more cannot be opened (`dlopen`).
pub(super) const THREAD_ALIGN: usize = 32;

/// Offset of this thread's block from the thread pointer.
#[inline]
#[must_use]
pub fn thread_offset() -> usize {
    let offset: usize;
    // SAFETY: reads an entry of the global offset table that the loader filled.
    unsafe {
        core::arch::asm!(
            "adrp {0}, :gottprel:slabyard_thread",
            "ldr {0}, [{0}, :gottprel_lo12:slabyard_thread]",
            out(reg) offset,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    offset
}

/// From where the offsets here count: `tpidr_el0`.
#[inline]
pub(super) fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: reads a register that no instruction of ours writes.
    unsafe {
        core::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) base,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    base
}

/// CPU number in the area at `offset` from the thread pointer.
#[must_use]
pub fn cpu_id(offset: usize) -> i32 {
    let id: i32;
    // SAFETY: the caller got the offset from `library_area` or `thread_offset`.
    unsafe {
        core::arch::asm!(
            "ldr {0:w}, [{1}, #4]",
            out(reg) id,
            in(reg) thread_pointer().wrapping_add(offset),
            options(readonly, nostack, preserves_flags),
        );
    }
    id
}
