//! Floor 5: caches as their users see them: the size classes of malloc.

pub mod classes;
