//! Watches a live kernel for a bounded time and says who allocates what stays in its slab caches:
//! the process, its unit or pod, the call site; of directory entries the directory, of inodes the
//! file system. Or tells by [`Rates`] who allocates and frees how much a second, as long as it is
//! asked.
//!
//! [`watch`] follows objects by programs in the kernel ([`bpf`]), and [`naming`] names what they
//! counted by [`processes`], [`cgroups`] and [`mounts`]. `slabyard-observe` reads the caches'
//! [`sizes`] before and after, which must confirm what the programs say. Invariants: the cost is
//! bounded, measured and reported; where the kernel permits less, [`Watch::means`] and
//! [`Watch::missing`] say so, and the sizes alone are reported.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bpf;
mod cgroups;
mod mounts;
mod naming;
mod processes;
mod rates;
mod report;
mod sizes;

pub use cgroups::Cgroup;
pub use processes::Process;
pub use rates::Rates;
pub use report::{
    Activity, CacheRate, Cost, Directory, FileSystem, Lacking, Losses, Means, Owner, Site, Watch,
    who,
};

use bpf::{Session, Stacks};
use naming::Names;
use sizes::Sizes;
use slabyard_observe::kernel::{self, Symbols};
use slabyard_observe::{Snapshot, want::ReadScope};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Between two looks at the cost.
const LOOKS: Duration = Duration::from_millis(100);
/// Between two looks at processes and cgroups, which may end.
const NAMES: Duration = Duration::from_millis(500);

/// What a watch is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How long to watch.
    pub duration: Duration,
    /// The most that it may cost, as a share of one CPU: of more, fewer objects are followed.
    pub budget: f64,
}

impl Options {
    /// A watch of so long, at 1 % of one CPU at most.
    #[must_use]
    pub fn new(duration: Duration) -> Options {
        Options { duration, budget: 0.01 }
    }
}

/// Why there is nothing to report.
#[derive(Debug, Error)]
pub enum Error {
    /// Not even the caches' sizes can be read.
    #[error(transparent)]
    Sizes(#[from] kernel::Error),
}

/// Watches this kernel. `goes_on` is asked some times a second, with the time that passed, and
/// ends the watch early by false.
///
/// # Errors
/// The kernel shows nothing of its caches.
pub fn watch(options: Options, mut goes_on: impl FnMut(Duration) -> bool) -> Result<Watch, Error> {
    let sample = || kernel::sample(Path::new("/"), ReadScope::default());
    let after = || sample().map_err(|why| why.to_string());
    let session = Session::start(options.budget, Stacks::Kept);
    // Behind the start, which takes a second on a slow machine.
    let before: Snapshot = sample()?;
    let start = Instant::now();
    let mut names = Names {
        symbols: Symbols::default(),
        processes: processes::Processes::default(),
        cgroups: cgroups::Cgroups::of_kernel(),
        mounts: mounts::Mounts::default(),
    };
    let mut session = match session {
        Ok(session) => session,
        Err(why) => {
            while start.elapsed() < options.duration && goes_on(start.elapsed()) {
                sleep(LOOKS.min(options.duration.saturating_sub(start.elapsed())));
            }
            let sizes = Sizes { before, after: after() };
            return Ok(sizes.watch(start.elapsed().as_nanos() as u64, without_bpf(why)));
        }
    };
    let mut named_at: Option<Instant> = None;
    while start.elapsed() < options.duration && goes_on(start.elapsed()) {
        sleep(LOOKS.min(options.duration.saturating_sub(start.elapsed())));
        session.adapt();
        if named_at.is_none_or(|at| at.elapsed() >= NAMES) {
            names.processes.look(session.processes());
            names.cgroups.look();
            named_at = Some(Instant::now());
        }
    }
    names.processes.look(session.processes());
    let took_ns = start.elapsed().as_nanos() as u64;
    let ended = session.end();
    let sizes = Sizes { before, after: after() };
    let raw = match ended {
        Ok(raw) => raw,
        Err(why) => return Ok(sizes.watch(took_ns, without_bpf(why))),
    };
    names.cgroups.look();
    (names.symbols, names.mounts) = (Symbols::of_kernel(), mounts::Mounts::of_kernel());
    Ok(naming::named(&raw, &names, &sizes, took_ns, options.budget))
}

fn without_bpf(why: String) -> Lacking {
    Lacking {
        what: "BPF programs on the kernel's tracepoints".into(),
        why,
        adds: "who allocates what stays: processes, units, call sites, directories, file systems, \
               and the caches' rates"
            .into(),
    }
}
