//! Birth: how a yard detects that it runs in the child of a fork.
//!
//! A fork copies all memory but one page, which reads as zeros in the child (`MADV_WIPEONFORK`,
//! madvise(2)). A nonzero word in this page means that the yard is consistent. A child finds
//! [`CHILD`] (0), whether `fork`, the raw system call or a second C library made it, and whether or
//! not a fork handler ran. A child that shares its parent's memory finds the parent's value. If the
//! kernel cannot wipe pages, a handler of the C library's `fork` stores [`CHILD`].
//!
//! Neighbour: [`crate::Threads::birth`] returns the word. Each slow path of a yard reads it; the
//! first slow path in a child repairs what the parent's threads left half done.

/// A child of a fork that has not looked at what it got.
pub const CHILD: u32 = 0;
/// Nothing is to be repaired.
pub const WHOLE: u32 = 1;
/// A thread of the child repairs what it got; the others wait.
pub const REPAIRING: u32 = 2;
