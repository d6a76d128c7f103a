//! Sampled allocations of real processes: estimates against what the programs allocated, and
//! programs that check themselves while nearly each of their allocations is a sample.
//!
//! Neighbours: `slabyard_process::profile` samples, `slabyard_observe::process::profile` takes the
//! samples.

use super::{Target, counted, counts_of, exact};
use crate::process_runner::{LIMIT, Mode, Program};
use slabyard_observe::process::Error;
use slabyard_observe::process::profile::{Sample, Session, Taken};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Modes that differ in how `malloc` is served while a profile is on.
const MODES: [Mode; 7] = [
    Mode::Rseq,
    Mode::OwnRseq,
    Mode::Slots,
    Mode::TinyRseq,
    Mode::CpuSlabs("6.1", "slabs"),
    Mode::SlabNodes,
    Mode::SlobRseq,
];

/// What a test allocates: so many of such a size. Each is 24 MB.
const ALLOCATED: [(u64, u64); 3] = [(240_000, 100), (4800, 5000), (240, 100_000)];
/// Some hundred samples of 24 MB of small ones.
const RATE: u64 = 64 << 10;
/// Each command allocates this part: the ring has room for its samples.
const PARTS: u64 = 12;
/// Between the parts. A hundred samples at once make the mean distance of samples some hundred times as
/// long: the rest is then a few samples, of which nobody can tell their variance.
const PAUSE: Duration = Duration::from_millis(10);

/// The bytes that samples stand for, and the variance of that estimate.
type Estimate = (f64, f64);

/// Those of the samples, by the size of the requests. The variance is the sum of w (w - 1) over the
/// weights, as of every sample that is drawn independently (Horvitz and Thompson, 1952).
fn estimates<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    weight: impl Fn(&Sample) -> f64,
) -> BTreeMap<u64, Estimate> {
    let mut sums = BTreeMap::new();
    for sample in samples {
        let (weight, bytes) = (weight(sample), sample.bytes as f64);
        let (sum, variance) = sums.entry(sample.bytes).or_insert((0.0, 0.0));
        *sum += weight * bytes;
        *variance += weight * (weight - 1.0) * bytes * bytes;
    }
    sums
}

/// True if each estimate is within five standard deviations of what was allocated.
fn are_near(estimates: &BTreeMap<u64, Estimate>) -> bool {
    ALLOCATED.iter().all(|(nr, size)| {
        let (bytes, variance) = estimates.get(size).copied().unwrap_or((0.0, 0.0));
        let truth = (*nr * *size) as f64;
        (bytes - truth).abs() < 5.0 * variance.sqrt() + 0.01 * truth
    })
}

fn take(session: &mut Session, all: &mut Taken) {
    let taken = session.take().expect("a look");
    assert_eq!((taken.lost_samples, taken.lost_frees), (0, 0));
    all.samples.extend(taken.samples);
    all.frees.extend(taken.frees);
}

#[test]
fn estimates_are_near_what_was_allocated_and_each_free_of_a_sample_is_seen() {
    for mode in MODES {
        let verify = [("SLABYARD_VERIFY_AT_EXIT", "1")];
        let Some(mut target) = Target::start_with("observed/known.c", mode, &[], &verify) else {
            return;
        };
        let mut session = Session::begin(target.pid(), RATE).expect("a profile");
        let mut all = Taken::default();
        for (nr, size) in ALLOCATED {
            for _ in 0..PARTS {
                target.command(&format!("a {} {size}", nr / PARTS));
                take(&mut session, &mut all);
                std::thread::sleep(PAUSE);
            }
        }
        let known: Vec<_> = ALLOCATED.iter().map(|(_, size)| *size).collect();
        all.samples.retain(|sample| known.contains(&sample.bytes));
        let estimate = estimates(&all.samples, Sample::weight);
        assert!(are_near(&estimate), "{mode:?}: {estimate:?}");
        // Planted: whoever forgets the weight is found.
        assert!(!are_near(&estimates(&all.samples, |_| 1.0)), "{mode:?}");
        assert!(all.samples.iter().all(|sample| sample.stack.len() >= 256), "{mode:?}");

        assert!(all.frees.is_empty(), "{mode:?}: {:?}", all.frees);
        target.command("f 100000000");
        take(&mut session, &mut all);
        let mut freed: Vec<_> = all.frees.iter().map(|free| free.sequence).collect();
        freed.sort_unstable();
        let live: Vec<_> = all.samples.iter().map(|sample| sample.sequence).collect();
        assert!(live.iter().all(|sequence| freed.binary_search(sequence).is_ok()), "{mode:?}");

        session.end().expect("an end");
        target.command("a 100000 100");
        assert!(session.take().expect("a look").samples.is_empty(), "{mode:?}: it is off");
        drop(target.child.stdin.take());
        let status = target.child.wait().expect("an end");
        assert!(status.success(), "{mode:?}: {status}");
    }
}

