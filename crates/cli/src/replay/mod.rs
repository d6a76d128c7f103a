//! `slabyard replay`: runs a trace of a real kernel's allocations by the rules of any kernel on
//! any machine; or compares the result with what the kernel did; or converts the trace to a trace
//! file.
//!
//! Neighbours: the lab reads, prepares, replays and judges; here its parts are connected
//! ([`input`], [`mod@prepare`]), results are counted ([`figures`]), shown ([`table`], [`json`])
//! and saved ([`save`]). [`plain`] is the usual way; [`check`], [`contention`], [`convert`] and
//! [`slob`] are others.
//! Invariants: standard output holds the result alone, notes go to standard error;
//! exit code 1 is a check that missed a goal, or events that are missing or a snapshot
//! that does not fit, so that all figures are uncertain; 2 settings that cannot be, 3
//! files that cannot be read.

pub mod args;
mod check;
mod contention;
mod convert;
mod events;
pub mod figures;
mod heading;
mod help;
pub mod input;
mod json;
mod oom;
mod plain;
pub mod prepare;
mod save;
mod slob;
mod table;
pub mod trace_args;

use crate::failure::Failure;
use crate::machine::Engine;
use crate::terminal::Progress;
use args::{ContentionCpus, ReplayArgs};
use std::process::ExitCode;

/// Replays, checks or converts.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new();
    if let Some(to) = &args.convert {
        return convert::run(args, to, &progress);
    }
    if args.engine == Engine::Slob {
        return slob::run(args, &progress);
    }
    if let Some(to) = &args.save {
        save::look_before(args, to)?;
    }
    let loaded = input::load(&args.trace, &args.wanted(), &progress)?;
    if args.check && loaded.of_process {
        let text =
            "--check holds a replay against a kernel's slabs, and a process's trace has none";
        return Err(Failure::Usage(text.into()));
    }
    if args.check {
        return check::run(args, &loaded, &progress);
    }
    if let Some(ContentionCpus(cpus)) = &args.contention {
        if args.engine == Engine::Slab {
            return Err(Failure::Usage("--contention is of SLUB: leave out --engine slab".into()));
        }
        return contention::run(args, cpus, &loaded, &progress);
    }
    plain::run(args, &loaded, &progress)
}
