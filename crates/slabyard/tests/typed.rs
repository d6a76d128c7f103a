//! Typed caches on real CPUs, in each of the three ways to tell CPUs apart. Each test runs in a
//! process of its own, because a yard cannot be destroyed.

#[path = "typed/bulks.rs"]
mod bulks;
#[path = "typed/collections.rs"]
mod collections;
#[path = "typed/in_modes.rs"]
mod in_modes;
#[path = "typed/kept.rs"]
mod kept;
#[path = "typed/prefilled.rs"]
mod prefilled;
#[path = "typed/properties.rs"]
mod properties;
#[path = "typed/stepped.rs"]
mod stepped;
#[path = "typed/values.rs"]
mod values;
