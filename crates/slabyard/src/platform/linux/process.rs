//! Properties of this process and machine: the mode that is possible, the page size, the
//! CPUs, and the limit of address space.

use super::Mode;
use crate::platform::rseq::{self, Thread, flags};
use crate::platform::{GRANULE, sys};
use crate::sync::{AtomicU32, Ordering};

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

/// What threads' blocks are used for, by all yards of the process; 0: nothing yet. A block cannot
/// be an area of the kernel's and hold a private slot. Yards are made one after the other.
static BLOCKS: AtomicU32 = AtomicU32::new(0);
const BLOCKS_OWN: u32 = 1;
const BLOCKS_SLOTS: u32 = 2;

/// The mode, and the offset of `rseq_cs` from the thread pointer: the requested mode if it is
/// possible.
pub(super) fn choose(requested: Option<Mode>) -> (Mode, usize) {
    const CS: usize = 8;
    let own = rseq::thread_offset() + CS;
    let library = rseq::library_area().filter(|offset| rseq::cpu_id(*offset) >= 0);
    if let (Some(offset), None | Some(Mode::Library)) = (library, requested) {
        return (Mode::Library, offset.wrapping_add(CS));
    }
    let sequences = cfg!(target_arch = "x86_64");
    let wants_own = requested != Some(Mode::Slots) && library.is_none() && sequences;
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

/// Number of CPUs that may ever be there: the kernel's CPU numbers lie below.
///
/// Without sysfs (a chroot) the width of a mask in `/proc/self/status` is a bound, a digit for
/// four of them (proc_pid_status(5)); else the size of the kernel's own masks, which is what
/// the system call for a thread's mask returns (sched_getaffinity(2)).
pub(super) fn possible_cpus() -> usize {
    let mut buffer = [0u8; 256];
    let text = sys::read_file(c"/sys/devices/system/cpu/possible", &mut buffer);
    let last = text.and_then(|text| {
        let digits = text.split(|c| !c.is_ascii_digit()).rfind(|d| !d.is_empty())?;
        Some(digits.iter().fold(0usize, |n, c| n * 10 + (c - b'0') as usize))
    });
    last.map_or_else(cpus_of_masks, |last| last + 1)
}

#[cold]
#[inline(never)]
fn cpus_of_masks() -> usize {
    let mut buffer = [0u8; 8 << 10];
    let text = sys::read_file(c"/proc/self/status", &mut buffer).unwrap_or_default();
    mask_width(text).unwrap_or_else(mask_bits)
}

/// Bits of the mask in a status, which ends within the text.
fn mask_width(text: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\nCpus_allowed:";
    let begin = text.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let end = begin + text[begin..].iter().position(|c| *c == b'\n')?;
    let digits = text[begin..end].iter().filter(|c| c.is_ascii_hexdigit()).count();
    (digits > 0).then_some(4 * digits)
}

fn mask_bits() -> usize {
    /// Bytes of the kernel's masks on the largest machines.
    const MOST: usize = 8192;
    let mut mask = [0u64; MOST / 64];
    let (bytes, first) = (size_of_val(&mask), mask.as_mut_ptr() as usize);
    // SAFETY: it writes at most so many bytes.
    let done = unsafe { sys::call(sys::SCHED_GETAFFINITY, [0, bytes, first, 0, 0, 0]) };
    usize::try_from(done).ok().filter(|bytes| *bytes > 0).map_or(MOST, |bytes| 8 * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_s_width_bounds_the_number_of_cpus() {
        let width = |mask: &str| mask_width(format!("Name:\tx\nCpus_allowed:\t{mask}").as_bytes());
        assert_eq!(width("3\nCpus_allowed_list:\t0-1\n"), Some(4));
        assert_eq!(width("ffff\n"), Some(16));
        assert_eq!(width("00ff,ffffffff\n"), Some(48));
        assert_eq!(width("ffff"), None, "it may go on");
        assert_eq!(width("\n"), None);
        assert_eq!(mask_width(b""), None);
    }

    /// Each way is a bound on what sysfs says.
    #[test]
    fn each_way_counts_all_cpus() {
        let possible = possible_cpus();
        assert!(cpus_of_masks() >= possible && mask_bits() >= possible);
        assert!(mask_bits() <= 8192);
    }
}
