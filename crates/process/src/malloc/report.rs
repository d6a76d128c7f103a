//! Writes the report that `slabyard run` requested, at the process's end.
//!
//! Neighbours: [`super::info`] supplies the counters; [`super::ending`] maps the page that is
//! shared with `slabyard run`.

use super::ending::{self, LONGEST, Owner, Signals};
use super::info::{MallocCounters, count};
use super::{Malloc, Words as _, pressure};
use crate::errno::errno;
use crate::library::Name;
use crate::options::{self, Keep};
use crate::profile;
use crate::say;
use crate::state::mode_number;
use crate::text::{Line, Output};
use core::ffi::{CStr, c_char};
use core::fmt::Write as _;
use slabyard::platform::Memory;
use slabyard::sync::{AtomicU8, AtomicU32, Ordering};
use slabyard_abi::report::{REPORT_ENV, Writer};

/// The report's path: a copy, because programs that set their title write over
/// their environment.
static PATH: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
/// The process that must report; 0: none.
static PID: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    safe fn getpid() -> i32;
    fn open(path: *const c_char, flags: i32, ...) -> i32;
    fn read(fd: i32, bytes: *mut u8, n: usize) -> isize;
    fn close(fd: i32) -> i32;
    fn pthread_sigmask(how: i32, signals: *const Signals, old: *mut Signals) -> i32;
}

/// Reads where the report goes, if this process must report. What `run` set stays in the
/// environment: if this process executes another program, that one must report; each child
/// finds that the report is not its own.
pub fn remember() {
    options::look_up(REPORT_ENV, |path| {
        if path.count_bytes() >= LONGEST {
            say!("the report cannot be written: its path is too long");
            return Keep::No;
        }
        let keep = match ending::join(path) {
            Owner::This => Keep::Yes,
            Owner::Other => return Keep::Yes,
            Owner::NoPage => Keep::No,
        };
        for (to, from) in PATH.iter().zip(path.to_bytes()) {
            to.store(*from, Ordering::Relaxed);
        }
        PID.store(getpid().cast_unsigned(), Ordering::Relaxed);
        keep
    });
}

/// Begins the profile that an option asks for; not in what the program that `run` started has
/// started itself, whose samples `run` does not take.
pub fn begin_profile<L: Malloc>() {
    if !ending::is_of_another() {
        profile::begin_by_option::<L>();
    }
}

/// Reports, if this process must.
pub fn at_exit<L: Malloc>() {
    profile::at_exit::<L>(ending::is_runs());
    let pid = PID.load(Ordering::Relaxed);
    if pid == 0 || pid != getpid().cast_unsigned() {
        return;
    }
    report::<L>(pid);
}

/// Apart from [`at_exit`], so that processes that report nothing do not touch the pages
/// of its stack.
#[cold]
#[inline(never)]
fn report<L: Malloc>(pid: u32) {
    let resident = resident_bytes::<L>();
    let Some(mut counted) = count::<L>() else {
        // In a handler inside of malloc, or without memory.
        ending::ask();
        return;
    };
    counted.yard.resident = resident;
    counted.yard.mode = mode_number(L::yard().platform().mode());
    // The program may have lost its rights, its files' number or its root directory.
    if let Err(errno) = write::<L>(pid, &mut counted)
        && !ending::ask()
    {
        say!("the report cannot be written: error {errno}");
    }
}

/// The failure is the kernel's error number.
fn write<L: Malloc>(pid: u32, counted: &mut MallocCounters<L::Words>) -> Result<(), i32> {
    const SIG_BLOCK: i32 = 0;
    const SIGXFSZ: u32 = 25;
    const O_WRONLY: i32 = 0o1;
    const O_CREAT: i32 = 0o100;
    const O_TRUNC: i32 = 0o1000;
    const O_CLOEXEC: i32 = 0o2_000_000;
    // Beyond the limit of a file's size a write would else end the process.
    let signals: Signals = core::array::from_fn(|i| u64::from(i == 0) << (SIGXFSZ - 1));
    // SAFETY: our own set, of the C library's size.
    unsafe { pthread_sigmask(SIG_BLOCK, &raw const signals, core::ptr::null_mut()) };
    // SAFETY: `remember` left a zero behind the path, which no thread changes any more.
    let fd = unsafe { open(PATH.as_ptr().cast(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666) };
    if fd < 0 {
        return Err(errno());
    }
    let mut out = Output::new(fd);
    let written = write_to::<L>(&mut out, pid, counted).is_ok() && out.flush();
    let result = if written { Ok(()) } else { Err(errno()) };
    // SAFETY: opened above.
    let closed = unsafe { close(fd) } == 0;
    if written && !closed { Err(errno()) } else { result }
}

fn write_to<L: Malloc>(
    out: &mut Output,
    pid: u32,
    counted: &mut MallocCounters<L::Words>,
) -> core::fmt::Result {
    let mut writer = Writer::new(out)?;
    writer.process(pid)?;
    writer.yard(&counted.yard)?;
    for (class, c) in counted.caches.iter().enumerate() {
        let mut name = Line::new();
        write!(name, "{}", Name::<L>::of(class))?;
        let name = core::str::from_utf8(name.as_bytes()).unwrap_or("?");
        writer.cache(name, c)?;
        let count = |words: &mut _| L::yard().platform().counted_into(class, words);
        if let Some(words) = counted.words.filled(count) {
            writer.counts(name, words)?;
        }
    }
    if L::WATCHES_PRESSURE
        && let Some(counts) = pressure::counts::<L>()
    {
        writer.pressure(&counts)?;
    }
    writer.end()
}

/// Resident bytes of this process; 0 if the kernel does not report them.
fn resident_bytes<L: Malloc>() -> u64 {
    let mut buffer = [0; 128];
    let text = read_begin(c"/proc/self/statm", &mut buffer);
    let pages = text.split(|c| *c == b' ').nth(1).unwrap_or_default();
    let digits = pages.iter().take_while(|c| c.is_ascii_digit());
    let pages = digits.fold(0, |n, c| n * 10 + u64::from(c - b'0'));
    pages * L::yard().platform().page_bytes() as u64
}

fn read_begin<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: plain calls on our own buffer.
    unsafe {
        let fd = open(path.as_ptr(), 0o2_000_000);
        if fd < 0 {
            return &[];
        }
        let n = read(fd, buffer.as_mut_ptr(), buffer.len());
        close(fd);
        &buffer[..usize::try_from(n).unwrap_or(0)]
    }
}
