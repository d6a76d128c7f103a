//! The same on real CPUs: on Linux, one thread that moves from CPU to CPU as the load says has the
//! model's counters after each call.
//!
//! A process can hold few yards, so each case runs in a child process.

use super::pair::{Chosen, Pair};
use super::{load, paths};
use slabyard::engine::Engine;
use slabyard::engine::cpu_slabs::{Front, Rules};
use slabyard::platform::PerCpu;
use slabyard::platform::linux::{CountingLinux, Mode};
use slabyard::yard::Yard;
use slabyard_kernels::Release;
use slabyard_model::counters::Counter;
use slabyard_testkit::bind_to;
use std::cell::Cell;
use std::process::Command;

/// Which case the child runs, and in which mode.
const CASE: &str = "SLABYARD_TEST_CASE";
const MODE: &str = "SLABYARD_TEST_MODE";
/// What a child says that cannot run its case.
const NOT_RUN: &str = "not run: ";
/// A class of objects of less than 256 bytes.
const SMALL: usize = 3;

const MODES: [Mode; 3] = [Mode::Library, Mode::Own, Mode::Slots];

impl Chosen for CountingLinux {
    /// Each reads the counts of all possible CPUs.
    const CALLS: usize = 1600;

    fn begin<E: Engine>(_cpus: usize) -> Yard<Self, E> {
        let yard: Yard<Self, E> = Yard::new(CountingLinux::new());
        let mode = mode_of_child();
        assert!(yard.platform().init(Some(mode)) && yard.platform().count_slow_paths());
        if yard.platform().mode() != mode {
            println!("{NOT_RUN}{mode:?} is not there");
            std::process::exit(0);
        }
        yard.platform().enter();
        yard
    }

    fn counted(&self, class: usize) -> Vec<u64> {
        self.counted(class).expect("it counts")[..Counter::ALL.len()].to_vec()
    }

    /// Moves this thread; it is on that CPU when the call returns.
    fn go_to(&self, cpu: usize) {
        thread_local!(static WHERE: Cell<Option<usize>> = const { Cell::new(None) });
        if WHERE.replace(Some(cpu)) == Some(cpu) {
            return;
        }
        bind_to(allowed()[cpu]).expect("an allowed CPU");
    }
}

fn mode_of_child() -> Mode {
    let nth = std::env::var(MODE).expect("a mode");
    MODES[nth.parse::<usize>().expect("a number")]
}

/// CPUs that this process may run on.
fn allowed() -> &'static [usize] {
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    ALLOWED.get_or_init(|| {
        // SAFETY: a zeroed set is an empty one, which the call fills: that of the first thread,
        // which no test moves.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let done = libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &raw mut set);
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
        }
    })
}

/// How often a case may go wrong: a call that is preempted in the midst of its sequence takes the
/// slow path, and is counted as such. What is wrong is wrong each time.
const TRIES: usize = 10;

/// Runs cases in children, each in all modes; `run` is what the child does.
fn in_children(test: &str, modes: &[Mode], nr_cases: usize, run: impl Fn(usize)) {
    in_some_children(test, modes, nr_cases, |_, _| true, run);
}

/// The same of those cases that are chosen of a mode, whose place in the list is given, too.
fn in_some_children(
    test: &str,
    modes: &[Mode],
    nr_cases: usize,
    is_chosen: impl Fn(usize, usize) -> bool,
    run: impl Fn(usize),
) {
    if let Ok(nth) = std::env::var(CASE) {
        return run(nth.parse().expect("a number"));
    }
    for (place, mode) in modes.iter().enumerate() {
        for nth in (0..nr_cases).filter(|nth| is_chosen(place, *nth)) {
            let mut tried = in_child(test, *mode, nth);
            for _ in 1..TRIES {
                tried = tried.or_else(|_| in_child(test, *mode, nth));
            }
            match tried {
                Ok(said) if said.contains(NOT_RUN) => return println!("{test}: {said}"),
                Ok(_) => {}
                Err(said) => panic!("case {nth}, {mode:?}: {said}"),
            }
        }
    }
}

