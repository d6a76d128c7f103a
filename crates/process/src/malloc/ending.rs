//! The ways to end a process that run no destructor: `_exit`, `_Exit` and `quick_exit`. Through the
//! page that `slabyard_abi::ending` describes, they ask `slabyard run` to read the yard from
//! outside; the process waits for that read, and then ends.
//!
//! A program may call `_exit` at any moment: in a signal handler on a small stack in the middle of
//! `malloc`, while other threads hold any lock, or after it has damaged the heap. So these
//! functions read no counter and take no lock. If caches have debugging, these functions also check
//! their objects (`last_look`), except in such situations.
//!
//! Invariants: in a process that does not own the page (a forked child, or the child of a `vfork`),
//! these functions only ask for the process id and end the process. The page's owner checks at most
//! [`PATIENCE`] times whether it must still wait, and does not wait without a reader.

use crate::debug;
use crate::errno::errno;
use crate::library::Library;
use crate::profile;
use core::ffi::{CStr, c_char, c_int};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use slabyard_abi::ending::{ASKED, BYTES, EndPage, IDLE, SUFFIX};

/// Bytes of the longest path, with the zero at its end.
pub(crate) const LONGEST: usize = 4096;

/// How often the owner looks whether it must still wait, and nanoseconds between.
const PATIENCE: u32 = 100;
const LOOK_NS: i64 = 100_000_000;

/// The page, if this process is its owner.
static PAGE: AtomicPtr<EndPage> = AtomicPtr::new(null_mut());
/// The owner. Its forked children know [`PAGE`], and do not have what it points to.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// A set of signals, of the C library's size.
pub(crate) type Signals = [u64; 16];

unsafe extern "C" {
    safe fn getpid() -> i32;
    safe fn getppid() -> i32;
    fn open(path: *const c_char, flags: i32, ...) -> i32;
    fn read(fd: i32, bytes: *mut u8, n: usize) -> isize;
    fn close(fd: i32) -> i32;
    fn mmap(at: *mut u8, n: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, n: usize, advice: i32) -> i32;
    fn prctl(what: i32, ...) -> i32;
    fn syscall(number: isize, ...) -> isize;
    fn pthread_sigmask(how: i32, signals: *const Signals, old: *mut Signals) -> i32;
}

/// Whose the page beside a report is.
pub(crate) enum Owner {
    /// This process, which uses it after this.
    This,
    /// Another process, or an unknown one: this one must not report.
    Other,
    /// There is no page: the report is not `run`'s.
    NoPage,
}

/// Looks for the page beside the report at `path`, which is shorter than [`LONGEST`].
/// Apart from its caller, so that processes without a report do not touch the pages of
/// its stack.
#[cold]
#[inline(never)]
pub(crate) fn join(path: &CStr) -> Owner {
    const ENOENT: i32 = 2;
    const O_RDWR: i32 = 0o2;
    const O_CLOEXEC: i32 = 0o2_000_000;
    let mut place = [0; LONGEST + SUFFIX.len()];
    let path = path.to_bytes();
    place[..path.len()].copy_from_slice(path);
    place[path.len()..][..SUFFIX.len()].copy_from_slice(SUFFIX.as_bytes());
    let mut owner = 0u32;
    // SAFETY: a path with a zero behind it, and our own word.
    unsafe {
        let fd = open(place.as_ptr().cast(), O_RDWR | O_CLOEXEC);
        if fd < 0 {
            return if errno() == ENOENT { Owner::NoPage } else { of_another() };
        }
        let n = read(fd, (&raw mut owner).cast(), size_of::<u32>());
        let is_ours = n == size_of::<u32>() as isize && owner == getpid().cast_unsigned();
        let page = if is_ours { map(fd) } else { None };
        close(fd);
        page.map_or_else(of_another, |page| {
            begin(page);
            Owner::This
        })
    }
}

/// The page is another process's.
static OF_ANOTHER: AtomicBool = AtomicBool::new(false);

fn of_another() -> Owner {
    OF_ANOTHER.store(true, Ordering::Relaxed);
    Owner::Other
}

/// True in what the program that `run` started has started: `run` looks at that one alone.
pub(crate) fn is_of_another() -> bool {
    OF_ANOTHER.load(Ordering::Relaxed)
}

/// True in the program that `run` started, and at which it looks.
pub(crate) fn is_runs() -> bool {
    !PAGE.load(Ordering::Relaxed).is_null()
        && OWNER.load(Ordering::Relaxed) == getpid().cast_unsigned()
}

/// Maps the page, for this process alone.
fn map(fd: i32) -> Option<&'static EndPage> {
    const PROT_READ_WRITE: i32 = 3;
    const MAP_SHARED: i32 = 1;
    const MADV_DONTFORK: i32 = 10;
    // SAFETY: a new mapping that stays for ever, of a file that `run` made as long.
    unsafe {
        let page = mmap(null_mut(), BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0);
        if page.addr() == usize::MAX {
            return None;
        }
        madvise(page, BYTES, MADV_DONTFORK);
        Some(&*page.cast::<EndPage>())
    }
}

/// This program is the owner's now.
fn begin(page: &'static EndPage) {
    const PR_GET_NAME: i32 = 16;
    let mut name = [0u8; 16];
    // SAFETY: our own buffer, of the size that is written.
    unsafe { prctl(PR_GET_NAME, name.as_mut_ptr(), 0usize, 0usize, 0usize) };
    page.set_name(&name);
    page.begun.fetch_add(1, Ordering::Relaxed);
    OWNER.store(getpid().cast_unsigned(), Ordering::Relaxed);
    PAGE.store(core::ptr::from_ref(page).cast_mut(), Ordering::Relaxed);
    at_quick_exit(ask_last);
}

