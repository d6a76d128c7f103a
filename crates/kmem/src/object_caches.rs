//! The library of object caches: which engine serves caches that do not request one, and what else
//! the library does at its start and around forks.
//!
//! Neighbours: the code of `slabyard-process` is generic over this library; [`crate::names`]
//! formats caches' names.

use crate::names::Name;
use crate::state::{ObjectCaches, YARD};
use crate::{aliases, handles, tools};
use core::fmt::{self, Display};
use slabyard::engine::Any;
use slabyard::platform::linux::{Linux, Uncounted};
use slabyard::yard::Yard;
use slabyard_abi::engines::EngineName;
use slabyard_kernels::settings::Key;
use slabyard_process::debug;
use slabyard_process::library::{Library, Start};
use slabyard_process::options::{LibraryOptions, Options};

impl Library for ObjectCaches {
    type Counting = Uncounted;
    type Engine = Any;

    const START: Start = Start::AtFirstCall;
    const FURTHER: LibraryOptions = debug::FURTHER;
    const DEBUGS: bool = true;
    /// Classes are kmalloc's.
    const CLASS_PREFIX: &'static str = "k";
    const UNALIGNED: usize = 7;

    #[inline(always)]
    fn yard() -> &'static Yard<Linux, Any> {
        &YARD
    }

    fn choose(options: &Options) {
        tools::begin();
        let engine = EngineName::of_word(options.get(Key::Engine)).unwrap_or(EngineName::Slub);
        let is_usual = engine == EngineName::Slub;
        let keeps_none = is_usual && tools::looks_for_pointers();
        YARD.choose(if keeps_none { EngineName::Tiny } else { engine });
        debug::choose::<ObjectCaches>();
        handles::set_merging(options.get(Key::Merge) == 1);
    }

    /// Names the classes, and shows where merged caches' names are.
    fn begun() {
        if handles::merges() {
            aliases::publish();
        }
        YARD.caches().classes().iter().enumerate().for_each(|(class, it)| it.rename(Name(class)));
    }

    fn complete() {
        debug::begin();
    }

    fn limit_chosen(every_call: bool) {
        handles::choose_slots(every_call);
    }

    fn before_fork() {
        handles::before_fork();
    }

    fn after_fork() {
        handles::after_fork();
    }

    fn in_child() {
        debug::after_fork::<ObjectCaches>();
    }

    fn write_name(number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Name(number).fmt(f)
    }
}