/// How often something is repeated: as often as a variable says (`ci/profile-by-hand`), or less.
fn repeated(variable: &str, else_: u32) -> u32 {
    std::env::var(variable).map_or(else_, |n| n.parse().expect("a number"))
}

/// At the default rate, at which one run is known within some ten percent.
#[test]
fn the_mean_over_runs_has_no_bias() {
    let runs = repeated("PROFILE_RUNS", 4);
    let rate = slabyard_abi::profile::RATE;
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    let (mut sums, mut unweighted) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..runs {
        let mut session = Session::begin(target.pid(), rate).expect("a profile");
        let mut all = Taken::default();
        for (nr, size) in ALLOCATED {
            target.command(&format!("a {nr} {size}"));
            take(&mut session, &mut all);
        }
        session.end().expect("an end");
        target.command("f 100000000");
        let weigh = |sums: &mut BTreeMap<u64, Estimate>, weight: fn(&Sample) -> f64| {
            for (size, (bytes, variance)) in estimates(&all.samples, weight) {
                let (mean, of_mean) = sums.entry(size).or_insert((0.0, 0.0));
                *mean += bytes / f64::from(runs);
                *of_mean += variance / f64::from(runs * runs);
            }
        };
        weigh(&mut sums, Sample::weight);
        weigh(&mut unweighted, |_| 1.0);
    }
    for (nr, size) in ALLOCATED {
        println!("{size}: {:.4} of what was allocated", sums[&size].0 / (nr * size) as f64);
    }
    assert!(are_near(&sums), "{sums:?}");
    // Planted: whoever forgets the weight is found.
    assert!(!are_near(&unweighted));
}

#[test]
fn a_profile_goes_on_and_off_under_load() {
    let turns = repeated("PROFILE_TURNS", 60);
    for mode in [Mode::Rseq, Mode::Slots] {
        let path = format!("{}/profiled.{mode:?}", env!("CARGO_TARGET_TMPDIR"));
        let counts = counts_of(&path, 1);
        let Some(mut target) = Target::start("observed/known.c", mode, &[&path]) else { return };
        target.command("loop");
        let before = counted(&counts, 1);
        let mut samples = 0;
        for _ in 0..turns {
            let mut session = Session::begin(target.pid(), 16 << 10).expect("a profile");
            samples += session.take().expect("a look").samples.len();
            samples += session.end().expect("an end").samples.len();
        }
        assert!(samples > turns as usize, "{mode:?}: {samples} samples");
        assert!(target.child.try_wait().expect("wait").is_none(), "{mode:?}: it runs");
        assert!(counted(&counts, 1) > before + u64::from(turns), "{mode:?}");
        target.look();
    }
}

