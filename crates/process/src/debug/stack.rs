//! Captures the caller's stack: the return addresses of the program's frames, without our own.
//!
//! The C library's `backtrace` walks by unwind tables, because most programs keep no frame
//! pointers. Its first call loads the unwinder, which allocates; so the constructor makes that
//! call, and stacks captured before it are empty.

use super::symbols;
use crate::dynamic;
use crate::library::Library;
use core::ffi::c_void;
use slabyard::pages::finding::{FRAMES, Track};
use slabyard::platform::Time;
use slabyard::sync::{AtomicUsize, OnceNumber, Ordering};

/// Frames that are walked: ours are the innermost.
const WALKED: usize = FRAMES + 27;

/// The C library's `backtrace`; 0 before it is ready, and where there is none.
static BACKTRACE: OnceNumber = OnceNumber::new();
/// Where our own code begins and ends.
static OURS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

type Backtrace = unsafe extern "C" fn(*mut *mut c_void, i32) -> i32;

/// Makes [`walk`] ready.
pub(super) fn prepare() {
    // musl has no such function.
    let function = dynamic::first(c"backtrace") as usize;
    let ours = symbols::module_of(prepare as *const () as usize);
    if function == 0 {
        return;
    }
    if let Some((begin, end)) = ours {
        OURS[0].store(begin, Ordering::Relaxed);
        OURS[1].store(end, Ordering::Relaxed);
    }
    let mut one = core::ptr::null_mut();
    // SAFETY: the C library's function of this name, which takes an array and its length.
    unsafe { core::mem::transmute::<usize, Backtrace>(function)(&raw mut one, 1) };
    // Whoever was first found the same.
    let _ = BACKTRACE.set(function);
}

/// Return addresses of the frames outside of this library.
pub(super) fn walk(to: &mut [usize; FRAMES]) {
    let function = BACKTRACE.get();
    if function == 0 {
        return;
    }
    let mut all = [0usize; WALKED];
    // SAFETY: as in `prepare`; the array has so many elements.
    let nr = unsafe {
        let backtrace = core::mem::transmute::<usize, Backtrace>(function);
        backtrace(all.as_mut_ptr().cast(), WALKED as i32)
    };
    let ours = OURS[0].load(Ordering::Relaxed)..OURS[1].load(Ordering::Relaxed);
    let all = &all[..usize::try_from(nr).unwrap_or(0)];
    let theirs = all.iter().skip_while(|address| ours.contains(address));
    to.iter_mut().zip(theirs).for_each(|(to, from)| *to = *from);
}

/// Who runs.
pub(super) fn track<L: Library>(track: &mut Track) {
    walk(&mut track.frames);
    track.thread = thread::<L>();
}

/// The system's number of the running thread; 0 where it may not be asked any more.
pub(super) fn thread<L: Library>() -> u32 {
    L::yard().platform().thread_number()
}

/// Nanoseconds from a track's time until now.
pub(super) fn age<L: Library>(track: &Track) -> u64 {
    L::yard().platform().now_ns().saturating_sub(track.time_ns)
}
