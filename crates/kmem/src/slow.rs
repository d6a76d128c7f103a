//! The slow paths of allocations and frees that [`crate::entry`] cannot serve, and the report of a
//! wrong free.

use crate::caches::checked;
use crate::handles::Handle;
use crate::names::Name;
use crate::state::{ObjectCaches, YARD};
use crate::tools;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::cache::CacheId;
use slabyard::yard::AddressKind;
use slabyard_process::errno::set_errno;
use slabyard_process::misuse;
use slabyard_process::policy;
use slabyard_process::say;
use slabyard_process::state::ready;

pub(crate) const ENOMEM: c_int = 12;

/// The address as a pointer; null and ENOMEM without one.
#[inline]
pub(crate) fn given(address: Option<usize>) -> *mut c_void {
    match address {
        Some(address) => address as *mut c_void,
        None => {
            set_errno(ENOMEM);
            null_mut()
        }
    }
}

#[cold]
pub(crate) extern "C" fn alloc_slow(cache: *const Handle) -> *mut c_void {
    let handle = checked("slabyard_cache_alloc", cache);
    let Some(id) = handle.and_then(Handle::id) else { return null_mut() };
    let object = YARD.alloc_from_slow(id);
    tools::allocated(id, object.unwrap_or(0));
    given(object)
}

#[cold]
pub(crate) extern "C" fn free_slow(cache: *const Handle, object: *mut c_void) {
    let Some(id) = checked("slabyard_cache_free", cache).and_then(Handle::id) else { return };
    free_one("slabyard_cache_free", id, object as usize);
}

/// Frees an object to a cache.
pub(crate) fn free_one(function: &str, id: CacheId, object: usize) {
    if object == 0 {
        return;
    }
    tools::freed(id, object);
    if let Err(place) = YARD.free_to(id, object) {
        refused(function, id, object, place);
    }
}

/// Reports what is no live object of the cache that it was freed to.
#[cold]
pub(crate) fn refused(function: &str, id: CacheId, object: usize, place: AddressKind) {
    match place {
        AddressKind::Object { class, .. } if class != id.number() => {
            let (own, other) = (Name(id.number()), Name(class));
            say!("{function}(\"{own}\", {object:#x}): wrong cache, the object is of \"{other}\"");
            policy::end();
        }
        AddressKind::Large(bytes) => {
            let own = Name(id.number());
            say!(
                "{function}(\"{own}\", {object:#x}): wrong cache, a block of {bytes} bytes of kmalloc"
            );
            policy::end();
        }
        AddressKind::Object { .. } if object.is_multiple_of(8) => {
            let own = Name(id.number());
            say!(
                "{function}(\"{own}\", {object:#x}): interior pointer, not the begin of an object"
            );
            policy::end();
        }
        place => misuse::found_at_call::<ObjectCaches>(function, object, place),
    }
}

/// Frees an object of any cache, or a block.
pub(crate) fn free_any(function: &str, object: usize) {
    if object == 0 {
        return;
    }
    tools::any_freed(object);
    let freed = if ready() { YARD.free_fast(object) } else { Err(AddressKind::Foreign) };
    if let Err(place) = freed {
        misuse::found_at_call::<ObjectCaches>(function, object, place);
    }
}