extern "C" fn ask_last() {
    ask();
}

/// Registers `f` to be called at a quick end of the process: the first to register is called
/// last. glibc's `at_quick_exit` is linked into each program and calls the first function named
/// here, which takes the library that `f` is of; musl's reads one argument.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub fn at_quick_exit(f: extern "C" fn()) {
    type Register = extern "C" fn(extern "C" fn(), *const u8) -> i32;
    let register = slabyard::weak_address!("__cxa_at_quick_exit", "at_quick_exit");
    if register != 0 {
        // SAFETY: the function that the C library has. Without a second argument, the handler
        // is no library's that might go; it takes no argument, and may be given one.
        unsafe { core::mem::transmute::<usize, Register>(register)(f, null()) };
    }
}

/// Registers `f` to be called at a quick end of the process.
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub fn at_quick_exit(f: extern "C" fn()) {
    unsafe extern "C" {
        fn at_quick_exit(f: extern "C" fn()) -> i32;
    }
    // SAFETY: the handler lives as long as the process.
    unsafe { at_quick_exit(f) };
}

/// Asks `run` to read this process, which ends now; true if it did ask. All signals stay
/// blocked: one could end the process with another status.
pub(crate) fn ask() -> bool {
    const SIG_SETMASK: i32 = 2;
    let page = PAGE.load(Ordering::Relaxed);
    if page.is_null() || OWNER.load(Ordering::Relaxed) != getpid().cast_unsigned() {
        return false;
    }
    // SAFETY: the owner has it mapped until its end.
    let page = unsafe { &*page };
    let all: Signals = [u64::MAX; 16];
    // SAFETY: our own set, of the C library's size.
    unsafe { pthread_sigmask(SIG_SETMASK, &raw const all, null_mut()) };
    // SeqCst: `run` reads after it what this thread did to the yard.
    page.state.store(ASKED, Ordering::SeqCst);
    wake(&page.state);
    for _ in 0..PATIENCE {
        let is_read = getppid().cast_unsigned() == page.reader.load(Ordering::Relaxed);
        if !is_read || page.state.load(Ordering::SeqCst) == IDLE {
            break;
        }
        wait(&page.state, ASKED);
    }
    true
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const FUTEX: isize = 202;
    pub(super) const EXIT_GROUP: isize = 231;
}
#[cfg(not(target_arch = "x86_64"))]
mod number {
    pub(super) const FUTEX: isize = 98;
    pub(super) const EXIT_GROUP: isize = 94;
}

/// Between processes, so these are not the platform's.
fn wake(word: &AtomicU32) {
    const FUTEX_WAKE: i32 = 1;
    // SAFETY: a word that lives, and no other memory.
    unsafe { syscall(number::FUTEX, word.as_ptr(), FUTEX_WAKE, 1) };
}

fn wait(word: &AtomicU32, value: u32) {
    const FUTEX_WAIT: i32 = 0;
    let time = [0, LOOK_NS];
    // SAFETY: a word and a time that live.
    unsafe {
        syscall(number::FUTEX, word.as_ptr(), FUTEX_WAIT, value, time.as_ptr(), null::<u8>())
    };
}

/// The process whose objects are looked at as it ends: 0 where no cache has debugging.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// From now on `_exit` of this process looks through its objects, as `exit` does. A forked child
/// says so itself: the child of a `vfork`, which has another number, cannot.
pub fn look_at_this_process() {
    LOOKED_AT.store(getpid().cast_unsigned(), Ordering::Relaxed);
}

/// True in a handler that has a stack of its own, which may be too small for a look.
fn is_on_other_stack() -> bool {
    /// The system's `stack_t`.
    #[repr(C)]
    struct SignalStack {
        address: *mut u8,
        flags: c_int,
        bytes: usize,
    }
    const SS_ONSTACK: c_int = 1;
    unsafe extern "C" {
        fn sigaltstack(new: *const SignalStack, old: *mut SignalStack) -> c_int;
    }
    let mut other = SignalStack { address: null_mut(), flags: 0, bytes: 0 };
    // SAFETY: it sets nothing, and writes to our own words.
    let is_known = unsafe { sigaltstack(null(), &raw mut other) } == 0;
    !is_known || other.flags & SS_ONSTACK != 0
}

/// Looks through the objects of caches with debugging, once, and aborts if one is wrong. Not in a
/// child of `vfork` or while there is one, nor on a handler's own stack, nor in a handler that
/// interrupted a slow path (`slabyard::yard::Yard::validate` is `None` there).
fn last_look<L: Library>() {
    let owner = LOOKED_AT.load(Ordering::Relaxed);
    if owner != 0
        && owner == getpid().cast_unsigned()
        && !crate::state::is_closed()
        && !is_on_other_stack()
        && LOOKED_AT.swap(0, Ordering::Relaxed) != 0
        && debug::at_exit::<L>()
    {
        crate::policy::end();
    }
}

/// As the C library's. Another `_exit` behind ours is not called: it cannot be found here
/// without the loader's lock.
pub fn end<L: Library>(status: c_int) -> ! {
    if L::DEBUGS {
        last_look::<L>();
    }
    profile::at_exit::<L>(is_runs());
    ask();
    loop {
        // SAFETY: a number. It does not return.
        unsafe { syscall(number::EXIT_GROUP, status) };
    }
}
