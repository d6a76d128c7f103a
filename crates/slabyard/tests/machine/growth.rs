//! The region commits in steps that grow with it. Threads that find no free memory at the same time
//! grow it once: a thread that waited for another's growth searches the lists again.

use slabyard::pages::runs;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Body, Config, Machine};

const THREADS: usize = 6;
const RUNS: usize = 60;
const RUN: usize = 16;

/// Granules that are free after each thread took its runs: nothing was freed.
fn left_over(seed: u64) -> (usize, usize) {
    let config = Config { cpus: 2, seed, ..Config::default() };
    let yard = <Yard<_>>::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    let take = |_: &Machine| {
        for _ in 0..RUNS {
            yard.heap.take_run(RUN, RUN).expect("memory");
        }
    };
    yard.platform().run((0..THREADS).map(|_| Box::new(take) as Body<'_>).collect());
    (runs::free_count(&yard.heap).free, yard.heap.region.top())
}

#[test]
fn threads_that_find_nothing_free_grow_the_region_once() {
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        let (free, top) = left_over(seed);
        // One growth commits this much ahead of need, and leaves this much by alignment.
        let ahead = (top / 8).max((256 << 10) / 4096) + 2 * RUN;
        assert!(free <= ahead, "{free} of {top} granules are free, seed {seed}");
    }
}

/// Each commit is a system call: their number must grow with the logarithm of the heap, and not
/// with the heap.
#[test]
fn the_region_commits_in_steps_that_grow_with_it() {
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    let region = &yard.heap.region;
    let committed = || region.top() + region.ahead();
    let commits_to = |granules: usize| {
        let (mut commits, mut before) = (0, committed());
        while region.top() < granules {
            yard.heap.take_run(RUN, RUN).expect("memory");
            commits += usize::from(committed() != before);
            before = committed();
        }
        commits
    };
    // To 8 MiB, and each doubling of that: a step is an eighth of the heap, of 8 MiB at most.
    let most = [24, 8, 8, 8, 9];
    let commits: Vec<_> = (0..5).map(|nth| commits_to((8 << 20 << nth) / 4096)).collect();
    assert!(commits.iter().zip(most).all(|(commits, most)| *commits <= most), "{commits:?}");
}
