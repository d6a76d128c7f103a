//! The C functions for prefilled sheaves; a `struct slabyard_sheaf` block holds one such sheaf.

use crate::caches::checked;
use crate::handles::Handle;
use crate::kmalloc::{allocate, release};
use crate::slow::ENOMEM;
use crate::state::YARD;
use crate::tools;
use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use slabyard::calls::prefill::Prefilled;
use slabyard::live;
use slabyard_process::errno::set_errno;
use slabyard_process::policy;
use slabyard_process::say;

/// Makes a sheaf with objects of a cache.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_sheaf_prefill(cache: *const Handle, objects: usize) -> *mut Prefilled {
    let handle = checked("slabyard_sheaf_prefill", cache);
    let Some(id) = handle.and_then(Handle::id) else { return null_mut() };
    let block = allocate(size_of::<Prefilled>(), align_of::<Prefilled>()).cast::<Prefilled>();
    if block.is_null() {
        return null_mut();
    }
    if let Some(mut sheaf) = YARD.prefill(id, 0) {
        if fill(&mut sheaf, objects) {
            // SAFETY: the block just allocated.
            unsafe { block.write(sheaf) };
            return block;
        }
        empty(sheaf);
    }
    release("slabyard_sheaf_prefill", block.cast());
    set_errno(ENOMEM);
    null_mut()
}

/// Fills a sheaf, whose addresses are in a block of ours: of those, tools know.
fn fill(sheaf: &mut Prefilled, objects: usize) -> bool {
    if objects > sheaf.room() {
        let Some(bytes) = objects.checked_mul(size_of::<u64>()) else { return false };
        let block = allocate(bytes, align_of::<u64>());
        if block.is_null() {
            return false;
        }
        let before = YARD.move_prefilled(sheaf, block.expose_provenance(), objects);
        release("slabyard_sheaf_refill", with_exposed_provenance_mut(before));
    }
    YARD.refill(sheaf, objects)
}

/// Frees what a sheaf has, and its block.
fn empty(mut sheaf: Prefilled) {
    let block = YARD.empty_prefilled(&mut sheaf);
    release("slabyard_sheaf_return", with_exposed_provenance_mut(block));
}

/// The sheaf that C passed; `None` and a report without one.
///
/// # Safety
/// The pointer is null or that of a sheaf which is not returned yet, and no other thread uses it.
unsafe fn given<'a>(function: &str, sheaf: *mut Prefilled) -> Option<&'a mut Prefilled> {
    // SAFETY: the caller's promise.
    let sheaf = unsafe { sheaf.as_mut() };
    if sheaf.is_none() {
        say!("{function}(NULL): a sheaf is missing");
        policy::end();
    }
    sheaf
}

/// Allocates from a sheaf.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_sheaf_alloc(sheaf: *mut Prefilled) -> *mut c_void {
    // SAFETY: the caller's promise.
    let sheaf = unsafe { given("slabyard_sheaf_alloc", sheaf) };
    let Some(object) = sheaf.and_then(|it| YARD.alloc_prefilled(it)) else { return null_mut() };
    if tools::is_on()
        && let Some(id) = live::cache_of(&YARD, object)
    {
        tools::allocated(id, object);
    }
    object as *mut c_void
}

/// Fills a sheaf again.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_sheaf_refill(sheaf: *mut Prefilled, objects: usize) -> c_int {
    // SAFETY: the caller's promise.
    let Some(sheaf) = (unsafe { given("slabyard_sheaf_refill", sheaf) }) else { return -1 };
    if fill(sheaf, objects) {
        return 0;
    }
    set_errno(ENOMEM);
    -1
}

/// Objects in a sheaf.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_sheaf_size(sheaf: *mut Prefilled) -> usize {
    // SAFETY: the caller's promise.
    unsafe { given("slabyard_sheaf_size", sheaf) }.map_or(0, |sheaf| sheaf.len())
}

/// Takes a sheaf back.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_sheaf_return(sheaf: *mut Prefilled) {
    if sheaf.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the block is not used as a sheaf any more.
    let prefilled = unsafe { sheaf.read() };
    empty(prefilled);
    release("slabyard_sheaf_return", sheaf.cast());
}
