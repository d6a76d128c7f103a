//! The kernel as a source: file trees as real kernels showed them, made-up trees of kernels that
//! could not be run here, and the running kernel.

mod changes;
mod exact;
mod live;
mod refused;
mod synthetic;
pub mod tree;
