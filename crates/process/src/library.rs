//! How libraries differ: in their yard, and in what they do at their start, at forks and at their
//! end.
//!
//! Neighbours: nearly all functions of this crate are generic over a [`Library`]; each library for
//! programs has one type that implements it.

use crate::options::{LibraryOptions, Options};
use core::fmt::{self, Display};
use core::marker::PhantomData;
use slabyard::cache::classes;
use slabyard::engine::Engine;
use slabyard::platform::linux::{Counting, OnLinux};
use slabyard::yard::Yard;

/// When a library's yard starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first call, which is the constructor's at the latest.
    InConstructor,
    /// At the first call of the program, so that a program which makes none has no yard; where malloc
    /// has an option, in the constructor.
    AtFirstCall,
}

/// A library that programs load or link.
pub trait Library: Sized + 'static {
    /// Whether its yard counts what slow paths do.
    type Counting: Counting;
    /// What serves its caches.
    type Engine: Engine;

    /// The one yard of the library: a `static`, so that it exists before the first call.
    fn yard() -> &'static YardOf<Self>;

    /// When the yard starts.
    const START: Start;
    /// Options beside those that all libraries have.
    const FURTHER: LibraryOptions = LibraryOptions::NONE;
    /// True if caches may have debugging.
    const DEBUGS: bool = false;
    /// In front of malloc's name of a class, this gives the library's.
    const CLASS_PREFIX: &'static str = "";
    /// Bits that an address of an object has not: those below the least alignment.
    const UNALIGNED: usize = 15;
    /// True if it serves malloc, whose allocations can be [sampled](crate::profile).
    const IS_MALLOC: bool = false;
    /// True if the library sees that the program registers an area of restartable sequences.
    const SEES_SYSTEM_CALLS: bool = false;

    /// Before the yard begins: chooses its engine, by the options.
    fn choose(options: &Options);

    /// The yard has begun, and others do not see it yet.
    fn begun() {}

    /// Readers outside can see the yard.
    fn published() {}

    /// The C library is ready, and there is no thread yet that the library made.
    fn before_threads() {}

    /// The C library is ready, and the [helper](crate::helper) has been made.
    fn complete() {}

    /// The [limit](crate::state::choose_limit) was chosen: true if each call must take the slow path.
    fn limit_chosen(_every_call: bool) {}

    /// A fork begins, and there is a yard.
    fn before_fork() {}

    /// It has ended, in either process.
    fn after_fork() {}

    /// In its child, whose yard may be used again.
    fn in_child() {}

    /// The process ends, and no misuse was found.
    fn at_exit() {}

    /// Writes the name of the cache of a number.
    ///
    /// # Errors
    /// Those of the writer.
    fn write_name(number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        classes::Name(number).fmt(f)
    }
}

/// The type of a library's yard.
pub type YardOf<L> = Yard<OnLinux<<L as Library>::Counting>, <L as Library>::Engine>;

/// The name of a library's cache, in messages and reports.
pub struct Name<L>(usize, PhantomData<L>);

impl<L> Name<L> {
    /// Of the cache of a number.
    #[must_use]
    pub const fn of(number: usize) -> Self {
        Name(number, PhantomData)
    }
}

impl<L: Library> Display for Name<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        L::write_name(self.0, f)
    }
}
