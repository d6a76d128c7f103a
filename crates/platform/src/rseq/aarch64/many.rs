//! Restartable sequences that pop or push several objects at once.
//!
//! Registers and labels are as in [the others](super).

use core::arch::naked_asm;

// Takes objects from the top down, until one element holds 0 (the guard's, and those of a stack
// that is stopped or absent) or there are enough; the element below the last one is committed.
#[unsafe(naked)]
pub unsafe extern "C" fn pop_many_raw(
    slot: usize,
    rows: usize,
    cs_offset: usize,
    out: *mut usize,
    most: usize,
) -> usize {
    naked_asm!(
        "mov x9, x0",
        "mov x11, x1",
        "mov x10, x2",
        "mov x0, x3",
        rseq_announce!(),
        "ldrsw x13, [x12, x9]",
        "add x14, x11, x13, lsl #3",
        "26: ldr x15, [x14], #-8",
        "cbz x15, 27f",
        "str x15, [x0], #8",
        "subs x4, x4, #1",
        "b.ne 26b",
        "27: subs x15, x0, x3",
        "b.eq 29f",
        "sub w13, w13, w15, lsr #3",
        "str w13, [x12, x9]",
        "22:",
        rseq_descriptor!("pop_many"),
        "lsr x0, x15, #3",
        "ret",
        "29: mov x0, xzr",
        "ret",
    )
}

/// The text of a sequence that pushes as many of `x4` objects from `x0` on as there is room for:
/// no room, or the first object is on top already: slow. It stores them above the top, an odd one
/// first and then two by two, and commits the last one's element. `tag` is what it asks of the
/// entry whose end is `x14`.
macro_rules! push_many {
    ($kind:literal, $tag:literal) => {
        naked_asm!(
            "mov x11, x1",
            "mov x10, x2",
            "mov x9, x3",
            rseq_announce!(),
            "ldr x13, [x12, x9]",
            "lsr x14, x13, #32",
            $tag,
            "subs w14, w14, w13",
            "b.ls 29f",
            "add x15, x11, w13, uxtw #3",
            "ldr x16, [x15], #8",
            "ldr x17, [x0]",
            "cmp x16, x17",
            "b.eq 29f",
            "cmp x14, x4",
            "csel x14, x14, x4, lo",
            "add x4, x0, x14, lsl #3",
            "tbz w14, #0, 26f",
            "ldr x16, [x0], #8",
            "str x16, [x15], #8",
            "cmp x0, x4",
            "b.eq 27f",
            "26: ldp x16, x17, [x0], #16",
            "stp x16, x17, [x15], #16",
            "cmp x0, x4",
            "b.lo 26b",
            "27: add w13, w13, w14",
            "str w13, [x12, x9]",
            "22:",
            rseq_descriptor!($kind),
            "mov x0, x14",
            "ret",
            "29: mov x0, xzr",
            "ret",
        )
    };
}

#[unsafe(naked)]
pub unsafe extern "C" fn push_many_raw(
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
pub unsafe extern "C" fn push_many_if_raw(
    objects: *const usize,
    rows: usize,
    cs_offset: usize,
    slot: usize,
    nr: usize,
) -> usize {
    push_many!("push_many_if", "add x15, x11, x14, lsl #3\nldr x15, [x15, #16]\ncbnz x15, 29f")
}
