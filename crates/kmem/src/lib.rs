//! Object caches in C: the functions of `include/slabyard.h` on one yard, malloc left alone.
//!
//! [`entry`] has the two calls that programs make most, as the pop and push sequences themselves;
//! [`slow`] what they cannot do; [`handles`] what C names caches by, and [`caches`] checks those that
//! it passes; [`create`] how caches come and go, and [`aliases`] what merged ones are called beside; [`objects`] the other calls on objects; [`sheaf`] prefilled sheaves; [`kmalloc`] requests of any size;
//! [`rcu`] readers, and frees after them; [`mempool`] reserves; [`shrinkers`] what a program can give back on request; [`tools`] what valgrind and AddressSanitizer are told; [`stats`] what caches hold, and [`json`] the text of it. [`start`] makes the
//! yard ready at the first call, of any function.
//!
//! What this library and malloc's both do (start, options, fork, misuse, helper) is the same
//! source, with `object_caches` set here.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod aliases;
mod caches;
mod choice;
mod create;
mod debug;
mod entry;
mod errno;
mod fork;
mod handles;
mod helper;
mod json;
mod kmalloc;
mod mempool;
#[expect(dead_code, reason = "malloc's library has sized frees, and this one none")]
mod misuse;
mod mutex;
mod names;
mod objects;
mod observe;
#[expect(dead_code, reason = "malloc's library looks up the report that it is to write")]
mod options;
#[cfg(target_arch = "x86_64")]
mod outside;
mod policy;
mod rcu;
mod report;
#[cfg(panic = "abort")]
mod rust;
mod sheaf;
mod shrinkers;
mod slow;
mod start;
#[expect(dead_code, reason = "malloc's library closes the fast path for children of vfork")]
mod state;
mod stats;
#[expect(dead_code, reason = "malloc's library writes reports to files")]
mod text;
mod tools;

slabyard_abi::shared_library!();

#[cfg(panic = "abort")]
slabyard::without_std! {
    /// A bug of ours: the process cannot continue.
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo) -> ! {
        text::say!("{info}");
        text::abort()
    }

    #[global_allocator]
    static RUST: rust::Rust = rust::Rust;
}