/// Runs a case in a child: what it said, as an error if it went wrong.
fn in_child(test: &str, mode: Mode, nth: usize) -> Result<String, String> {
    let nth_mode = MODES.iter().position(|it| *it == mode).expect("one of the modes");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture"]).env(CASE, nth.to_string());
    child.env(MODE, nth_mode.to_string());
    if mode == Mode::Own {
        child.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    }
    let child = child.output().expect("a child");
    let [said, wrong] =
        [child.stdout, child.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    if said.contains(NOT_RUN) || child.status.success() && said.contains("1 passed") {
        Ok(said)
    } else {
        Err(said + &wrong)
    }
}

fn alone() -> impl Iterator<Item = Rules> {
    Rules::kinds().filter(|kind| kind.front == Front::CpuSlabs)
}

/// As many CPUs as there are, at most two.
fn two() -> usize {
    allowed().len().min(2)
}

/// Rules, class, CPUs and seed.
type Case = (Rules, usize, usize, u64);

fn run((kind, class, cpus, seed): Case) {
    let mut pair = Pair::<CountingLinux>::new(&kind, class, cpus, |_| {});
    if let Err(what) = load(&mut pair, cpus, seed) {
        panic!("{kind:?}, class {class}, {cpus} CPUs, seed {seed}: {what}");
    }
    pair.verify();
}

#[test]
fn real_cpus_and_numbers_count_the_same_call_by_call() {
    let cases: Vec<Case> =
        alone().flat_map(|kind| [(kind, SMALL, 1, 5), (kind, 24, two(), 9)]).collect();
    let name = "cpu_slabs::on_linux::real_cpus_and_numbers_count_the_same_call_by_call";
    // Each kind by both ways to have rseq, with one on one CPU and with the other on two.
    let is_chosen = |place: usize, nth: usize| (nth + nth / 2 + place).is_multiple_of(2);
    in_some_children(name, &MODES[..2], cases.len(), is_chosen, |nth| run(cases[nth]));
}

/// A thread with a private slot has one row, as if it stayed on one CPU.
#[test]
fn private_slots_and_numbers_count_the_same_call_by_call() {
    let cases: Vec<Case> = alone().map(|kind| (kind, 24, 1, 13)).collect();
    let name = "cpu_slabs::on_linux::private_slots_and_numbers_count_the_same_call_by_call";
    in_children(name, &[Mode::Slots], cases.len(), |nth| run(cases[nth]));
}

#[test]
fn each_preset_counts_the_same_on_a_real_cpu() {
    let name = "cpu_slabs::on_linux::each_preset_counts_the_same_on_a_real_cpu";
    in_children(name, &MODES, Release::with_cpu_slabs().len(), |nth| {
        let preset = &Release::with_cpu_slabs()[nth];
        let mut pair = Pair::<CountingLinux>::new(
            &Rules::of_kind(preset.freezing, preset.accounting, true),
            SMALL,
            1,
            |_| {},
        );
        let wanted = preset.cpu_partial.map(|bands| bands[0]);
        assert_eq!(Some(pair.rules().cpu_partial), wanted, "{}", preset.name);
        load(&mut pair, 1, 21).unwrap_or_else(|what| panic!("{}: {what}", preset.name));
        pair.verify();
    });
}

/// The comparison finds a model by other rules here, too.
#[test]
fn other_rules_are_found_on_a_real_cpu() {
    let changes: [fn(&mut Rules); 2] =
        [|rules| rules.freezing = Release::V6_1.freezing, |rules| rules.cpu_partial_slabs += 1];
    let name = "cpu_slabs::on_linux::other_rules_are_found_on_a_real_cpu";
    in_children(name, &MODES[..1], changes.len(), |nth| {
        let kind = Rules::of_kind(Release::V6_8.freezing, Release::V6_8.accounting, true);
        let mut pair = Pair::<CountingLinux>::new(&kind, 24, two(), changes[nth]);
        assert!(load(&mut pair, two(), 5).is_err());
    });
}

#[test]
fn each_path_costs_on_real_cpus_what_it_costs_a_kernel() {
    let name = "cpu_slabs::on_linux::each_path_costs_on_real_cpus_what_it_costs_a_kernel";
    if two() < 2 {
        return println!("{name}: not run: there is one CPU");
    }
    in_children(name, &MODES[..2], paths::CASES, paths::check::<CountingLinux>);
}
