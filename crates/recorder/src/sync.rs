//! The atomics: the models (`crates/models`) put theirs in this place.

pub use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
