//! The calls after which the system counts address space that is reserved and not used:
//! `mlockall` and limits of address space. The library gives the reserve up before the call, so
//! that the call has the result that it would have without us.
//!
//! `mlockall` counts all that is mapped against `RLIMIT_MEMLOCK`, which is 8 MiB mostly. A
//! limit of address space that a program sets itself counts it too; the library sees one that
//! was set before the program at the start. A program that makes the system call itself, without
//! the C function, is refused.

use crate::state;
use crate::state::YARD;
use core::ffi::c_int;
use core::ptr::null_mut;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const MLOCKALL: isize = 151;
    pub(super) const PRLIMIT64: isize = 302;
}
#[cfg(not(target_arch = "x86_64"))]
mod number {
    pub(super) const MLOCKALL: isize = 230;
    pub(super) const PRLIMIT64: isize = 261;
}

/// Soft and hard limit, `struct rlimit` where addresses have 64 bits.
type Limits = [u64; 2];

unsafe extern "C" {
    /// Sets `errno`.
    fn syscall(number: isize, ...) -> isize;
}

fn unreserve() {
    if state::ready() {
        YARD.unreserve();
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlockall(flags: c_int) -> c_int {
    unreserve();
    // SAFETY: no memory is passed.
    unsafe { syscall(number::MLOCKALL, flags as isize) as c_int }
}

fn set_limits(pid: c_int, resource: c_int, new: *const Limits, old: *mut Limits) -> c_int {
    const RLIMIT_AS: c_int = 9;
    // Not only for this process's own number: giving the reserve up needlessly does no harm.
    if resource == RLIMIT_AS && !new.is_null() {
        unreserve();
    }
    let (pid, resource) = (pid as isize, resource as isize);
    // SAFETY: the caller's promise to `prlimit`: both are null or of its own.
    unsafe { syscall(number::PRLIMIT64, pid, resource, new, old) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn setrlimit(resource: c_int, new: *const Limits) -> c_int {
    set_limits(0, resource, new, null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn setrlimit64(resource: c_int, new: *const Limits) -> c_int {
    set_limits(0, resource, new, null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn prlimit(pid: c_int, resource: c_int, new: *const Limits, old: *mut Limits) -> c_int {
    set_limits(pid, resource, new, old)
}

#[unsafe(no_mangle)]
extern "C" fn prlimit64(
    pid: c_int,
    resource: c_int,
    new: *const Limits,
    old: *mut Limits,
) -> c_int {
    set_limits(pid, resource, new, old)
}
