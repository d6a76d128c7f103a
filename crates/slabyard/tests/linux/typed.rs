//! Typed caches on real CPUs, in each of the three ways to tell CPUs apart. Each test runs in a
//! process of its own, because a yard cannot be destroyed.

mod bulks;
mod collections;
mod in_modes;
mod kept;
mod prefilled;
mod properties;
mod stepped;
mod values;
