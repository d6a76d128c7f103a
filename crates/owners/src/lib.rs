//! Watches a live kernel for a bounded time and says who allocates what stays in its slab caches:
//! the process, its unit or pod, the call site; of directory entries the directory, of inodes the
//! file system. Or tells by [`Rates`] who allocates and frees how much a second, as long as it is
//! asked.
//!
//! [`watch`] follows objects by programs in the kernel ([`bpf`]), or where it permits none by its
//! trace [`events`], and [`naming`] names what they counted by [`processes`], [`cgroups`] and
//! [`mounts`]. `slabyard-observe` reads the caches' [`sizes`] before and after, which must confirm
//! what the others say; [`totals`] of cgroups are what everybody may read. Invariants: the cost is
//! bounded, measured and reported; where the kernel permits less, [`Watch::means`] and
//! [`Watch::missing`] say so, and the rest is reported.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bpf;
mod cgroups;
mod events;
mod mounts;
mod naming;
mod processes;
mod rates;
mod report;
mod sizes;
mod totals;

pub use cgroups::Cgroup;
pub use processes::Process;
pub use rates::Rates;
pub use report::{
    Activity, CacheRate, Cost, Directory, FileSystem, Lacking, Losses, Means, Owner, Site, Watch,
    who,
};

use bpf::{Session, Stacks};
use events::Tracing;
use naming::Names;
use sizes::Sizes;
use slabyard_observe::kernel::{self, Symbols};
use slabyard_observe::want::ReadScope;
use std::collections::HashMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use totals::Totals;

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
    /// The best means to try; those behind it are tried where the kernel does not permit it.
    pub best: Means,
}

impl Options {
    /// A watch of so long, at 1 % of one CPU at most, by the best means.
    #[must_use]
    pub fn new(duration: Duration) -> Options {
        Options { duration, budget: 0.01, best: Means::Bpf }
    }
}

/// What follows objects.
enum Following {
    Programs(Box<Session>),
    Events(Box<Tracing>),
    Nothing,
}

impl Following {
    /// By the best means that the kernel permits, with what could not be used.
    fn start(options: Options) -> (Following, Vec<Lacking>) {
        let mut lacking = Vec::new();
        let refused = |means: Means| match means < options.best {
            true => Err("it was not wanted".to_owned()),
            false => Ok(()),
        };
        match refused(Means::Bpf).and_then(|()| Session::start(options.budget, Stacks::Kept)) {
            Ok(session) => return (Following::Programs(Box::new(session)), lacking),
            Err(why) => lacking.push(without(Means::Bpf, why)),
        }
        match refused(Means::Tracefs).and_then(|()| Tracing::start(options.budget)) {
            Ok(tracing) => {
                lacking.push(without_clock());
                (Following::Events(Box::new(tracing)), lacking)
            }
            Err(why) => {
                lacking.push(without(Means::Tracefs, why));
                (Following::Nothing, lacking)
            }
        }
    }

    /// Keeps to the budget.
    fn adapt(&mut self) {
        match self {
            // A pause would miss frees: what is over the budget is reported.
            Following::Programs(session) => drop(session.adapt()),
            Following::Events(tracing) => tracing.adapt(),
            Following::Nothing => {}
        }
    }

    fn processes(&self) -> Vec<u32> {
        match self {
            Following::Programs(session) => session.processes(),
            Following::Events(tracing) => tracing.processes(),
            Following::Nothing => Vec::new(),
        }
    }
}

/// Watches this kernel. `goes_on` is asked some times a second, with the time that passed, and
/// ends the watch early by false.
pub fn watch(options: Options, mut goes_on: impl FnMut(Duration) -> bool) -> Watch {
    let sample = || match options.best {
        Means::Totals => Err("they were not wanted".to_owned()),
        _ => kernel::sample(Path::new("/"), ReadScope::default()).map_err(|why| why.to_string()),
    };
    let (mut following, mut missing) = Following::start(options);
    // Behind the start, which takes a second on a slow machine.
    let before = sample();
    let start = Instant::now();
    let mut names = Names {
        symbols: Symbols::default(),
        processes: processes::Processes::default(),
        cgroups: cgroups::Cgroups::of_kernel(),
        mounts: mounts::Mounts::default(),
    };
    names.cgroups.look();
    let totals = Totals::now(&names.cgroups);
    let mut named_at: Option<Instant> = None;
    let mut of_process: HashMap<u32, u64> = HashMap::new();
    let mut look = |following: &Following, names: &mut Names| {
        let processes = following.processes();
        names.cgroups.look();
        if let Following::Events(_) = following {
            for pid in &processes {
                of_process.entry(*pid).or_insert_with(|| names.cgroups.of_process(*pid));
            }
        }
        names.processes.look(processes);
    };
    while start.elapsed() < options.duration && goes_on(start.elapsed()) {
        sleep(LOOKS.min(options.duration.saturating_sub(start.elapsed())));
        following.adapt();
        if named_at.is_none_or(|at| at.elapsed() >= NAMES) {
            look(&following, &mut names);
            named_at = Some(Instant::now());
        }
    }
    look(&following, &mut names);
    let took_ns = start.elapsed().as_nanos() as u64;
    let ended = match following {
        Following::Programs(session) => {
            let raw = session.end().map_err(|why| without(Means::Bpf, why));
            raw.map(|raw| (raw, Symbols::of_kernel(), Means::Bpf))
        }
        Following::Events(tracing) => {
            let (raw, sites) = tracing.end(|pid| of_process.get(&pid).copied().unwrap_or(0));
            Ok((raw, sites, Means::Tracefs))
        }
        Following::Nothing => Err(without(Means::Tracefs, String::new())),
    };
    let sizes = Sizes { before, after: sample() };
    let mut watch = match ended {
        Ok((raw, symbols, means)) => {
            (names.symbols, names.mounts) = (symbols, mounts::Mounts::of_kernel());
            let watch = naming::named(&raw, &names, &sizes, took_ns, options.budget);
            Watch { means, ..watch }
        }
        Err(lacking) => {
            // Else it is told already why there was nothing to end.
            missing.extend((!lacking.why.is_empty()).then_some(lacking));
            sizes.watch(took_ns)
        }
    };
    watch.growth = Totals::now(&names.cgroups).growth(&totals, &names.cgroups);
    watch.missing.splice(0..0, missing);
    watch
}

/// What does without a means.
fn without(means: Means, why: String) -> Lacking {
    let (what, adds) = match means {
        Means::Bpf => (
            "BPF programs on the kernel's tracepoints",
            "who calls the call sites, directories, negative names, file systems, and numbers that do \
             not depend on the addresses of objects",
        ),
        _ => (
            "events of tracefs",
            "who allocates what stays: processes, units, call sites, and the caches' rates",
        ),
    };
    Lacking { what: what.into(), why, adds: adds.into() }
}

/// What nobody measures of tracefs.
fn without_clock() -> Lacking {
    Lacking {
        what: "a clock of trace events".into(),
        why: "no kernel has one".into(),
        adds: "what the kernel takes for them, some hundred nanoseconds each: the cost is the reader's"
            .into(),
    }
}
