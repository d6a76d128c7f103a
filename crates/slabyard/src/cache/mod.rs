//! Floor 5: what a cache is to its user: the size classes of malloc.

pub mod classes;
