//! Sequences with a bug: the last store lies behind the end of the section.

use std::arch::naked_asm;

/// Pops, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn pop_late(rows: usize, slot: usize, cs_offset: usize) -> usize {
    naked_asm!(
        "mov r10, rsi",
        "mov r9, rdx",
        slabyard::rseq_begin!("rdi"),
        "movsxd rdx, dword ptr [rcx + r10]",
        "mov rax, qword ptr [r8 + rdx * 8]",
        "test rax, rax",
        "jz 29f",
        "dec edx",
        "22:",
        "mov dword ptr [rcx + r10], edx",
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
    slot: usize,
    cs_offset: usize,
) -> usize {
    naked_asm!(
        "mov r10, rdx",
        "mov r9, rcx",
        slabyard::rseq_begin!("rsi"),
        "mov edx, dword ptr [rcx + r10]",
        "cmp edx, dword ptr [rcx + r10 + 4]",
        "jae 29f",
        "mov qword ptr [r8 + rdx * 8 + 8], rdi",
        "inc edx",
        "22:",
        "mov dword ptr [rcx + r10], edx",
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
    slot: usize,
    cs_offset: usize,
) -> usize {
    naked_asm!(
        "mov r10, rdx",
        "mov r9, rcx",
        slabyard::rseq_begin!("rsi"),
        "mov edx, dword ptr [rcx + r10]",
        "cmp edx, dword ptr [rcx + r10 + 4]",
        "jae 29f",
        "inc edx",
        "mov dword ptr [rcx + r10], edx",
        "22:",
        "mov qword ptr [r8 + rdx * 8], rdi",
        slabyard::rseq_descriptor!(),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}
