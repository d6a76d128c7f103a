//! Mempools: each keeps a reserve of elements for when the allocator has no memory. An element is
//! requested from the allocator first, then taken from the reserve; if both fail, the caller waits
//! until another thread frees an element.
//!
//! ```text
//! pool: one block     | lock | functions | min_nr | nr | waiters | elements[min_nr] |
//! ```
//! Invariant: the pool owns the `elements` below `nr`; `nr` changes only under the lock.

use crate::caches::refuse;
use crate::kmalloc::{allocate, release, slabyard_kmalloc};
use crate::mutex::Mutex;
use crate::state::YARD;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::platform::Park;
use slabyard::sync::{AtomicU32, Ordering};
use slabyard_process::policy;
use slabyard_process::say;

const EINVAL: c_int = 22;

type Alloc = extern "C" fn(*mut c_void) -> *mut c_void;
type Free = extern "C" fn(*mut c_void, *mut c_void);

/// `struct slabyard_mempool`; its elements' addresses are behind it.
#[repr(C)]
pub struct Pool {
    lock: Mutex,
    /// Rises with each element that comes into the reserve: who waits sleeps on it.
    came: AtomicU32,
    waiters: AtomicU32,
    min_nr: u32,
    nr: u32,
    alloc: Alloc,
    free: Free,
    with: *mut c_void,
}

impl Pool {
    /// The place of an element's address.
    unsafe fn element(pool: *mut Pool, nth: u32) -> *mut *mut c_void {
        // SAFETY: the caller's promise: the block has `min_nr` of them behind the pool.
        unsafe { pool.add(1).cast::<*mut c_void>().add(nth as usize) }
    }

    /// Takes an element out of the reserve.
    unsafe fn take(pool: *mut Pool) -> Option<*mut c_void> {
        // SAFETY: a live pool, by the caller's promise; the lock is held.
        unsafe {
            let _held = (*pool).lock.lock();
            (*pool).nr = (*pool).nr.checked_sub(1)?;
            Some(*Self::element(pool, (*pool).nr))
        }
    }

    /// Puts an element into the reserve, if that lacks one.
    unsafe fn put(pool: *mut Pool, element: *mut c_void) -> bool {
        // SAFETY: as in `take`.
        unsafe {
            let _held = (*pool).lock.lock();
            let nr = (*pool).nr;
            if nr == (*pool).min_nr {
                return false;
            }
            *Self::element(pool, nr) = element;
            (*pool).nr = nr + 1;
            // SeqCst: either who waits sees it, or we see that somebody waits.
            (*pool).came.fetch_add(1, Ordering::SeqCst);
            if (*pool).waiters.load(Ordering::SeqCst) > 0 {
                YARD.platform().wake(&(*pool).came);
            }
            true
        }
    }
}

/// Makes a pool and fills its reserve.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_mempool_create(
    min_nr: c_int,
    alloc: Option<Alloc>,
    free: Option<Free>,
    with: *mut c_void,
) -> *mut Pool {
    let (Some(alloc), Some(free), 1..) = (alloc, free, min_nr) else {
        refuse!(
            EINVAL,
            "slabyard_mempool_create({min_nr}): a pool has one element or more, and both functions"
        );
        return null_mut();
    };
    let min_nr = min_nr.cast_unsigned();
    let bytes = size_of::<Pool>() + min_nr as usize * size_of::<*mut c_void>();
    let pool = allocate(bytes, align_of::<Pool>()).cast::<Pool>();
    if pool.is_null() {
        return null_mut();
    }
    let (came, waiters) = (AtomicU32::new(0), AtomicU32::new(0));
    let new = Pool { lock: Mutex::new(), came, waiters, min_nr, nr: 0, alloc, free, with };
    // SAFETY: the block just allocated has room for it and its elements.
    unsafe { pool.write(new) };
    for _ in 0..min_nr {
        let element = alloc(with);
        if element.is_null() {
            // SAFETY: the pool just made, which nobody else knows.
            unsafe { slabyard_mempool_destroy(pool) };
            return null_mut();
        }
        // SAFETY: as above.
        unsafe { Pool::put(pool, element) };
    }
    pool
}

/// Frees the reserve and the pool.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_mempool_destroy(pool: *mut Pool) {
    if pool.is_null() {
        return;
    }
    // SAFETY: the caller's promise: nobody else uses it.
    unsafe {
        while let Some(element) = Pool::take(pool) {
            ((*pool).free)(element, (*pool).with);
        }
    }
    release("slabyard_mempool_destroy", pool.cast());
}

fn is_given(function: &str, pool: *mut Pool) -> bool {
    if pool.is_null() {
        say!("{function}(NULL): a pool is missing");
        policy::end();
    }
    !pool.is_null()
}

/// Allocates an element, from the reserve where the allocator has none; null if both are empty.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_mempool_try_alloc(pool: *mut Pool) -> *mut c_void {
    if !is_given("slabyard_mempool_try_alloc", pool) {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe {
        let element = ((*pool).alloc)((*pool).with);
        if element.is_null() { Pool::take(pool).unwrap_or(null_mut()) } else { element }
    }
}

/// Allocates an element: never null.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_mempool_alloc(pool: *mut Pool) -> *mut c_void {
    // The allocator may have memory again although nobody frees an element here.
    const LONGEST_MS: u64 = 100;
    if !is_given("slabyard_mempool_alloc", pool) {
        return null_mut();
    }
    loop {
        // SAFETY: the caller's promise.
        unsafe {
            (*pool).waiters.fetch_add(1, Ordering::SeqCst);
            let came = (*pool).came.load(Ordering::SeqCst);
            let element = slabyard_mempool_try_alloc(pool);
            if element.is_null() {
                YARD.platform().wait_at_most(&(*pool).came, came, LONGEST_MS);
            }
            (*pool).waiters.fetch_sub(1, Ordering::SeqCst);
            if !element.is_null() {
                return element;
            }
        }
    }
}

/// Frees an element: the reserve gets it first.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_mempool_free(element: *mut c_void, pool: *mut Pool) {
    if element.is_null() || !is_given("slabyard_mempool_free", pool) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !Pool::put(pool, element) {
            ((*pool).free)(element, (*pool).with);
        }
    }
}

/// Elements in the reserve.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_mempool_reserve(pool: *mut Pool) -> c_int {
    if !is_given("slabyard_mempool_reserve", pool) {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let _held = (*pool).lock.lock();
        (*pool).nr.cast_signed()
    }
}

/// Allocates an element of a pool whose data is a cache.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_mempool_alloc_slab(cache: *mut c_void) -> *mut c_void {
    crate::entry::slabyard_cache_alloc(cache.cast())
}

/// Frees an element of a pool whose data is a cache.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_mempool_free_slab(element: *mut c_void, cache: *mut c_void) {
    crate::entry::slabyard_cache_free(cache.cast(), element);
}

/// Allocates an element of a pool whose data is a number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_mempool_kmalloc(bytes: *mut c_void) -> *mut c_void {
    slabyard_kmalloc(bytes as usize)
}

/// Frees an element of a pool whose data is a number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_mempool_kfree(element: *mut c_void, _bytes: *mut c_void) {
    release("slabyard_mempool_kfree", element);
}
