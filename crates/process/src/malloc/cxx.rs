//! The C++ operators with an alignment: `new`, which first tries the fast path of a size class with
//! that alignment, and `delete` with a size. [`super::entry`] defines the operators without
//! alignment, and [`super::throw`] handles a `new` that finds no memory.

use super::Malloc;
use super::c::allocate;
use super::slow::{ALIGN, maker_of, release_sized};
use super::throw::{made_by, nothrow_by_runtime, trying};
use crate::debug::makers::compare;
use core::ffi::c_void;
use slabyard::slab::debug::Maker;

/// Memory of `new`, or null.
extern "C" fn attempt<L: Malloc, const MAKER: u8>(bytes: usize, align: usize) -> *mut c_void {
    made_by::<L, MAKER>(allocate::<L>(bytes, align.max(ALIGN)))
}

trying!(
    /// `new` of a maker, with an alignment.
    aligned_or_throw,
    attempt
);

/// The same where `nothrow` is given.
pub fn aligned_nothrow<L: Malloc, const MAKER: u8>(bytes: usize, align: usize) -> *mut c_void {
    let align = align.max(ALIGN);
    let pointer = allocate::<L>(bytes, align);
    let pointer = if pointer.is_null() { nothrow_by_runtime(bytes, align) } else { pointer };
    made_by::<L, MAKER>(pointer)
}

/// The `delete` that fits a maker, with a size and an alignment.
pub fn delete_aligned_sized<L: Malloc, const MAKER: u8>(
    pointer: *mut c_void,
    bytes: usize,
    align: usize,
) {
    if L::NOTES_MAKERS {
        let maker = maker_of(MAKER);
        let function = if maker == Maker::New { "delete" } else { "delete[]" };
        compare::<L>(function, pointer as usize, maker);
    }
    release_sized::<L>("sized free", pointer, bytes, align);
}
