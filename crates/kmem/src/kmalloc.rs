//! The kmalloc family: requests of any size, served from the yard's size classes, page runs and
//! mappings.
//!
//! As in the kernel, a request of 0 bytes gets a pointer that refers to no block ([`ZERO_SIZE`]),
//! which all functions accept. `kvmalloc` is the same as `kmalloc` here, because user space has no
//! separate vmalloc area.

use crate::slow::{free_any, given};
use crate::state::{ObjectCaches, YARD, ensure};
use crate::tools;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use slabyard::cache::classes::{LARGEST, ROWS};
use slabyard::calls::resize;
use slabyard::platform::Memory;
use slabyard_abi::engines::EngineName;
use slabyard_process::misuse;
use slabyard_process::state::ready;

const ALIGN: usize = 16;
/// `SLABYARD_ZERO_SIZE_PTR`.
const ZERO_SIZE: usize = 16;
const MOST: usize = isize::MAX as usize;

/// A block; null and ENOMEM without memory.
pub(crate) fn allocate(bytes: usize, align: usize) -> *mut c_void {
    let block = if ensure() { YARD.alloc_fast(bytes, align.max(ALIGN)) } else { None };
    tools::block_allocated(block.unwrap_or(0));
    given(block)
}

/// True for what is no block, and each function takes.
pub(crate) fn is_none(block: *const c_void) -> bool {
    matches!(block as usize, 0 | ZERO_SIZE)
}

pub(crate) fn release(function: &str, block: *const c_void) {
    if !is_none(block) {
        free_any(function, block as usize);
    }
}

fn zeroed(bytes: usize) -> *mut c_void {
    let block = slabyard_kmalloc(bytes);
    if !block.is_null() && bytes > 0 {
        clear(block, bytes);
        tools::block_cleared(block as usize, bytes);
    }
    block
}

fn clear(block: *mut c_void, bytes: usize) {
    if bytes <= LARGEST {
        // SAFETY: the block just allocated.
        return unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    resize::each_dirty_part(&YARD.heap, block as usize, bytes, |offset, n| {
        // SAFETY: inside of the block just allocated.
        unsafe { block.cast::<u8>().add(offset).write_bytes(0, n) };
    });
}

/// Allocates a block.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kmalloc(bytes: usize) -> *mut c_void {
    match bytes {
        0 => ZERO_SIZE as *mut c_void,
        bytes if bytes > MOST => given(None),
        bytes => allocate(bytes, ALIGN),
    }
}

/// Allocates a block of zeros.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kzalloc(bytes: usize) -> *mut c_void {
    zeroed(bytes)
}

/// Allocates an array.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kmalloc_array(n: usize, each: usize) -> *mut c_void {
    n.checked_mul(each).map_or_else(|| given(None), |bytes| slabyard_kmalloc(bytes))
}

/// Allocates an array of zeros.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kcalloc(n: usize, each: usize) -> *mut c_void {
    n.checked_mul(each).map_or_else(|| given(None), zeroed)
}

/// Allocates a block of whole pages, or of a size beyond the classes.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kvmalloc(bytes: usize) -> *mut c_void {
    slabyard_kmalloc(bytes)
}

/// Frees a block.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kfree(block: *const c_void) {
    release("slabyard_kfree", block);
}

/// Frees a block.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kvfree(block: *const c_void) {
    release("slabyard_kvfree", block);
}

/// Overwrites a block and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kfree_sensitive(block: *mut c_void) {
    const NAME: &str = "slabyard_kfree_sensitive";
    if let Some(bytes) = usable(NAME, block) {
        let block = block.cast::<u8>();
        for offset in 0..bytes {
            // SAFETY: inside of a live block of the caller's. Volatile: the compiler must not leave
            // it out although the block is freed next.
            unsafe { block.add(offset).write_volatile(0) };
        }
        release(NAME, block.cast());
    }
}

/// Usable bytes of a block; `None` for what is none, which was reported if it should be one.
fn usable(function: &str, block: *const c_void) -> Option<usize> {
    match block as usize {
        _ if is_none(block) => None,
        address if ready() => misuse::usable_or_misuse::<ObjectCaches>(function, address),
        address => {
            misuse::found_at_call::<ObjectCaches>(
                function,
                address,
                slabyard::yard::AddressKind::Foreign,
            );
            None
        }
    }
}

/// Bytes that a block has room for.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_ksize(block: *const c_void) -> usize {
    usable("slabyard_ksize", block).unwrap_or(0)
}

/// Bytes that a block of this size would have room for.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kmalloc_size_roundup(bytes: usize) -> usize {
    if bytes == 0 || bytes > MOST || !ensure() {
        return bytes;
    }
    if YARD.engine() == EngineName::Slob {
        // It serves each request by its size.
        return bytes.next_multiple_of(ALIGN);
    }
    match YARD.class_for(bytes, ALIGN) {
        Some(class) if bytes <= ROWS[class].0 as usize => ROWS[class].0 as usize,
        _ => bytes.checked_next_multiple_of(YARD.platform().page_bytes()).unwrap_or(bytes),
    }
}

/// Makes a block larger or smaller.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_krealloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    const NAME: &str = "slabyard_krealloc";
    if bytes == 0 {
        release(NAME, block);
        return ZERO_SIZE as *mut c_void;
    }
    if is_none(block) {
        return slabyard_kmalloc(bytes);
    }
    let Some(have) = usable(NAME, block) else { return null_mut() };
    if bytes > MOST {
        return given(None);
    }
    if let Some(address) = YARD.resize(block as usize, bytes) {
        tools::block_resized(address);
        return address as *mut c_void;
    }
    let new = if bytes > have {
        let block = resize::alloc_growing(&YARD, bytes);
        tools::block_allocated(block.unwrap_or(0));
        given(block)
    } else {
        slabyard_kmalloc(bytes)
    };
    if !new.is_null() {
        // SAFETY: both are live blocks of at least so many bytes.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast(), have.min(bytes)) };
        release(NAME, block);
    }
    new
}

/// Makes an array larger or smaller.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_krealloc_array(
    block: *mut c_void,
    n: usize,
    each: usize,
) -> *mut c_void {
    match n.checked_mul(each) {
        Some(bytes) => slabyard_krealloc(block, bytes),
        None => given(None),
    }
}

/// A copy of some bytes.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_kmemdup(from: *const c_void, bytes: usize) -> *mut c_void {
    let block = slabyard_kmalloc(bytes);
    if !block.is_null() && bytes > 0 {
        // SAFETY: the caller's promise, and the block just allocated.
        unsafe { block.cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes) };
    }
    block
}

/// A copy of a string.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_kstrdup(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.count_bytes() + 1;
    // SAFETY: the string has so many, with its end.
    unsafe { slabyard_kmemdup(text.cast(), bytes).cast() }
}

/// A copy of the first bytes of a string.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_kstrndup(text: *const c_char, most: usize) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's promise: so many bytes are there, or a 0 before.
    let bytes = (0..most).take_while(|i| unsafe { *text.add(*i) } != 0).count();
    let block = slabyard_kmalloc(bytes + 1).cast::<c_char>();
    if !block.is_null() {
        // SAFETY: as above, and the block just allocated.
        unsafe {
            block.copy_from_nonoverlapping(text, bytes);
            *block.add(bytes) = 0;
        }
    }
    block
}

/// Returns all memory that can be returned; 1 if some went to the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_trim() -> core::ffi::c_int {
    core::ffi::c_int::from(ready() && YARD.trim())
}
