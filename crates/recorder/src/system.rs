//! The C library calls and processor instructions that this crate uses.

use core::ffi::{c_char, c_int, c_long, c_void};

pub const O_RDWR: c_int = 2;
pub const O_CLOEXEC: c_int = 0o2_000_000;
pub const PROT_READ_WRITE: c_int = 3;
pub const MAP_SHARED: c_int = 1;
#[cfg(target_arch = "x86_64")]
const NANOSLEEP: c_long = 35;
#[cfg(not(target_arch = "x86_64"))]
const NANOSLEEP: c_long = 101;
const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn sched_getcpu() -> c_int;
    pub fn getpid() -> c_int;
    pub fn getenv(name: *const c_char) -> *const c_char;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn close(file: c_int) -> c_int;
    pub fn mmap(
        address: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: c_long,
    ) -> *mut c_void;
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn pthread_self() -> usize;
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
    #[link_name = "abort"]
    fn c_abort() -> !;
}

pub fn abort() -> ! {
    // SAFETY: takes nothing.
    unsafe { c_abort() }
}

/// The function of that name in a library behind this one.
pub fn next(name: &core::ffi::CStr) -> *mut c_void {
    // SAFETY: the name ends with a null byte.
    unsafe { dlsym(RTLD_NEXT, name.as_ptr()) }
}

/// Sleeps half a millisecond; `errno` stays. Not by the C library's `nanosleep`, in which a thread that is
/// cancelled ends: no call of malloc is such a place.
#[cold]
pub fn nap() {
    let time = [0, 500_000];
    // SAFETY: the time lives as long as the call, and `errno` is this thread's.
    unsafe {
        let errno = __errno_location();
        let kept = *errno;
        let left = core::ptr::null_mut::<[c_long; 2]>();
        syscall(NANOSLEEP, &raw const time, left);
        *errno = kept;
    }
}

/// The CPU; 0 where the kernel does not say.
#[inline]
pub fn cpu() -> u16 {
    // SAFETY: takes nothing.
    u16::try_from(unsafe { sched_getcpu() }).unwrap_or(0)
}

/// Where the thread's control block is.
#[inline]
pub fn block() -> usize {
    // SAFETY: takes nothing.
    unsafe { pthread_self() }
}

/// A number of the thread, of 21 bits: from where its control block is.
#[inline]
pub fn thread() -> u32 {
    let block = block();
    (block >> 12 ^ block >> 34) as u32 & 0x1f_ffff
}
