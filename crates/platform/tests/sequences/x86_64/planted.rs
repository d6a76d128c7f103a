//! Sequences with a bug: the last store lies behind the end of the section, or a load in front
//! of its begin.

use std::arch::naked_asm;

/// A push up to the test for room.
macro_rules! push_begin {
    () => {
        concat!(
            "
            mov r10, rcx
            ",
            slabyard_platform::rseq_announce!(),
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
pub unsafe extern "C" fn pop_late(slot: usize, rows: usize, cs_offset: usize) -> usize {
    naked_asm!(
        slabyard_platform::rseq_announce!(),
        "mov cx, di",
        "movsxd rdx, dword ptr [rsi + rcx]",
        "mov rax, qword ptr [rsi + rdx * 8]",
        "test rax, rax",
        "jz 29f",
        "dec edx",
        "22:",
        "mov dword ptr [rsi + rcx], edx",
        slabyard_platform::rseq_descriptor!("planted"),
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pushes, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "C" fn push_late(
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
        slabyard_platform::rseq_descriptor!("planted"),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pushes, but commits the top before the object is in its place.
#[unsafe(naked)]
pub unsafe extern "C" fn push_early(
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
        slabyard_platform::rseq_descriptor!("planted"),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pushes if the object has the stack's tag, but looks at the tag before the section begins.
#[unsafe(naked)]
pub unsafe extern "C" fn push_if_early(
    object: usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
) -> usize {
    naked_asm!(
        "mov r9, rdx",
        "mov r10, rcx",
        "mov ecx, dword ptr fs:[rdx - 6]",
        "mov cx, r10w",
        "mov eax, dword ptr [rsi + rcx + 4]",
        "mov r8, qword ptr [rsi + rax * 8 + 8]",
        "xor r8, rdi",
        "and r8, qword ptr [rsi + rax * 8 + 16]",
        "mov rdx, r9",
        slabyard_platform::rseq_announce!(),
        "mov cx, r10w",
        "mov edx, dword ptr [rsi + rcx]",
        "cmp edx, dword ptr [rsi + rcx + 4]",
        "jae 29f",
        "test r8, r8",
        "jne 29f",
        "mov qword ptr [rsi + rdx * 8 + 8], rdi",
        "inc edx",
        "mov dword ptr [rsi + rcx], edx",
        "22:",
        slabyard_platform::rseq_descriptor!("planted"),
        "mov eax, 1",
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}

/// Pops several, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "C" fn pop_many_late(
    slot: usize,
    rows: usize,
    cs_offset: usize,
    out: *mut usize,
    most: usize,
) -> usize {
    naked_asm!(
        "mov r10, rcx",
        slabyard_platform::rseq_announce!(),
        "mov cx, di",
        "movsxd rdx, dword ptr [rsi + rcx]",
        "xor eax, eax",
        "26: mov r11, qword ptr [rsi + rdx * 8]",
        "test r11, r11",
        "jz 27f",
        "mov qword ptr [r10 + rax * 8], r11",
        "dec edx",
        "inc rax",
        "cmp rax, r8",
        "jb 26b",
        "27: test rax, rax",
        "jz 29f",
        "22:",
        "mov dword ptr [rsi + rcx], edx",
        slabyard_platform::rseq_descriptor!("planted", "xor eax, eax"),
        "29: ret",
    )
}

/// Pushes one or two, but stores the last one after the commit.
#[unsafe(naked)]
pub unsafe extern "C" fn push_many_late(
    objects: *const usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
    nr: usize,
) -> usize {
    naked_asm!(
        "mov r10, rcx",
        slabyard_platform::rseq_announce!(),
        "mov cx, r10w",
        "mov edx, dword ptr [rsi + rcx]",
        "mov eax, dword ptr [rsi + rcx + 4]",
        "sub eax, edx",
        "jbe 29f",
        "cmp rax, r8",
        "cmova rax, r8",
        "mov r11, qword ptr [rdi]",
        "mov qword ptr [rsi + rdx * 8 + 8], r11",
        "add edx, eax",
        "mov dword ptr [rsi + rcx], edx",
        "22:",
        "mov r11, qword ptr [rdi + rax * 8 - 8]",
        "mov qword ptr [rsi + rdx * 8], r11",
        slabyard_platform::rseq_descriptor!("planted"),
        "ret",
        "29: xor eax, eax",
        "ret",
    )
}
