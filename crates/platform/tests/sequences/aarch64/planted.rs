//! Sequences with a bug: the last store lies behind the end of the section, or a load in front
//! of its begin.

use std::arch::naked_asm;

/// A push up to the element of the top.
macro_rules! push_begin {
    () => {
        concat!(
            "
            mov x11, x1
            mov x10, x2
            mov x9, x3
            ",
            slabyard_platform::rseq_announce!(),
            "
            ldr x13, [x12, x9]
            lsr x14, x13, #32
            cmp w13, w14
            b.hs 29f
            add x14, x11, w13, uxtw #3
            add w13, w13, #1
            "
        )
    };
}

/// What a push returns.
macro_rules! push_end {
    () => {
        "
            mov w0, #1
            ret
        29: mov x0, xzr
            ret
        "
    };
}

/// Pops, but the committing store lies outside.
#[unsafe(naked)]
pub unsafe extern "C" fn pop_late(slot: usize, rows: usize, cs_offset: usize) -> usize {
    naked_asm!(
        "mov x9, x0",
        "mov x11, x1",
        "mov x10, x2",
        slabyard_platform::rseq_announce!(),
        "ldrsw x13, [x12, x9]",
        "ldr x14, [x11, x13, lsl #3]",
        "cbz x14, 29f",
        "sub w13, w13, #1",
        "22:",
        "str w13, [x12, x9]",
        slabyard_platform::rseq_descriptor!("planted"),
        "mov x0, x14",
        "ret",
        "29: mov x0, xzr",
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
        "str x0, [x14, #8]",
        "22:",
        "str w13, [x12, x9]",
        slabyard_platform::rseq_descriptor!("planted"),
        push_end!(),
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
        "str w13, [x12, x9]",
        "22:",
        "str x0, [x14, #8]",
        slabyard_platform::rseq_descriptor!("planted"),
        push_end!(),
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
        "mrs x15, tpidr_el0",
        "add x15, x15, x2",
        "ldur w15, [x15, #-6]",
        "add x15, x1, x15",
        "ldr x15, [x15, x3]",
        "lsr x15, x15, #32",
        "add x15, x1, x15, lsl #3",
        "ldp x16, x17, [x15, #8]",
        "eor x16, x16, x0",
        "and x16, x16, x17",
        push_begin!(),
        "cbnz x16, 29f",
        "str x0, [x14, #8]",
        "str w13, [x12, x9]",
        "22:",
        slabyard_platform::rseq_descriptor!("planted"),
        push_end!(),
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
        "mov x9, x0",
        "mov x11, x1",
        "mov x10, x2",
        "mov x0, x3",
        slabyard_platform::rseq_announce!(),
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
        "22:",
        "str w13, [x12, x9]",
        slabyard_platform::rseq_descriptor!("planted"),
        "lsr x0, x15, #3",
        "ret",
        "29: mov x0, xzr",
        "ret",
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
        "mov x11, x1",
        "mov x10, x2",
        "mov x9, x3",
        slabyard_platform::rseq_announce!(),
        "ldr x13, [x12, x9]",
        "lsr x14, x13, #32",
        "subs w14, w14, w13",
        "b.ls 29f",
        "cmp x14, x4",
        "csel x14, x14, x4, lo",
        "add x15, x11, w13, uxtw #3",
        "ldr x16, [x0]",
        "str x16, [x15, #8]",
        "add w13, w13, w14",
        "str w13, [x12, x9]",
        "22:",
        "add x0, x0, x14, lsl #3",
        "ldur x16, [x0, #-8]",
        "str x16, [x15, x14, lsl #3]",
        slabyard_platform::rseq_descriptor!("planted"),
        "mov x0, x14",
        "ret",
        "29: mov x0, xzr",
        "ret",
    )
}
