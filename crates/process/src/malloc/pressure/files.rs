//! File access for the thread that watches memory pressure: its own file-descriptor table, reading
//! and writing of small files, and the pipe that ends the thread.
//!
//! Neighbours: [`super::sources`] and [`super::cgroup`] open the watched files.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};

pub(super) const O_RDONLY: i32 = 0;
pub(super) const O_WRONLY: i32 = 1;
pub(super) const O_RDWR: i32 = 2;
const O_NONBLOCK: i32 = 0o4000;
const O_CLOEXEC: i32 = 0o2_000_000;

unsafe extern "C" {
    #[link_name = "open"]
    fn c_open(path: *const c_char, flags: i32, ...) -> i32;
    fn pread(fd: i32, bytes: *mut u8, n: usize, at: i64) -> isize;
    #[link_name = "write"]
    fn c_write(fd: i32, bytes: *const u8, n: usize) -> isize;
    #[link_name = "close"]
    fn c_close(fd: i32) -> i32;
    fn pipe2(fds: *mut [i32; 2], flags: i32) -> i32;
    fn unshare(flags: i32) -> i32;
    fn syscall(number: isize, ...) -> isize;
}

/// Bytes of the longest path and line: the thread's stack is small.
const LONGEST_PATH: usize = 1024;
const LONGEST_LINE: usize = 2048;

/// A path under way; one that does not fit is never opened.
pub(super) struct Path {
    bytes: [u8; LONGEST_PATH],
    len: usize,
}

impl Path {
    pub(super) fn new() -> Path {
        Path { bytes: [0; LONGEST_PATH], len: 0 }
    }

    /// Adds bytes; a zero stays behind them.
    pub(super) fn push(&mut self, more: &[u8]) -> bool {
        let fits = self.len + more.len() < self.bytes.len();
        if fits {
            self.bytes[self.len..][..more.len()].copy_from_slice(more);
            self.len += more.len();
        }
        fits
    }

    /// The same, with a name more.
    pub(super) fn with(&self, name: &str) -> Option<Path> {
        let mut path = Path { bytes: self.bytes, len: self.len };
        (path.push(b"/") && path.push(name.as_bytes())).then_some(path)
    }

