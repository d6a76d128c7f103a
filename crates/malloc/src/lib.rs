//! A drop-in malloc: the C and C++ allocation functions on one yard.
//!
//! The only `static` yard of the workspace is here ([`state`]). `malloc` and `free` themselves
//! are the pop and push sequences ([`entry`]); what they cannot do in one committing store is in
//! [`slow`]; [`c`] and [`cxx`] have the other functions. [`start`] makes the yard ready at the
//! first call, from any function; [`fork`] says to the child of a fork that it is one; [`misuse`] reports
//! misuse; [`report`] and [`ending`] report the counters at the process's end.
//!
//! Two packages build these sources: `slabyard-malloc`, whose yard has the engine that people
//! use, and `slabyard-engines`, which sets `any_engine` and whose yard has any ([`state`]).
//!
//! What is shipped has neither the standard library nor an unwinder: they would cost
//! each process another library to load, and pages. [`throw`] throws nevertheless.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod c;
mod choice;
mod cxx;
#[cfg(any_engine)]
mod debug;
mod ending;
mod entry;
mod errno;
mod filter;
mod fork;
mod helper;
mod info;
mod loader;
mod misuse;
mod names;
mod observe;
mod options;
#[cfg(target_arch = "x86_64")]
mod outside;
mod policy;
#[cfg(any_engine)]
mod pressure;
mod report;
mod slow;
mod start;
mod state;
mod text;
mod throw;
mod vfork;

slabyard_abi::shared_library!();

#[cfg(panic = "abort")]
slabyard::without_std! {
    /// A bug of ours: the process cannot continue.
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo) -> ! {
        text::say!("{info}");
        text::abort()
    }

    /// Nothing here allocates through Rust, but `alloc` is linked where the engines for
    /// replays are built in one go with us, and requires this.
    #[global_allocator]
    static RUST: c::Rust = c::Rust;
}
