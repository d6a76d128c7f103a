//! Where the system makes huge pages everywhere, a small heap has none: it is read from
//! the flags of the mappings what the system was told.

mod small_pages;

use slabyard::page::huge::HUGE;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::{LARGEST_RUN, Yard};

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// True if the mapping around an address is to have no huge pages.
fn has_small_pages(address: usize) -> bool {
    small_pages::ranges().iter().any(|range| range.contains(&address))
}

#[test]
fn a_small_heap_has_no_huge_pages_and_a_large_run_may() {
    if !small_pages::is_ready(&YARD) {
        return;
    }
    let region = &YARD.ground.region;
    YARD.alloc(100, 16).expect("memory");
    let begin = region.base() + GRANULE;
    assert!(!has_small_pages(begin), "a process that does little pays for no advice");
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
}