    pub(super) fn open(&self, flags: i32) -> Option<i32> {
        let path = CStr::from_bytes_with_nul(&self.bytes[..=self.len]).ok()?;
        open(path, flags)
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Opens a file; it is never waited for.
pub(super) fn open(path: &CStr, flags: i32) -> Option<i32> {
    // SAFETY: a string that ends with a zero.
    let fd = unsafe { c_open(path.as_ptr(), flags | O_NONBLOCK | O_CLOEXEC) };
    (fd >= 0).then_some(fd)
}

/// Reads as much as fits, from a place in the file.
pub(super) fn read(fd: i32, buffer: &mut [u8], at: usize) -> usize {
    // SAFETY: our own buffer.
    let n = unsafe { pread(fd, buffer.as_mut_ptr(), buffer.len(), at as i64) };
    usize::try_from(n).unwrap_or(0)
}

/// Writes all at once.
pub fn write(fd: i32, bytes: &[u8]) -> bool {
    // SAFETY: our own bytes.
    unsafe { c_write(fd, bytes.as_ptr(), bytes.len()) == bytes.len() as isize }
}

pub(super) fn close(fd: i32) {
    // SAFETY: one of this thread's own files.
    unsafe { c_close(fd) };
}

/// Calls `f` with each line of a file; those above [`LONGEST_LINE`] are left out.
pub(super) fn each_line(path: &Path, mut f: impl FnMut(&[u8])) {
    let Some(fd) = path.open(O_RDONLY) else { return };
    let (mut buffer, mut len, mut at, mut skips) = ([0u8; LONGEST_LINE], 0, 0, false);
    loop {
        let n = read(fd, &mut buffer[len..], at);
        if n == 0 {
            break;
        }
        (len, at) = (len + n, at + n);
        let mut begin = 0;
        while let Some(end) = buffer[begin..len].iter().position(|c| *c == b'\n') {
            if !core::mem::take(&mut skips) {
                f(&buffer[begin..begin + end]);
            }
            begin += end + 1;
        }
        buffer.copy_within(begin..len, 0);
        len -= begin;
        if len == buffer.len() {
            (len, skips) = (0, true);
        }
    }
    close(fd);
}

/// From now on this thread has its own table of files, a copy of the process's.
pub fn part() -> bool {
    const CLONE_FILES: i32 = 0x400;
    // SAFETY: no memory is involved.
    unsafe { unshare(CLONE_FILES) == 0 }
}

/// Closes all files of this thread's table but these, which ascend.
pub(super) fn close_others(kept: &[i32]) -> bool {
    let mut from = 0;
    let all = kept.iter().map(|fd| (*fd, *fd + 1)).chain([(i32::MAX, i32::MAX)]);
    for (kept, next) in all {
        if kept > from && !close_range(from, kept - 1) {
            return false;
        }
        from = next;
    }
    true
}

fn close_range(first: i32, last: i32) -> bool {
    // The same number on every architecture; C libraries before glibc 2.34 have no name for it.
    const CLOSE_RANGE: isize = 436;
    // SAFETY: files of this thread's own table.
    unsafe { syscall(CLOSE_RANGE, first as usize, last as usize, 0usize) == 0 }
}

/// Both ends of a pipe.
pub(super) fn pipe() -> Option<[i32; 2]> {
    let mut fds = [0; 2];
    // SAFETY: our own array.
    (unsafe { pipe2(&raw mut fds, O_NONBLOCK | O_CLOEXEC) } == 0).then_some(fds)
}

pub(super) fn event() -> Option<i32> {
    #[cfg(target_arch = "x86_64")]
    const EVENTFD2: isize = 290;
    #[cfg(not(target_arch = "x86_64"))]
    const EVENTFD2: isize = 19;
    // SAFETY: numbers only.
    let fd = unsafe { syscall(EVENTFD2, 0usize, (O_NONBLOCK | O_CLOEXEC) as usize) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0)
}

/// Empties an eventfd or a pipe.
pub(super) fn empty(fd: i32) {
    unsafe extern "C" {
        fn read(fd: i32, bytes: *mut u8, n: usize) -> isize;
    }
    let mut word = [0u8; 8];
    // SAFETY: our own buffer.
    unsafe { read(fd, word.as_mut_ptr(), word.len()) };
}

pub(super) fn thread_id() -> i32 {
    #[cfg(target_arch = "x86_64")]
    const GETTID: isize = 186;
    #[cfg(not(target_arch = "x86_64"))]
    const GETTID: isize = 178;
    // SAFETY: no argument.
    unsafe { syscall(GETTID) as i32 }
}

/// Writes into a pipe of another thread's table. Where that cannot be opened, the thread sees
/// at its next look that it must end.
pub(super) fn ring(thread: i32, fd: i32) {
    let mut path = Path::new();
    if write!(path, "/proc/self/task/{thread}/fd/{fd}").is_ok()
        && let Some(own) = path.open(O_WRONLY)
    {
        write(own, &[0]);
        close(own);
    }
}

impl Path {
    /// The bytes so far.
    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds a path as `mountinfo` writes it: some bytes as a backslash and three octal digits.
    pub(super) fn push_unescaped(&mut self, mut text: &[u8]) -> bool {
        loop {
            let at = text.iter().position(|c| *c == b'\\').unwrap_or(text.len());
            if !self.push(&text[..at]) {
                return false;
            }
            let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] = &text[at..]
            else {
                return text.len() == at || self.push(&text[at..]);
            };
            let byte = (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0');
            if !self.push(&[byte]) {
                return false;
            }
            text = rest;
        }
    }
}
