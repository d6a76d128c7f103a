//! Descriptors of free memory: the page heap faults them in by few calls as it grows, and a small
//! heap keeps them for a while.

use slabyard::pages::{Descriptor, runs};
use slabyard::platform::GRANULE;
use slabyard::yard::{LARGEST_WARM_RUN, Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const MIB: usize = 1 << 20;
/// Free blocks from 2^7 granules on, 512 KiB, lose their metadata; those of up to 32 MiB in
/// two slices: the descriptors, and the part of the page map.
const LARGE_ORDER: u32 = 7;
const SLICES: u32 = 2;

fn yard() -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    yard
}

fn runs(yard: &Yard<Machine>, bytes: usize) -> Vec<usize> {
    (0..bytes / 100_000).map(|_| yard.alloc(100_000, 16).expect("memory")).collect()
}

fn grow_and_free(yard: &Yard<Machine>, bytes: usize) {
    for run in runs(yard, bytes) {
        yard.free(run).expect("a live run");
    }
}

#[test]
fn descriptors_of_new_memory_are_faulted_in_by_few_calls() {
    let yard = yard();
    let touched = || yard.platform().tally();
    runs(&yard, 4 * MIB);
    assert_eq!(touched().touches, 0, "a small process may need none of them");
    runs(&yard, 100 * MIB);
    let descriptors = yard.heap.region.top() * size_of::<Descriptor>();
    let (calls, bytes) = (touched().touches, touched().touched_bytes as usize);
    assert!(
        bytes > descriptors * 3 / 4 && bytes < descriptors * 9 / 8,
        "{bytes} bytes of {descriptors}"
    );
    // The top moves by 1 MiB, which has four pages of descriptors.
    assert!(calls as usize * 3 <= bytes / GRANULE, "{calls} calls for {} pages", bytes / GRANULE);
}

#[test]
fn descriptors_inside_of_a_large_run_are_not_touched() {
    let yard = yard();
    // Such blocks come and go, so that this one is a run.
    for _ in 0..3 {
        let block = yard.alloc(LARGEST_WARM_RUN / 2, 16).expect("memory");
        yard.free(block).expect("a live block");
    }
    assert!(yard.heap.region.top() * GRANULE >= LARGEST_WARM_RUN / 2);
    let bytes = yard.platform().tally().touched_bytes as usize;
    assert!(bytes <= 10 * MIB / GRANULE * size_of::<Descriptor>(), "{bytes} bytes");
}

/// Large free blocks whose metadata is released, and all.
fn released(yard: &Yard<Machine>) -> (usize, usize) {
    let (mut released, mut all) = (0, 0);
    runs::each_free_block(&yard.heap, |at, order| {
        let made = yard.heap.region.descriptor(at).granules.load(slabyard::sync::Ordering::Relaxed);
        all += usize::from(order >= LARGE_ORDER);
        released += usize::from(order >= LARGE_ORDER && made >= SLICES);
    });
    (released, all)
}

/// So many milliseconds, each with a thousand pairs and a slow path.
fn pass(yard: &Yard<Machine>, ms: usize) {
    for _ in 0..ms {
        yard.platform().advance(1);
        for _ in 0..1000 {
            let object = yard.alloc_fast(448, 16).expect("memory");
            yard.free_fast(object).expect("a live object");
        }
        // A slow path each.
        let run = yard.alloc(70_000, 16).expect("memory");
        yard.free(run).expect("a live run");
    }
}

#[test]
fn a_small_heap_keeps_its_descriptors_for_a_second() {
    let yard = yard();
    grow_and_free(&yard, 50 * MIB);
    pass(&yard, 700);
    let clean = runs::free_count(&yard.heap);
    assert!(clean.dirty < clean.free / 10, "{clean:?}");
    let (before, all) = released(&yard);
    assert!(before == 0 && all > 2, "{before} of {all} are released");
    pass(&yard, 1100);
    let (after, all) = released(&yard);
    assert!(after > 0 && after + 2 >= all, "{after} of {all} are released");
}

#[test]
fn a_large_heap_gives_its_descriptors_back_with_its_pages() {
    let yard = yard();
    grow_and_free(&yard, 400 * MIB);
    pass(&yard, 900);
    let (released, all) = released(&yard);
    assert!(released + 2 >= all && released > 0, "{released} of {all} are released");
}

/// As a heap of a tebibyte has blocks of the largest order: more than a search looks at.
#[test]
fn each_of_many_blocks_gives_its_descriptors_back() {
    const BLOCKS: usize = 100;
    let yard = yard();
    let run = || yard.heap.alloc_run(512 << 10, 512 << 10).expect("memory");
    // Every second one lives on, so that none coalesces.
    let all: Vec<_> = (0..2 * BLOCKS).map(|_| run()).collect();
    all.chunks(2).for_each(|pair| yard.free(pair[0]).expect("a live run"));
    assert!(yard.trim());
    let (released, all) = released(&yard);
    assert!(all >= BLOCKS && released == all, "{released} of {all} are released");
}
