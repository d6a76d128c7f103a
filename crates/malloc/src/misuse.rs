//! Reports of misuse: a message that names the function, the pointer, the cause and the cache;
//! then the library aborts or goes on, as `SLABYARD_ON_ERROR` says.
//!
//! A wrong size alone does no harm here, because the page map knows the right one: unless the
//! option says to abort, it is reported once for each class, and the object is freed by its own
//! size.

use crate::names::Name;
use crate::policy::{self, Policy, end};
use crate::state::YARD;
use crate::text::{abort, say};
use core::sync::atomic::{AtomicBool, Ordering};
use slabyard::cache::classes::CLASSES;
use slabyard::cache::slots::number_of;
use slabyard::pages::{Cause, Misuse};
use slabyard::platform::Slot;
use slabyard::yard::Place;

/// Classes of which a wrong size was reported, and behind them large blocks.
static REPORTED: [AtomicBool; CLASSES + 1] = [const { AtomicBool::new(false) }; CLASSES + 1];

/// At the process's end: looks for misuse in parked objects, which no flush has examined.
pub(crate) fn at_exit() {
    #[cfg(any(any_engine, object_caches))]
    if crate::debug::at_exit() {
        end();
    }
    YARD.check_parked();
}

/// Reports misuse that the flush of an object to its slab found.
pub(crate) fn found_at_flush(found: &Misuse) {
    let class = number_of(Slot(found.slot)).unwrap_or(0);
    let cause = match found.cause {
        Cause::DoubleFree => "double free of an object",
        Cause::Interior => "interior pointer, not the begin of an object",
        Cause::WrongSize => "wrong size: not an object",
        Cause::Overwritten => "write to free memory or in front of an object",
    };
    #[cfg(any(any_engine, object_caches))]
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
    #[cfg(any(any_engine, object_caches))]
    if crate::debug::is_on() {
        crate::debug::call_stack();
    }
    end();
}

/// Reports a size that is not that of the object, or of the large block.
#[cold]
pub(crate) fn wrong_size(function: &str, address: usize, bytes: usize, class: Option<usize>) {
    let policy = policy::get();
    if REPORTED[class.unwrap_or(CLASSES)].swap(true, Ordering::Relaxed) && policy != Policy::Abort {
        return;
    }
    match class {
        Some(class) => say!(
            "{function}({address:#x}): wrong size {bytes} for an object of cache {}",
            Name(class)
        ),
        None => say!("{function}({address:#x}): wrong size {bytes} for a large block"),
    }
    #[cfg(any(any_engine, object_caches))]
    if crate::debug::is_on() {
        crate::debug::call_stack();
    }
    if policy == Policy::Abort {
        abort();
    }
}

/// The usable bytes of an address that must be a live allocation; reports it if it is not.
#[inline]
pub(crate) fn usable_or_misuse(function: &str, address: usize) -> Option<usize> {
    place_or_misuse(function, address).map(|(_, bytes)| bytes)
}

/// As [`usable_or_misuse`], and the place.
#[inline]
pub(crate) fn place_or_misuse(function: &str, address: usize) -> Option<(Place, usize)> {
    #[cfg(any(any_engine, object_caches))]
    if YARD.is_known_free(address) {
        used_after_free(function, address);
        return None;
    }
    let place = YARD.place_of(address);
    let Some(bytes) = place.usable() else {
        found_at_call(function, address, place);
        return None;
    };
    if matches!(place, Place::Object { .. }) && YARD.looks_freed(address) {
        used_after_free(function, address);
        return None;
    }
    Some((place, bytes))
}

#[cold]
fn used_after_free(function: &str, address: usize) {
    let class = Name(YARD.class_at(address).unwrap_or(0));
    say!("{function}({address:#x}): use after free of an object of cache {class}");
    #[cfg(any(any_engine, object_caches))]
    crate::debug::call_stack();
    end();
}
