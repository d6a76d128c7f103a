//! Sequences with a bug: the last store lies behind the end of the section.

use std::arch::naked_asm;

/// A push up to the test for room.
macro_rules! push_begin {
    () => {
        concat!(
            "
            mov r9, rdx
            mov r10, rcx
        20: mov rdx, r9
            ",
            slabyard::rseq_announce!(),
            "
            mov cx, r10w
            mov edx, dword ptr [rsi + rcx]
            cmp edx, dword ptr [rsi + rcx + 4]
            jae 29f
            "
        )
    };
}

/// Pops, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn pop_late(slot: usize, rows: usize, cs_offset: usize) -> usize {
    naked_asm!(
        "mov r9, rdx",
        "20: mov rdx, r9",
        slabyard::rseq_announce!(),
        "mov cx, di",
        "movsxd rdx, dword ptr [rsi + rcx]",
        "mov rax, qword ptr [rsi + rdx * 8]",
        "test rax, rax",
        "jz 29f",
        "dec edx",
        "22:",
        "mov dword ptr [rsi + rcx], edx",
        slabyard::rseq_descriptor!(),
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pushes, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn push_late(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        push_begin!(),
        "mov qword ptr [rsi + rdx * 8 + 8], rdi",
        "inc edx",
        "22:",
        "mov dword ptr [rsi + rcx], edx",
        slabyard::rseq_descriptor!(),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pushes, but commits the top before the object is in its place.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn push_early(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        push_begin!(),
        "inc edx",
        "mov dword ptr [rsi + rcx], edx",
        "22:",
        "mov qword ptr [rsi + rdx * 8], rdi",
        slabyard::rseq_descriptor!(),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}
