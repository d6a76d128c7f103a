//! `caches`: compares our typed caches, in one process, with other allocators of Rust programs.
//!
//! For each load, all contenders take turns in timed windows; the result is the median, over all
//! rounds, of the ratios within a round. The contenders are linked into this program: `contenders`
//! has object pools, `blocks` general-purpose allocators, `libraries` shared libraries that are
//! called as from C. `loads` does the work of one window; `burst` measures the memory after a
//! burst.

mod blocks;
mod burst;
mod contenders;
mod libraries;
mod loads;

use anyhow::Result;
use serde::Serialize;
use slabyard::{ObjectCache, ProcessYard};

use crate::args::CachesOptions;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::screen;
use crate::stats::{PairedSamples, median, ratio};
use blocks::{Bytes, Calls, GlobalOfOurs, made_anew};
use contenders::{
    Arena, LockedSlab, Node, Objects, Ring, Sharded, SlabCrate, Typed, TypedNotInlined,
};
use libraries::{CLibrary, NoWork, SharedMimalloc};
use loads::{Built, batches, bulks, handed, kept, pairs, stacks, threads};

static YARD: ProcessYard = ProcessYard::new();

/// A contender's window of this many objects: nanoseconds each.
struct Runner<'a> {
    name: String,
    run: Box<dyn Fn(u64) -> f64 + 'a>,
}

fn runner<'a>(name: &str, run: impl Fn(u64) -> f64 + 'a) -> Runner<'a> {
    Runner { name: name.to_owned(), run: Box::new(run) }
}

/// What a contender took in a load.
#[derive(Serialize)]
struct ContenderTimes {
    name: String,
    /// Nanoseconds an object, by round.
    ns: Vec<f64>,
}

/// A load and what all took.
#[derive(Serialize)]
struct Load {
    name: String,
    took: Vec<ContenderTimes>,
}

impl Load {
    fn of(&self, name: &str) -> Option<&[f64]> {
        self.took.iter().find(|took| took.name == name).map(|took| took.ns.as_slice())
    }

    /// The median ratio of one contender's rounds to another's.
    fn ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(ratio(&[PairedSamples { ours: self.of(ours)?, peer: self.of(peer)? }]).value)
    }

    /// The fastest of the others.
    fn best(&self) -> Option<&str> {
        let shared = self.name.contains("threads");
        let is_peer = |name: &str| {
            !OURS.contains(&name) && name != NO_WORK && !(shared && OWN.contains(&name))
        };
        let peers = self.took.iter().filter(|took| is_peer(&took.name));
        let fastest = peers.min_by(|a, b| median(&a.ns).total_cmp(&median(&b.ns)));
        fastest.map(|took| took.name.as_str())
    }
}

/// Contenders of ours.
const OURS: [&str; 9] = [
    "typed",
    "typed, called",
    "by id",
    "our global",
    "kept",
    "batch of 32",
    "bulk of 32",
    CLibrary::NAME,
    C_BULK,
];
/// The load of many objects, freed last first, for which an arena is made.
const HELD: &str = "1000 held, last first";
const C_BULK: &str = "C library, bulk of 32";
/// No allocator: what calls cost.
const NO_WORK: &str = NoWork::NAME;
/// Contenders that give each thread a pool of its own, whose objects no other thread may free: shown
/// beside the others, and no measure for what threads share.
const OWN: [&str; 2] = ["slab", "typed-arena"];

#[derive(Serialize)]
struct Report<'a> {
    /// Without allocators: the contenders are linked, and each load names its own.
    #[serde(flatten)]
    head: Head<'a>,
    rounds: u32,
    loads: Vec<Load>,
    burst: Option<burst::Burst>,
    goals: Vec<Goal>,
}

