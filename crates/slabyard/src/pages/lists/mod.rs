//! Per-CPU page lists of chosen kinds, in front of the buddy: those that kernels had, and the
//! yard's own.
//!
//! [`table`] has the kinds and their numbers, [`policy`] what a call does, [`super::on_cpus`] a
//! yard's lists; those of modelled kernels are in the crate `slabyard-model`.
//!
//! A yard follows a kind only once one was chosen ([`choose`](crate::pages::listed::choose)), and
//! has the code for it only on a platform that [says
//! so](crate::platform::Platform::HAS_PAGE_LISTS). Else [`super::percpu`] serves.

pub mod policy;
pub mod table;
#[cfg(test)]
mod tests;

pub use table::{List, PageLists, Rules, Warmth, Zone};