#[test]
fn who_profiles_is_alone_and_a_reader_that_ended_holds_nobody_up() {
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    let first = Session::begin(target.pid(), RATE).expect("a profile");
    let second = Session::begin(target.pid(), RATE);
    assert!(matches!(second, Err(Error::Profiled { .. })));
    drop(first);
    let mut third = Session::begin(target.pid(), RATE).expect("a profile");
    target.command("a 100000 100");
    assert!(!third.take().expect("a look").samples.is_empty());
    std::mem::forget(third);
    // Nobody takes these: the ring is full, and the program goes on.
    target.command("a 700000 100");
    drop(target.child.stdin.take());
    let began = Instant::now();
    assert!(target.child.wait().expect("an end").success());
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Slow paths of 100,000 allocations and as many frees by size, of which few need one.
fn slow_paths(target: &mut Target) -> u64 {
    let taken = |target: &Target| exact(&target.look(), "malloc-112", "slow_paths");
    let before = taken(target);
    target.command("a 100000 100");
    target.command("s 100000 100");
    taken(target) - before
}

#[test]
fn what_is_no_sample_takes_no_slow_path_for_it() {
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    let without = slow_paths(&mut target);
    let most = slabyard_abi::profile::MOST_RATE;
    let session = Session::begin(target.pid(), most).expect("a profile");
    let with = slow_paths(&mut target);
    assert!((1..50_000).contains(&without), "{without}");
    assert!(with < 50_000, "{with} slow paths instead of {without}");
    drop(session);
}

#[test]
fn a_profile_that_was_asked_for_in_vain_leaves_the_fast_path_open() {
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    // It makes no call meanwhile.
    drop(Session::begin(target.pid(), RATE).expect("a profile"));
    let slow = slow_paths(&mut target);
    assert!(slow < 50_000, "{slow} slow paths");
}

#[test]
fn a_process_without_the_memory_or_with_debugging_says_so() {
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid()));
    let status = status.expect("its status");
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.split_whitespace().next());
    let kib: u64 = kib.and_then(|kib| kib.parse().ok()).expect("its size");
    let pid = target.pid().to_string();
    let is_limited = |limit: &str| {
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--as={limit}")]).status();
        set.is_ok_and(|status| status.success())
    };
    if is_limited(&format!("{}:", (kib + 4096) << 10)) {
        let session = Session::begin(target.pid(), RATE);
        // It makes no call of itself: the next one finds what is asked.
        target.command("a 1000 100");
        let refused = session.and_then(|mut session| session.take().map(|_| ()));
        assert!(matches!(refused, Err(Error::NotProfiled { .. })), "{refused:?}");
        target.command("f 1000");
        assert!(is_limited("unlimited:"));
        let slow = slow_paths(&mut target);
        assert!(slow < 50_000, "{slow} slow paths");
    }
    let debug = [("SLABYARD_DEBUG", "FZPU")];
    let started = Target::start_with("observed/known.c", Mode::TinyRseq, &[], &debug);
    let Some(mut target) = started else { return };
    let session = Session::begin(target.pid(), RATE);
    target.command("a 10 100");
    let refused = session.and_then(|mut session| session.take().map(|_| ()));
    assert!(matches!(refused, Err(Error::NotProfiled { .. })), "{refused:?}");
}

/// Runs a program of which nearly each allocation is a sample, and takes the samples; how many.
fn run_sampled(source: &str, mode: Mode, rate: &str) -> Option<usize> {
    let program = Program::compile(source, &[])?;
    let mut child = program.start_with(mode, &[], &[("SLABYARD_PROFILE", rate)]);
    drop(child.stdin.take());
    let (end, mut nr) = (Instant::now() + LIMIT, 0);
    let mut session = None;
    loop {
        if let Some(status) = child.try_wait().expect("wait") {
            assert!(status.success(), "{source} in mode {mode:?}: {status}");
            return Some(nr);
        }
        assert!(Instant::now() < end, "{source} in mode {mode:?}: no end");
        let open = session.take().or_else(|| Session::join(child.id()).ok());
        if let Some(mut open) = open
            && let Ok(taken) = open.take()
        {
            nr += taken.samples.len();
            if taken.ends {
                open.let_end();
            }
            session = Some(open);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every function of C and C++ on samples, contents checked; threads, forks, handlers, exits.
#[test]
fn programs_run_as_ever_while_most_allocations_are_samples() {
    let programs = ["c/api.c", "c/aligned.c", "c/sized.c", "c/cxx.cc"];
    for source in programs {
        for mode in [Mode::Rseq, Mode::SlobRseq] {
            let Some(nr) = run_sampled(source, mode, "1024") else { return };
            assert!(nr > 0, "{source} in mode {mode:?}");
        }
    }
    // Short programs may end before anybody looks, and signal handlers have 53 microseconds each.
    let programs = [
        ("c/threads.c", "1024", 1),
        ("c/forks.c", "4096", 1),
        ("c/exit.c", "1024", 0),
        ("c/jumped.c", "4096", 0),
        ("c/signals.c", "65536", 0),
    ];
    for (source, rate, least) in programs {
        let Some(nr) = run_sampled(source, Mode::Rseq, rate) else { return };
        assert!(nr >= least, "{source}");
    }
}
