//! The end: the report that `slabyard run` asked for, and the check of the whole
//! yard that `SLABYARD_VERIFY_AT_EXIT` asks for.

use crate::info::{Counted, count};
use crate::options;
use crate::start::mode_number;
use crate::state::YARD;
use crate::text::say;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use slabyard::cache::classes::Name;
use slabyard_abi::report::{REPORT_ENV, Writer};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;

static VERIFY: AtomicBool = AtomicBool::new(false);
/// The report's path: a copy, because programs that set their title write over
/// their environment.
static PATH: Mutex<Option<PathBuf>> = Mutex::new(None);
static PID: AtomicU32 = AtomicU32::new(0);

pub(crate) fn set_verify(on: bool) {
    VERIFY.store(on, Ordering::Relaxed);
}

/// Takes the report's path out of the environment: what this process starts
/// does not report, and neither does what it forks.
pub(crate) fn remember() {
    options::take_out(REPORT_ENV, |path| {
        let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        if let Ok(mut place) = PATH.lock() {
            *place = Some(path);
        }
        PID.store(std::process::id(), Ordering::Relaxed);
    });
}

pub(crate) fn at_exit() {
    if VERIFY.load(Ordering::Relaxed)
        && let Some(Err(fault)) = YARD.verify()
    {
        say!("verify at exit: {fault}");
        std::process::abort();
    }
    if PID.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let Some(path) = PATH.lock().ok().and_then(|mut path| path.take()) else {
        return;
    };
    let resident = resident_bytes();
    if let Some(mut counted) = count() {
        counted.yard.resident = resident;
        counted.yard.mode = mode_number(YARD.platform().mode());
        let mut text = String::new();
        if write(&mut text, &counted).is_ok()
            && let Err(why) = std::fs::write(&path, &text)
        {
            say!("the report cannot be written: {why}");
        }
    }
}

fn write(out: &mut String, counted: &Counted) -> std::fmt::Result {
    let mut writer = Writer::new(out)?;
    writer.process(std::process::id())?;
    writer.yard(&counted.yard)?;
    let mut name = String::new();
    for (class, c) in counted.caches.iter().enumerate() {
        name.clear();
        write!(name, "{}", Name(class))?;
        writer.cache(&name, c)?;
    }
    writer.end()
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    use slabyard::platform::Platform;
    pages * YARD.platform().page_bytes() as u64
}
