//! The kernel as a source: trees built from what real kernels showed, trees of
//! kernels that were not at hand, and the kernel that runs.

mod changes;
mod exact;
mod live;
mod refused;
mod synthetic;
mod tree;
