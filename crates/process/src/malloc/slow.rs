//! The slow paths of `malloc`, `free` and the C++ operators, for calls that [`super::entry`] cannot
//! serve.

use super::Malloc;
use crate::control::is_wanted;
use crate::debug::makers::compare;
use crate::errno::set_errno;
use crate::state::{is_closed, ready, reopen};
use crate::{misuse, profile, start};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::calls::growth;
use slabyard::slab::debug::Maker;
use slabyard::yard::AddressKind;

pub(crate) const ENOMEM: c_int = 12;
/// Every allocation is aligned to this.
pub(crate) const ALIGN: usize = 16;

/// Allocates without a fast path; null and ENOMEM without memory.
#[cold]
pub(super) fn allocate_slow<L: Malloc>(bytes: usize, align: usize) -> *mut c_void {
    given(if !start::ensure::<L>() {
        None
    } else if is_wanted() {
        profile::allocate::<L>(bytes, align).or_else(|| L::yard().alloc(bytes, align))
    } else {
        L::yard().alloc(bytes, align)
    })
}

/// `malloc`, where the fast path finds nothing.
#[cold]
pub extern "C" fn malloc_slow<L: Malloc>(bytes: usize) -> *mut c_void {
    given(if !start::ensure::<L>() {
        None
    } else if is_closed() {
        L::yard().alloc_fast(bytes, ALIGN)
    } else if is_wanted() {
        profile::allocate::<L>(bytes, ALIGN).or_else(|| L::yard().alloc_fast(bytes, ALIGN))
    } else {
        reopen::<L>();
        L::yard().alloc(bytes, ALIGN)
    })
}

/// The address as a pointer; null and ENOMEM without one.
pub(crate) fn given(address: Option<usize>) -> *mut c_void {
    if let Some(address) = address {
        return address as *mut c_void;
    }
    set_errno(ENOMEM);
    null_mut()
}

/// The maker of a number ([`number_of`](super::number_of)).
pub(crate) const fn maker_of(number: u8) -> Maker {
    match number {
        0 => Maker::Malloc,
        1 => Maker::New,
        _ => Maker::NewArray,
    }
}

const _: () =
    assert!(Maker::Malloc as u8 == 0 && Maker::New as u8 == 1 && Maker::NewArray as u8 == 2);

/// Reports memory that another function allocated than the one that fits what frees it.
#[inline(always)]
fn compare_maker<L: Malloc, const MAKER: u8>(address: usize) {
    if L::NOTES_MAKERS {
        let function = match maker_of(MAKER) {
            Maker::Malloc => "free",
            Maker::New => "delete",
            Maker::NewArray => "delete[]",
        };
        compare::<L>(function, address, maker_of(MAKER));
    }
}

/// `free`, and the `delete` that fits a maker.
#[cold]
pub extern "C" fn free_slow<L: Malloc, const MAKER: u8>(pointer: *mut c_void) {
    compare_maker::<L, MAKER>(pointer as usize);
    if pointer.is_null() {
        return;
    }
    release::<L>("free", pointer as usize);
}

fn release<L: Malloc>(function: &str, address: usize) {
    if !ready() {
        return misuse::found_at_call::<L>(function, address, AddressKind::Foreign);
    }
    if profile::has_blocks() {
        profile::note_free::<L>(address);
    }
    let freed = if is_closed() { L::yard().free_fast(address) } else { L::yard().free(address) };
    if let Err(place) = freed {
        misuse::found_at_call::<L>(function, address, place);
    }
}

/// The same with a size.
#[cold]
pub extern "C" fn free_sized_slow<L: Malloc, const MAKER: u8>(pointer: *mut c_void, bytes: usize) {
    compare_maker::<L, MAKER>(pointer as usize);
    release_sized::<L>("sized free", pointer, bytes, ALIGN);
}

/// Frees, after a check of whether the size is the object's: the size in the last request. Where
/// `realloc` left objects of the class as they were, or gave them room, the class does not tell.
pub fn release_sized<L: Malloc>(function: &str, pointer: *mut c_void, bytes: usize, align: usize) {
    // A small sample is a run, whatever its size.
    let is_sample = || profile::has_blocks() && profile::is_sample(pointer as usize);
    if !pointer.is_null() && ready() && !is_sample() {
        let address = pointer as usize;
        let class = L::yard().class_for(bytes, align.max(ALIGN));
        match L::yard().place_of(address) {
            AddressKind::Object { class: found, begin: true, bytes: have }
                if (class != Some(found) || L::is_other_size(address, bytes, have))
                    && !(bytes <= have && growth::is_roomy(L::yard(), found)) =>
            {
                misuse::wrong_size::<L>(function, address, bytes, Some(found));
            }
            // A small block is large only where a handler interrupted malloc:
            // then it is a mapping, not a run.
            AddressKind::Large(have)
                if bytes > have
                    || class.is_some() && is_run::<L>(pointer)
                    || L::is_other_large_size(bytes, have) =>
            {
                misuse::wrong_size::<L>(function, address, bytes, None);
            }
            _ => {}
        }
    }
    if !pointer.is_null() {
        release::<L>("free", pointer as usize);
    }
}

fn is_run<L: Malloc>(pointer: *mut c_void) -> bool {
    L::yard().heap.run_bytes(pointer as usize).is_some()
}
