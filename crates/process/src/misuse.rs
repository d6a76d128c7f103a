//! Reports of misuse: a message names the function, the pointer, the cause and the cache; then the
//! library aborts or continues, as `SLABYARD_ON_ERROR` says.
//!
//! A wrong size passed to a free does no harm here, because the page map knows the right one.
//! Unless the option says to abort, the wrong size is reported once per class, and the object is
//! freed by its real size.

use crate::library::{Library, Name};
use crate::policy::{self, end};
use crate::text::abort;
use crate::{debug, say};
use slabyard::cache::classes::CLASSES;
use slabyard::cache::slots::number_of;
use slabyard::debugging;
use slabyard::pages::{Cause, Misuse};
use slabyard::platform::Slot;
use slabyard::sync::{AtomicBool, Ordering};
use slabyard::verify::close;
use slabyard::yard::AddressKind;
use slabyard_kernels::settings::choices::OnMisuse;

/// Classes for which a wrong size was reported, and after them large blocks.
static REPORTED: [AtomicBool; CLASSES + 1] = [const { AtomicBool::new(false) }; CLASSES + 1];

/// At the process's end: looks for misuse in parked objects, which no flush has examined.
pub fn at_exit<L: Library>() {
    if L::DEBUGS && debug::at_exit::<L>() {
        end();
    }
    close::check_parked(L::yard());
}

/// Reports misuse that the flush of an object to its slab found.
pub(crate) fn found_at_flush<L: Library>(found: &Misuse) {
    let class = number_of(Slot(found.slot)).unwrap_or(0);
    let cause = match found.cause {
        Cause::DoubleFree => "double free of an object",
        Cause::Interior => "interior pointer, not the begin of an object",
        Cause::WrongSize => "wrong size: not an object",
        Cause::Overwritten => "write to free memory or in front of an object",
    };
    if L::DEBUGS && found.cause == Cause::Overwritten {
        say!("memory at {:#x}: {cause}, of cache {}", found.address, Name::<L>::of(class));
        return end();
    }
    say!("free({:#x}): {cause} of cache {}", found.address, Name::<L>::of(class));
    end();
}

/// Reports misuse that a call found in its argument.
#[cold]
pub fn found_at_call<L: Library>(function: &str, address: usize, place: AddressKind) {
    match place {
        AddressKind::Object { class, .. } if !address.is_multiple_of(16) => {
            say!(
                "{function}({address:#x}): misaligned pointer into cache {}",
                Name::<L>::of(class)
            );
        }
        AddressKind::Object { class, .. } => {
            say!(
                "{function}({address:#x}): interior pointer, not the begin of an object of cache {}",
                Name::<L>::of(class)
            );
        }
        AddressKind::Inside if !address.is_multiple_of(16) => {
            say!("{function}({address:#x}): misaligned pointer into a live large block");
        }
        AddressKind::Inside => {
            say!("{function}({address:#x}): interior pointer into a live large block");
        }
        AddressKind::Free => {
            say!("{function}({address:#x}): double free, the memory there is free already");
        }
        AddressKind::Large(_) => {
            say!("{function}({address:#x}): double free by two threads at once");
        }
        AddressKind::Foreign => {
            say!("{function}({address:#x}): invalid pointer, not from this allocator");
        }
    }
    if L::DEBUGS && debug::is_on() {
        debug::report::call_stack::<L>();
    }
    end();
}

/// Reports a size that is not that of the object, or of the large block.
#[cold]
pub fn wrong_size<L: Library>(function: &str, address: usize, bytes: usize, class: Option<usize>) {
    let policy = policy::get();
    if REPORTED[class.unwrap_or(CLASSES)].swap(true, Ordering::Relaxed) && policy != OnMisuse::Abort
    {
        return;
    }
    match class {
        Some(class) => say!(
            "{function}({address:#x}): wrong size {bytes} for an object of cache {}",
            Name::<L>::of(class)
        ),
        None => say!("{function}({address:#x}): wrong size {bytes} for a large block"),
    }
    if L::DEBUGS && debug::is_on() {
        debug::report::call_stack::<L>();
    }
    if policy == OnMisuse::Abort {
        abort();
    }
}

/// The usable bytes of an address that must be a live allocation; reports it if it is not.
#[inline]
pub fn usable_or_misuse<L: Library>(function: &str, address: usize) -> Option<usize> {
    place_or_misuse::<L>(function, address).map(|(_, bytes)| bytes)
}

/// As [`usable_or_misuse`], and the place.
#[inline]
pub fn place_or_misuse<L: Library>(function: &str, address: usize) -> Option<(AddressKind, usize)> {
    let yard = L::yard();
    if L::DEBUGS && debugging::is_known_free(yard, address) {
        used_after_free::<L>(function, address);
        return None;
    }
    let place = yard.place_of(address);
    let Some(bytes) = place.usable() else {
        found_at_call::<L>(function, address, place);
        return None;
    };
    if matches!(place, AddressKind::Object { .. }) && close::looks_freed(yard, address) {
        used_after_free::<L>(function, address);
        return None;
    }
    Some((place, bytes))
}

#[cold]
fn used_after_free<L: Library>(function: &str, address: usize) {
    let class = Name::<L>::of(L::yard().heap.class_at(address).unwrap_or(0));
    say!("{function}({address:#x}): use after free of an object of cache {class}");
    if L::DEBUGS {
        debug::report::call_stack::<L>();
    }
    end();
}
