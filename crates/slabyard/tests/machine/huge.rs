//! Where the kernel makes huge pages of its own accord, what a program frees goes back all the same:
//! also what a huge page made resident and nobody took.

use slabyard::bound;
use slabyard::calls::help;
use slabyard::platform::{GRANULE, Memory};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};

const MIB: usize = 1 << 20;
/// The end of the last huge page, behind all that was ever taken.
const END: usize = 2 * MIB;

fn yard() -> Yard<Machine> {
    let yard = Yard::new(Machine::new(Config { huge_pages: true, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    yard
}

/// Aligned buffers of at most so many granules, which leave gaps, until 80 MiB are taken.
fn buffers(yard: &Yard<Machine>, random: &mut Random, most: usize) -> Vec<usize> {
    let (mut all, mut buffers) = (0, Vec::new());
    while all < 80 * MIB {
        let bytes = GRANULE * (1 + random.below(most));
        let buffer = yard.alloc(bytes, GRANULE << random.below(4)).expect("memory");
        yard.platform().touch(buffer, bytes);
        all += bytes;
        buffers.push(buffer);
    }
    for nth in (1..buffers.len()).rev() {
        buffers.swap(nth, random.below(nth + 1));
    }
    buffers
}

/// Time passes, and a helper makes the passes, in slices.
fn rest(yard: &Yard<Machine>, ms: u64) {
    let given = || yard.platform().tally().give_back_bytes;
    for _ in 0..ms / 25 {
        yard.platform().advance(25);
        let mut before = given();
        while help::help_reclaim(yard) {
            assert!(given() - before <= bound::GIVE_BACK_HUGE, "a slice is bounded");
            before = given();
        }
    }
}

fn objects(yard: &Yard<Machine>) -> usize {
    let region = &yard.heap.region;
    yard.platform().resident(region.base(), region.granules() * GRANULE)
}

/// Bytes of objects that are resident now, and when the kernel has looked for pages to collapse.
fn resident(yard: &Yard<Machine>) -> (usize, usize) {
    let before = objects(yard);
    yard.platform().collapse();
    (before, objects(yard))
}

#[test]
fn what_a_huge_page_brought_along_goes_back_at_rest() {
    for (seed, most) in (0..3).flat_map(|seed| [20, 250].map(|most| (seed, most))) {
        let (yard, mut random) = (yard(), Random::new(seed));
        let buffers = buffers(&yard, &mut random, most);
        assert!(objects(&yard) > 80 * MIB);
        for (nth, buffer) in buffers.into_iter().enumerate() {
            yard.free(buffer).expect("live");
            if nth % 100 == 0 {
                rest(&yard, 25);
            }
        }
        rest(&yard, 5000);
        let (before, after) = resident(&yard);
        assert!(before <= END && after <= END, "seed {seed}, {most}: {before} bytes, then {after}");
        yard.verify().expect("no slow path").expect("sound");
    }
}
