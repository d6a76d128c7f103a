//! What this process and machine have: the mode that is possible, the page size, the
//! CPUs, and the limit of address space.

use super::Mode;
use crate::platform::rseq::{self, Thread, flags};
use crate::platform::{GRANULE, sys};
use crate::sync::Ordering;

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

/// Registers this thread's own area; false if the kernel refuses.
pub(super) fn register(thread: &Thread) -> bool {
    let area = core::ptr::from_ref(thread) as usize;
    // SAFETY: the area is 32 bytes, aligned, and lives as long as its thread.
    unsafe { sys::call(sys::RSEQ, [area, 32, 0, rseq::SIGNATURE as usize, 0, 0]) == 0 }
}

/// The mode, and the offset of `rseq_cs` from the thread pointer: the wanted mode if it
/// is possible.
pub(super) fn choose(wanted: Option<Mode>) -> (Mode, usize) {
    const CS: usize = 8;
    let own = rseq::thread_offset() + CS;
    let library = rseq::library_area().filter(|offset| rseq::cpu_id(*offset) >= 0);
    if let (Some(offset), None | Some(Mode::Library)) = (library, wanted) {
        return (Mode::Library, offset.wrapping_add(CS));
    }
    let sequences = cfg!(target_arch = "x86_64");
    if wanted != Some(Mode::Slots) && library.is_none() && sequences {
        let thread = rseq::thread();
        if register(thread) {
            thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
            return (Mode::Own, own);
        }
    }
    (Mode::Slots, own)
}

/// What `ulimit -v` allows, in bytes.
pub(super) fn address_limit() -> usize {
    const RLIMIT_AS: i32 = 9;
    let mut limits = [usize::MAX; 2];
    // SAFETY: the buffer has the size of a struct rlimit.
    unsafe { getrlimit(RLIMIT_AS, &raw mut limits) };
    limits[0]
}

/// Number of CPUs that may ever be there: the kernel's CPU numbers lie below.
pub(super) fn possible_cpus() -> usize {
    let mut buffer = [0u8; 256];
    let text = sys::read_file(c"/sys/devices/system/cpu/possible", &mut buffer);
    let last = text.and_then(|text| {
        let digits = text.split(|c| !c.is_ascii_digit()).rfind(|d| !d.is_empty())?;
        Some(digits.iter().fold(0usize, |n, c| n * 10 + (c - b'0') as usize))
    });
    // Without sysfs: as many as the kernel's masks have on the largest machines.
    last.map_or(8192, |last| last + 1)
}
