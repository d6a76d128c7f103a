//! Parses `SLABYARD_*`, once, before the first allocation. A variable that is unknown or cannot be
//! parsed causes a warning and is ignored. A program that has more privileges than its caller
//! (set-user-id, capabilities: AT_SECURE of getauxval(3)) reads nothing from its environment,
//! because the caller controls it.

use crate::text::say;
use core::ffi::{CStr, c_char};
use slabyard_kernels::settings::{ENGINE_OPTIONS, EngineKey, Key, OPTIONS, Opt, ValueError, parse};

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
    fn open(path: *const c_char, flags: i32, ...) -> i32;
    fn read(fd: i32, bytes: *mut u8, n: usize) -> isize;
    fn close(fd: i32) -> i32;
    safe fn getauxval(kind: usize) -> usize;
}

/// True if the environment is that of a caller with fewer rights than this process.
fn is_foreign() -> bool {
    const AT_SECURE: usize = 23;
    getauxval(AT_SECURE) != 0
}

/// Variables of the command, which the library ignores.
const OTHERS: &[&[u8]] = &[b"SLABYARD_LIB", b"SLABYARD_BLESS", b"SLABYARD_BENCH_OURS"];

/// What a library has beside [`OPTIONS`].
pub struct LibraryOptions {
    /// The options: [`ENGINE_OPTIONS`], or none.
    pub rows: &'static [Opt],
    /// Takes an option that is text, and needed before the first allocation.
    pub take_text: fn(&'static Opt, &[u8]),
}

impl LibraryOptions {
    /// Nothing.
    pub const NONE: LibraryOptions = LibraryOptions { rows: &[], take_text: |_, _| {} };
}

/// The options' values, by [`Key`] and by [`EngineKey`].
pub struct Options {
    values: [u64; OPTIONS.len()],
    further: [u64; ENGINE_OPTIONS.len()],
    are_given: bool,
}

impl Options {
    /// True if the environment has a variable of the library.
    pub(crate) fn are_given(&self) -> bool {
        self.are_given
    }

    /// The value of an option.
    pub fn get(&self, key: Key) -> u64 {
        self.values[key as usize]
    }

    /// The value of an option of [`ENGINE_OPTIONS`], where the library has these.
    pub fn of_engines(&self, key: EngineKey) -> u64 {
        self.further[key as usize]
    }

    /// Reads them from the environment.
    pub fn read(further: &LibraryOptions) -> Self {
        let (values, further_values) = ([0; OPTIONS.len()], [0; ENGINE_OPTIONS.len()]);
        let mut all = Options { values, further: further_values, are_given: false };
        for (value, row) in all.each_value(further) {
            *value = row.default;
        }
        each_variable(|name, value| all.take(further, name, value));
        all
    }

    fn each_value(
        &mut self,
        further: &LibraryOptions,
    ) -> impl Iterator<Item = (&mut u64, &'static Opt)> {
        self.values.iter_mut().zip(OPTIONS).chain(self.further.iter_mut().zip(further.rows))
    }

    fn take(&mut self, further: &LibraryOptions, name: &[u8], value: &[u8]) {
        if !name.starts_with(b"SLABYARD_") || OTHERS.contains(&name) {
            return;
        }
        self.are_given = true;
        let shown = |bytes| core::str::from_utf8(bytes).unwrap_or("?");
        let named = self.each_value(further).find(|(_, row)| row.env.as_bytes() == name);
        let Some((to, row)) = named else {
            say!("{} is no option here and is ignored", shown(name));
            return;
        };
        (further.take_text)(row, value);
        match parse(row, value) {
            Ok(n) => *to = n,
            Err(ValueError::Malformed) => {
                say!("{}={} does not parse and is ignored", shown(name), shown(value));
            }
            Err(ValueError::OutOfRange) => {
                say!("{}={} is out of range and is ignored", shown(name), shown(value));
            }
        }
    }
}

/// Calls `f` with name and value of each variable.
fn each_variable(mut f: impl FnMut(&[u8], &[u8])) {
    if is_foreign() {
        return;
    }
    let mut split = |entry: &[u8]| {
        if let Some(i) = entry.iter().position(|c| *c == b'=') {
            f(&entry[..i], &entry[i + 1..]);
        }
    };
    // SAFETY: the C library's array of strings; no thread changes it while the first
    // allocation is under way.
    unsafe {
        let mut at = environ;
        if !at.is_null() {
            while !(*at).is_null() {
                split(CStr::from_ptr(*at).to_bytes());
                at = at.add(1);
            }
            return;
        }
    }
    each_initial_variable(split);
}

/// For a call so early that the C library does not know its environment yet. Variables longer than
/// the buffer are left out: those of the library are short, and its caller's stack may be small.
#[cold]
#[inline(never)]
fn each_initial_variable(mut split: impl FnMut(&[u8])) {
    let mut buffer = [0u8; 512];
    let (mut len, mut skips) = (0, false);
    // SAFETY: plain calls on our own buffer.
    unsafe {
        let fd = open(c"/proc/self/environ".as_ptr(), 0o2_000_000);
        if fd < 0 {
            return;
        }
        loop {
            let n = read(fd, buffer[len..].as_mut_ptr(), buffer.len() - len);
            let Some(n) = usize::try_from(n).ok().filter(|n| *n > 0) else { break };
            len += n;
            let mut begin = 0;
            while let Some(end) = buffer[begin..len].iter().position(|c| *c == 0) {
                if !core::mem::take(&mut skips) {
                    split(&buffer[begin..begin + end]);
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
}

/// Whether a variable stays in the environment.
pub enum Keep {
    /// It stays.
    Yes,
    /// It goes: programs that this one starts do not see it.
    No,
}

/// Calls `f` with a variable's value, which says whether the variable stays.
pub fn look_up(name: &str, f: impl FnOnce(&CStr) -> Keep) {
    if is_foreign() {
        return;
    }
    // SAFETY: called from the constructor, before the program has threads; the
    // strings stay where they are, only the array is closed up.
    unsafe {
        let mut at = environ;
        if at.is_null() {
            return;
        }
        while !(*at).is_null() {
            let entry = CStr::from_ptr(*at);
            if let Some(value) = entry.to_bytes().strip_prefix(name.as_bytes())
                && value.first() == Some(&b'=')
            {
                let value = (*at).add(name.len() + 1);
                if let Keep::No = f(CStr::from_ptr(value)) {
                    while !(*at).is_null() {
                        *at = *at.add(1);
                        at = at.add(1);
                    }
                }
                return;
            }
            at = at.add(1);
        }
    }
}
