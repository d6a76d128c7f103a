//! Reports of misuse: a message that names the function, the pointer, the cause and the cache;
//! then the library aborts or goes on, as `SLABYARD_ON_ERROR` says.
//!
//! A wrong size alone does no harm here, because the page map knows the right one: unless the
//! option says to abort, it is reported once for each class, and the object is freed by its own
//! size.

use crate::choice::Name;
use crate::state::YARD;
use crate::text::{abort, say};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use slabyard::cache::classes::CLASSES;
use slabyard::cache::slots::number_of;
use slabyard::pages::{Cause, Misuse};
use slabyard::platform::Slot;
use slabyard::yard::Place;

/// What follows a report: the values of the option, in their order.
const AUTO: u8 = 0;
const ABORT: u8 = 1;
const REPORT: u8 = 2;

static POLICY: AtomicU8 = AtomicU8::new(AUTO);
/// Classes of which a wrong size was reported, and behind them large blocks.
static REPORTED: [AtomicBool; CLASSES + 1] = [const { AtomicBool::new(false) }; CLASSES + 1];

/// Sets what follows a report, by the number of the option's value.
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

/// At the process's end: looks for misuse in parked objects, which no flush has examined.
pub(crate) fn at_exit() {
    YARD.check_parked();
}

/// Reports misuse that the flush of an object to its slab found.
pub(crate) fn found_at_flush(found: &Misuse) {
    let class = number_of(Slot(found.slot)).filter(|number| *number < CLASSES).unwrap_or(0);
    let cause = match found.cause {
        Cause::DoubleFree => "double free of an object",
        Cause::Interior => "interior pointer, not the begin of an object",
        Cause::WrongSize => "wrong size: not an object",
        Cause::Overwritten => "write to free memory or in front of an object",
    };
    #[cfg(any_engine)]
    if found.cause == Cause::Overwritten {
        say!("memory at {:#x}: {cause}, of cache {}", found.address, Name(class));
        return end();
    }
    say!("free({:#x}): {cause} of cache {}", found.address, Name(class));
    end();
}

/// Reports misuse that a call found in its argument.
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

/// Reports a size that is not that of the object, or of the large block.
#[cold]
pub(crate) fn wrong_size(function: &str, address: usize, bytes: usize, class: Option<usize>) {
    let policy = POLICY.load(Ordering::Relaxed);
    if REPORTED[class.unwrap_or(CLASSES)].swap(true, Ordering::Relaxed) && policy != ABORT {
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

/// The usable bytes of an address that must be a live allocation; reports it if it is not.
#[inline]
pub(crate) fn usable_or_misuse(function: &str, address: usize) -> Option<usize> {
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
