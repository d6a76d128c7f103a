//! The calls of the sequences: what each architecture's assembly text returns, as values of Rust; and
//! the areas that they run with, this thread's block and that of the C library.
//!
//! Neighbour: `arch` is the folder of the architecture, whose functions have the same names and
//! arguments in each.

use super::{Thread, arch};
use crate::stack::{STOPPED, Stack, Stopped};
use core::arch::global_asm;

/// Pops from this CPU's stack.
///
/// # Safety
/// `rows` is the base of valid rows, `cs_offset` that of a registered area or of
/// a thread block with a private slot.
#[inline]
pub unsafe fn pop(rows: usize, slot: usize, cs_offset: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    match unsafe { arch::pop_raw(slot, rows, cs_offset) } {
        0 => None,
        object => Some(object),
    }
}

/// Pushes to this CPU's stack.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn push(rows: usize, slot: usize, cs_offset: usize, object: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { arch::push_raw(object, rows, cs_offset, slot) != 0 }
}

/// Pushes to this CPU's stack if the object has the stack's tag.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn push_if(rows: usize, slot: usize, cs_offset: usize, object: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { arch::push_if_raw(object, rows, cs_offset, slot) != 0 }
}

/// Exchanges this CPU's stack, whose row is in use from then on.
///
/// # Errors
/// [`Stopped`] if it is stopped or this thread has no row.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn exchange(
    rows: usize,
    slot: usize,
    cs_offset: usize,
    new: Stack,
) -> Result<Stack, Stopped> {
    // SAFETY: the caller's promise.
    let old = unsafe { arch::exchange_raw(new.to_word(), rows, slot, cs_offset) };
    let old = Stack::of_word(old);
    if old.top == STOPPED { Err(Stopped) } else { Ok(old) }
}

/// Pops several objects from this CPU's stack, the top first; returns how many.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn pop_many(rows: usize, slot: usize, cs_offset: usize, out: &mut [usize]) -> usize {
    if out.is_empty() {
        return 0;
    }
    // SAFETY: the caller's promise; the sequence writes to the first words of `out`.
    unsafe { arch::pop_many_raw(slot, rows, cs_offset, out.as_mut_ptr(), out.len()) }
}

/// Pushes several objects to this CPU's stack, the last one on top; returns how many of the first
/// found room.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn push_many(rows: usize, slot: usize, cs_offset: usize, objects: &[usize]) -> usize {
    if objects.is_empty() {
        return 0;
    }
    // SAFETY: the caller's promise; the sequence reads words of `objects`.
    unsafe { arch::push_many_raw(objects.as_ptr(), rows, cs_offset, slot, objects.len()) }
}

/// As [`push_many()`]; a stack that takes the objects of one slab alone takes none.
///
/// # Safety
/// As [`pop`].
#[inline]
pub unsafe fn push_many_if(rows: usize, slot: usize, cs_offset: usize, objects: &[usize]) -> usize {
    if objects.is_empty() {
        return 0;
    }
    // SAFETY: as in `push_many`.
    unsafe { arch::push_many_if_raw(objects.as_ptr(), rows, cs_offset, slot, objects.len()) }
}

/// First byte of a sequence's function, for tests that plant breakpoints.
#[must_use]
pub fn code() -> [(&'static str, usize); 7] {
    [
        ("pop", arch::pop_raw as *const () as usize),
        ("push", arch::push_raw as *const () as usize),
        ("push-if", arch::push_if_raw as *const () as usize),
        ("exchange", arch::exchange_once as *const () as usize),
        ("pop-many", arch::pop_many_raw as *const () as usize),
        ("push-many", arch::push_many_raw as *const () as usize),
        ("push-many-if", arch::push_many_if_raw as *const () as usize),
    ]
}

// The thread block: initial-exec TLS, CPU number -1 until it is registered.
global_asm!(
    ".pushsection .tdata.slabyard, \"awT\", @progbits",
    ".balign {align}",
    ".globl slabyard_thread",
    ".hidden slabyard_thread",
    ".type slabyard_thread, @object",
    ".size slabyard_thread, {size}",
    "slabyard_thread:",
    ".long 0, -1",
    ".zero {size} - 8",
    ".popsection",
    align = const arch::THREAD_ALIGN,
    size = const size_of::<Thread>(),
);

/// This thread's block.
#[inline]
#[must_use]
pub fn thread() -> &'static Thread {
    let block = arch::thread_pointer().wrapping_add(arch::thread_offset());
    // SAFETY: the block lives as long as the thread that asks for it.
    unsafe { &*(block as *const Thread) }
}

/// Offset from the thread pointer of the area that the C library registered, if
/// it knows of restartable sequences at all.
#[must_use]
pub fn library_area() -> Option<usize> {
    let offset = crate::weak_address!("__rseq_offset");
    let size = crate::weak_address!("__rseq_size");
    // SAFETY: both symbols are weak: their addresses are 0 where the C library
    // (before glibc 2.35, musl) does not have them.
    unsafe {
        if offset == 0 || size == 0 || *(size as *const u32) == 0 {
            return None;
        }
        Some(*(offset as *const isize) as usize)
    }
}

/// True if the C library knows of restartable sequences, whether it registers threads or not.
#[must_use]
pub fn library_knows() -> bool {
    crate::weak_address!("__rseq_offset", "__rseq_size") != 0
}
