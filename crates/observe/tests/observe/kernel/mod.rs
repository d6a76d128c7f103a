//! The kernel as a source: trees of files as real kernels showed them, trees of kernels that could
//! not be run here, and the running kernel.

mod changes;
mod exact;
mod live;
mod refused;
mod synthetic;
mod tree;
