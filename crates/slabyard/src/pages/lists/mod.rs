//! Per-CPU page lists of selectable kinds, in front of the buddy: those of kernels, and the yard's
//! own.
//!
//! [`table`] has the kinds and their numbers, [`policy`] the steps of a call, [`super::on_cpus`] a
//! yard's lists; the lists of modelled kernels are in the crate `slabyard-model`.
//!
//! A yard uses a kind only once one was selected ([`choose`](crate::pages::listed::choose)), and
//! has the code for it only on a platform that [says
//! so](crate::platform::Platform::HAS_PAGE_LISTS). Otherwise [`super::percpu`] serves.

pub mod policy;
pub mod table;
#[cfg(test)]
mod tests;

pub use table::{List, PageLists, Rules, Warmth, Zone};
