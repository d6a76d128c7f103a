//! Properties of this process: which mode is possible, the page size, and the limit of address
//! space.

use super::mode::Mode;
use crate::rseq::{self, Thread, flags};
use crate::sync::{AtomicU32, Ordering};
use crate::{GRANULE, sys};

unsafe extern "C" {
    fn getauxval(kind: usize) -> usize;
    fn getrlimit(what: i32, limits: *mut [usize; 2]) -> i32;
}

/// The machine's page.
pub(super) fn page_bytes() -> usize {
    const AT_PAGESZ: usize = 6;
    // SAFETY: a plain call of the C library.
    unsafe { getauxval(AT_PAGESZ) }.max(GRANULE)
}

/// The byte by which the C library says that this process has one thread (glibc since 2.32,
/// `<sys/single_threaded.h>`). A processor that stores out of order needs atomic instructions anyway.
pub(super) fn only_thread() -> Option<*mut u8> {
    #[cfg(target_arch = "x86_64")]
    {
        let at = crate::weak_address!("__libc_single_threaded", "__libc_single_threaded");
        (at != 0).then_some(at as *mut u8)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Registers this thread's own area; false if the kernel refuses.
pub(super) fn register(thread: &Thread) -> bool {
    let area = core::ptr::from_ref(thread) as usize;
    // SAFETY: the area is 32 bytes, aligned, and lives as long as its thread.
    unsafe { sys::call(sys::RSEQ, [area, 32, 0, rseq::SIGNATURE as usize, 0, 0]) == 0 }
}

/// What threads' blocks are used for, by all yards of the process; 0: nothing yet. A block cannot
/// be an area of the kernel's and hold a private slot. Yards are made one after the other.
static BLOCKS: AtomicU32 = AtomicU32::new(0);
const BLOCKS_OWN: u32 = 1;
const BLOCKS_SLOTS: u32 = 2;

/// Takes this thread's registration back, and makes none again: who else wants one finds the thread
/// without.
pub(super) fn give_way(thread: &Thread) {
    const UNREGISTER: usize = 1;
    thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
    let area = core::ptr::from_ref(thread) as usize;
    // The kernel sets the CPU number to -1, which leads to a row of zeros.
    // SAFETY: our own area; the system refuses it where it is not registered.
    unsafe { sys::call(sys::RSEQ, [area, 32, UNREGISTER, rseq::SIGNATURE as usize, 0, 0]) };
}

/// The mode, and the offset of `rseq_cs` from the thread pointer: the requested mode if it is
/// possible. Without a request, threads are registered by us only if somebody takes that back for a
/// program that registers them itself, and if the C library has no registration that the program
/// turned off: who turns it off wants to.
pub(super) fn choose(requested: Option<Mode>, gives_way: bool) -> (Mode, usize) {
    const CS: usize = 8;
    let own = rseq::thread_offset() + CS;
    let library = rseq::library_area().filter(|offset| rseq::cpu_id(*offset) >= 0);
    if let (Some(offset), None | Some(Mode::Library)) = (library, requested) {
        return (Mode::Library, offset.wrapping_add(CS));
    }
    let nobody_else = gives_way && !rseq::library_knows();
    let is_wanted = requested == Some(Mode::Own) || requested != Some(Mode::Slots) && nobody_else;
    let wants_own = is_wanted && library.is_none() && rseq::ARE_SUPPORTED;
    let used = BLOCKS.load(Ordering::Relaxed);
    let thread = rseq::thread();
    if used == BLOCKS_OWN {
        if thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed) & flags::TRIED == 0 {
            register(thread);
        }
        return (Mode::Own, own);
    }
    if used == 0 && wants_own && register(thread) {
        thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
        BLOCKS.store(BLOCKS_OWN, Ordering::Relaxed);
        return (Mode::Own, own);
    }
    BLOCKS.store(BLOCKS_SLOTS, Ordering::Relaxed);
    (Mode::Slots, own)
}

/// The limit of address space (`ulimit -v`) in bytes; `None` without a limit.
pub(super) fn address_limit() -> Option<usize> {
    const RLIMIT_AS: i32 = 9;
    let mut limits = [usize::MAX; 2];
    // SAFETY: the buffer has the size of a struct rlimit.
    unsafe { getrlimit(RLIMIT_AS, &raw mut limits) };
    Some(limits[0]).filter(|bytes| *bytes != usize::MAX)
}
