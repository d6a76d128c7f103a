//! Misuse use: a message that names the function, the pointer, the cause and the
//! cache; then what `SLABYARD_ON_ERROR` says: abort, or go on.
//!
//! A wrong size alone harms nobody here, because the page map knows the right one: unless
//! it is to abort, it is said once for each class, and the object is freed by its own size.

use crate::state::YARD;
use crate::text::{abort, say};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use slabyard::cache::classes::{self, CLASSES, Name};
use slabyard::pages::{Cause, Misuse};
use slabyard::platform::Slot;
use slabyard::yard::Place;

/// What follows a report: the option's words, in their order.
const AUTO: u8 = 0;
const ABORT: u8 = 1;
const REPORT: u8 = 2;

static POLICY: AtomicU8 = AtomicU8::new(AUTO);
/// Wrong sizes were said of objects of these classes, and behind them of large blocks.
static SAID: [AtomicBool; CLASSES + 1] = [const { AtomicBool::new(false) }; CLASSES + 1];

/// Sets what follows a report, by the number of the option's word.
pub(crate) fn set_policy(word: u64) {
    let policy = match word {
        1 => ABORT,
        2 => REPORT,
        _ => AUTO,
    };
    POLICY.store(policy, Ordering::Relaxed);
}

fn end() {
    if POLICY.load(Ordering::Relaxed) != REPORT {
        abort();
    }
}

/// At the process's end: misuse that was not noticed before, because nothing was flushed.
pub(crate) fn at_exit() {
    YARD.check_parked();
}

/// Found when an object went home to its slab.
pub(crate) fn found_at_home(bad: &Misuse) {
    let class = classes::class_of(Slot(bad.slot)).unwrap_or(0);
    let cause = match bad.cause {
        Cause::DoubleFree => "double free of an object",
        Cause::Interior => "interior pointer, not the begin of an object",
        Cause::WrongSize => "wrong size: not an object",
    };
    say!("free({:#x}): {cause} of cache {}", bad.address, Name(class));
    end();
}

/// Found when a function was called.
#[cold]
pub(crate) fn found_at_call(function: &str, address: usize, place: Place) {
    match place {
        Place::Object { class, .. } if !address.is_multiple_of(16) => {
            say!("{function}({address:#x}): misaligned pointer into cache {}", Name(class));
        }
        Place::Object { class, .. } => {
            say!(
                "{function}({address:#x}): interior pointer, not the begin of an object of cache {}",
                Name(class)
            );
        }
        Place::Inside if !address.is_multiple_of(16) => {
            say!("{function}({address:#x}): misaligned pointer into a live large block");
        }
        Place::Inside => {
            say!("{function}({address:#x}): interior pointer into a live large block");
        }
        Place::Free => {
            say!("{function}({address:#x}): double free, the memory there is free already");
        }
        Place::Large(_) => {
            say!("{function}({address:#x}): double free by two threads at once");
        }
        Place::Foreign => {
            say!("{function}({address:#x}): invalid pointer, not from this allocator");
        }
    }
    end();
}

/// The size named is not that of the object, or of the large block.
#[cold]
pub(crate) fn wrong_size(function: &str, address: usize, bytes: usize, class: Option<usize>) {
    let policy = POLICY.load(Ordering::Relaxed);
    if SAID[class.unwrap_or(CLASSES)].swap(true, Ordering::Relaxed) && policy != ABORT {
        return;
    }
    match class {
        Some(class) => say!(
            "{function}({address:#x}): wrong size {bytes} for an object of cache {}",
            Name(class)
        ),
        None => say!("{function}({address:#x}): wrong size {bytes} for a large block"),
    }
    if policy == ABORT {
        abort();
    }
}

/// Looks at an address that must be a live allocation; tells if it is not.
#[inline]
pub(crate) fn usable_or_bad(function: &str, address: usize) -> Option<usize> {
    let usable = YARD.usable(address);
    if usable.is_none() {
        found_at_call(function, address, YARD.place_of(address));
    } else if YARD.looks_freed(address) {
        used_after_free(function, address);
        return None;
    }
    usable
}

#[cold]
fn used_after_free(function: &str, address: usize) {
    let class = Name(YARD.class_at(address).unwrap_or(0));
    say!("{function}({address:#x}): use after free of an object of cache {class}");
    end();
}
