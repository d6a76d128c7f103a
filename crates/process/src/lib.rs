//! The common part of the libraries that programs preload or link: `slabyard-malloc`,
//! `slabyard-engines` and `slabyard-kmem`. Each library implements [`library::Library`] with a
//! `static` yard of its own, and this crate is generic over that trait.
//!
//! [`start`] makes the yard ready at the first call, as the [`options`] say; [`state`] says whether
//! it is ready, and holds the words that the fast paths read. [`fork`] registers fork handlers;
//! [`misuse`] and [`debug`] report misuse, and [`policy`] decides what follows. [`helper`],
//! [`outside`] and [`observe`] serve other processes; [`exit`] handles the process's end;
//! [`sample`] reads what a cache holds; [`profile`] samples allocations; [`text`] formats without allocating. [`malloc`] implements
//! the functions of C and C++ that a drop-in malloc needs.
//!
//! Invariants: no function here is exported by its C name, because any program that exports
//! `malloc`, even a test, would run on it; the libraries export the functions ([`library!`],
//! [`malloc_functions!`]). Functions that are not generic are compiled for size; generic ones with
//! the settings of the library that owns the yard.
#![no_std]
#![warn(missing_docs)]

mod control;
pub mod debug;
mod dynamic;
pub mod errno;
pub mod exit;
pub mod fork;
pub mod helper;
pub mod library;
mod loaded;
pub mod malloc;
pub mod misuse;
pub mod observe;
pub mod options;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub mod outside;
pub mod policy;
pub mod profile;
pub mod sample;
pub mod start;
pub mod state;
pub mod text;
