//! If the system makes huge pages everywhere, a small heap has none. The flags of the mappings
//! show the advice that the system has.

use crate::{in_own_process, small_pages};
use slabyard::mail::header;
use slabyard::pages::huge::HUGE;
use slabyard::platform::linux::Linux;
use slabyard::platform::{GRANULE, PerCpu};
use slabyard::yard::{LARGEST_RUN, Yard};
use slabyard_abi::region::Word;
use std::sync::atomic::Ordering;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// True if the mapping around an address is to have no huge pages.
fn has_small_pages(address: usize) -> bool {
    small_pages::ranges().iter().any(|range| range.contains(&address))
}

#[test]
fn a_small_heap_has_no_huge_pages_and_a_large_run_may() {
    in_own_process(
        "huge_pages::a_small_heap_has_no_huge_pages_and_a_large_run_may",
        look_at_a_small_heap,
    );
}

fn look_at_a_small_heap() {
    if !small_pages::is_ready(&YARD) {
        return;
    }
    let region = &YARD.heap.region;
    YARD.alloc(100, 16).expect("memory");
    let begin = region.base() + GRANULE;
    assert!(!has_small_pages(begin), "a process that does little makes no call for advice");
    for _ in 0..8 {
        let run = YARD.alloc(LARGEST_RUN, 16).expect("memory");
        assert!(has_small_pages(run) || region.top() < HUGE);
    }
    assert!(has_small_pages(begin));
    // Large blocks come and go: the next is a run.
    let first = YARD.alloc(2 * LARGEST_RUN, 16).expect("memory");
    assert_eq!(YARD.free(first), Ok(()));
    let run = YARD.alloc(4 * LARGEST_RUN, 16).expect("memory");
    assert!(region.granule_of(run).is_some(), "a mapping");
    assert!(!has_small_pages(run));
    assert!(has_small_pages(region.address(region.small_pages() as u32) - 1));
    tables_have_small_pages();
}

/// The page heap gives parts of its tables back to the system: a huge page would make them
/// resident again, at once or when the system collapses what is resident.
fn tables_have_small_pages() {
    header::publish(&YARD, 1);
    let header = YARD.platform().rows().header();
    let word = |word: Word| header[word.index()].load(Ordering::Relaxed) as usize;
    // Untouched memory with 4 MiB of descriptors.
    while YARD.heap.region.top() < (256 << 20) / GRANULE {
        YARD.heap.alloc_run(LARGEST_RUN, 16).expect("address space");
    }
    let descriptors = word(Word::Descriptors);
    assert!(has_small_pages(descriptors) && has_small_pages(descriptors + (4 << 20) - GRANULE));
    // More mappings than the first of the hash tables takes.
    while !YARD.heap.mappings.are_many() {
        YARD.heap.mappings.map(&YARD.heap.platform, 1, 16).expect("address space");
    }
    let before = small_pages::bytes();
    YARD.heap.mappings.map(&YARD.heap.platform, 1, 16).expect("address space");
    assert_eq!(small_pages::bytes() - before, 4 << 20, "of the second table");
    // Sheaves share their room with the rows.
    let mut sheaves = Vec::new();
    for _ in 0..400 {
        sheaves.push(YARD.heap.sheaves.take(YARD.platform(), 1000).expect("memory"));
    }
    assert!(has_small_pages(word(Word::Rows)) && has_small_pages(word(Word::Elements)));
    for sheaf in sheaves {
        YARD.heap.sheaves.give(YARD.platform(), sheaf);
    }
}
