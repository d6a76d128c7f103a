//! Restartable sequences that pop or push several objects at once.
//!
//! Registers and labels are as in [the others](super); `r8` holds the number of objects.

use core::arch::naked_asm;

// Takes objects from the top down, until one element holds 0 (the guard's, and those of a stack
// that is stopped or absent) or there are enough; the element below the last one is committed.
// First one by one until a multiple of four is wanted, then four by four.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn pop_many_raw(
    slot: usize,
    rows: usize,
    cs_offset: usize,
    out: *mut usize,
    most: usize,
) -> usize {
    naked_asm!(
        "mov r10, rcx",
        rseq_announce!(),
        "mov cx, di",
        "movsxd rdx, dword ptr [rsi + rcx]",
        "xor eax, eax",
        "test r8b, 3",
        "jz 30f",
        "26: mov r11, qword ptr [rsi + rdx * 8]",
        "test r11, r11",
        "jz 27f",
        "mov qword ptr [r10 + rax * 8], r11",
        "dec edx",
        "inc eax",
        "mov r11, r8",
        "sub r11, rax",
        "jz 27f",
        "test r11b, 3",
        "jnz 26b",
        "30: mov r11, qword ptr [rsi + rdx * 8]",
        "test r11, r11",
        "jz 27f",
        "mov qword ptr [r10 + rax * 8], r11",
        "mov r11, qword ptr [rsi + rdx * 8 - 8]",
        "test r11, r11",
        "jz 31f",
        "mov qword ptr [r10 + rax * 8 + 8], r11",
        "mov r11, qword ptr [rsi + rdx * 8 - 16]",
        "test r11, r11",
        "jz 32f",
        "mov qword ptr [r10 + rax * 8 + 16], r11",
        "mov r11, qword ptr [rsi + rdx * 8 - 24]",
        "test r11, r11",
        "jz 33f",
        "mov qword ptr [r10 + rax * 8 + 24], r11",
        "sub edx, 4",
        "add eax, 4",
        "cmp rax, r8",
        "jb 30b",
        "jmp 27f",
        "33: inc eax",
        "dec edx",
        "32: inc eax",
        "dec edx",
        "31: inc eax",
        "dec edx",
        "27: test eax, eax",
        "jz 29f",
        "mov dword ptr [rsi + rcx], edx",
        "22:",
        rseq_descriptor!("pop_many", "xor eax, eax"),
        "29: ret",
    )
}

/// The text of a sequence that pushes as many of `r8` objects from `rdi` on as there is room for:
/// no room, or the first object is on top already: slow. It stores them above the top, an odd one
/// first and then two by two, and commits the last one's element. `tag` is what it asks of the
/// entry whose end is `eax`.
macro_rules! push_many {
    ($kind:literal, $tag:literal) => {
        naked_asm!(
            "mov r10, rcx",
            rseq_announce!(),
            "mov cx, r10w",
            "mov edx, dword ptr [rsi + rcx]",
            "mov eax, dword ptr [rsi + rcx + 4]",
            $tag,
            "sub eax, edx",
            "jbe 29f",
            "mov r11, qword ptr [rdi]",
            "cmp r11, qword ptr [rsi + rdx * 8]",
            "je 29f",
            "cmp rax, r8",
            "cmova rax, r8",
            // What is copied to the element behind `rdx` lies at `r11 + rdx * 8`; `rax` becomes
            // the new top.
            "mov r11, rdx",
            "neg r11",
            "shl r11, 3",
            "add r11, rdi",
            "test al, 1",
            "jz 26f",
            "movq xmm0, qword ptr [r11 + rdx * 8]",
            "movq qword ptr [rsi + rdx * 8 + 8], xmm0",
            "add eax, edx",
            "inc edx",
            "cmp edx, eax",
            "je 27f",
            "jmp 30f",
            "26: add eax, edx",
            "30: movups xmm0, xmmword ptr [r11 + rdx * 8]",
            "movups xmmword ptr [rsi + rdx * 8 + 8], xmm0",
            "add edx, 2",
            "cmp edx, eax",
            "jb 30b",
            "27: mov dword ptr [rsi + rcx], eax",
            "22:",
            rseq_descriptor!($kind),
            "sub r11, rdi",
            "sar r11, 3",
            "add rax, r11",
            "ret",
            "29: xor eax, eax",
            "ret",
        )
    };
}

#[unsafe(naked)]
pub unsafe extern "sysv64" fn push_many_raw(
    objects: *const usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
    nr: usize,
) -> usize {
    push_many!("push_many", "")
}

// A stack with a tag may not take all of them: slow.
#[unsafe(naked)]
pub unsafe extern "sysv64" fn push_many_if_raw(
    objects: *const usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
    nr: usize,
) -> usize {
    push_many!("push_many_if", "cmp qword ptr [rsi + rax * 8 + 16], 0\njne 29f")
}
