//! Passes a call to the next malloc in assembly, so that an exception or a thread's exit can unwind
//! through it.
//!
//! ```text
//! an allocation                               a free
//!   keep the arguments and the caller           keep the pointer
//!   before(&mut call) -> next function          before(pointer, caller) -> next function
//!   call it with the arguments                  jump to it
//!   after(&call) -> the caller's result
//! ```
//!
//! The library has no unwinder, and its Rust code has no unwind tables: unwinding through one of
//! its Rust frames would kill the process. While the next malloc runs, only an allocation
//! function's frame of this library is on the stack, and it has an entry in the unwind table.
//! Neighbour: [`crate::calls`] defines `before` and `after`.

/// The address of a function, of whatever type.
pub type Function = *mut core::ffi::c_void;

/// An allocation under way. The assembly below writes the first five words.
#[repr(C)]
pub struct Call {
    /// The arguments; a function that takes fewer leaves the others without meaning.
    pub first: usize,
    pub second: usize,
    pub third: usize,
    /// Where the caller continues.
    pub site: usize,
    /// What the malloc behind answered.
    pub answer: usize,
    /// Of a block that is resized: its address,
    pub old: usize,
    /// and its usable bytes.
    pub was: usize,
}

const _: () = assert!(size_of::<Call>() == 56);

/// A function `$name` that calls the one behind between `$before` and `$after`.
macro_rules! allocates {
    ($name:ident, $before:path, $after:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C-unwind" fn $name(_first: usize, _second: usize, _third: usize) -> usize {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov rax, [rsp]",
                "sub rsp, 56",
                ".cfi_def_cfa_offset 64",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rax",
                "mov rdi, rsp",
                "call {before}",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "call rax",
                "mov [rsp + 32], rax",
                "mov rdi, rsp",
                "call {after}",
                "add rsp, 56",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                before = sym $before,
                after = sym $after,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-80]!",
                ".cfi_def_cfa_offset 80",
                ".cfi_offset x29, -80",
                ".cfi_offset x30, -72",
                "stp x0, x1, [sp, #16]",
                "stp x2, x30, [sp, #32]",
                "add x0, sp, #16",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldr x2, [sp, #32]",
                "blr x16",
                "str x0, [sp, #48]",
                "add x0, sp, #16",
                "bl {after}",
                "ldp x29, x30, [sp], #80",
                ".cfi_restore x29",
                ".cfi_restore x30",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                before = sym $before,
                after = sym $after,
            );
            #[cfg(target_arch = "riscv64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "addi sp, sp, -64",
                ".cfi_def_cfa_offset 64",
                "sd ra, 56(sp)",
                ".cfi_offset ra, -8",
                "sd a0, 0(sp)",
                "sd a1, 8(sp)",
                "sd a2, 16(sp)",
                "sd ra, 24(sp)",
                "mv a0, sp",
                "call {before}",
                "mv t1, a0",
                "ld a0, 0(sp)",
                "ld a1, 8(sp)",
                "ld a2, 16(sp)",
                "jalr t1",
                "sd a0, 32(sp)",
                "mv a0, sp",
                "call {after}",
                "ld ra, 56(sp)",
                ".cfi_restore ra",
                "addi sp, sp, 64",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                before = sym $before,
                after = sym $after,
            );
        }
    };
}
pub(crate) use allocates;

/// Functions that free their first argument by the one that `$before` names.
macro_rules! frees {
    ($before:path: $($name:ident),* $(,)?) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C-unwind" fn $name(_pointer: usize) {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov rsi, [rsp]",
                "push rdi",
                ".cfi_def_cfa_offset 16",
                "call {before}",
                "pop rdi",
                ".cfi_def_cfa_offset 8",
                "jmp rax",
                ".cfi_endproc",
                before = sym $before,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x30, x0, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset x30, -16",
                "mov x1, x30",
                "bl {before}",
                "mov x16, x0",
                "ldp x30, x0, [sp], #16",
                ".cfi_restore x30",
                ".cfi_def_cfa_offset 0",
                "br x16",
                ".cfi_endproc",
                before = sym $before,
            );
            #[cfg(target_arch = "riscv64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "addi sp, sp, -16",
                ".cfi_def_cfa_offset 16",
                "sd ra, 8(sp)",
                ".cfi_offset ra, -8",
                "sd a0, 0(sp)",
                "mv a1, ra",
                "call {before}",
                "mv t1, a0",
                "ld a0, 0(sp)",
                "ld ra, 8(sp)",
                ".cfi_restore ra",
                "addi sp, sp, 16",
                ".cfi_def_cfa_offset 0",
                "jr t1",
                ".cfi_endproc",
                before = sym $before,
            );
        }
    )*};
}
pub(crate) use frees;