/// Runs the suite.
pub fn run(options: &CachesOptions) -> Result<Measured> {
    let machine = Machine::read()?;
    let mut report = Report {
        head: Head::new(1, "caches", &machine, &[], &[]),
        rounds: options.rounds,
        loads: Vec::new(),
        burst: None,
        goals: Vec::new(),
    };
    // Before other loads leave memory behind.
    if options.burst > 0 {
        report.burst = Some(burst::run(&YARD, options.burst)?);
    }
    report.loads = measure(options)?;
    report.goals = goals(&report);
    Measured::new(&report.head, &text(&report), &report, report.goals.clone())
}

fn measure(options: &CachesOptions) -> Result<Vec<Load>> {
    let typed = Typed(ObjectCache::<Node>::new("typed", &YARD)?);
    let built = ObjectCache::<Built>::builder("built").constructor(Built::new).create(&YARD)?;
    let called = TypedNotInlined(ObjectCache::<Node>::new("called", &YARD)?);
    let calls = Calls::new(&YARD);
    let locked = LockedSlab::default();
    let (mimalloc, glibc) = (Bytes(mimalloc::MiMalloc), Bytes(std::alloc::System));
    #[cfg(feature = "snmalloc")]
    let snmalloc = Bytes(snmalloc_rs::SnMalloc);
    let global = Bytes(GlobalOfOurs);
    let c_library = CLibrary::open()?;
    let (shared_mimalloc, no_work) = (SharedMimalloc::open()?, NoWork::open()?);
    let (sharded, ring) = (Sharded::default(), Ring::default());
    let mut loads = Vec::new();

    macro_rules! all {
        ($load:ident $(, $count:expr)?; crossing) => {{
            let mut runners = vec![
                runner(Typed::NAME, |n| $load(&typed $(, $count)?, n)),
                runner(TypedNotInlined::NAME, |n| $load(&called $(, $count)?, n)),
                runner(Calls::NAME, |n| $load(&calls $(, $count)?, n)),
                runner("our global", |n| $load(&global $(, $count)?, n)),
                runner("mimalloc", |n| $load(&mimalloc $(, $count)?, n)),
                runner("glibc", |n| $load(&glibc $(, $count)?, n)),
                runner(Sharded::NAME, |n| $load(&sharded $(, $count)?, n / 8)),
                runner(Ring::NAME, |n| $load(&ring $(, $count)?, n / 4)),
                runner(LockedSlab::NAME, |n| $load(&locked $(, $count)?, n / 4)),
            ];
            #[cfg(feature = "snmalloc")]
            let further = [runner("snmalloc", |n| $load(&snmalloc $(, $count)?, n))];
            #[cfg(not(feature = "snmalloc"))]
            let further = [];
            runners.extend(further);
            if let Some(library) = &c_library {
                runners.push(runner(CLibrary::NAME, |n| $load(library $(, $count)?, n)));
            }
            runners
        }};
        ($load:ident $(, $count:expr)?; all) => {{
            let mut runners = all!($load $(, $count)?; crossing);
            runners.push(runner(SlabCrate::NAME, |n| $load(&SlabCrate $(, $count)?, n)));
            runners.push(runner(Arena::NAME, |n| $load(&Arena $(, $count)?, n)));
            runners
        }};
    }

    let rounds = options.rounds;
    let n = options.objects;
    let mut alone = all!(pairs; all);
    alone.push(runner("batch of 32", |n| batches(&typed, n)));
    alone.push(runner("bulk of 32", |n| bulks(&typed, n)));
    if let Some(library) = &c_library {
        alone.push(runner(C_BULK, |n| library.bulks(n)));
    }
    alone.push(runner(SharedMimalloc::NAME, |n| pairs(&shared_mimalloc, n)));
    alone.push(runner(NoWork::NAME, |n| pairs(&no_work, n)));
    loads.push(take_turns("pair", alone, rounds, n));
    loads.push(take_turns(HELD, all!(stacks; all), rounds, n));
    for count in [2, 8] {
        let name = format!("pairs in {count} threads");
        loads.push(take_turns(&name, all!(threads, count; all), rounds, n));
        let name = format!("handed over, {count} threads");
        loads.push(take_turns(&name, all!(handed, count; crossing), rounds, n));
    }
    let made = vec![
        runner("kept", |n| kept(&built, n)),
        runner("mimalloc", |n| made_anew(&mimalloc::MiMalloc, n)),
        runner("glibc", |n| made_anew(&std::alloc::System, n)),
    ];
    loads.push(take_turns("constructor", made, rounds, n));
    Ok(loads)
}

