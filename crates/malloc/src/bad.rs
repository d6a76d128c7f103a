//! Bad use: a message that names the function, the pointer, the cause and the
//! cache; then abort, unless `SLABYARD_ON_ERROR=report`.

use crate::state::YARD;
use crate::text::{abort, say};
use core::sync::atomic::{AtomicBool, Ordering};
use slabyard::cache::classes::{self, Name};
use slabyard::page::{Bad, Cause};
use slabyard::platform::Slot;
use slabyard::yard::Place;

static ABORT: AtomicBool = AtomicBool::new(true);

/// Sets whether bad use aborts.
pub(crate) fn set_policy(abort: bool) {
    ABORT.store(abort, Ordering::Relaxed);
}

fn end() {
    if ABORT.load(Ordering::Relaxed) {
        abort();
    }
}

/// Found when an object went home to its slab.
pub(crate) fn found_at_home(bad: &Bad) {
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
    match class {
        Some(class) => say!(
            "{function}({address:#x}): wrong size {bytes} for an object of cache {}",
            Name(class)
        ),
        None => say!("{function}({address:#x}): wrong size {bytes} for a large block"),
    }
    end();
}

/// Looks at an address that must be a live allocation; tells if it is not.
pub(crate) fn usable_or_bad(function: &str, address: usize) -> Option<usize> {
    let usable = YARD.usable(address);
    if usable.is_none() {
        found_at_call(function, address, YARD.place_of(address));
    }
    usable
}
