//! The restartable sequences (rseq) on x86-64.
//!
//! Each sequence is one function; its assembly text is a macro, because the malloc library puts the
//! same text into `malloc` and `free` themselves. Registers:
//!
//! | register | holds |
//! |---|---|
//! | `rdx` | offset of the field `rseq_cs` from `fs`; then the number of the top's element |
//! | `rdi` | the object (push) |
//! | `rsi` | row 0, from which elements are numbered (`free_sized`: `r8`) |
//! | `rcx` | the entry's distance from row 0 |
//! | `rax` | the popped object |
//!
//! After the descriptor is stored, the kernel aborts the part from label 21 to 22 if the thread was
//! preempted, migrated or interrupted by a signal. After an abort, execution continues at 24, and
//! from there at 29, the caller's "slow" label: the caller's arguments are still in their
//! registers, and `rax` is 0 after a pop. The last instruction before 22 is the committing store.
//! An aborted sequence is not retried: a debugger's single-stepping aborts it at each step, so
//! retries would never end. An abort is as rare as a preemption within these few instructions.
//!
//! A sequence reads 32 bits from two bytes before the CPU number. Those two bytes are zeros (the
//! high half of `cpu_id_start`, a number below 2^16), so the value is the CPU number times
//! [`ROW_STRIDE`]; the slot's offset then replaces the zeros.
//!
//! Sources: `man 2 rseq`, the kernel's `Documentation/userspace-api/rseq.rst`.

use crate::stack::{COUNTDOWN_AT, NR_USED_BEFORE, ROW_STRIDE, USED_BEFORE};
use core::arch::naked_asm;

/// Signature in front of an abort address, as the C library registers it.
pub const SIGNATURE: u32 = 0x5305_3053;

// What the sequences read in front of the CPU number, and what `exchange_raw` shifts by.
const _: () = assert!(ROW_STRIDE == 1 << 16);

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
            "\n.byte 0x0f, 0xb9, 0x3d",
            "\n.long 0x53053053",
            "\n24: ", $aborted,
            "\njmp 29f",
            "\n.popsection",
        }
    };
}

/// Announces the sequence, and finds the CPU's row; the caller puts the slot's offset
/// into `cx` next.
#[macro_export]
macro_rules! rseq_announce {
    () => {
        "
            lea rcx, [rip + 25f]
            mov fs:[rdx], rcx
        21: mov ecx, dword ptr fs:[rdx - 6]
        "
    };
}

/// Load the top's element, signed: -1 is an element too. It holds 0: slow; commit the
/// element below. `object` is `rax`, or `eax` to save a byte: then an object whose low 32
/// bits are 0 takes the slow path.
#[macro_export]
macro_rules! rseq_pop {
    ($object:literal) => {
        concat! {
            "\nmovsxd rdx, dword ptr [rsi + rcx]",
            "\nmov rax, qword ptr [rsi + rdx * 8]",
            "\ntest ", $object, ", ", $object,
            "\njz 29f",
            "\ndec edx",
            "\nmov dword ptr [rsi + rcx], edx",
            "\n22:", $crate::rseq_descriptor!("pop", "xor eax, eax")
        }
    };
}

/// `top >= end` (a stopped stack's top is above all), or the object is on top already: slow; store
/// the object; commit its element. `rows` is the register of row 0, `object` that of the object.
#[macro_export]
macro_rules! rseq_push {
    ($rows:literal) => {
        $crate::rseq_push!($rows, "rdi")
    };
    ($rows:literal, $object:literal) => {
        $crate::rseq_push!(
            $rows,
            $object,
            concat! {
                "\ncmp qword ptr [", $rows, " + rdx * 8], ", $object,
                "\nje 29f",
            }
        )
    };
    // `same` looks whether the object is on top.
    ($rows:literal, $object:literal, $same:expr) => {
        concat! {
            "\nmov edx, dword ptr [", $rows, " + rcx]",
            "\ncmp edx, dword ptr [", $rows, " + rcx + 4]",
            "\njae 29f",
            $same,
            "\nmov qword ptr [", $rows, " + rdx * 8 + 8], ", $object,
            "\ninc edx",
            "\nmov dword ptr [", $rows, " + rcx], edx",
            "\n22:", $crate::rseq_descriptor!("push")
        }
    };
}

