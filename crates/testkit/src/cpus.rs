//! Which CPU a thread runs on, for tests on the system that runs.

use std::io;

/// Binds this thread, and those that it will start, to a CPU: it is there when the call returns.
///
/// # Errors
/// This process may not run there.
pub fn bind_to(cpu: usize) -> io::Result<()> {
    // SAFETY: a zeroed set is an empty one; the calls read it only.
    let bound = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds this thread to the CPU that it is on.
///
/// # Panics
/// The system does not tell the CPU, or refuses it.
pub fn stay_on_this_cpu() {
    // SAFETY: it only returns a number.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).expect("a CPU");
    bind_to(cpu).expect("the CPU that this thread is on");
}
