//! Checks the handles that C programs pass, and reports wrong ones.
//!
//! Neighbours: [`crate::handles`] stores the handles; each C function that takes a cache calls this
//! module first.

use crate::handles::{self, Handle, NAME_BYTES};
use crate::mutex::MutexGuard;
use crate::names::Name;
use core::fmt::Write as _;
use slabyard::cache::classes::ROWS;
use slabyard_process::policy;
use slabyard_process::say;
use slabyard_process::text::{Line, abort};

/// Fills the handles of kmalloc's classes, at the first call that may need one.
pub(crate) fn show_classes(_held: &MutexGuard<'_>) {
    for (class, row) in ROWS.iter().enumerate() {
        let handle = handles::place(class);
        if handle.is_there() {
            continue;
        }
        let mut name = [0; NAME_BYTES];
        let mut text = Line::new();
        let _ = write!(text, "{}", Name(class));
        let len = text.as_bytes().len().min(NAME_BYTES - 1);
        name[..len].copy_from_slice(&text.as_bytes()[..len]);
        handle.fill(class, &name, row.0, 0);
    }
}

/// The handle at an address that C passed; reports anything else.
pub(crate) fn checked(function: &str, cache: *const Handle) -> Option<&'static Handle> {
    match handles::at(cache as usize) {
        Some(handle) if handle.is_there() => return Some(handle),
        Some(handle) if !handle.name().is_empty() => {
            say!("{function}({cache:p}): the cache \"{}\" was destroyed", handle.name());
        }
        _ if cache.is_null() => say!("{function}(NULL): a cache is missing"),
        _ => say!("{function}({cache:p}): no cache, but some other pointer"),
    }
    policy::end();
    None
}

/// A bug of the caller of which nothing came: says it.
macro_rules! refuse {
    ($errno:expr, $($arguments:tt)*) => {{
        slabyard_process::say!($($arguments)*);
        slabyard_process::errno::set_errno($errno);
    }};
}
pub(crate) use refuse;

/// Ends the process: a cache that was to be made at all costs was not.
pub(crate) fn panic() -> ! {
    say!("the program asked to stop where this cache cannot be made");
    abort()
}
