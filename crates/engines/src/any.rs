//! What the library of all engines does beyond the other libraries.
//!
//! Neighbours: the code of `slabyard-process` is generic over this library; [`crate::choice`]
//! chooses the engine.

use crate::choice;
use crate::state::{AnyEngine, YARD};
use core::fmt;
use slabyard::cache::classes;
use slabyard::debugging;
use slabyard::engine::Any;
use slabyard::platform::linux::{Counted, CountingLinux};
use slabyard::yard::Yard;
use slabyard_abi::engines::EngineName;
use slabyard_abi::stats::CACHE_WORDS;
use slabyard_process::library::{Library, Start};
use slabyard_process::malloc::{Malloc, ending, pressure, report};
use slabyard_process::options::{LibraryOptions, Options};
use slabyard_process::state::ready;
use slabyard_process::{debug, misuse};

impl Library for AnyEngine {
    type Counting = Counted;
    type Engine = Any;

    const START: Start = Start::InConstructor;
    const FURTHER: LibraryOptions = debug::FURTHER;
    const DEBUGS: bool = true;
    const IS_MALLOC: bool = true;
    const SEES_SYSTEM_CALLS: bool = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));

    #[inline(always)]
    fn yard() -> &'static Yard<CountingLinux, Any> {
        &YARD
    }

    fn choose(options: &Options) {
        pressure::set_drain(options);
        choice::choose(options);
    }

    fn published() {
        pressure::show::<AnyEngine>();
    }

    fn before_threads() {
        report::remember();
        report::begin_profile::<AnyEngine>();
    }

    fn complete() {
        debug::begin();
        if debug::is_wanted() {
            ending::at_quick_exit(misuse_at_quick_exit);
            ending::look_at_this_process();
        }
        pressure::begin::<AnyEngine>();
    }

    fn in_child() {
        pressure::after_fork::<AnyEngine>();
        debug::after_fork::<AnyEngine>();
        if debug::is_wanted() {
            ending::look_at_this_process();
        }
    }

    fn at_exit() {
        report::at_exit::<AnyEngine>();
    }

    /// With an engine that serves by size, one cache serves all classes.
    fn write_name(number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match YARD.engine() {
            EngineName::Slob if number == 0 => f.write_str("slob"),
            _ => write!(f, "{}", classes::Name(number)),
        }
    }
}

extern "C" fn misuse_at_quick_exit() {
    misuse::at_exit::<AnyEngine>();
}

impl Malloc for AnyEngine {
    type Words = [u64; CACHE_WORDS];

    const NOTES_MAKERS: bool = true;
    const WATCHES_PRESSURE: bool = true;

    fn request_for_aligned(bytes: usize, align: usize) -> Option<usize> {
        // An engine that serves by size aligns each object as it is asked to.
        // One with debugging is to know what was requested.
        let has_classes =
            align <= 16 || ready() && YARD.engine() != EngineName::Slob && !debug::is_on();
        if has_classes { classes::request_for_aligned(bytes, align) } else { None }
    }

    fn is_other_size(address: usize, bytes: usize, have: usize) -> bool {
        if debugging::knows_requests(&YARD, address) {
            return bytes != have;
        }
        YARD.engine() == EngineName::Slob && bytes.max(1).next_multiple_of(16) != have
    }

    fn is_other_large_size(bytes: usize, have: usize) -> bool {
        YARD.is_guarded() && bytes != have
    }
}
