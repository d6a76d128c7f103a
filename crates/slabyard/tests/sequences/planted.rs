//! Sequences with a bug: the last store lies behind the end of the section.

use std::arch::naked_asm;

/// Pops, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn pop_late(rows: usize, slot: usize, cs_offset: usize) -> usize {
    naked_asm!(
        "mov r10, rsi",
        "mov r9, rdx",
        slabyard::rseq_begin!("rdi"),
        "mov edx, dword ptr [rcx + r10]",
        "sub edx, 1",
        "js 29f",
        "mov rax, qword ptr [rcx + r10 + 8]",
        "mov rax, qword ptr [rax + rdx * 8]",
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
        "mov rax, qword ptr [rcx + r10 + 8]",
        "mov qword ptr [rax + rdx * 8], rdi",
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

/// Pushes, but commits the count before the object is in its place.
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
        "mov rax, qword ptr [rcx + r10 + 8]",
        "inc edx",
        "mov dword ptr [rcx + r10], edx",
        "22:",
        "mov qword ptr [rax + rdx * 8 - 8], rdi",
        slabyard::rseq_descriptor!(),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}
