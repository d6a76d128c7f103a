//! `slabyard record`: writes the events of a kernel's slabs, or a program's calls to malloc, into a
//! trace file, while a command runs or until the recorder is stopped.
//!
//! Neighbours: `slabyard_lab::record` reads the kernel's trace buffers and a process's rings.
//! [`kernel`] sets up the kernel, [`process`] starts a program on the preload library, [`wait`]
//! waits for a command; [`guard`] is a second process that restores the kernel's settings if this
//! one is killed. [`named`] finds the caches' names where the kernel's events lack them.
//! Invariants: the exit code is the command's, if one is run; standard error reports what could not
//! be recorded.

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
