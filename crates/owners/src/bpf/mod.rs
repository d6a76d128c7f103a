//! Watches the kernel by programs of its own virtual machine (BPF) on raw tracepoints, with nothing
//! but the kernel's type information (BTF): no probes, no debug information.
//!
//! `bpf/owners.bpf.c` has the programs, `bpf/owners.bpf.o` is their object, which
//! `ci/owners --build` makes of it. [`records`] has the structures that they share with this reader,
//! [`sample`] chooses how many objects are followed, [`prototypes`] looks up what differs between
//! kernels. [`Session::end`] returns what they [`counted`], which [`crate::naming`] names, and
//! [`Session::since`] their [`rates`] meanwhile. The programs end with the session.

mod counted;
mod prototypes;
mod rates;
mod records;
mod sample;
mod session;

pub(crate) use counted::{Look, Raw, RawCache, RawOrigin, Survivor, kmalloc_name};
pub(crate) use rates::Counted;
pub(crate) use session::{Session, Stacks, thread_time};
