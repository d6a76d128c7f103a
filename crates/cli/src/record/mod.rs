//! `slabyard record`: what a kernel's slabs, or a program's malloc, are asked for, into a trace file,
//! while a command runs or until it is stopped.
//!
//! Neighbours: the lab's `record` reads the kernel's buffers and a process's rings; here the kernel
//! is made ready ([`kernel`]), a program started on the preload library ([`process`]), a command is run and waited for ([`wait`]), and a second process sees to it that
//! nothing is left in the kernel when this one is killed ([`guard`]). [`named`] names the caches of a kernel that did not.
//! Invariant: the exit code is the command's own where there is one; what could not be recorded
//! is told on standard error.

pub mod args;
mod failures;
mod guard;
mod kernel;
mod lists;
mod named;
mod process;
mod wait;

use crate::failure::Failure;
use args::RecordArgs;
use std::process::ExitCode;

/// Records, or cleans up behind a recorder that was killed.
pub fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    match (&args.guard, args.restore, &args.output) {
        (Some(instance), ..) => guard::watch(instance),
        (None, true, _) => guard::restore(),
        (None, false, Some(output)) if args.kernel => kernel::record(args, output),
        (None, false, Some(output)) => process::record(args, output),
        (None, false, None) => Err(Failure::Usage("give the trace file as -o FILE".into())),
    }
}
