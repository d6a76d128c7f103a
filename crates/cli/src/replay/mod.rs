//! `slabyard replay`: replays a trace of a real kernel's allocations on a model of any machine,
//! under the rules of any kernel. The command can also compare the result with what the kernel did,
//! or convert the trace to Slabyard's format.
//!
//! Neighbours: `slabyard-lab` replays and checks what `slabyard-ask` loads and prepares. This module
//! prints ([`table`], [`json`], [`page`]) and saves ([`save`]) the results. [`plain`] is the usual mode; [`check`], [`contention`], [`convert`] and
//! [`slob`] are the others. Invariants: only the result goes to standard output, notes to standard
//! error. Exit code 1 means that a check missed a goal, or that all numbers are uncertain because
//! events are missing or the snapshot does not fit the trace; 2 means impossible settings, 3
//! unreadable files.

pub mod args;
mod check;
mod contention;
mod convert;
mod events;
mod heading;
mod help;
mod json;
mod oom;
mod page;
mod partial_slabs;
mod plain;
mod save;
mod slob;
mod table;
pub mod trace_args;

use crate::failure::Failure;
use crate::machine::Engine;
use crate::terminal::Progress;
use args::{ContentionCpus, ReplayArgs};
use slabyard_ask::load;
use std::process::ExitCode;

/// Replays, checks or converts.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new();
    if let Some(to) = &args.convert {
        return convert::run(args, to, &progress);
    }
    if args.rules.engine == Engine::Slob {
        return slob::run(args, &progress);
    }
    args.look_before([Some(&args.trace.file), args.trace.start.as_ref()].into_iter().flatten())?;
    let loaded = load::load(&args.trace.file(), &args.wanted(), &progress)?;
    // The snapshot that lies beside the trace is known by now.
    args.look_before([&loaded.start])?;
    if args.check && loaded.is_without_slabs {
        let text = "--check holds a replay against a kernel's slabs, and this trace has none: it is of \
                    a process's malloc, or a load's";
        return Err(Failure::Usage(text.into()));
    }
    if args.check {
        return check::run(args, &loaded, &progress);
    }
    if let Some(ContentionCpus(cpus)) = &args.contention {
        if args.rules.engine == Engine::Slab {
            return Err(Failure::Usage("--contention is of SLUB: leave out --engine slab".into()));
        }
        if loaded.settings.page_lists.is_some() {
            let text =
                "page_lists changes nothing with --contention, which has no pages: leave it out";
            return Err(Failure::Usage(text.into()));
        }
        return contention::run(args, cpus, &loaded, &progress);
    }
    plain::run(args, &loaded, &progress)
}
