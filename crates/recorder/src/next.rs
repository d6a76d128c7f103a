//! Finds the next malloc's functions, each at its first call.
//!
//! The dynamic loader may allocate during the lookup: these blocks come from a small buffer of our
//! own, and are never freed.

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::system;
use core::ffi::{CStr, c_void};

/// A function of the next library.
pub struct NextFunction {
    name: &'static CStr,
    function: AtomicPtr<c_void>,
}

/// The thread that looks, if one does.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

impl NextFunction {
    pub const fn new(name: &'static CStr) -> NextFunction {
        NextFunction { name, function: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; null while another function is looked for, or if there is none.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        // Relaxed: the library with the function is there since the program began, and a thread that
        // does not find the address looks for it.
        let function = self.function.load(Ordering::Relaxed);
        if function.is_null() { self.find() } else { function }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let own = system::block();
        // Relaxed: a thread finds what it stored itself.
        if LOOKING.load(Ordering::Relaxed) == own {
            return core::ptr::null_mut();
        }
        // Another thread that looks as well is not in the way.
        let first = LOOKING.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let function = system::next(self.name);
        self.function.store(function, Ordering::Relaxed);
        if first {
            LOOKING.store(0, Ordering::Relaxed);
        }
        function
    }
}

const ROOM: usize = 64 << 10;

#[repr(C, align(16))]
struct EarlyMemory(core::cell::UnsafeCell<[u8; ROOM]>);

// SAFETY: each byte is handed out once, by an atomic count.
unsafe impl Sync for EarlyMemory {}

static EARLY: EarlyMemory = EarlyMemory(core::cell::UnsafeCell::new([0; ROOM]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory for the loader.
#[cold]
pub fn early(bytes: usize) -> *mut c_void {
    let bytes = bytes.max(1).next_multiple_of(16);
    let at = TAKEN.fetch_add(bytes, Ordering::Relaxed);
    if at + bytes > ROOM {
        system::abort();
    }
    // SAFETY: within the room, as was just compared.
    unsafe { EARLY.0.get().cast::<u8>().add(at).cast() }
}

/// True for what [`early`] gave.
#[inline]
pub fn is_early(pointer: *mut c_void) -> bool {
    (pointer as usize).wrapping_sub(EARLY.0.get() as usize) < ROOM
}

/// Bytes from what [`early`] gave to the end of its room.
pub fn early_left(pointer: *mut c_void) -> usize {
    ROOM - (pointer as usize).wrapping_sub(EARLY.0.get() as usize).min(ROOM)
}
