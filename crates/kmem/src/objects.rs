//! The calls on a cache's objects other than those of [`crate::entry`] and [`crate::bulk`]: zeroed
//! allocation, a walk over the live objects.

use crate::caches::{checked, refuse};
use crate::entry::slabyard_cache_alloc;
use crate::handles::Handle;
use crate::slow::given;
use crate::state::YARD;
use crate::tools;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::live;
use slabyard::sync::Ordering;
use slabyard_process::errno::set_errno;
use slabyard_process::policy;

const EAGAIN: c_int = 11;
const EINVAL: c_int = 22;

/// Allocates an object and clears it.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_zalloc(cache: *const Handle) -> *mut c_void {
    let Some(handle) = checked("slabyard_cache_zalloc", cache) else { return null_mut() };
    if handle.constructor.load(Ordering::Relaxed) != 0 {
        let name = handle.name();
        refuse!(
            EINVAL,
            "slabyard_cache_zalloc(\"{name}\"): a cache with a constructor keeps its objects' state, which zeros would end"
        );
        policy::end();
        return null_mut();
    }
    let object = slabyard_cache_alloc(cache);
    if !object.is_null() {
        let bytes = handle.object.load(Ordering::Relaxed) as usize;
        // SAFETY: the object just allocated.
        unsafe { object.cast::<u8>().write_bytes(0, bytes) };
    }
    object
}

/// Allocates an object, of a memory node where the yard has several; the platform of this library
/// has one.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_alloc_node(cache: *const Handle, node: c_int) -> *mut c_void {
    match usize::try_from(node) {
        Ok(node) if slabyard_process::state::ready() && YARD.heap.region.nodes() > 1 => {
            let handle = checked("slabyard_cache_alloc_node", cache);
            let Some(id) = handle.and_then(Handle::id) else { return null_mut() };
            let object = YARD.alloc_from_node(id, node);
            tools::allocated(id, object.unwrap_or(0));
            given(object)
        }
        _ => slabyard_cache_alloc(cache),
    }
}

/// Calls a function with each live object.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_for_each_live(
    cache: *const Handle,
    each: extern "C" fn(*mut c_void, *mut c_void),
    with: *mut c_void,
) -> c_int {
    let handle = checked("slabyard_cache_for_each_live", cache);
    let Some(id) = handle.and_then(Handle::id) else { return -1 };
    match live::each_live(&YARD, id, |object| each(object as *mut c_void, with)) {
        Some(slabyard::live::Walked::Exact) => 0,
        Some(slabyard::live::Walked::WithFree) => 1,
        None => {
            set_errno(EAGAIN);
            -1
        }
    }
}