/// As [`rseq_push`], and slow if the object has not the [tag](crate::stack) that is
/// behind the stack's end. `end` is a register of 32 bits and `end64` the same, `other` another.
#[macro_export]
macro_rules! rseq_push_if {
    ($rows:literal, $end:literal, $end64:literal, $other:literal) => {
        concat! {
            "\nmov edx, dword ptr [", $rows, " + rcx]",
            "\nmov ", $end, ", dword ptr [", $rows, " + rcx + 4]",
            "\ncmp edx, ", $end,
            "\njae 29f",
            "\nmov ", $other, ", qword ptr [", $rows, " + ", $end64, " * 8 + 8]",
            "\nxor ", $other, ", rdi",
            "\ntest ", $other, ", qword ptr [", $rows, " + ", $end64, " * 8 + 16]",
            "\njne 29f",
            "\ncmp qword ptr [", $rows, " + rdx * 8], rdi",
            "\nje 29f",
            "\nmov qword ptr [", $rows, " + rdx * 8 + 8], rdi",
            "\ninc edx",
            "\nmov dword ptr [", $rows, " + rcx], edx",
            "\n22:", $crate::rseq_descriptor!("push_if")
        }
    };
}

/// The text that may be interrupted.
pub(super) use self::exchange_raw as exchange_once;

// Behind the macros that they use.
mod inlined;
mod many;
pub use inlined::{pop_inlined, push_inlined};
pub(super) use many::{pop_many_raw, push_many_if_raw, push_many_raw};

#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn pop_raw(slot: usize, rows: usize, cs_offset: usize) -> usize {
    naked_asm!(rseq_announce!(), "mov cx, di", rseq_pop!("rax"), "29: ret")
}

#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn push_raw(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        "mov r10, rcx",
        rseq_announce!(),
        "mov cx, r10w",
        rseq_push!("rsi"),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn push_if_raw(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        "mov r10, rcx",
        rseq_announce!(),
        "mov cx, r10w",
        rseq_push_if!("rsi", "eax", "rax", "r8"),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

// No row (negative CPU number): slow. Load the entry; no stack, and the row's bit of use is not set:
// set it and begin anew (who has a stack has the bit). Stopped: slow; commit the new one by one
// aligned store. `lock bts`: as `crate::stack::begin_use`.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn exchange_raw(
    new: u64,
    rows: usize,
    slot: usize,
    cs_offset: usize,
) -> u64 {
    naked_asm!(
        "mov r10, rdx",
        "mov r9, rcx",
        "20: lea rdx, [rip + 25f]",
        "mov fs:[r9], rdx",
        "21: movsxd rcx, dword ptr fs:[r9 - 4]",
        "test ecx, ecx",
        "js 29f",
        "mov edx, ecx",
        "shl rcx, 16",
        "add rcx, rsi",
        "mov rax, qword ptr [rcx + r10]",
        "test eax, eax",
        "jnz 24f",
        "bt dword ptr [rsi - {used}], edx",
        "jnc 28f",
        "24: cmp eax, -1",
        "je 29f",
        "mov qword ptr [rcx + r10], rdi",
        "22:",
        rseq_descriptor!("exchange"),
        "ret",
        "29: mov rax, -1",
        "ret",
        "28: lock bts dword ptr [rsi - {used}], edx",
        "jc 20b",
        "mov dword ptr [rcx + {countdown}], 0",
        "lock inc dword ptr [rsi - {nr_used}]",
        "jmp 20b",
        used = const USED_BEFORE,
        countdown = const COUNTDOWN_AT,
        nr_used = const NR_USED_BEFORE,
    )
}

/// Of the thread's block: a cache line.
pub(super) const THREAD_ALIGN: usize = 64;

/// Offset of this thread's block from the thread pointer.
#[inline]
#[must_use]
pub fn thread_offset() -> usize {
    let offset: usize;
    // SAFETY: reads an entry of the global offset table that the loader filled.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + slabyard_thread@GOTTPOFF]",
            out(reg) offset,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    offset
}

/// From where the offsets here count: the base of `fs`.
#[inline]
pub(super) fn thread_pointer() -> usize {
    let base: usize;
    // SAFETY: on x86-64 the word at fs:0 is the thread pointer itself.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr fs:[0]",
            out(reg) base,
            options(pure, readonly, nostack, preserves_flags),
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
            "mov {0:e}, dword ptr fs:[{1} + 4]",
            out(reg) id,
            in(reg) offset,
            options(readonly, nostack, preserves_flags),
        );
    }
    id
}
