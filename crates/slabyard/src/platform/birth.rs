//! Birth: how a yard finds out that it runs in the child of a fork.
//!
//! The system copies all memory but one page, which reads as zeros in the child (`MADV_WIPEONFORK`,
//! madvise(2)). A word of it says that the yard is whole, and a child finds [`CHILD`] in its place,
//! whether it was made by `fork`, by the system call or by the functions of a second C library, and
//! whether a handler ran or not. A child that shares its parent's memory finds what its parent
//! finds. If the system has no such page, a handler of the C library's `fork` stores [`CHILD`].
//!
//! Neighbours: [`super::Threads::birth`] is the word; each slow path looks at it, and
//! [`crate::child`] repairs what the parent's threads left half done.

/// A child of a fork that has not looked at what it got.
pub const CHILD: u32 = 0;
/// Nothing is to be repaired.
pub const WHOLE: u32 = 1;
/// A thread of the child repairs what it got; the others wait.
pub const REPAIRING: u32 = 2;