fn take_turns(name: &str, runners: Vec<Runner<'_>>, rounds: u32, n: u64) -> Load {
    let mut took: Vec<_> = runners
        .iter()
        .map(|runner| ContenderTimes { name: runner.name.clone(), ns: Vec::new() })
        .collect();
    for round in 0..=rounds {
        for (runner, took) in runners.iter().zip(&mut took) {
            let ns = (runner.run)(n);
            // The first round warms up.
            if round > 0 {
                took.ns.push(ns);
            }
        }
    }
    Load { name: name.to_owned(), took }
}

fn goals(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut ask = |name: String, ratio: Option<f64>, limit| {
        goals.push(match ratio {
            Some(ratio) => Goal::at_most_ratio(&name, ratio, limit),
            None => Goal::skipped(name, "not measured"),
        });
    };
    for load in &report.loads {
        if load.name == "pair" {
            ask("typed pair to mimalloc's".into(), load.ratio("typed", "mimalloc"), 0.50);
            ask(
                "pair by calls to mimalloc's".into(),
                load.ratio("typed, called", "mimalloc"),
                0.80,
            );
            ask(
                "C library's pair to mimalloc's, both shared".into(),
                load.ratio(CLibrary::NAME, SharedMimalloc::NAME),
                0.70,
            );
            ask("batch of 32 to the single call".into(), load.ratio("batch of 32", "typed"), 0.40);
            ask(
                "C library's bulk of 32 to the single call".into(),
                load.ratio(C_BULK, CLibrary::NAME),
                0.40,
            );
        } else if load.name == "constructor" {
            ask("kept to mimalloc and constructor".into(), load.ratio("kept", "mimalloc"), 1.0);
        } else if load.name == HELD {
            ask(format!("{HELD}: typed to {}", Arena::NAME), load.ratio("typed", Arena::NAME), 1.1);
        } else if let Some(best) = load.best() {
            ask(
                format!("{}: typed to {best}, the best", load.name),
                load.ratio("typed", best),
                1.0,
            );
        }
    }
    if let Some(burst) = &report.burst {
        ask("resident after a burst to what is pinned".into(), Some(burst.ratio()), 1.1);
    }
    goals
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for load in &report.loads {
        let rows = load.took.iter().map(|took| {
            let to_typed = load.ratio(&took.name, &load.took[0].name).unwrap_or(f64::NAN);
            vec![took.name.clone(), format!("{:.2}", median(&took.ns)), format!("{to_typed:.2}")]
        });
        let first = &load.took[0].name;
        let heading = [load.name.as_str(), "ns", &format!("to {first}")];
        text += &format!("{}\n\n", screen::table(&heading, rows.collect()));
    }
    if let Some(burst) = &report.burst {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        text += &format!(
            "burst of {} objects of 256 bytes, {} survive: {} slabs have one of {} (chance alone: \
             {:.0}), {} are left after shrink\n{:.1} MiB at the peak, {:.1} MiB after, of which \
             {:.1} MiB are slabs with a survivor and {:.1} MiB metadata\n\n",
            burst.objects,
            burst.survivors,
            burst.pinned_slabs,
            burst.slabs_before,
            burst.by_chance,
            burst.slabs_after,
            mib(burst.rss_peak),
            mib(burst.rss_after),
            mib(burst.pinned_bytes),
            mib(burst.metadata),
        );
    }
    text
}
